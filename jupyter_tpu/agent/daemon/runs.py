"""Commands that run on this host for a client, and end with it.

A client starts one with an id of its own and asks for its output until that has ended. Each answer
says how far the output goes; the next request acknowledges that by its offset. So a lost answer is
just asked for again, on another connection if need be. What is not acknowledged is kept here up to
`run_process.BUFFER` bytes; the command waits while that is full. If no client is connected for
`ABANDONED` seconds the command is ended.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import time
from typing import Any, Dict, Optional, Union

from ..protocol import requests
from ..protocol.process_env import process_environment
from .handed_over import HandedOverRun, Handover, claim, handover_socket, waiting
from .handlers import OperationError, handles
from .run_process import RunProcess

#: Seconds without a client after which a command is ended.
ABANDONED = 300.0
#: Runs that have ended and are still known.
KEPT = 32

_RunRequest = Union[requests.StartRun, requests.ReadRun, requests.WriteRun, requests.StopRun]


class Runs:
    """The runs of one daemon, and what handles requests about them."""

    def __init__(self) -> None:
        self._runs: Dict[str, RunProcess] = {}
        self._taking_over = asyncio.Lock()

    @property
    def running(self) -> bool:
        """Whether any command runs."""
        return any(run.ended is None for run in self._runs.values())

    def processes(self) -> Dict[str, int]:
        """The process ids of the commands that run, by the ids of the runs."""
        pids = {id: run.pid for id, run in self._runs.items()}
        return {id: pid for id, pid in pids.items() if pid is not None}

    async def take_over_all(self) -> None:
        """Takes over what has begun on this host before this daemon did."""
        for id in waiting():
            await self._find(id)

    def client_left(self, client: Any) -> None:
        """A connection was closed."""
        for run in self._runs.values():
            if run.client is client:
                run.client, run.since_client = None, time.monotonic()

    async def end_abandoned(self) -> None:
        """Ends the commands whose client has been away for too long."""
        now = time.monotonic()
        abandoned = [
            run
            for run in self._runs.values()
            if run.client is None and run.ended is None and now - run.since_client > ABANDONED
        ]
        await asyncio.gather(*(run.stop("abandoned") for run in abandoned))

    async def close(self) -> None:
        """Ends all commands."""
        await asyncio.gather(*(run.kill() for run in self._runs.values()))

    @handles(requests.StartRun)
    async def _run(self, request: requests.StartRun) -> requests.RunOutput:
        if not await self._find(request.id):
            if request.begun is not None:
                self._claim(request)
            ended = [id for id, run in self._runs.items() if run.ended is not None]
            for id in ended[: max(0, len(ended) + 1 - KEPT)]:
                del self._runs[id]
            self._runs[request.id] = _start(request)
        return await (await self._get(request)).read(request.start)

    @handles(requests.ReadRun)
    async def _read(self, request: requests.ReadRun) -> requests.RunOutput:
        return await (await self._get(request)).read(request.start)

    @handles(requests.WriteRun)
    async def _write(self, request: requests.WriteRun) -> requests.Reads:
        data = base64.b64decode(request.data)
        run = await self._get(request)
        return {"reads": await run.write(request.start, data, request.end)}

    @handles(requests.StopRun)
    async def _stop(self, request: requests.StopRun) -> requests.Ended:
        run = await self._get(request)
        await run.stop("stopped")
        return {"ended": run.ended is not None}

    async def _get(self, request: _RunRequest) -> RunProcess:
        run = await self._find(request.id)
        if run is None:
            raise _unknown(request.id)
        run.client = request.client
        return run

    async def _find(self, id: str) -> Optional[RunProcess]:
        """One that is known here, or began before this daemon and is taken over."""
        async with self._taking_over:
            path = handover_socket(id)
            if id not in self._runs and path and os.path.exists(path):
                loop = asyncio.get_running_loop()
                with contextlib.suppress(OSError, ValueError):
                    handover = await loop.run_in_executor(None, Handover, path)
                    run = HandedOverRun(handover)
                    await run.wait_started()
                    self._runs[id] = run
        return self._runs.get(id)

    def _claim(self, request: requests.StartRun) -> None:
        """Raises NOT_FOUND if the run had begun and is not there any more."""
        if request.begun:
            raise _unknown(request.id)
        try:
            claim(request.id)
        except FileExistsError:
            raise _unknown(request.id) from None


def _unknown(id: str) -> OperationError:
    return OperationError("NOT_FOUND", "The run %s does not exist on the host." % id)


def _start(request: requests.StartRun) -> RunProcess:
    command = request.command
    if not command or not command[0]:
        raise OperationError("INVALID", "The command must begin with a program.")
    if any("\0" in word for word in command):
        raise OperationError("INVALID", "A command can't have NUL characters.")
    home, cwd = os.path.expanduser("~"), request.cwd or ""
    folder = os.path.join(home, os.path.expanduser(cwd))
    if "\0" in cwd or not os.path.isdir(folder):
        raise OperationError("NO_FOLDER", "The folder %s does not exist on the host." % cwd)
    environment = process_environment(request.python or "", request.env)
    return RunProcess(command, folder, environment, request.limit, request.input)
