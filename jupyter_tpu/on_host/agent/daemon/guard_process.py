"""The guard's process: looks at the host again and again, and acts when its time has come.

It is started by the daemon and by cron, and continues without client and daemon. It ends when its
rule is removed, and when another version of the agent takes it over.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
import traceback
from typing import Any, Dict, List, Optional

from ..guard import activity, files, processes, restart
from ..guard.decision import GuardDecision, GuardRule, Verdict
from ..guard.google import GoogleError, carry_out, publish, published
from ..guard.others import ActivityPublisher, ActivityReader
from ..keeper.job_log import FINAL
from ..protocol.chips import holders
from ..protocol.paths import boot, run_folder
from ..protocol.process_tree import descendants
from ..protocol.timeouts import exit_within, with_timeout
from ..serving.watch import LOOK_SECONDS as SERVER_LOOK_SECONDS
from .homes import HomeFolders
from .jobs import HostJobs
from .keeper_starter import KeeperStarter
from .keepers import Keepers
from .load import read_sample
from .single_process import (
    GUARD_SILENT_SECONDS,
    become_single,
    end_holder,
    is_silent,
    living_holder,
    note_alive,
)

#: Seconds between two looks at the host, and between two looks for another rule.
LOOK_SECONDS, RULE_PAUSE = 30.0, 1.0
#: Seconds by which the end has to change to be reported again.
STEADY_SECONDS = 20.0
#: Seconds for which the guard of another version may still hold the lock.
TAKE_OVER = 30.0
#: Seconds for Google's answers to one request, with those of the metadata server.
GOOGLE_SECONDS = 120.0
#: Seconds in which the process ends when its rule is gone.
END_SECONDS = 10.0
#: What of a rule is read at once when it changes.
_RULE_KEYS = "number", "keep", "sources"
#: The limits that a running cell is told about.
_WHY = {"time": "its time limit is reached", "cost": "its cost limit is reached"}
#: States of a kernel in which no one waits for it.
_QUIET = ("idle", "dead")


def run_guard(sources: str) -> int:
    """The process's main: one per user, whose lock also says of which version it is.

    Waits for the end of one of another version, which sees that its rule was taken over.
    """
    files.make_folder()
    lock = files.guard_path(files.LOCK)
    deadline = time.monotonic() + TAKE_OVER
    while not become_single(lock, sources=sources):
        holder = living_holder(lock)
        same = holder is not None and holder.get("sources") == sources
        if same and is_silent(lock, GUARD_SILENT_SECONDS):
            deadline = 0.0
        elif same or not _is_mine(files.read(files.RULE), sources):
            return 0
        if time.monotonic() > deadline and not (holder and end_holder(lock, holder)):
            return 0
        time.sleep(RULE_PAUSE / 4)
    asyncio.run(_guard(sources))
    return 0


async def _guard(sources: str) -> None:
    try:
        await GuardProcess(sources).run()
    finally:
        exit_within(END_SECONDS)


class GuardProcess:
    """sources: what Python runs as this agent."""

    def __init__(self, sources: str) -> None:
        self._sources = sources
        starter = KeeperStarter()
        self._keepers = Keepers(run_folder(), starter)
        self._jobs = HostJobs(starter)
        self._times: activity.Times = {}
        self._measured = 0.0
        self._problem: Optional[Dict[str, Any]] = None  # why Google has refused
        self._speaker = ActivityPublisher()
        self._listener: Optional[ActivityReader] = None
        self._peer_error: Optional[Dict[str, Any]] = None  # why hosts can't tell each other
        self._keep: Optional[str] = None  # the last one that was heard
        self._number: Optional[str] = None  # of the rule
        self._decision: Optional[GuardDecision] = None
        self._asked = False  # Google, which has not refused it
        self._done = False  # the limits of time and cost
        self._announced = False  # whether kernels know of the end that comes
        self._homes: Optional[HomeFolders] = None  # what saves them before that
        self._no_restart = ""  # why it does not start with the host
        self._ends: Optional[float] = None

    async def run(self) -> None:
        """Until the rule is gone, or another version's. A failure ends a look, and no more."""
        self._no_restart = await _loop().run_in_executor(None, restart.enable, self._sources)
        rule = files.read(files.RULE)
        while rule is not None and _is_mine(rule, self._sources):
            note_alive(files.guard_path(files.LOCK))
            try:
                verdict = await self._look(rule)
            except Exception:
                traceback.print_exc()
                verdict = None
            rule = await self._next_rule(rule, verdict)
        if rule is None:
            await _loop().run_in_executor(None, restart.disable)

    async def _look(self, rule: Dict[str, Any]) -> Verdict:
        if self._decision is None:
            self._decision = self._resume(rule)
        decision = self._decision
        if self._number not in (None, rule["number"]):
            self._done, self._problem, self._listener = False, None, None
            decision.change(self._limits(rule))
        self._number = rule["number"]
        keep = rule.get("keep")
        if keep and keep["number"] != self._keep:
            self._keep = keep["number"]
            decision.keep(float(keep["seconds"]))
        busy = await self._busy_together(rule, await self._busy())
        verdict = decision.look(None if busy is None else bool(busy), time.time(), _uptime())
        # Noted before Google is asked: its answer may come when this host is already off.
        asked = self._asked and verdict.phase != "watching"
        self._asked = verdict.act or decision.agreed or asked
        self._save(rule, verdict, busy, decision)
        await self._tell_kernels(rule, verdict)
        if verdict.act:
            self._asked = await self._act(rule, decision)
            self._save(rule, verdict, busy, decision)
        return verdict

    def _resume(self, rule: Dict[str, Any]) -> GuardDecision:
        """With what an earlier process has noted of this rule."""
        report = files.read(files.REPORT) or {}
        if report.get("number") != rule["number"]:
            report = {}
        self._keep = report.get("keep")
        self._done = bool(report.get("done"))
        state = report.get("state")
        if report and report.get("boot") != boot():
            # What was counted before does not count. If it was stopped when that was due, the
            # limits of time and cost have done what they are for. After a delete there is no start.
            state = None
            asked = report.get("asked") or rule.get("client_stops")
            self._done |= bool(asked) and rule["action"] == "stop"
        return GuardDecision(self._limits(rule), state)

    def _limits(self, rule: Optional[Dict[str, Any]]) -> GuardRule:
        fields = rule or {}
        return GuardRule(
            idle=fields.get("idle"),
            until=None if self._done else fields.get("until"),
            cost=None if self._done else fields.get("cost_until"),
            notice=float(fields.get("notice", 0.0)),
        )

    async def _tell_kernels(self, rule: Dict[str, Any], verdict: Verdict) -> None:
        """The running cells show once that the end has been announced, and the functions run that
        were chosen for that; a TPU that is idle has none.
        """
        left, why = verdict.left, _WHY.get(verdict.reason)
        if why is None or left is None or left > float(rule["notice"]):
            if self._announced:
                self._announced = False
                await self._keepers.announce("guard", "")
        elif not self._announced:
            self._announced = True
            what = "deletes" if rule["action"] == "delete" else "stops"
            end = time.strftime("%H:%M UTC", time.gmtime(time.time() + left))
            keep = "jupyter tpu guard keep %s" % rule["node"].rpartition("/")[2]
            text = "The guard of this TPU %s it at %s: %s. That ends this kernel. To keep it: %s"
            self._homes = HomeFolders(self._sources, lambda: None)
            self._homes.save_soon()
            await self._keepers.announce("guard", text % (what, end, why, keep))

    async def _act(self, rule: Dict[str, Any], decision: GuardDecision) -> bool:
        """Asks Google; False if it has refused, or could not be asked."""
        what = rule["node"], rule["node_id"], rule["action"]
        try:
            await with_timeout(_loop().run_in_executor(None, carry_out, *what), GOOGLE_SECONDS)
        except Exception as error:
            self._problem = _problem_of(error)
            decision.asked(False)
            return isinstance(error, asyncio.TimeoutError) or (
                isinstance(error, GoogleError) and error.unknown
            )
        self._problem = None
        decision.asked(True)
        return True

    async def _next_rule(
        self, rule: Dict[str, Any], verdict: Optional[Verdict]
    ) -> Optional[Dict[str, Any]]:
        """The rule when it is time for another look: it is another one, or some time has passed."""
        left = min(LOOK_SECONDS, (verdict and verdict.left) or LOOK_SECONDS)
        deadline = time.monotonic() + left
        while True:
            await asyncio.sleep(max(0.05, min(RULE_PAUSE, deadline - time.monotonic())))
            now = files.read(files.RULE)
            if now is None and files.exists(files.RULE):
                now = rule  # it can't be read for now
            if now is None or any(now.get(key) != rule.get(key) for key in _RULE_KEYS):
                return now
            if time.monotonic() >= deadline:
                return rule

    async def _busy_together(
        self, rule: Dict[str, Any], busy: Optional[List[str]]
    ) -> Optional[List[str]]:
        """What keeps the TPU busy, where it has several hosts: host 0 reads what
        the others publish, but only if it has nothing to do itself.
        """
        hosts, number, loop = rule.get("hosts") or 1, rule.get("worker") or 0, _loop()
        if hosts == 1 or (number == 0 and busy != []):
            return busy
        try:
            if number:
                text = self._speaker.text(busy)
                await with_timeout(loop.run_in_executor(None, publish, text), GOOGLE_SECONDS)
            else:
                heard = loop.run_in_executor(None, published, rule["node"])
                texts = await with_timeout(heard, GOOGLE_SECONDS)
                self._listener = self._listener or ActivityReader(hosts)
                self._listener.receive(texts, _uptime())
                busy = self._listener.busy(_uptime())
        except Exception as error:
            self._peer_error = _problem_of(error)
            return busy if number else None
        self._peer_error = None
        return busy

    async def _busy(self) -> Optional[List[str]]:
        """What keeps the host busy, in words; None if that can't be said."""
        try:
            return await self._reasons()
        except Exception:
            traceback.print_exc()  # whatever it is: the TPU does not stop for it
            return None

    async def _reasons(self) -> List[str]:
        reasons: List[str] = []
        table = processes.read_processes()
        sources = os.fsencode(self._sources)
        ours = {process.pid for process in table.values() if sources in process.command}
        kernels = await self._keepers.statuses()
        for kernel in kernels:
            ours |= {kernel["keeper"], *descendants(kernel["keeper"])}
            if kernel["state"] not in _QUIET:
                reasons.append("a kernel")
        for job in await self._jobs.all():
            if job["state"] in FINAL:
                continue
            serving = job.get("serving")
            if serving is None:
                reasons.append("a job")
                continue
            # The work of a server is its requests, not its connections, processes and chips.
            ours |= {job["keeper"], *descendants(job["keeper"])}
            if time.monotonic() - serving["worked"] < LOOK_SECONDS + SERVER_LOOK_SECONDS:
                reasons.append("requests to %s" % job["id"].rpartition("-")[0])
        servers = processes.servers(table, ours)
        reasons += processes.commands(table, servers.sockets)
        reasons += processes.terminals(table, ours)
        reasons += processes.background_programs(table, ours, servers.listening)
        reasons += processes.ray_tasks(table)
        reasons += ["a connection to port %d" % port for port in sorted(servers.ports)]
        compute = activity.chips_compute(await read_sample(kernels))
        if compute:
            reasons.append("its chips")
        elif compute is None and any(holder["pid"] not in ours for holder in holders()):
            reasons.append("a program that uses chips")
        now, moment = activity.processor_times(), time.monotonic()
        if self._times:
            used = activity.processors_used(self._times, now, moment - self._measured)
            if used is None or used > activity.BUSY_PROCESSORS:
                reasons.append("its processors")
        self._times, self._measured = now, moment
        return sorted(set(reasons))

    def _save(
        self,
        rule: Dict[str, Any],
        verdict: Verdict,
        busy: Optional[List[str]],
        decision: GuardDecision,
    ) -> None:
        phase = "ending" if decision.agreed else verdict.phase
        ends = None if verdict.left is None else time.time() + verdict.left
        # That a time comes nearer is no news, and neither are some seconds.
        if ends is None or self._ends is None or abs(ends - self._ends) > STEADY_SECONDS:
            self._ends = ends
        report = {
            "number": rule["number"],
            "keep": self._keep,
            "boot": boot(),
            "done": self._done,
            "asked": self._asked,  # and Google has not refused it
            "state": decision.state(),
            "phase": phase,
            "reason": verdict.reason,
            "ends": self._ends,
            "busy": busy,
            "problem": self._problem or self._peer_error,
            "no_restart": self._no_restart,
        }
        with contextlib.suppress(OSError):  # the disk is full: it continues with what it knows
            files.write(files.REPORT, report)


def _is_mine(rule: Optional[Dict[str, Any]], sources: str) -> bool:
    return rule is not None and rule.get("sources") == sources


def _problem_of(error: Exception) -> Dict[str, Any]:
    if isinstance(error, GoogleError):
        return error.problem
    if isinstance(error, asyncio.TimeoutError):
        return GoogleError(
            "TIMEOUT", "Google has not answered within %.0f s." % GOOGLE_SECONDS
        ).problem
    traceback.print_exc()
    message = "The guard has failed (%s: %s)." % (type(error).__name__, error)
    return GoogleError("INTERNAL", message).problem


def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


def _uptime() -> float:
    """Seconds since the host's start, also those in which it slept, where that is known."""
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()
