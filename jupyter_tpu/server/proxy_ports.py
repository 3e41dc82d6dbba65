"""Which ports of TPUs are available under Jupyter's own address. By default none is."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..errors import InvalidInput, Reason, TPUError

if TYPE_CHECKING:
    from ..fleet.models import App

#: Below the server's base URL. It is followed by TPU, host number and port.
ROOT = "jupyter-tpu/proxy"
OPTION = "c.JupyterTPU.proxy_ports"

_ENTRY = re.compile(r"(?:[a-z0-9-]+~)?[a-z][a-z0-9-]*:([0-9]{1,5})")


class ProxyPorts:
    """The allowed ports. *entries*: "my-tpu:6006", or "zone~my-tpu:6006" for one zone.

    Raises INVALID for an invalid entry.
    """

    def __init__(self, entries: Iterable[str] = ()) -> None:
        self._entries = frozenset(entries)
        for entry in self._entries:
            match = _ENTRY.fullmatch(entry)
            if match is None or not 0 < int(match[1]) < 65536:
                raise InvalidInput(
                    f"{entry!r} in {OPTION} is not a port of a TPU.",
                    'Examples: "my-tpu:6006" or "us-west4-a~my-tpu:6006".',
                )

    def check(self, tpu: str, port: str) -> None:
        """Raises PERMISSION if it is not allowed. *tpu* and *port* are as in the URL."""
        name = tpu.rpartition("~")[2]
        if not self._entries.isdisjoint({f"{tpu}:{port}", f"{name}:{port}"}):
            return
        raise TPUError(
            f"Port {port} of {tpu} is not allowed under Jupyter's own address.",
            Reason.PERMISSION,
            "A page there can do everything that you can do in Jupyter: start terminals, read and "
            "change notebooks. Open it from the TPU panel or with `jupyter tpu app` instead: it "
            "then has its own address. If your browser can't reach that address (behind a "
            "JupyterHub), and you trust everything on this port, allow it in "
            "jupyter_server_config.py: "
            f'{OPTION} = ["{tpu}:{port}"].',
        )

    def path(self, app: App) -> str:
        """An app's path below the server's base URL; "" if it is not allowed there."""
        for tpu in (app.tpu, f"{app.zone}~{app.tpu}"):
            if f"{tpu}:{app.port}" in self._entries:
                # With the zone, because another zone may have a TPU of the same name.
                return f"{ROOT}/{app.zone}~{app.tpu}/{app.host}/{app.port}{app.path}"
        return ""
