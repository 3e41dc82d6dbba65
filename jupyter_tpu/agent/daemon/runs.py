"""Commands that run on this host for a client, and end without it.

A client starts one with an id of its own and asks for its output until that has ended. Each answer
says how far the output goes; the next request acknowledges that by its offset. So a lost answer is
just asked for again, on another connection if need be.

The command and its output belong to its keeper (`keeper.run_keeper`), which this daemon, a client
without a daemon, or an earlier daemon has started. It is found by its socket. As long as a client
of this daemon follows a run, the daemon is connected to its keeper. Only the end is kept here.
"""

from __future__ import annotations

import array
import asyncio
import base64
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import Any, Dict, List, NamedTuple, Optional, Union

from ..protocol import requests, umask
from ..protocol.paths import run_folder
from ..protocol.process_tree import signal_tree
from ..protocol.records import RunEnd
from ..protocol.run_client import LATE, Refused, RunClient, encoded_order
from ..protocol.timeouts import with_timeout
from .handlers import OperationError, handles

#: Runs that have ended and are still known; seconds for which a client may come back for its end.
KEPT, RETURN = 32, 300.0
#: Seconds in which a keeper says that it is there.
LIMIT = 10.0
#: Without what a site adds, and without the modules that `__main__` imports: it begins sooner.
PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv[1]); from {} import run_keeper; "
    "run_keeper.fork_keepers()"
)
_KEEPER = __name__.rpartition(".daemon.")[0] + ".keeper"

_RunRequest = Union[requests.StartRun, requests.ReadRun, requests.WriteRun, requests.StopRun]


class _Stream:
    """A connection as `RunClient` takes it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read_line(self) -> bytes:
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


class _End(NamedTuple):
    """The last answer about a run, the offset from which it was asked for, who did, and when."""

    start: int
    answer: requests.RunOutput
    client: Any
    time: float


class Runs:
    """The runs of this host, and what handles requests about them."""

    def __init__(self) -> None:
        self._keepers: Dict[str, RunClient] = {}  # that clients of this daemon ask about
        self._clients: Dict[str, Any] = {}  # the connection that asked last
        self._ends: Dict[str, _End] = {}  # the oldest first
        self._starter: Optional[socket.socket] = None  # to the process that starts keepers
        self._opening: Dict[str, asyncio.Lock] = {}  # by the ids of runs

    def awaited(self, leaving: Any = None) -> bool:
        """Whether a client may come back for an end, one other than that which is *leaving*."""
        since = time.monotonic() - RETURN
        return any(end.time > since and end.client is not leaving for end in self._ends.values())

    async def processes(self) -> Dict[str, int]:
        """The process ids of all commands that run on this host, by the ids of the runs."""
        pids = {}
        for id in _ids():
            keeper = await _connected(id)
            if keeper is not None:
                pids[id] = keeper.pid
                keeper.close()
        return {id: pid for id, pid in pids.items() if pid}

    def client_left(self, client: Any) -> None:
        """A connection was closed."""
        for id in [id for id, asking in self._clients.items() if asking is client]:
            del self._clients[id]
            if id in self._keepers:
                self._keepers.pop(id).close()

    async def end_all(self) -> None:
        """Ends all commands at once."""
        for id in _ids():
            keeper = await _connected(id)
            if keeper is not None:
                with contextlib.suppress(OSError):
                    await keeper.kill()
                keeper.close()

    async def close(self) -> None:
        """Asks no more; the commands go on."""
        for keeper in self._keepers.values():
            keeper.close()
        if self._starter is not None:
            self._starter.close()

    # ---- requests

    @handles(requests.StartRun)
    async def _run(self, request: requests.StartRun) -> requests.RunOutput:
        async with self._opening.setdefault(request.id, asyncio.Lock()):
            if request.id not in self._ends and not await self._follow(request.id):
                if request.begun:
                    raise _unknown(request.id)
                await self._start(request)
        return await self._output(request)

    @handles(requests.ReadRun)
    async def _read(self, request: requests.ReadRun) -> requests.RunOutput:
        return await self._output(request)

    @handles(requests.WriteRun)
    async def _write(self, request: requests.WriteRun) -> requests.Reads:
        data = base64.b64decode(request.data)
        if request.id in self._ends:
            return {"reads": False}
        with contextlib.suppress(ConnectionError):
            keeper = await self._get(request)
            return {"reads": await keeper.write(request.start, data, request.end)}
        return {"reads": False}

    @handles(requests.StopRun)
    async def _stop(self, request: requests.StopRun) -> requests.Ended:
        if request.id not in self._ends:
            with contextlib.suppress(ConnectionError):
                await (await self._get(request)).stop()
        return {"ended": True}

    # ---- their keepers

    async def _output(self, request: Union[requests.StartRun, requests.ReadRun]) -> Any:
        id, start = request.id, request.start
        if id not in self._ends:
            keeper = await self._get(request)
            try:
                output, size, ended = await keeper.read(start)
            except ConnectionError:
                if id not in self._ends and self._keepers.get(id) is not keeper:
                    raise  # the client has left
                output, size, ended = [], 0, _killed(id, keeper)
            encoded: Any = [(stream, base64.b64encode(data).decode()) for stream, data in output]
            answer: requests.RunOutput = {"output": encoded, "next": start + size, "ended": ended}
            if ended is None:
                return answer
            if id not in self._ends:
                self._note_end(request, start, answer)
                with contextlib.suppress(OSError):
                    await keeper.forget()
                keeper.close()
        end = self._ends[id]
        if start == end.start:
            return end.answer
        return {"output": [], "next": start, "ended": end.answer["ended"]}

    def _note_end(self, request: _RunRequest, start: int, answer: requests.RunOutput) -> None:
        self._keepers.pop(request.id, None)
        self._ends[request.id] = _End(start, answer, request.client, time.monotonic())
        for old in list(self._ends)[:-KEPT]:
            for by_id in (self._ends, self._clients, self._opening):
                by_id.pop(old, None)

    async def _get(self, request: _RunRequest) -> RunClient:
        async with self._opening.setdefault(request.id, asyncio.Lock()):
            keeper = await self._follow(request.id)
        if keeper is None:
            raise _unknown(request.id)
        if isinstance(request, requests.StopRun):  # that can be somebody else
            self._clients.setdefault(request.id, request.client)
        else:
            self._clients[request.id] = request.client
        return keeper

    async def _follow(self, id: str) -> Optional[RunClient]:
        """The keeper of a run; None if there is none."""
        if id not in self._keepers:
            keeper = await _connected(id)
            if keeper is not None:
                self._keepers[id] = keeper
        return self._keepers.get(id)

    async def _start(self, request: requests.StartRun) -> None:
        _check(request)
        ours = self._launch()
        keeper = RunClient(_Stream(*await asyncio.open_unix_connection(sock=ours)))
        try:
            await keeper.begin(encoded_order(request, _path(request.id)))
        except Refused as refusal:
            keeper.close()
            if refusal.what == "folder":
                raise _no_folder(request.cwd or "") from None
            if refusal.what == "program":
                ended = refusal.end(request.command[0])
                self._note_end(request, 0, {"output": [], "next": 0, "ended": ended})
                return
            other = await _connected(request.id)
            if other is None:
                raise _unknown(request.id) from None
            keeper = other
        except BaseException:
            keeper.close()
            raise
        self._keepers[request.id] = keeper

    def _launch(self) -> socket.socket:
        """A connection to a new keeper."""
        ours, theirs = socket.socketpair()
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [theirs.fileno()]))]
        with theirs:
            with contextlib.suppress(OSError):  # it was killed
                if self._starter is not None:
                    self._starter.sendmsg([b"."], rights)
                    return ours
            self._starter = _starter()
            self._starter.sendmsg([b"."], rights)
        return ours


def _starter() -> socket.socket:
    """A connection to a process that starts keepers, and ends when this is closed."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", PROGRAM.format(_KEEPER), _top()],
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            **umask.of_login(),
        )
    threading.Thread(target=process.wait, daemon=True).start()
    return ours


async def _connected(id: str) -> Optional[RunClient]:
    """A connection to the keeper of a run; None if there is none that answers."""
    path = _path(id)
    try:
        keeper = RunClient(_Stream(*await asyncio.open_unix_connection(path)))
    except ConnectionRefusedError:
        with contextlib.suppress(FileNotFoundError):
            if time.time() - os.stat(path).st_mtime > LATE:
                os.unlink(path)  # its keeper was killed, with the host perhaps
        return None
    except OSError:
        return None
    try:
        await with_timeout(keeper.begin(), LIMIT)
    except (OSError, ValueError, asyncio.TimeoutError):
        keeper.close()
        return None
    return keeper


def _ids() -> List[str]:
    """The runs that have a keeper on this host."""
    names = os.listdir(run_folder())
    return [name[4:-5] for name in names if name.startswith("run-") and name.endswith(".sock")]


def _path(id: str) -> str:
    """The socket of the keeper of the run *id*."""
    if not id.isalnum():
        raise _unknown(id)
    return os.path.join(run_folder(), "run-%s.sock" % id)


def _top() -> str:
    """The folder in which the agent's package is."""
    folder = os.path.abspath(__file__)
    for _ in range(len(__name__.split("."))):
        folder = os.path.dirname(folder)
    return folder


def _check(request: requests.StartRun) -> None:
    if not request.command or not request.command[0]:
        raise OperationError("INVALID", "The command must begin with a program.")
    if any("\0" in word for word in request.command):
        raise OperationError("INVALID", "A command can't have NUL characters.")
    if "\0" in (request.cwd or ""):
        raise _no_folder(request.cwd or "")


def _no_folder(cwd: str) -> OperationError:
    return OperationError("NO_FOLDER", "The folder %s does not exist on the host." % cwd)


def _unknown(id: str) -> OperationError:
    return OperationError("NOT_FOUND", "The run %s does not exist on the host." % id)


def _killed(id: str, keeper: RunClient) -> RunEnd:
    """The end of a run whose keeper was killed: the command is killed, too."""
    if keeper.pid:
        signal_tree(keeper.pid, signal.SIGKILL)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(_path(id))
    seconds = asyncio.get_running_loop().time() - keeper.begun
    return {"code": None, "signal": signal.SIGKILL, "cause": "", "message": "",
            "seconds": round(seconds, 3)}  # fmt: skip
