"""The agent on a host, from this side: putting it there, starting it, talking to it.

Written against three callables of a connection, so it knows nothing of SSH. Bytes and round trips
matter here, since this runs at every reconnect: where the agent is already on the host it is one
command of half a kilobyte and one channel; where it is not, one command more, whose stdin is the
bundle (about 25 kB).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from ..agent.bundle import bundle
from ..agent.protocol.paths import keeper_socket
from ..errors import ConnectionLost, Reason, TPUError

#: Seconds for the agent to be there, and for an answer that takes no work.
UP_TIMEOUT = 60.0
REQUEST_TIMEOUT = 60.0
#: Largest answer, bytes.
MAX_LINE = 16 << 20

Streams = tuple[Any, Any]  # reader and writer, asyncio's or asyncssh's

#: Runs the agent's ``up`` with the Python that it was installed with; says "missing" if it is not.
_UP = """\
folder="$HOME/.jupyter-tpu/agent/$1"
if [ -f "$folder/python" ]; then exec "$(cat "$folder/python")" "$folder" up; fi
echo missing
"""

#: Finds a Python, gives it the bundle on stdin to unpack, and runs ``up``.
_INSTALL = """\
umask 077
for python in python3 /usr/bin/python3 python3.13 python3.12 python3.11 python3.10 python3.9; do
  if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null; then
    "$python" -c "$2" "$1" && exec "$python" "$HOME/.jupyter-tpu/agent/$1" up
    exit 1
  fi
done
echo no python
"""

#: Unpacks beside the goal and renames, so that a half-written agent is never run.
_UNPACK = """\
import io, os, shutil, sys, tempfile, zipfile
base = os.path.join(os.path.expanduser("~"), ".jupyter-tpu")
agents = os.path.join(base, "agent")
os.makedirs(agents, mode=0o700, exist_ok=True)
os.chmod(base, 0o700)
goal = os.path.join(agents, sys.argv[1])
made = tempfile.mkdtemp(dir=agents)
try:
    zipfile.ZipFile(io.BytesIO(sys.stdin.buffer.read())).extractall(made)
    with open(os.path.join(made, "python"), "w") as file:
        file.write(sys.executable)
    try:
        os.rename(made, goal)
    except OSError:
        if not os.path.isdir(goal):  # else another one was first
            raise
except OSError as error:
    sys.exit("errno %d: %s" % (error.errno or 0, error))
finally:
    shutil.rmtree(made, ignore_errors=True)
"""


class CompletedCommand(Protocol):
    """What a command on a host came to."""

    @property
    def returncode(self) -> int: ...
    @property
    def stdout(self) -> str: ...
    @property
    def stderr(self) -> str: ...


async def ensure_agent(
    run: Callable[..., Awaitable[Any]],
    open_unix: Callable[[str], Awaitable[Streams]],
) -> AgentClient:
    """The agent of this version on a host, put there and started if need be.

    Parameters
    ----------
    run: ``run(argv, input=b"", timeout=…, check=False)`` of the connection.
    open_unix: its ``open_unix(path)``.

    Raises
    ------
    TPUError: NO_PYTHON where the host has none that is new enough, DISK_FULL, INTERNAL.
    """
    packed = bundle()
    for attempt in (1, 2):
        where = await _up(run, packed.hash, packed.data)
        try:
            client = AgentClient(Stream(*await open_unix(where["socket"])), open_unix)
            await client.greeted()
            return client
        except TPUError as error:
            # It was there a moment ago; being idle, it may have ended just now.
            if attempt == 2 or error.reason not in (Reason.NOT_FOUND, Reason.UNREACHABLE):
                raise
    raise AssertionError("not reached")


async def _up(run: Callable[..., Awaitable[Any]], version: str, data: bytes) -> dict[str, Any]:
    done = await run(["sh", "-c", _UP, "sh", version], timeout=UP_TIMEOUT, check=False)
    if done.stdout.strip() == "missing":
        done = await run(
            ["sh", "-c", _INSTALL, "sh", version, _UNPACK],
            input=data,
            timeout=UP_TIMEOUT,
            check=False,
        )
    last = done.stdout.strip().splitlines()[-1:] or [""]
    if last[0] == "no python":
        raise TPUError(
            "The host has no Python 3.8 or newer.",
            Reason.NO_PYTHON,
            "Install one on it, e.g. with `sudo apt-get install python3`.",
        )
    try:
        said = json.loads(last[0])
    except ValueError:
        said = {}
    if "socket" in said:
        return said
    if "errno 28" in done.stderr or "errno 122" in done.stderr:
        raise TPUError(
            "The host's disk is full.", Reason.DISK_FULL, "Delete files on the host and try again."
        )
    lines = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
    raise TPUError(
        f"The agent cannot be started on the host: {said.get('message') or lines[0]}",
        Reason.INTERNAL,
    )


class Stream:
    """A channel's reader and writer in one, whose failures are ConnectionErrors.

    asyncssh raises errors of its own where a connection breaks; the agent's protocols, which also
    run where there is no asyncssh, know Python's.
    """

    def __init__(self, reader: Any, writer: Any) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self, size: int) -> bytes:
        """Up to *size* bytes; b"" at the end."""
        import asyncssh

        try:
            return await self._reader.read(size)
        except asyncssh.Error as error:
            raise ConnectionError(str(error)) from error

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    async def drain(self) -> None:
        """Waits until there is room for more."""
        import asyncssh

        try:
            await self._writer.drain()
        except asyncssh.Error as error:
            raise ConnectionError(str(error)) from error

    def close(self) -> None:
        self._writer.close()


class AgentClient:
    """The daemon of one host, over one channel. Made by :func:`ensure_agent`."""

    def __init__(self, stream: Stream, open_unix: Callable[[str], Awaitable[Streams]]) -> None:
        #: What the daemon said at first: ``agent`` (the hash of its sources), ``pid``, ``run``
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

    async def greeted(self) -> None:
        """Returns once the daemon has said hello; raises UNREACHABLE if it does not."""
        try:
            self.hello = await asyncio.wait_for(self._greeting, REQUEST_TIMEOUT)
        except TimeoutError as error:
            await self.close()
            raise ConnectionLost("the host") from error

    @property
    def closed(self) -> bool:
        """Whether the channel is of no further use."""
        return self._closed

    async def request(
        self, op: str, *, timeout: float = REQUEST_TIMEOUT, **params: Any
    ) -> dict[str, Any]:
        """Asks the daemon to do *op* and returns its result.

        Raises :class:`TPUError` with the reason that the daemon gives, UNREACHABLE when the
        connection ends first, TIMEOUT after *timeout* seconds.
        """
        if self._closed:
            raise ConnectionLost("the host")
        self._number += 1
        number = self._number
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            self._ask(number, op, params)
            answer = await asyncio.wait_for(future, timeout)
        except TimeoutError as error:
            raise TPUError(
                f"The host did not answer within {timeout:.0f} seconds.", Reason.TIMEOUT
            ) from error
        finally:
            self._waiting.pop(number, None)
        if "error" in answer:
            problem = answer["error"]
            raise TPUError(problem["message"], Reason(problem["reason"]), problem.get("hint", ""))
        return answer["result"]

    def _ask(self, number: int, op: str, params: dict[str, Any]) -> None:
        request = {"id": number, "op": op, "params": params}
        self._stream.write(json.dumps(request, separators=(",", ":")).encode() + b"\n")

    async def open_keeper(self, kernel_id: str) -> tuple[Stream, Stream]:
        """A channel to the keeper of a kernel, which need not be one this client started.

        Raises NOT_FOUND where there is none, UNREACHABLE where the connection is lost.
        """
        stream = Stream(*await self._open_unix(keeper_socket(self.hello["run"], kernel_id)))
        return stream, stream

    async def close(self) -> None:
        """Takes leave of the daemon, which ends now if that leaves it with nothing to do."""
        if not self._closed:
            with contextlib.suppress(OSError):
                self._ask(0, "end_agent", {})
                await asyncio.wait_for(self._stream.drain(), 1.0)
            self._end()
        self._listener.cancel()
        await asyncio.gather(self._listener, return_exceptions=True)

    async def _listen(self) -> None:
        buffer = bytearray()
        try:
            while data := await self._stream.read(65536):
                buffer += data
                *lines, rest = buffer.split(b"\n") if b"\n" in data else (buffer,)
                for line in lines:
                    self._answered(json.loads(line))
                buffer = bytearray(rest)
                if len(buffer) > MAX_LINE:
                    raise ValueError("a line longer than the limit")
        except (OSError, ValueError, AttributeError):
            pass  # a broken connection, or a peer that is no agent: of no further use either way
        finally:
            self._end()

    def _answered(self, answer: dict[str, Any]) -> None:
        future = self._waiting.get(answer.get("id", 0))
        if future is not None and not future.done():
            future.set_result(answer)

    def _end(self) -> None:
        self._closed = True
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(ConnectionLost("the host"))
                future.exception()  # nobody need be waiting
        self._stream.close()
