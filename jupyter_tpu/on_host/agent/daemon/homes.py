"""The home folders that are kept in a bucket: saved when they have not changed for a while, when
Google announces an end, and when somebody asks for it. A process in an environment does it: see
`home.program`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import time
import traceback
from typing import Any, Callable, Dict, Optional, cast

from ..home import state
from ..home.chosen import TooManyFiles, chosen_files
from ..protocol import requests, umask
from ..protocol.process_env import process_environment
from ..protocol.records import HomeReport
from ..protocol.timeouts import cancel_all, with_timeout
from .handlers import OperationError, handles

#: Seconds between two looks for changes, at most.
LOOK_SECONDS = 30.0
#: Seconds after which they are saved although they change all the time, and after which a save that
#: has failed is tried again.
LATEST_SECONDS, RETRY_SECONDS = 900.0, 300.0
#: Seconds without a word of the program after which it hangs. It says nothing while it reads what
#: it has to compare.
STALLED_SECONDS = 900.0
#: Bytes of a line of the program.
_LONGEST_LINE = 4 << 20
_DOES = ("save", "restore", "adopt", "forget")


class HomeFolders:
    """sources: what Python runs as this agent. changed: called when `report` is another one."""

    def __init__(self, sources: str, changed: Callable[[], None]) -> None:
        self._sources = sources
        self._changed = changed
        self._setting = self._read()
        self._outcome = (state.read(state.STATE) or {}).get("outcome") or None
        self._task: "Optional[asyncio.Future[None]]" = None
        self._running: Dict[str, str] = {"id": "", "do": ""}
        self._progress = (0, 0)
        self._saved = ""  # the digest of what was saved last

    def _read(self) -> Optional[Dict[str, Any]]:
        """What was chosen, if no agent of another version cares for it."""
        noted = state.read(state.SETTING) or {}
        return noted.get("setting") if noted.get("sources") == self._sources else None

    @property
    def active(self) -> bool:
        """Whether this process is needed for it."""
        return self._setting is not None or self._task is not None

    def report(self) -> Optional[HomeReport]:
        """None if nothing was chosen, and nothing was asked for."""
        if self._setting is None and self._task is None and self._outcome is None:
            return None
        done, total = self._progress
        report: Any = {
            "setting": state.setting_digest(self._setting) if self._setting is not None else "",
            "id": self._running["id"],
            "doing": self._running["do"],
            "done": done,
            "total": total,
            "outcome": self._outcome,
        }
        return cast(HomeReport, report)

    @handles(requests.AskHomeRequest)
    async def _ask(self, request: requests.AskHomeRequest) -> requests.HomeAnswer:
        if request.do == "set":
            self._set(cast("Optional[Dict[str, Any]]", request.setting))
        elif request.do == "cancel":
            if self._task is not None and request.id in ("", self._running["id"]):
                await cancel_all([self._task])
        elif request.do in _DOES and request.id not in (self._running["id"], self._last_id()):
            self._begin(request.do, cast("Optional[Dict[str, Any]]", request.setting), request.id)
        return {"home": self.report()}

    def _last_id(self) -> str:
        return str((self._outcome or {}).get("id", ""))

    def _set(self, setting: Optional[Dict[str, Any]]) -> None:
        if setting == self._setting == self._read():
            return
        if setting is None:
            state.write(state.SETTING, None)
            state.note_outcome({})
            self._outcome = None
        else:
            if self._setting is None or state.copy_of(setting) != state.copy_of(self._setting):
                self._outcome = None  # of another copy
            state.write(state.SETTING, {"setting": setting, "sources": self._sources})
        self._setting, self._saved = setting, ""
        self._changed()

    def remove(self) -> None:
        """Nothing is saved any more."""
        with contextlib.suppress(OSError):
            self._set(None)

    def _begin(self, do: str, setting: Optional[Dict[str, Any]], id: str) -> None:
        setting = setting or self._setting
        if setting is None:
            raise OperationError("NOT_FOUND", "No home folders were chosen for this TPU.")
        if self._task is not None:
            return  # it is said what runs
        self._running, self._progress = {"id": id, "do": do}, (0, 0)
        self._task = asyncio.ensure_future(self._carry_out(do, setting, id))
        self._changed()

    async def _carry_out(self, do: str, setting: Dict[str, Any], id: str) -> None:
        outcome: Dict[str, Any] = {"state": "cancelled"}
        try:
            outcome = await self._run({**setting, "do": do})
        except Exception as error:
            traceback.print_exc()
            outcome = {"state": "failed", "why": "%s: %s" % (type(error).__name__, error)}
        finally:
            self._task = None
            self._running, self._progress = {"id": "", "do": ""}, (0, 0)
            self._outcome = {"id": id, "do": do, "at": time.time(), **outcome}
            with contextlib.suppress(OSError):  # the disk is full
                state.note_outcome(self._outcome)
            self._changed()

    async def _run(self, request: Dict[str, Any]) -> Dict[str, Any]:
        """The outcome that the program says."""
        state.make_folder()
        try:
            process = await asyncio.create_subprocess_exec(
                request["python"],
                self._sources,
                "home",
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                limit=_LONGEST_LINE,
                env=process_environment(request["python"]),
                **umask.of_login(),
            )
        except OSError as error:
            return {
                "state": "failed",
                "why": "The environment's Python can't be run: %s." % error,
            }
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            # By stdin, because the list of processes must not show the key.
            process.stdin.write(json.dumps(request).encode())
            process.stdin.close()
            outcome: Dict[str, Any] = {}
            while True:
                line = await with_timeout(process.stdout.readline(), STALLED_SECONDS)
                if not line:
                    break
                said = json.loads(line)
                if "progress" in said:
                    done, total = said["progress"]
                    self._progress = int(done), int(total)
                outcome = said.get("outcome", outcome)
            return outcome or {"state": "failed", "why": "Its program ended without an answer."}
        except asyncio.TimeoutError:
            why = "It stood still for %d minutes." % (STALLED_SECONDS / 60)
            return {"state": "failed", "why": why}
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()

    # ---- without being asked

    def save_soon(self) -> None:
        """The end of this host is near."""
        if self._setting is not None and self._task is None:
            self._begin("save", None, os.urandom(8).hex())

    async def run(self) -> None:
        """Saves after changes, until it is cancelled."""
        seen, since, tried = "", 0.0, 0.0
        while True:
            setting = self._setting
            if setting is not None and self._read() != setting:
                self._setting = setting = self._read()
            idle = LOOK_SECONDS if setting is None else float(setting["idle"])
            await asyncio.sleep(max(0.2, min(LOOK_SECONDS, idle / 2)))
            if setting is None or self._task is not None or setting is not self._setting:
                continue
            try:
                now = await asyncio.get_running_loop().run_in_executor(None, _digest, setting)
            except OSError:
                continue
            if setting is not self._setting or self._task is not None:
                continue  # it was changed, or something began, meanwhile
            moment = time.monotonic()
            if now != seen:
                seen, since = now, moment
            if now == self._saved:
                tried = moment
                continue
            quiet = moment - since >= idle
            failed = (self._outcome or {}).get("state") == "failed"
            pause = RETRY_SECONDS if failed else 0.0 if quiet else LATEST_SECONDS
            if (quiet or moment - tried >= LATEST_SECONDS) and moment - tried >= pause:
                tried = moment
                self._begin("save", None, os.urandom(8).hex())
                await self._ended()
                if (self._outcome or {}).get("state") == "saved":
                    self._saved = now

    async def _ended(self) -> None:
        while self._task is not None:
            await asyncio.wait({self._task})

    async def close(self) -> None:
        if self._task is not None:
            await cancel_all([self._task])


def _digest(setting: Dict[str, Any]) -> str:
    try:
        return chosen_files(os.path.expanduser("~"), setting["folders"]).digest()
    except TooManyFiles:
        return "too many"  # which the save says
