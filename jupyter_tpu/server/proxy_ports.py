"""Which ports of TPUs may be shown under Jupyter's own address: none, until somebody says so."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..errors import Reason, TPUError

if TYPE_CHECKING:
    from ..fleet.models import App

#: Beneath the server's base URL; TPU, number of the host and port come after it.
ROOT = "jupyter-tpu/proxy"
OPTION = "c.JupyterTPU.proxy_ports"

_ENTRY = re.compile(r"(?:[a-z0-9-]+~)?[a-z][a-z0-9-]*:([0-9]{1,5})")


class ProxyPorts:
    """The allowed ones; *entries* are "my-tpu:6006", or "zone~my-tpu:6006" for that zone's alone.

    Raises INVALID for an entry that is none.
    """

    def __init__(self, entries: Iterable[str] = ()) -> None:
        self._entries = frozenset(entries)
        for entry in self._entries:
            found = _ENTRY.fullmatch(entry)
            if found is None or not 0 < int(found[1]) < 65536:
                raise TPUError(
                    f"{entry!r} in {OPTION} is not a port of a TPU.",
                    Reason.INVALID,
                    'They look like this: "my-tpu:6006", or "us-west4-a~my-tpu:6006".',
                )

    def check(self, tpu: str, port: str) -> None:
        """Raises PERMISSION if it is not allowed; *tpu* and *port* as the URL says them."""
        name = tpu.rpartition("~")[2]
        if not self._entries.isdisjoint({f"{tpu}:{port}", f"{name}:{port}"}):
            return
        raise TPUError(
            f"Port {port} of {tpu} is not shown under Jupyter's own address.",
            Reason.PERMISSION,
            "There a page of a host can do what you can: start terminals, read and change "
            "notebooks. Open it from the TPU panel or with `jupyter tpu app`, which give it an "
            "address of its own. Where that can't be reached (behind a JupyterHub), and if you "
            "trust all that this port serves, allow it in jupyter_server_config.py: "
            f'{OPTION} = ["{tpu}:{port}"].',
        )

    def path(self, app: App) -> str:
        """Where an app is beneath the server's base URL; "" if it may not be there."""
        for tpu in (app.tpu, f"{app.zone}~{app.tpu}"):
            if f"{tpu}:{app.port}" in self._entries:
                # With the zone in any case: another zone may have a TPU of the same name.
                return f"{ROOT}/{app.zone}~{app.tpu}/{app.host}/{app.port}{app.path}"
        return ""
