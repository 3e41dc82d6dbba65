"""The daemon on a host, seen from this side: it is installed, started and called here.

This module uses two methods of a connection and knows nothing of SSH. Bytes and round trips matter,
since it runs at every reconnect. If the daemon is on the host it takes one command of half a
kilobyte and one channel; if not, one more command, with the bundle (about 70 kB) on its stdin.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from typing import Any

from ..errors import ConnectionLost, Reason, TPUError, error_for
from ..on_host.agent.protocol.declarations import Answer, ProtocolRequest
from ..on_host.agent.protocol.frames import LONGEST_ANSWER, LONGEST_REQUEST
from ..on_host.agent.protocol.paths import keeper_socket
from ..on_host.agent.protocol.records import DaemonHello, DaemonProblem, Started
from ..on_host.agent.protocol.requests import EndDaemonRequest
from ..on_host.packing import Bundle, agent_bundle, program
from .agent_answers import checked_record
from .host_program import COMMAND, NO_PYTHON, no_python
from .host_values import InvalidAnswer, decoded

#: Seconds to install and start the daemon, and for an answer that takes no work.
UP_TIMEOUT = 60.0
REQUEST_TIMEOUT = 60.0

Streams = tuple[Any, Any]  # reader and writer, asyncio's or asyncssh's

#: Runs the agent's ``up`` with the Python that installed it. Prints "missing" if it is not there or
#: can't be run any more: that Python was moved, removed or replaced, or files are damaged.
_UP = """\
folder="$HOME/.jupyter-tpu/agent/$1"
if [ -f "$folder/python" ]; then
  answer="$("$(cat "$folder/python")" -I -S "$folder" up)"
  case "$answer" in "{"*) printf '%s\\n' "$answer"; exit;; esac
fi
echo missing
"""

_INSTALL = "ssh.install_agent"


async def ensure_agent(
    run: Callable[..., Awaitable[Any]],
    open_unix: Callable[[str], Awaitable[Streams]],
) -> DaemonClient:
    """The daemon of this version on a host; installed and started if necessary.

    Parameters
    ----------
    run: ``run(argv, input=b"", timeout=…, check=False)`` of the connection.
    open_unix: its ``open_unix(path)``.

    Raises
    ------
    TPUError: NO_PYTHON if the host has none that is new enough, DISK_FULL, INTERNAL.
    """
    packed = agent_bundle()
    for attempt in (1, 2):
        where = await _up(run, packed)
        try:
            client = DaemonClient(DaemonStream(*await open_unix(where["socket"])), open_unix)
            await client.wait_hello()
            return client
        except TPUError as error:
            # An idle daemon may have ended just now.
            if attempt == 2 or error.reason not in (Reason.NOT_FOUND, Reason.UNREACHABLE):
                raise
    raise AssertionError("not reached")


async def _up(run: Callable[..., Awaitable[Any]], packed: Bundle) -> dict[str, Any]:
    done = await run(["sh", "-c", _UP, "sh", packed.hash], timeout=UP_TIMEOUT, check=False)
    if done.stdout.strip() == "missing":
        done = await run(
            [*COMMAND, packed.hash],
            input=program(_INSTALL) + packed.data,
            timeout=UP_TIMEOUT,
            check=False,
        )
    if done.returncode == NO_PYTHON:
        raise no_python()
    last = done.stdout.strip().splitlines()[-1:] or [""]
    try:
        answer = decoded(last[0].encode("utf-8", "replace"), "up")
    except InvalidAnswer:
        answer = {}
    if "socket" in answer:
        return checked_record(answer, Started, "up")
    if "errno 28" in done.stderr or "errno 122" in done.stderr:
        raise TPUError(
            "The host's disk is full.", Reason.DISK_FULL, "Delete files on the host and try again."
        )
    lines = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
    raise TPUError(
        f"The daemon could not be started on the host: {answer.get('message') or lines[0]}",
        Reason.INTERNAL,
    )


class DaemonStream:
    """A channel's reader and writer in one; its errors are ConnectionErrors.

    asyncssh raises its own errors when a connection breaks. The daemon's protocols, which also run
    where asyncssh is not installed, expect Python's.
    """

    def __init__(self, reader: Any, writer: Any) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self, size: int) -> bytes:
        """Up to *size* bytes; b"" at the end."""
        from .library import asyncssh

        try:
            return await self._reader.read(size)
        except asyncssh.Error as error:
            raise ConnectionError(str(error)) from error

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    async def drain(self) -> None:
        """Waits until there is room for more."""
        from .library import asyncssh

        try:
            await self._writer.drain()
        except asyncssh.Error as error:
            raise ConnectionError(str(error)) from error

    def close(self) -> None:
        self._writer.close()


class DaemonClient:
    """The daemon of one host, over one channel. Made by :func:`ensure_agent`."""

    def __init__(
        self, stream: DaemonStream, open_unix: Callable[[str], Awaitable[Streams]]
    ) -> None:
        #: The daemon's first message: ``agent`` (the hash of its sources), ``pid``, ``run``
        #: (the folder of its sockets), ``python``.
        self.hello: dict[str, Any] = {}
        self._stream = stream
        self._open_unix = open_unix
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._number = 0
        self._closed = False
        self._greeting: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[0] = self._greeting
        self._listener = asyncio.ensure_future(self._listen())

    async def wait_hello(self) -> None:
        """Returns when the daemon's hello has come; raises UNREACHABLE if it does not."""
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT):
                self.hello = checked_record(await self._greeting, DaemonHello, "hello")
        except TimeoutError as error:
            await self.close()
            raise ConnectionLost("the host") from error
        except InvalidAnswer:
            await self.close()
            raise

    @property
    def closed(self) -> bool:
        """Whether the channel has ended."""
        return self._closed

    async def request(
        self, request: ProtocolRequest[Answer], timeout: float = REQUEST_TIMEOUT
    ) -> Answer:
        """Asks the daemon, and returns its answer.

        Raises :class:`TPUError` with the daemon's reason, UNREACHABLE if the connection ends first,
        TIMEOUT after *timeout* seconds, INVALID if it is too large to be sent, `InvalidAnswer` if
        the answer is not as its request declares.
        """
        if self._closed:
            raise ConnectionLost("the host")
        self._number += 1
        number = self._number
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            self._ask(number, request)
            async with asyncio.timeout(timeout):
                answer = await future
        except TimeoutError as error:
            raise TPUError(
                f"The host did not answer within {timeout:.0f} seconds.", Reason.TIMEOUT
            ) from error
        finally:
            self._waiting.pop(number, None)
        if "error" in answer:
            problem = checked_record(answer["error"], DaemonProblem, request.op)
            raise error_for(problem["message"], problem["reason"], problem.get("hint", ""))
        return checked_record(answer.get("result"), request.answer, request.op)

    def _ask(self, number: int, request: ProtocolRequest[Any]) -> None:
        message = {"id": number, "op": request.op, "params": request.params}
        line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        if len(line) > LONGEST_REQUEST:
            raise TPUError(
                f"The request has {len(line) >> 20} MiB; {LONGEST_REQUEST >> 20} MiB are possible.",
                Reason.INVALID,
                "Write long arguments or variables to a file on the host.",
            )
        self._stream.write(line)

    async def open_keeper(self, kernel_id: str) -> tuple[DaemonStream, DaemonStream]:
        """A channel to the keeper of a kernel, which any client may have started.

        Raises NOT_FOUND if there is none, UNREACHABLE if the connection is lost.
        """
        stream = DaemonStream(*await self._open_unix(keeper_socket(self.hello["run"], kernel_id)))
        return stream, stream

    async def close(self) -> None:
        """Tells the daemon that this client leaves. It ends now if it has nothing else to do."""
        if not self._closed:
            with contextlib.suppress(OSError):
                self._ask(0, EndDaemonRequest())
                async with asyncio.timeout(1.0):
                    await self._stream.drain()
            self._end()
        self._listener.cancel()
        await asyncio.gather(self._listener, return_exceptions=True)

    async def _listen(self) -> None:
        buffer = bytearray()
        problem: TPUError | None = None
        try:
            while data := await self._stream.read(65536):
                buffer += data
                *lines, rest = buffer.split(b"\n") if b"\n" in data else (buffer,)
                for line in lines:
                    self._answered(decoded(line, "a line"))
                buffer = bytearray(rest)
                if len(buffer) > LONGEST_ANSWER:
                    raise InvalidAnswer("a line", f"Expected at most {LONGEST_ANSWER} bytes")
        except InvalidAnswer as error:  # perhaps a peer that is not a daemon
            problem = error
        except OSError:
            pass  # a broken connection
        finally:
            self._end(problem)

    def _answered(self, answer: dict[str, Any]) -> None:
        number = answer.get("id", 0)
        future = self._waiting.get(number) if isinstance(number, int) else None
        if future is not None and not future.done():
            future.set_result(answer)

    def _end(self, problem: TPUError | None = None) -> None:
        self._closed = True
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(problem or ConnectionLost("the host"))
                future.exception()  # retrieved: maybe no one waits for it
        self._stream.close()
