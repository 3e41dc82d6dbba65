"""The same changes for several hosts of a pod: one host gets them from here and passes them on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import IO

from .remote import Received, RemoteProject, StreamingHost

#: From so many bytes on hosts get changes from each other.
RELAY_FROM = 1 << 20


class Pack:
    """Changes as a compressed stream in a file of this machine.

    count: of the changes. size: bytes of the stream.
    """

    def __init__(self, file: IO[bytes], count: int) -> None:
        self.file = file
        self.count = count
        self.size = file.tell()
        #: Becomes the command that fetches it from the host which gets it from here; None if that
        #: fails. None: no host gets it from here now.
        self._origin: asyncio.Future[list[str] | None] | None = None
        self._fetching = 0
        self._fetched = asyncio.Event()  # replaced whenever a host has ended

    async def apply(
        self, host: StreamingHost, remote: RemoteProject, sent: Callable[[int], None]
    ) -> Received:
        """Has *host* carry out the changes. Calls *sent* with the bytes that went from here."""
        while self._origin is not None:
            self._fetching += 1
            try:
                command = await asyncio.shield(self._origin)
                if command is not None:
                    if await remote.fetch(command, self.size):
                        return await remote.receive_fetched(self.count)
                    return await remote.receive(self.file, self.count, sent)
            finally:
                self._fetching -= 1
                self._fetched.set()
                self._fetched = asyncio.Event()
        return await self._apply_first(host, remote, sent)

    async def _apply_first(
        self, host: StreamingHost, remote: RemoteProject, sent: Callable[[int], None]
    ) -> Received:
        if self.size < RELAY_FROM:
            return await remote.receive(self.file, self.count, sent)
        self._origin = origin = asyncio.get_running_loop().create_future()
        try:
            received = await remote.receive(self.file, self.count, sent, keep=True)
            if self._fetching and received[1] is None:
                await host.authorize_pod()
                origin.set_result(host.pod_command(["cat", remote.kept]))
                while self._fetching:
                    await self._fetched.wait()
            return received
        finally:
            self._origin = None
            if not origin.done():
                origin.set_result(None)
