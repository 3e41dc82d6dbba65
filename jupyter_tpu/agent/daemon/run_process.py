"""A command that runs on this host for a client; `runs` has what the client can ask for."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import signal
import time
from collections import deque
from typing import Any, Deque, Dict, List, Optional, Tuple

from ..protocol import umask
from ..protocol.process_tree import signal_tree
from ..protocol.records import RunEnd
from ..protocol.requests import RunOutput
from ..protocol.timeouts import cancel_all, is_set_within

#: Bytes of output that are kept for a client, and that one answer carries about at most.
BUFFER = 1 << 20
ANSWER = 256 << 10
#: Seconds that a request waits for output, and for more of it once there is some.
WAIT = 20.0
GATHER = 0.02
#: A stopped command gets these signals one after the other; seconds until the next one.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
KILL_GRACE = 3.0
#: Seconds that output is waited for that processes in the background hold open.
LINGER = 0.5

#: The exit codes of a shell: the command does not exist, it can't be executed.
NOT_FOUND, NOT_EXECUTABLE = 127, 126


class RunProcess(asyncio.SubprocessProtocol):
    """One command, from its start until its output is acknowledged.

    Parameters
    ----------
    command: the program and its arguments; a program that begins with ~/ is in the home folder.
    cwd: its folder, absolute.
    env: all its variables.
    limit: seconds after which it is ended; None: never.
    has_input: whether :meth:`write` will be used; otherwise its standard input is empty.
    """

    def __init__(
        self,
        command: List[str],
        cwd: str,
        env: Dict[str, str],
        limit: Optional[float],
        has_input: bool,
    ) -> None:
        self.client: Any = None  # the connection that asked last
        self.since_client = time.monotonic()  # when that was closed, if it is None
        self.ended: Optional[RunEnd] = None
        self._begun = time.monotonic()
        self._transport: Any = None  # once it was started
        self._started = asyncio.Event()  # or could not be
        self._exited = asyncio.Event()
        self._open = {1, 2}  # stdout and stderr, until their ends
        self._read_all = asyncio.Event()
        self._chunks: Deque[Tuple[int, bytes]] = deque()
        self._start = 0  # the offset of the first chunk
        self._size = 0
        self._news = asyncio.Event()  # replaced when there is output; stays set at the end
        self._room = asyncio.Event()  # for more output
        self._room.set()
        self._written = 0  # bytes of its input
        self._writing = asyncio.Lock()
        self._writable = asyncio.Event()
        self._writable.set()
        self._reads_input = has_input
        self._cause = ""  # why it was ended, if it was: "timeout", "stopped", "abandoned"
        self._ending: "Optional[asyncio.Future[None]]" = None
        self._task = asyncio.ensure_future(self._live(command, cwd, env, limit))

    @property
    def pid(self) -> Optional[int]:
        """Of the command, while it runs."""
        running = self._transport is not None and not self._exited.is_set()
        return self._transport.get_pid() if running else None

    # ---- for the client

    async def read(self, start: int) -> RunOutput:
        """Output from the offset *start* on, which acknowledges all before it: ``output`` as pairs
        of 1 or 2 and base64, ``next`` (the offset after it), and ``ended`` with the last of it.
        """
        self._acknowledge(start)
        if not self._chunks and self.ended is None:
            await is_set_within(self._news, WAIT)
        if self.ended is None:
            await asyncio.wait({self._task}, timeout=GATHER)  # what comes together, goes together
        output: List[Tuple[int, bytearray]] = []
        size = 0
        for stream, data in self._chunks:
            if size and size + len(data) > ANSWER:
                break
            if not output or output[-1][0] != stream:
                output.append((stream, bytearray()))
            output[-1][1].extend(data)
            size += len(data)
        encoded: Any = [(stream, base64.b64encode(data).decode()) for stream, data in output]
        return {
            "output": encoded,
            "next": self._start + size,
            "ended": self.ended if size == self._size else None,
        }

    async def write(self, start: int, data: bytes, end: bool) -> bool:
        """Writes to its input what begins at the offset *start*; what it has already is skipped.

        Returns False if it reads no more.
        """
        await self._started.wait()
        async with self._writing:
            if not self._reads_input or self.ended is not None:
                return False
            pipe = self._transport.get_pipe_transport(0)
            new = data[max(0, self._written - start) :]
            self._written += len(new)
            pipe.write(new)
            if end:
                pipe.close()
                self._reads_input = False
            await self._writable.wait()
            return self._reads_input

    async def stop(self, cause: str) -> None:
        """Ends it and its children, at the latest with SIGKILL."""
        if self._ending is None and self.ended is None:
            self._cause = cause
            self._ending = asyncio.ensure_future(self._end())
        await asyncio.wait({self._task}, timeout=KILL_GRACE * len(SIGNALS))

    async def kill(self) -> None:
        """Ends it at once, with its children."""
        self._signal(signal.SIGKILL)
        await cancel_all(filter(None, (self._ending, self._task)))

    # ---- what asyncio reports

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self._chunks.append((fd, data))
        self._size += len(data)
        if self._size >= BUFFER and self._room.is_set():
            self._room.clear()
            self._each_pipe("pause_reading")
        self._tell()

    def pipe_connection_lost(self, fd: int, exc: Optional[Exception]) -> None:
        self._open.discard(fd)
        if not self._open:
            self._read_all.set()
        if fd == 0:
            self._reads_input = False
            self._writable.set()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def process_exited(self) -> None:
        self._exited.set()

    # ---- its life

    async def _live(
        self, command: List[str], cwd: str, env: Dict[str, str], limit: Optional[float]
    ) -> None:
        ended: Any = {"code": None, "signal": None, "cause": "", "message": ""}
        try:
            problem = await self._begin([os.path.expanduser(command[0]), *command[1:]], cwd, env)
            self._started.set()
            ended.update(problem or await self._follow(limit))
        finally:
            if self._transport is not None:
                with contextlib.suppress(PermissionError):  # it would kill another user's
                    self._transport.close()
            ended["seconds"] = round(time.monotonic() - self._begun, 3)
            self.ended = ended
            self._writable.set()
            self._tell()

    async def _begin(
        self, command: List[str], cwd: str, env: Dict[str, str]
    ) -> Optional[Dict[str, Any]]:
        """Starts it; returns how it ended if that was not possible."""
        pipe, empty = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        try:
            await asyncio.get_running_loop().subprocess_exec(
                lambda: self,
                *command,
                stdin=pipe if self._reads_input else empty,
                stdout=pipe,
                stderr=pipe,
                cwd=cwd,
                env=env,
                start_new_session=True,
                **umask.of_login(),
            )
        except FileNotFoundError:
            return {"code": NOT_FOUND, "message": _not_found(command[0])}
        except PermissionError:
            message = "%s can't be executed on the host." % command[0]
            return {"code": NOT_EXECUTABLE, "message": message}
        except OSError as error:  # too long a command, too many processes
            return {"code": NOT_EXECUTABLE, "message": "On the host: %s." % error}
        return None

    async def _follow(self, limit: Optional[float]) -> Dict[str, Any]:
        """Waits for its end and the end of its output; returns how it ended."""
        timer: "Optional[asyncio.TimerHandle]" = None
        if limit is not None:
            loop = asyncio.get_running_loop()
            timer = loop.call_later(limit, lambda: asyncio.ensure_future(self.stop("timeout")))
        try:
            await self._exited.wait()
        finally:
            if timer is not None:
                timer.cancel()
        while self._open:
            if self._ending is None:
                await self._room.wait()
            size = self._start + self._size
            await is_set_within(self._read_all, LINGER)
            silent = self._room.is_set() and size == self._start + self._size
            if silent or self._ending is not None:
                break  # processes in the background have the pipes, and say nothing
        code = self._transport.get_returncode()
        if code is None:
            message = "It could not be ended on the host, and continues as process %d."
            return {"cause": self._cause, "message": message % self._transport.get_pid()}
        number = -code if code < 0 else None
        return {"code": None if number else code, "signal": number, "cause": self._cause}

    def _acknowledge(self, offset: int) -> None:
        while self._chunks and self._start + len(self._chunks[0][1]) <= offset:
            size = len(self._chunks.popleft()[1])
            self._start += size
            self._size -= size
        if self._size < BUFFER and not self._room.is_set():
            self._room.set()
            self._each_pipe("resume_reading")

    def _each_pipe(self, method: str) -> None:
        for fd in self._open & {1, 2}:
            getattr(self._transport.get_pipe_transport(fd), method)()

    def _tell(self) -> None:
        self._news.set()
        if self.ended is None:
            self._news = asyncio.Event()

    # ---- its end

    async def _end(self) -> None:
        await self._started.wait()
        for number in SIGNALS:
            await asyncio.get_running_loop().run_in_executor(None, self._signal, number)
            if await is_set_within(self._exited, KILL_GRACE):
                break
        self._exited.set()  # or it can't be ended: it is another user's, or hangs in the system
        self._room.set()  # its output is not waited for any more

    def _signal(self, number: int) -> None:
        """To its process group, and to those of its children that have left that."""
        if self._transport is None or self._exited.is_set():
            return
        signal_tree(self._transport.get_pid(), number)


def _not_found(program: str) -> str:
    if any(character in program for character in " |&;<>$*"):
        return (
            "The program %r does not exist on the host. To run a shell command, write: "
            "sh -c 'COMMAND'." % program
        )
    return "The program %r does not exist on the host." % program
