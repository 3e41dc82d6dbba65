"""Handles requests about the guard: its rule, and its process, which runs without the daemon."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import subprocess
import time
from typing import Any, Dict, Optional

from ..guard import files
from ..protocol import requests
from ..protocol.paths import boot
from .handlers import OperationError, handles
from .single_process import GUARD_SILENT_SECONDS, is_silent, living_holder, start_process

#: Seconds to wait until the guard has seen a change.
SEEN_SECONDS = 10.0
#: What a client says of a rule.
_RULE = list(requests.SetGuardRequest.__annotations__)


class GuardOperations:
    """sources: what Python runs as this agent."""

    def __init__(self, sources: str) -> None:
        self._sources = sources
        self._process: Optional["subprocess.Popen[bytes]"] = None

    def resume(self) -> None:
        """Starts the guard if there is a rule and none runs, after a restart for example."""
        rule = files.read(files.RULE)
        if rule is not None:
            self._start({**rule, "sources": self._sources})

    def report(self) -> Any:
        """The rule, and what the guard has seen last; None if there is no rule."""
        rule = files.read(files.RULE)
        if rule is None:
            return None
        if rule.get("sources") == self._sources:
            with contextlib.suppress(OSError):  # the disk is full
                self._ensure_process()  # someone may have killed it
        report = files.read(files.REPORT) or {}
        if (report.get("number"), report.get("boot")) != (rule.get("number"), boot()):
            report = {}  # it has not looked yet
        return {
            "rule": {name: rule.get(name) for name in _RULE},
            "host": bool(rule.get("host")),
            "refused": rule.get("refused"),
            "phase": report.get("phase", "watching"),
            "reason": report.get("reason", ""),
            "ends": report.get("ends"),
            "busy": report.get("busy"),
            "problem": report.get("problem"),
            "no_restart": report.get("no_restart", ""),
        }

    @handles(requests.SetGuardRequest)
    async def _set(self, request: requests.SetGuardRequest) -> requests.GuardAnswer:
        rule = {name: getattr(request, name) for name in _RULE}
        from ..guard.google import GoogleError, id_of, require_permission  # few hosts have a guard

        reads_peers = (request.hosts or 1) > 1
        refused, loop = None, asyncio.get_running_loop()
        try:
            if not request.worker:
                asked = functools.partial(
                    require_permission, request.node, request.action, reads_peers=reads_peers
                )
                await loop.run_in_executor(None, asked)
            if not rule["node_id"]:
                rule["node_id"] = await loop.run_in_executor(None, id_of, request.node)
        except GoogleError as error:
            if reads_peers or not rule["node_id"]:
                problem = error.problem
                raise OperationError(
                    problem["reason"], problem["message"], problem["hint"]
                ) from None
            refused = error.problem
        number = os.urandom(16).hex()
        self._start({**rule, "number": number, "sources": self._sources, "keep": None,
                     "host": refused is None, "refused": refused})  # fmt: skip
        return await self._seen("number", number)

    @handles(requests.GetGuardRequest)
    async def _show(self, request: requests.GetGuardRequest) -> requests.GuardAnswer:
        return {"guard": self.report()}

    @handles(requests.DelayGuardRequest)
    async def _delay(self, request: requests.DelayGuardRequest) -> requests.GuardAnswer:
        rule = files.read(files.RULE)
        if rule is None:
            raise OperationError("NOT_FOUND", "The TPU has no guard.")
        number = os.urandom(16).hex()
        keep = {"number": number, "seconds": request.seconds}
        self._start({**rule, "keep": keep, "sources": self._sources})
        return await self._seen("keep", number)

    @handles(requests.NoteClientStopRequest)
    async def _client_stops(self, request: requests.NoteClientStopRequest) -> requests.GuardAnswer:
        rule = files.read(files.RULE)
        if rule is not None:
            self._start({**rule, "client_stops": request.stops})
        return {"guard": self.report()}

    async def _seen(self, key: str, number: str) -> requests.GuardAnswer:
        """The answer when the guard has seen what has this number, or after some seconds."""
        deadline = time.monotonic() + SEEN_SECONDS
        while (files.read(files.REPORT) or {}).get(key) != number:
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(0.1)
        return {"guard": self.report()}

    @handles(requests.RemoveGuardRequest)
    async def _remove(self, request: requests.RemoveGuardRequest) -> requests.GuardAnswer:
        self.remove()
        return {"guard": None}

    def remove(self) -> None:
        """Removes the rule; the guard ends soon."""
        files.remove(files.RULE)
        files.remove(files.REPORT)

    def _start(self, rule: Dict[str, Any]) -> None:
        """Makes this the rule, of a guard of this version."""
        files.write(files.RULE, rule)
        self._ensure_process()

    def _ensure_process(self) -> None:
        """Starts the guard unless one runs, which may be that of an earlier daemon."""
        if not is_silent(files.guard_path(files.LOCK), GUARD_SILENT_SECONDS):
            if self._process is not None and self._process.poll() is None:
                return
            holder = living_holder(files.guard_path(files.LOCK))
            if holder is not None and holder.get("sources") == self._sources:
                return
        self._process = start_process(self._sources, "guard", files.guard_path("log"))
