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
from typing import Any, Awaitable, Callable, Dict, Optional

from ..protocol.process_env import process_environment
from .handed_over import HandedOverRun, Handover, claim, handover_socket, waiting
from .operation_error import OperationError
from .run_process import RunProcess

#: Seconds without a client after which a command is ended.
ABANDONED = 300.0
#: Runs that have ended and are still known.
KEPT = 32


class Runs:
    """The runs of one daemon, and its operations on them."""

    def __init__(self) -> None:
        self._runs: Dict[str, RunProcess] = {}
        self._taking_over = asyncio.Lock()

    def operations(self) -> "Dict[str, Callable[[Dict[str, Any]], Awaitable[Dict[str, Any]]]]":
        """For clients. All take the ``id`` of the run."""
        return {
            "run": self._run,
            "read_run": self._read,
            "write_run": self._write,
            "stop_run": self._stop,
        }

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

    async def _run(self, params: Dict[str, Any]) -> Dict[str, Any]:
        """Starts a ``command`` (a list), and answers as ``read_run`` from 0.

        Optional: ``cwd`` (relative to the home folder), ``python`` (of an environment), ``env``
        (variables), ``limit`` (seconds), ``input`` (whether there will be any); ``from``; ``begun``
        if the client has tried to start it without the agent: "" or "started". A known id starts
        nothing.
        """
        id = str(params["id"])
        if not await self._find(id):
            if "begun" in params:
                await self._claim(params)
            ended = [each for each, run in self._runs.items() if run.ended is not None]
            for each in ended[: max(0, len(ended) + 1 - KEPT)]:
                del self._runs[each]
            self._runs[id] = _start(params)
        return await self._read({"from": 0, **params})

    async def _read(self, params: Dict[str, Any]) -> Dict[str, Any]:
        """Output ``from`` an offset on: see `RunProcess.read`."""
        return await (await self._get(params)).read(int(params["from"]))

    async def _write(self, params: Dict[str, Any]) -> Dict[str, Any]:
        """Writes ``data`` (base64), which begin at the offset ``from``, to its input, and closes
        that if ``end``. Answers whether it still ``reads``.
        """
        data = base64.b64decode(params["data"])
        run = await self._get(params)
        return {"reads": await run.write(int(params["from"]), data, bool(params.get("end")))}

    async def _stop(self, params: Dict[str, Any]) -> Dict[str, Any]:
        """Ends it, and answers whether it has ``ended``."""
        run = await self._get(params)
        await run.stop("stopped")
        return {"ended": run.ended is not None}

    async def _get(self, params: Dict[str, Any]) -> RunProcess:
        run = await self._find(str(params["id"]))
        if run is None:
            raise _unknown(params)
        run.client = params["who"]
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

    async def _claim(self, params: Dict[str, Any]) -> None:
        """Raises NOT_FOUND if the run had begun and is not there any more."""
        if params["begun"]:
            raise _unknown(params)
        try:
            claim(str(params["id"]))
        except FileExistsError:
            raise _unknown(params) from None


def _unknown(params: Dict[str, Any]) -> OperationError:
    return OperationError("NOT_FOUND", "The run %s does not exist on the host." % params["id"])


def _start(params: Dict[str, Any]) -> RunProcess:
    command = [str(word) for word in params["command"]]
    if not command or not command[0]:
        raise OperationError("INVALID", "The command must begin with a program.")
    if any("\0" in word for word in command):
        raise OperationError("INVALID", "A command can't have NUL characters.")
    home, cwd = os.path.expanduser("~"), str(params.get("cwd") or "")
    folder = os.path.join(home, os.path.expanduser(cwd))
    if "\0" in cwd or not os.path.isdir(folder):
        raise OperationError("NO_FOLDER", "The folder %s does not exist on the host." % cwd)
    limit = params.get("limit")
    return RunProcess(
        command,
        folder,
        process_environment(str(params.get("python") or ""), params.get("env")),
        None if limit is None else float(limit),
        bool(params.get("input")),
    )
