"""Unix sockets of a host whose sshd does not forward to them: a command there carries the bytes.

Companies set `DisableForwarding yes`, `AllowTcpForwarding no` or `AllowStreamLocalForwarding no`.
sshd then answers as if the socket did not exist. Each command takes a session; it allows few.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack

from ..errors import Reason, TPUError
from ..on_host.packing import argument
from ..on_host.ssh.unix_socket import CONNECTED
from .host_program import SHELL
from .stream import CommandStream

#: So many at a time. One is the daemon's, and some sessions are left for commands.
_MOST_SOCKETS = 6

_PROGRAM = "ssh.unix_socket"


class CarriedSockets:
    """Those of one connection.

    Parameters
    ----------
    start: starts a command; its second argument is called when the session of it has ended.
    sessions: how many a connection may have; each socket takes one.
    host: the host's name in errors.
    """

    def __init__(
        self,
        start: Callable[[Sequence[str], Callable[[], None]], Awaitable[CommandStream]],
        sessions: asyncio.Semaphore,
        host: str,
    ) -> None:
        self._start = start
        self._sessions = sessions
        self._host = host
        self._count = 0

    async def open(self, path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """A reader and a writer of the socket at *path*; None if no server listens there.

        Raises CONFLICT if there are too many, and as `SSHConnection.stream`.
        """
        if self._count >= _MOST_SOCKETS:
            raise TPUError(
                f"The sshd of {self._host} forbids forwarding to Unix sockets. So at most "
                f"{_MOST_SOCKETS - 1} kernels, jobs and commands of it can be used at a time.",
                Reason.CONFLICT,
                "Set `AllowStreamLocalForwarding yes`, `AllowTcpForwarding yes` and "
                "`DisableForwarding no` in its sshd_config, or shut down a kernel.",
            )
        slot = ExitStack()  # closed once, by the end of the session or by a failure
        self._count += 1
        slot.callback(self._closed)
        stream: CommandStream | None = None
        opened = False
        try:
            await self._sessions.acquire()
            slot.callback(self._sessions.release)
            command = ["sh", "-c", SHELL, "sh", argument(_PROGRAM), path]
            stream = await self._start(command, slot.close)
            opened = await stream.read_exactly(len(CONNECTED)) == CONNECTED
            return stream.streams if opened else None
        finally:
            if not opened:
                if stream is not None:
                    stream.close()
                slot.close()

    def _closed(self) -> None:
        self._count -= 1
