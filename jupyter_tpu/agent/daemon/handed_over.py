"""Runs that began on this host before the daemon did; see `fleet.jobs.run_on_host`.

The program that started one listens on a socket, and gives its pipes to the daemon that connects.
It stays the command's parent and reports its end.
"""

from __future__ import annotations

import array
import asyncio
import os
import signal
import socket
from functools import partial
from typing import Any, Dict, List, Optional, Tuple

from ..protocol.paths import run_folder
from .run_process import BUFFER, RunProcess

#: Seconds in which the program has to hand a run over, and in which it may still want to start it.
LIMIT, LATE = 10.0, 60.0


def handover_socket(id: str) -> str:
    """The path of the socket of the run *id*; "" if it can't have one."""
    return os.path.join(run_folder(), "r-%s.sock" % id) if id.isalnum() else ""


def waiting() -> List[str]:
    """The runs that are on this host and not here."""
    names = os.listdir(run_folder())
    return [name[2:-5] for name in names if name.startswith("r-") and name.endswith(".sock")]


def claim(id: str) -> None:
    """From now on the program starts no run *id*; raises FileExistsError if it has."""
    path = handover_socket(id)
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    asyncio.get_running_loop().call_later(LATE, os.unlink, path)


class Handover:
    """What the program hands over: the process, its pipes by number, its output until now."""

    def __init__(self, path: str) -> None:
        """Blocks. Raises OSError or ValueError if the run is not there any more."""
        self.connection = socket.socket(socket.AF_UNIX)
        self.connection.settimeout(LIMIT)
        self.chunks: List[Tuple[int, bytes]] = []
        self._data = bytearray()
        try:
            self.connection.connect(path)
            # The pipes come with the first byte.
            first, ancillary, _, _ = self.connection.recvmsg(1, socket.CMSG_SPACE(3 * 4))
            pipes = array.array("i")
            for _, _, content in ancillary:
                pipes.frombytes(content)
            self._data += first
            _, pid, seconds, cause, limit, numbers = self._line().split()
            self.pid, self.seconds, self.limit = int(pid), float(seconds), float(limit)
            self.cause = "" if cause == "-" else cause
            self.pipes = dict(zip(map(int, numbers.strip("-")), pipes))
            while True:
                word, *more = self._line().split()
                if word == "all":
                    break
                self.chunks.append((int(more[0]), self._exactly(int(more[1]))))
        except (OSError, ValueError):
            self.connection.close()
            raise
        self.rest = bytes(self._data)

    def _line(self) -> str:
        while b"\n" not in self._data:
            self._fill()
        return self._exactly(self._data.index(b"\n") + 1).decode()

    def _exactly(self, size: int) -> bytes:
        while len(self._data) < size:
            self._fill()
        data = bytes(self._data[:size])
        del self._data[:size]
        return data

    def _fill(self) -> None:
        data = self.connection.recv(65536)
        if not data:
            raise ValueError("it ended in the middle")
        self._data += data


class HandedOverRun(RunProcess):
    """A command of another program, with all that this one has kept of it."""

    def __init__(self, handover: Handover) -> None:
        limit = None if handover.limit < 0 else max(0.0, handover.limit - handover.seconds)
        super().__init__([""], "", {}, limit, 0 in handover.pipes)
        self._handover = handover
        self._begun -= handover.seconds
        self._cause = handover.cause
        self._chunks.extend(handover.chunks)
        self._size = sum(len(data) for _, data in handover.chunks)

    async def wait_started(self) -> None:
        """Returns when it can be used."""
        await self._started.wait()

    def handed_over_end(self, code: int, cause: str) -> None:
        """It has ended."""
        self._cause = self._cause or cause
        self._transport.returncode = code
        self.process_exited()

    async def _begin(
        self, command: List[str], cwd: str, env: Dict[str, str]
    ) -> Optional[Dict[str, Any]]:
        loop = asyncio.get_running_loop()
        process = _Process(self._handover)
        self.connection_made(process)
        for number in (0, 1, 2):
            pipe = self._handover.pipes.get(number)
            if pipe is None:
                self.pipe_connection_lost(number, None)
                continue
            connect = loop.connect_read_pipe if number else loop.connect_write_pipe
            file = os.fdopen(pipe, "rb" if number else "wb", 0)
            process.pipes[number], _ = await connect(partial(_Pipe, self, number), file)
        if self._size >= BUFFER:
            self._room.clear()
            self._each_pipe("pause_reading")
        self._handover.connection.settimeout(0)
        process.connection, _ = await loop.create_unix_connection(
            lambda: _End(self, self._handover.rest), sock=self._handover.connection
        )
        return None


class _Process(asyncio.SubprocessTransport):
    """As asyncio has it of its own processes."""

    def __init__(self, handover: Handover) -> None:
        super().__init__()
        self.pipes: Dict[int, Any] = {}
        self.returncode: Optional[int] = None
        #: To the program; closed by the event loop. It would never look at the next one with this
        #: number, if the socket below it were closed.
        self.connection: Any = handover.connection
        self._handover = handover

    def get_pid(self) -> int:
        return self._handover.pid

    def get_returncode(self) -> Optional[int]:
        return self.returncode

    def get_pipe_transport(self, fd: int) -> Any:
        return self.pipes.get(fd)

    def close(self) -> None:
        for pipe in self.pipes.values():
            pipe.close()
        self.connection.close()


class _Pipe(asyncio.Protocol):
    """Reports about one pipe to the run."""

    def __init__(self, run: RunProcess, number: int) -> None:
        self._run = run
        self._number = number

    def data_received(self, data: bytes) -> None:
        self._run.pipe_data_received(self._number, data)

    def connection_lost(self, exc: Optional[Exception]) -> None:
        self._run.pipe_connection_lost(self._number, exc)

    def pause_writing(self) -> None:
        self._run.pause_writing()

    def resume_writing(self) -> None:
        self._run.resume_writing()


class _End(asyncio.Protocol):
    """Waits for the line that says how the command has ended."""

    def __init__(self, run: HandedOverRun, rest: bytes) -> None:
        self._run = run
        self._rest = rest
        self._ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.data_received(b"")

    def data_received(self, data: bytes) -> None:
        self._rest += data
        if b"\n" in self._rest and not self._ended:
            self._ended = True
            _, code, number, cause, _ = self._rest.decode().split()
            self._run.handed_over_end(
                int(code) if int(number) < 0 else -int(number), cause.strip("-")
            )

    def connection_lost(self, exc: Optional[Exception]) -> None:
        if not self._ended and self._run.ended is None:  # the program was killed
            self._run._signal(signal.SIGKILL)
            self._run.handed_over_end(-signal.SIGKILL, "")
