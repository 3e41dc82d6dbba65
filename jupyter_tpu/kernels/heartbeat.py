"""The heartbeat ports of all kernels of this process, answered by one thread.

Clients take a kernel for dead if it does not answer for a second. The core loop is too busy for
that, for example with writing to disks, so a thread answers.
"""

from __future__ import annotations

from ..links import CoreThread
from ..per_process import per_process
from .port import ROUTER, Port


class Heartbeat:
    """Echoes messages while it is *beating*, from `open` to `close`."""

    def __init__(self) -> None:
        #: False: the kernel is dead, and messages are dropped.
        self.beating = True
        self._port = Port(ROUTER, self._echo)

    async def open(self, endpoint: str) -> None:
        """Raises OSError if the port is in use."""
        await _echo_thread().call(self._port.open(endpoint))

    def _echo(self, parts: list[bytes]) -> None:
        if self.beating:
            self._port.send(parts)

    async def close(self) -> None:
        """Frees the port."""
        await _echo_thread().call(self._port.close())


@per_process
def _echo_thread() -> CoreThread:
    return CoreThread("heartbeats")
