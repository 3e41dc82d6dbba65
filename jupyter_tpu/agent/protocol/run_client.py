"""How the keeper of a run is asked (`keeper.run_keeper`): by the agent on the same host, and over
SSH by a client, as long as there is no agent.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Deque, Dict, List, Optional, Tuple

from .records import RunEnd

if TYPE_CHECKING:
    from typing import Protocol

    class Stream(Protocol):
        """A connection; what it returns is shorter at its end."""

        async def read_line(self) -> bytes: ...
        async def read_exactly(self, size: int) -> bytes: ...
        async def write(self, data: bytes) -> Any: ...
        def close(self) -> None: ...


#: Seconds in which somebody may still try to start a run that a client has given up to start.
LATE = 60.0
#: Bytes of output in one answer at most.
LONGEST = 1 << 20
#: The exit codes of a shell: the command does not exist, it can't be executed.
NOT_FOUND, NOT_EXECUTABLE = 127, 126
_ENOENT, _EACCES = 2, 13

Output = List[Tuple[int, bytes]]


def encoded_order(request: Any, socket: str = "") -> bytes:
    """What a keeper is started with.

    request: a `StartRun`. socket: the path; "": the usual one. Raises ValueError for NUL
    characters.
    """
    variables = request.env or {}
    words = [
        request.id,
        socket,
        "0" if request.begun is None else str(LATE),
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


class Refused(Exception):
    """The keeper did not start the command.

    what: "socket": another keeper may have it; "folder" or "program": that can't be used.
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


class RunClient:
    """One connection to the keeper of a run.

    Its methods raise ConnectionError if the keeper, or the connection, has ended; ValueError for an
    answer that can't be; or what the stream raises.

    Attributes
    ----------
    pid: of the command; 0 if it has ended before.
    begun: when that was, by this loop's clock.
    """

    def __init__(self, stream: Stream) -> None:
        self.pid = 0
        self.begun = 0.0
        self._stream = stream
        self._reading = asyncio.Lock()
        self._output: List[Tuple[int, bytearray]] = []  # of an answer that comes
        self._size = 0
        self._waiting: "Dict[str, Deque[asyncio.Future[Any]]]" = {}
        self._listener: "Optional[asyncio.Future[None]]" = None
        self._error: Optional[BaseException] = None

    async def begin(self, order: bytes = b"") -> None:
        """Gives the keeper its *order*, if it does not have it yet. Raises Refused."""
        await self._stream.write(order)
        word, *words = (await self._stream.read_line()).split(b" ", 3) or [b""]
        if word == b"refused":
            what, number, why = words
            raise Refused(what.decode("ascii"), int(number), why.decode(errors="replace").strip())
        if word != b"running":
            raise ConnectionError("it has ended")
        self.pid = int(words[0])
        self.begun = asyncio.get_running_loop().time() - float(words[1])
        self._listener = asyncio.ensure_future(self._listen())

    async def read(self, start: int) -> Tuple[Output, int, Optional[RunEnd]]:
        """Output from the offset *start* on, which acknowledges all before it; its size; and with
        the last of it, how the command has ended. Waits a while for it.
        """
        async with self._reading:
            return await self._ask("read", b"read %d\n" % start)

    async def write(self, start: int, data: bytes, close: bool) -> bool:
        """Writes to its input what begins at the offset *start*; False if it takes no more."""
        query = b"write %d %d %d\n%s" % (start, len(data), close, data)
        return await self._ask("reads", query)

    async def stop(self) -> None:
        """Ends the command and its children, at the latest with SIGKILL."""
        await self._ask("stopped", b"stop\n")

    async def kill(self) -> None:
        """Ends it at once. Nobody asks for its end."""
        await self._stream.write(b"kill\nforget\n")

    async def forget(self) -> None:
        """Its end is known: its keeper ends."""
        await self._stream.write(b"forget\n")

    def close(self) -> None:
        """Asks no more."""
        if self._listener is not None:
            self._listener.cancel()
        self._stream.close()

    async def _ask(self, kind: str, query: bytes) -> Any:
        if self._error is not None:
            raise self._error
        answer: "asyncio.Future[Any]" = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(kind, deque()).append(answer)
        await self._stream.write(query)
        return await answer

    async def _listen(self) -> None:
        error: BaseException = ConnectionError("the keeper of the run has ended")
        try:
            while await self._receive():
                pass
        except Exception as problem:
            error = problem
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
            if stream not in (1, 2) or length < 0 or self._size > LONGEST:
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
            ended = self._end(*words) if word == b"ended" else None
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

    def _end(self, code: bytes, number: bytes, cause: bytes, seconds: bytes) -> RunEnd:
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
