"""What the request that starts a kernel says of it, beside its kernelspec."""

from __future__ import annotations

from contextvars import ContextVar

#: The name of our provisioner in kernelspecs.
PROVISIONER = "jupyter-tpu"
#: Whether a kernel that is started now uses no chips, whatever its kernelspec says.
without_chips: ContextVar[bool] = ContextVar("without_chips", default=False)
#: The notebook's folder on this computer, if the client of a kernel that is started now names it.
named_folder: ContextVar[str] = ContextVar("named_folder", default="")
