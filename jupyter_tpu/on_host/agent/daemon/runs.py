"""Commands that run on this host for a client, and end without it.

The command and its output belong to its keeper (`keeper.run_keeper`), which this daemon or a client
without a daemon has started, and which is found by its socket. The daemon only starts it, under an
id of the client, and answers with its first output: for a short command that is all, and takes one
request. Then the client asks the keeper.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import time
from typing import Any, Dict, List, NamedTuple, Optional

from ..protocol import requests
from ..protocol.paths import run_folder, run_socket
from ..protocol.records import RunEnd
from ..protocol.run_client import (
    LATE_SECONDS,
    Output,
    RunClient,
    RunRefused,
    SocketStream,
    encoded_order,
)
from ..protocol.timeouts import with_timeout
from .handlers import OperationError, handles
from .keeper_starter import KeeperStarter

#: Seconds that a start waits for output; and if the client has input, which would wait, too.
OUTPUT_SECONDS, WAIT_INPUT = 2.0, 0.05
#: Runs whose end was told to a client and is still known, and seconds for which it may come back.
KEPT_RUNS, RETURN_SECONDS = 32, 300.0
#: Seconds in which a keeper says that it is there.
START_SECONDS = 10.0


class _End(NamedTuple):
    """The only answer about a run that has ended, whom it was given, and when."""

    answer: requests.FirstRunOutput
    client: Any
    time: float


class Runs:
    """The runs of this host, and what handles requests about them.

    starter: of their keepers.
    """

    def __init__(self, starter: KeeperStarter) -> None:
        self._ends: Dict[str, _End] = {}  # the oldest first
        self._starting: Dict[str, asyncio.Lock] = {}  # one start of a run at a time
        self._starter = starter

    def awaited(self, leaving: Any = None) -> bool:
        """Whether a client may come back for an end, one other than that which is *leaving*."""
        since = time.monotonic() - RETURN_SECONDS
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

    async def end_all(self) -> None:
        """Ends all commands at once."""
        for id in _ids():
            keeper = await _connected(id)
            if keeper is not None:
                with contextlib.suppress(ConnectionError):
                    await keeper.kill()
                keeper.close()

    @handles(requests.StartRunRequest)
    async def _run(self, request: requests.StartRunRequest) -> requests.FirstRunOutput:
        async with self._starting.setdefault(request.id, asyncio.Lock()):
            if request.id in self._ends:
                return self._ends[request.id].answer
            output: Output = []
            try:
                keeper = await _connected(request.id) or await self._start(request)
            except RunRefused as refusal:
                if refusal.what == "folder":
                    raise _no_folder(request.cwd or "") from None
                if refusal.what != "program":
                    raise _unknown(request.id) from None
                ended: Optional[RunEnd] = refusal.end(request.command[0])
            else:
                output, _, ended = await keeper.read(
                    0, WAIT_INPUT if request.input else OUTPUT_SECONDS
                )
                if ended is not None:
                    await keeper.forget()
                keeper.close()
            encoded: Any = [(stream, base64.b64encode(data).decode()) for stream, data in output]
            answer: requests.FirstRunOutput = {"output": encoded, "ended": ended}
            if ended is not None:
                self._ends[request.id] = _End(answer, request.client, time.monotonic())
                for id in list(self._ends)[:-KEPT_RUNS]:
                    del self._ends[id]
        self._starting.pop(request.id, None)
        return answer

    @handles(requests.StopRunRequest)
    async def _stop(self, request: requests.StopRunRequest) -> requests.Ended:
        keeper = await _connected(request.id)
        if keeper is None:
            raise _unknown(request.id)
        try:
            await keeper.stop()
        finally:
            keeper.close()
        return {"ended": True}

    async def _start(self, request: requests.StartRunRequest) -> RunClient:
        """Raises RunRefused if the folder or the program can't be used."""
        if not request.command or not request.command[0]:
            raise OperationError("INVALID", "The command must begin with a program.")
        if any("\0" in word for word in request.command):
            raise OperationError("INVALID", "A command can't have NUL characters.")
        if "\0" in (request.cwd or ""):
            raise _no_folder(request.cwd or "")
        line = self._starter.start()
        keeper = RunClient(SocketStream(*await asyncio.open_unix_connection(sock=line)))
        try:
            await keeper.begin(encoded_order(request, run_socket(run_folder(), request.id)))
        except BaseException:
            keeper.close()
            raise
        return keeper


async def _connected(id: str) -> Optional[RunClient]:
    """A connection to the keeper of a run; None if there is none that answers."""
    if not id.isalnum():
        raise _unknown(id)
    path = run_socket(run_folder(), id)
    try:
        keeper = RunClient(SocketStream(*await asyncio.open_unix_connection(path)))
    except ConnectionRefusedError:
        with contextlib.suppress(FileNotFoundError):
            if time.time() - os.stat(path).st_mtime > LATE_SECONDS:
                os.unlink(path)  # its keeper was killed, with the host perhaps
        return None
    except OSError:
        return None
    try:
        await with_timeout(keeper.begin(), START_SECONDS)
    except (OSError, ValueError, asyncio.TimeoutError):
        keeper.close()
        return None
    return keeper


def _ids() -> List[str]:
    """The runs that have a keeper on this host."""
    names = os.listdir(run_folder())
    return [name[4:-5] for name in names if name.startswith("run-") and name.endswith(".sock")]


def _no_folder(cwd: str) -> OperationError:
    return OperationError("NO_FOLDER", "The folder %s does not exist on the host." % cwd)


def _unknown(id: str) -> OperationError:
    return OperationError("NOT_FOUND", "The run %s does not exist on the host." % id)
