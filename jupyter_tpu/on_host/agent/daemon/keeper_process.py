"""The keeper of a kernel or a job, as the daemon that had it started sees it."""

from __future__ import annotations

import asyncio
import json
import signal
from typing import Any, Dict

from ..protocol.processes import signal_process, start_time
from ..protocol.timeouts import with_timeout
from .keeper_starter import KeeperStarter

#: Seconds in which it says that it is there.
BEGIN_SECONDS = 30.0
#: Keepers that are started one after the other if each ends before that.
ATTEMPTS = 2


class KeeperProcess:
    """A keeper on a line, which ends when the keeper does; made by :meth:`start`."""

    def __init__(
        self, pid: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.pid = pid
        self._started = start_time(pid)
        self._reader = reader
        self._writer = writer

    @classmethod
    async def start(cls, starter: KeeperStarter, kind: bytes, *files: int) -> "KeeperProcess":
        """A new one; see `KeeperStarter.start`. Raises OSError if there is none."""
        for _ in range(ATTEMPTS):
            connection = starter.start(kind, *files)
            reader, writer = await asyncio.open_unix_connection(sock=connection)
            line = b""
            try:
                line = await with_timeout(reader.readline(), BEGIN_SECONDS)
            except asyncio.TimeoutError:
                raise OSError("it said nothing for %d s" % BEGIN_SECONDS) from None
            finally:
                if not line:
                    writer.close()
            if line:
                return cls(int(line), reader, writer)
        raise OSError("it ended as it began")

    @property
    def ended(self) -> bool:
        return self._reader.at_eof()

    def tell(self, fields: Dict[str, Any]) -> None:
        """Sends it a line."""
        self._writer.write(json.dumps(fields).encode() + b"\n")

    async def hear(self) -> Dict[str, Any]:
        """Its next line; {} if it has ended."""
        line = await self._reader.readline()
        answer: Dict[str, Any] = json.loads(line) if line else {}
        return answer

    async def ask(self, fields: Dict[str, Any], seconds: float) -> Dict[str, Any]:
        """What it says to a line; {} if it says nothing within so many seconds."""
        try:
            self.tell(fields)
            return await with_timeout(self.hear(), seconds)
        except (OSError, ValueError, asyncio.TimeoutError):
            return {}

    async def wait(self) -> None:
        """Returns when it has ended."""
        while await self._reader.read(1024):
            pass
        self.close()

    def kill(self) -> None:
        signal_process(self.pid, self._started, signal.SIGKILL)
        self.close()

    def close(self) -> None:
        """Ends the line. The keeper goes on."""
        self._writer.close()
