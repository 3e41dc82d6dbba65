"""How the daemon, and clients over SSH, ask the keeper of a run (`keeper.run_keeper`)."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Deque, Dict, List, Optional, Tuple

from .records import RunEnd

if TYPE_CHECKING:
    from typing import Protocol

    class RunStream(Protocol):
        """A connection; what it returns is shorter at its end."""

        async def read_line(self) -> bytes: ...
        async def read_exactly(self, size: int) -> bytes: ...
        async def write(self, data: bytes) -> Any: ...
        def close(self) -> None: ...


#: Seconds in which somebody may still try to start a run that a client has given up to start.
LATE_SECONDS = 60.0
#: Seconds that a question waits for output.
OUTPUT_SECONDS = 20.0
#: Bytes of output in one answer at most.
LONGEST_OUTPUT_BYTES = 1 << 20
#: The exit codes of a shell: the command does not exist, it can't be executed.
NOT_FOUND, NOT_EXECUTABLE = 127, 126
_ENOENT, _EACCES = 2, 13
_ENDED = "the keeper of the run has ended"

Output = List[Tuple[int, bytes]]


def encoded_order(request: Any, socket: str = "", *, again: bool = False) -> bytes:
    """What a keeper is started with.

    request: a `StartRun`. socket: the path; "": the usual one. again: another keeper may still be
    started, which must not start it then. Raises ValueError for NUL characters.
    """
    variables = request.env or {}
    words = [
        request.id,
        socket,
        str(LATE_SECONDS if again else 0),
        request.cwd or "",
        "" if request.limit is None else str(request.limit),
        "1" if request.input else "",
        request.python or "",
        str(len(variables)),
        *("%s=%s" % variable for variable in variables.items()),
        *request.command,
    ]
    if any("\0" in word for word in words):
        raise ValueError("NUL characters in a command or a variable")
    data = "\0".join(words).encode("utf-8", "surrogateescape")
    return b"%d\n%s" % (len(data), data)


class RunRefused(Exception):
    """The keeper did not start the command.

    what: "run": another keeper has it, or had it, whose socket is *why*; "place": there is none for
    a socket; "folder" or "program": that can't be used.
    """

    def __init__(self, what: str, number: int, why: str) -> None:
        super().__init__(why)
        self.what = what
        self._number = number

    def end(self, program: str) -> RunEnd:
        """How the run has ended, if it was the program."""
        code = NOT_FOUND if self._number == _ENOENT else NOT_EXECUTABLE
        if code == NOT_FOUND:
            message = _not_found(program)
        elif self._number == _EACCES:
            message = "%s can't be executed on the host." % program
        else:
            message = "On the host: %s." % self  # too long a command, too many processes
        return {"code": code, "signal": None, "cause": "", "message": message, "seconds": 0.0}


def _not_found(program: str) -> str:
    if any(character in program for character in " |&;<>$*"):
        return (
            "The program %r does not exist on the host. To run a shell command, write: "
            "sh -c 'COMMAND'." % program
        )
    return "The program %r does not exist on the host." % program


class SocketStream:
    """A connection to a keeper's socket, by the streams of asyncio or asyncssh."""

    def __init__(self, reader: Any, writer: Any) -> None:
        self._reader = reader
        self._writer = writer

    async def read_line(self) -> bytes:
        """Both kinds of streams end or fail where a line is longer than what they buffer."""
        return await self._reader.readline()

    async def read_exactly(self, size: int) -> bytes:
        try:
            return await self._reader.readexactly(size)
        except asyncio.IncompleteReadError as error:
            return error.partial

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    def close(self) -> None:
        self._writer.close()


class RunClient:
    """One connection to the keeper of a run.

    Its methods raise ConnectionError if the keeper, or the connection, has ended, and ValueError
    for an answer that can't be.

    Attributes
    ----------
    pid: of the command; 0 if it has ended before.
    socket: the path of the keeper's socket.
    """

    def __init__(self, stream: RunStream) -> None:
        self.pid = 0
        self.socket = ""
        self._stream = stream
        self._output: List[Tuple[int, bytearray]] = []  # of an answer that comes
        self._size = 0
        self._waiting: "Dict[str, Deque[asyncio.Future[Any]]]" = {}
        self._listener: "Optional[asyncio.Future[None]]" = None
        self._first: "Optional[asyncio.Future[Any]]" = None  # of the first question for output
        self._error: Optional[Exception] = None

    async def begin(
        self, order: bytes = b"", start: Optional[int] = None, seconds: float = OUTPUT_SECONDS
    ) -> None:
        """Gives the keeper its *order*, if it does not have it yet. Raises RunRefused.

        start, seconds: of the first :meth:`read`, which takes no round trip then.
        """
        query = b""
        if start is not None:
            query, self._first = self._query_output(start, seconds)
        try:
            await self._stream.write(order + query)
            line = (await self._stream.read_line()).rstrip(b"\n")
        except Exception as problem:  # of asyncio, asyncssh or ours
            raise ConnectionError(str(problem)) from problem
        if not line:
            raise ConnectionError(_ENDED)
        word, what, number, text = line.split(b" ", 3)
        if word == b"refused":
            raise RunRefused(what.decode("ascii"), int(number), text.decode(errors="replace"))
        if word != b"running":
            raise ValueError("an unknown answer")
        self.pid, self.socket = int(what), text.decode("utf-8", "surrogateescape")
        self._listener = asyncio.ensure_future(self._listen())

    async def read(
        self, start: int, seconds: float = OUTPUT_SECONDS
    ) -> Tuple[Output, int, Optional[RunEnd]]:
        """Output from the offset *start* on, which acknowledges all before it; its size; and with
        the last of it, how the command has ended. Waits so many seconds for it.
        """
        answer, self._first = self._first, None
        if answer is None:
            query, answer = self._query_output(start, seconds)
            await self._send(query)
        return await answer

    def _query_output(self, start: int, seconds: float) -> "Tuple[bytes, asyncio.Future[Any]]":
        return b"read %d %.3f\n" % (start, seconds), self._expect("read")

    async def write(self, start: int, data: bytes, close: bool) -> bool:
        """Writes to its input what begins at the offset *start*; False if it takes no more."""
        query = b"write %d %d %d\n%s" % (start, len(data), close, data)
        return await self._ask("reads", query)

    async def stop(self) -> None:
        """Ends the command and its children, at the latest with SIGKILL."""
        await self._ask("stopped", b"stop\n")

    async def kill(self) -> None:
        """Ends it at once. Nobody asks for its end."""
        await self._send(b"kill\nforget\n")

    async def forget(self) -> None:
        """Its end is known: its keeper ends."""
        await self._send(b"forget\n")

    def close(self) -> None:
        """Asks no more."""
        if self._listener is not None:
            self._listener.cancel()
        self._stream.close()

    async def _ask(self, kind: str, query: bytes) -> Any:
        answer = self._expect(kind)
        await self._send(query)
        return await answer

    def _expect(self, kind: str) -> "asyncio.Future[Any]":
        if self._error is not None:
            raise self._error
        answer: "asyncio.Future[Any]" = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(kind, deque()).append(answer)
        return answer

    async def _send(self, query: bytes) -> None:
        try:
            await self._stream.write(query)
        except Exception as problem:
            raise ConnectionError(str(problem)) from problem

    async def _listen(self) -> None:
        error: Exception = ConnectionError(_ENDED)
        try:
            while await self._receive():
                pass
        except ValueError as problem:
            error = problem
        except Exception as problem:
            error = ConnectionError(str(problem))
        finally:
            self._error = error
            for answers in self._waiting.values():
                for answer in answers:
                    if not answer.done():
                        answer.set_exception(error)

    async def _receive(self) -> bool:
        """Receives a line, and what comes with it; False at the end."""
        line = await self._stream.read_line()
        word, *words = line.split() or [b""]
        if not line.endswith(b"\n"):
            return False
        if word == b"output":
            stream, length = map(int, words)
            self._size += length
            if stream not in (1, 2) or length < 0 or self._size > LONGEST_OUTPUT_BYTES:
                raise ValueError("%d bytes of stream %d" % (length, stream))
            data = await self._stream.read_exactly(length)
            if len(data) < length:
                return False
            if not self._output or self._output[-1][0] != stream:
                self._output.append((stream, bytearray()))
            self._output[-1][1].extend(data)
        elif word in (b"next", b"ended"):
            output, size = [(stream, bytes(data)) for stream, data in self._output], self._size
            self._output, self._size = [], 0
            ended = self._end(words) if word == b"ended" else None
            self._answered("read", (output, size, ended))
        elif word == b"reads":
            self._answered("reads", words == [b"1"])
        elif word == b"stopped":
            self._answered("stopped", None)
        else:
            raise ValueError("an unknown answer")
        return True

    def _answered(self, kind: str, value: Any) -> None:
        if not self._waiting.get(kind):
            raise ValueError("an answer to nothing")
        answer = self._waiting[kind].popleft()
        if not answer.done():
            answer.set_result(value)

    def _end(self, words: List[bytes]) -> RunEnd:
        code, number, cause, seconds = words
        end: Any = {
            "code": int(code) if int(code) >= 0 else None,
            "signal": int(number) if int(number) >= 0 else None,
            "cause": cause.decode("ascii").strip("-"),
            "message": "",
            "seconds": float(seconds),
        }
        if end["code"] is end["signal"] is None:
            end["message"] = (
                "It could not be ended on the host, and continues as process %d." % self.pid
            )
        return end
