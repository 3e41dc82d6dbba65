"""The value of a cell's last line: itself if it is small and plain, else a stand-in for it."""

from __future__ import annotations

import base64
import sys
from typing import TYPE_CHECKING, Any

from .transfer.codec import CodecError, decode
from .transfer.on_host import VALUE
from .transfer.stream import host_call
from .variables import pull_value

if TYPE_CHECKING:
    from .remote import RemoteKernel

#: Evaluated by the kernel after a cell, see ``user_expressions`` of Jupyter's execute_request.
EXPRESSIONS = {"value": host_call("last_value")}


class RemoteValue:
    """A value that stays in its kernel on a TPU, and is shown as there. `pull` brings it here."""

    def __init__(self, kernel: RemoteKernel, content: dict[str, Any]) -> None:
        self._kernel = kernel
        self._content = content  # of its execute_result

    def pull(self, *, unpickle: bool = False) -> Any:
        """The value itself; arguments and errors as of ``%tpu pull``."""
        return pull_value(self._kernel, self.name, unpickle=unpickle)

    @property
    def name(self) -> str:
        """The variable that IPython made of it in the kernel: ``_5``."""
        return f"_{self._content['execution_count']}"

    def __repr__(self) -> str:
        return str(self._content["data"].get("text/plain", f"<value on {self._kernel.tpu}>"))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        return self._content["data"], self._content.get("metadata", {})


def value_of(kernel: RemoteKernel, content: dict[str, Any], reply: dict[str, Any]) -> Any:
    """The value of an execute_result: itself if it came with the reply, else a `RemoteValue`."""
    sent = reply.get("user_expressions", {}).get("value", {}).get("data", {}).get(VALUE)
    if sent is not None:
        try:
            buffers = [bytearray(base64.b64decode(part)) for part in sent["buffers"]]
            options = {"unpickle": False, "import_jax": False}
            return decode(sent["header"], buffers, names=["_"], **options)["_"]
        except (CodecError, LookupError, TypeError, ValueError):  # NumPy is not installed here
            pass
    return RemoteValue(kernel, content)


def show_result(shell: Any, kernel: RemoteKernel, content: dict[str, Any], value: Any) -> None:
    """Makes *value* the local cell's result, ``_`` and ``Out[n]``, shown as on the host."""
    hook: Any = shell.displayhook
    if sys.displayhook is not shell.displayhook:  # %%capture
        sys.displayhook(RemoteValue(kernel, content))
        return
    # What the hook does itself, with the host's representations instead of local ones.
    hook.check_for_underscore()
    hook.start_displayhook()
    hook.write_output_prompt()
    hook.update_user_ns(value)
    hook.fill_exec_result(value)
    hook.write_format_data(content["data"], content.get("metadata", {}))
    hook.log_output(content["data"])
    hook.finish_displayhook()
