"""The guards of TPUs: set, shown, put off and removed on host 0, which decides.

On a TPU of several hosts, the guard of each other host reports whether that host is idle.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Protocol

from msgspec import convert, structs

from ...catalog import API
from ...cloud import Node, NodeName, Tier, is_attached
from ...concurrency import gather_or_cancel
from ...errors import InvalidInput, Reason, TPUError
from ...links import HostName
from ...on_host.agent.protocol import requests
from ...on_host.agent.protocol.declarations import ProtocolRequest
from ..core.connections import ANSWER_SECONDS
from ..core.core import Core
from ..models import (
    Cost,
    Guard,
    GuardAction,
    GuardReason,
    KeepTPU,
    Operation,
    Problem,
    RemoveGuard,
    SetGuard,
)
from ..models.core import future_seconds, seconds_of, timestamp, validated
from ..models.money import counted_cost
from ..money.ledger import Ledger
from ..money.owners import TPUOwners
from .guard_stops import SERVER_SIDE_GRACE, GoogleEnds, GuardStops, described

log = logging.getLogger(__name__)

#: Seconds for Google's answers to host 0 about its permissions.
PERMISSION_CHECK_SECONDS = 90.0
#: What the other hosts have of a rule, and what they have not: limits, at which they would act.
_COMMON = ("action", "node", "node_id", "hosts")
_SILENT: Mapping[str, Any] = {
    "idle": None,
    "until": None,
    "cost_until": None,
    "notice": 0.0,
    "limits": {},
}
#: Where a cost can't be the limit.
_OTHER = "Set an idle limit or an end time."


#: act(name, action, reason): stops or deletes a TPU.
Act = Callable[[NodeName, GuardAction, GuardReason], Awaitable[Operation]]


class AwaitedGuards(Protocol):
    """The guards with which TPUs were created, while they are not set yet."""

    def problem(self, name: NodeName) -> Problem | None:
        """Why it is not set yet; None if none is to be set."""

    async def supersede(self, name: NodeName) -> None:
        """Another guard was chosen for the TPU, or none."""


class Guards:
    """A :class:`~jupyter_tpu.fleet.api.GuardAPI`, and what hosts last said of their guards.

    stops: gets what guards say. ends: Google's own. ledger: follows what a person changes.
    """

    #: Stops or deletes a TPU in place of a host that is not allowed to; set by what can.
    act: Act
    #: Those that are still to be set; set by what does it.
    awaited: AwaitedGuards | None = None

    def __init__(
        self, core: Core, owners: TPUOwners, stops: GuardStops, ends: GoogleEnds, ledger: Ledger
    ) -> None:
        self._finder = core.finder
        self._connections = core.connections
        self._observed = core.observed
        self._tpus = core.tpus
        self._changed = core.changes.mark_tpu_changed
        self._ledger = ledger
        self._owners = owners
        self._stops = stops
        self._ends = ends
        self._known: dict[NodeName, tuple[str, Guard | None]] = {}  # with the node's id
        self._due: set[NodeName] = set()
        self._refusals: dict[NodeName, str] = {}  # why those that are due were not stopped
        self._reported = asyncio.Event()

    async def run(self) -> None:
        """Acts for hosts until it is cancelled; for each one as long as it reports that it is due.

        By the last report only: a TPU that was started again since is not stopped once more.
        """
        while True:
            await self._reported.wait()
            self._reported.clear()
            while self._due:
                name = self._due.pop()
                node = self._observed.node(name)
                guard = self.last_known(node) if node is not None else None
                if guard is not None and _needs_server(guard):
                    try:
                        await self.act(name, guard.action, guard.reason)
                    except TPUError as error:  # another operation runs, for example
                        self._note_refusal(name, guard.action, str(error))

    def _note_refusal(self, name: NodeName, action: GuardAction, why: str) -> None:
        """Logs it once, although the guard is due for longer."""
        if self._refusals.get(name) != why:
            self._refusals[name] = why
            log.warning("The guard can't %s %s: %s", action, name.node, why)

    # ---- the part ----

    async def get(self, ref: str) -> Guard:
        node = await self._find(ref)
        return self._found(node, await self._request(node, requests.GetGuardRequest()))

    async def set(self, ref: str, request: SetGuard) -> Guard:
        request = validated(request)
        node = await self._find_for_change(ref, request.confirm_name)
        guard = await self._set(node, request)
        await self._drop_awaited(node.name)
        return guard

    async def set_at_creation(self, name: NodeName, request: SetGuard) -> Guard:
        """Sets the guard that a TPU was created with, whatever its labels say of its owner. A limit
        that has passed meanwhile is due at once.
        """
        return await self._set(await self._find(f"{name.zone}~{name.node}"), request, late=True)

    def overdue(self, name: NodeName, request: SetGuard) -> GuardReason:
        """The limit of *request* that has passed, "time" or "cost"; "" for none."""
        return limit_passed(request, self._tpus.tpu(name).cost, time.time())

    async def _set(self, node: Node, request: SetGuard, *, late: bool = False) -> Guard:
        hosts = len(node.endpoints)
        rule = guard_rule(
            request,
            node.name,
            self._tpus.tpu(node.name).cost,
            time.time(),
            node_id=node.id,
            hosts=hosts,
            tier=node.tier,
            api=node.api,
            late=late,
        )
        ends = deletion_time(rule, time.time())
        async with nullcontext() if late else self._ledger.moving_end(node, ends):
            guard = await self._set_on_hosts(node, request, rule)
        return await self._ends.follow(node, rule, self._found(node, guard))

    async def _set_on_hosts(
        self, node: Node, request: SetGuard, rule: Mapping[str, Any]
    ) -> Guard | None:
        others = range(1, len(node.endpoints))
        if request.idle is None:
            guard = await self._request(
                node, requests.SetGuardRequest(**rule), PERMISSION_CHECK_SECONDS
            )
            await self._on_hosts(node, others, lambda _: requests.RemoveGuardRequest())
            return guard
        # Host 0 is the last: until all others say what they do, its old rule counts.
        silent = silent_rule(rule)
        refused = await self._on_hosts(
            node, others, lambda number: requests.SetGuardRequest(**silent, worker=number)
        )
        for host, error in refused:
            raise TPUError(
                f"The guard of {node.name.node} is not set, because of host {host}: {error}",
                error.reason,
                error.hint or "Try again when the host can be reached.",
            )
        return await self._request(node, requests.SetGuardRequest(**rule), PERMISSION_CHECK_SECONDS)

    async def keep(self, ref: str, request: KeepTPU | None = None) -> Guard:
        request = validated(request or KeepTPU())
        node = await self._find_for_change(ref, request.confirm_name)
        guard = self._found(node, await self._request(node, requests.GetGuardRequest()))
        until = time.time() + max(request.seconds, guard.notice)
        deletes = guard.action == "delete"
        async with (
            self._ledger.keeping(node, until) if deletes else nullcontext(),
            self._ends.put_off(node, time.time() + request.seconds + guard.notice),
        ):
            delay = requests.DelayGuardRequest(seconds=request.seconds)
            kept = await self._request(node, delay)
        after = self._found(self._observed.node(node.name) or node, kept)
        if deletes and after.ends:  # counted from when the host was reached
            await self._ledger.follow_guard(node, seconds_of(after.ends, "ends"))
        return after

    async def remove(self, ref: str, options: RemoveGuard | None = None) -> None:
        node = await self._find_for_change(ref, (options or RemoveGuard()).confirm_name)
        async with self._ledger.moving_end(node, None), self._ends.put_off(node, None):
            await self._request(node, requests.RemoveGuardRequest())
        # The others only say what they do, and to no one now.
        await self._on_hosts(
            node, range(1, len(node.endpoints)), lambda _: requests.RemoveGuardRequest()
        )
        await self._drop_awaited(node.name)

    async def _drop_awaited(self, name: NodeName) -> None:
        """Another guard was chosen, or none."""
        if self.awaited is not None:
            await self.awaited.supersede(name)

    async def _on_hosts(
        self, node: Node, hosts: Sequence[int], request: Callable[[int], ProtocolRequest[Any]]
    ) -> list[tuple[int, TPUError]]:
        """Asks each of these hosts, and returns those that did not do it, with why."""

        async def ask(number: int) -> TPUError | None:
            host = HostName(node.name, number)
            try:
                await self._connections.request_host(host, request(number))
            except TPUError as error:
                log.info("The guard of %s: %s", host, error)
                return error
            return None

        answers = await gather_or_cancel([ask(host) for host in hosts])
        return [(host, error) for host, error in zip(hosts, answers, strict=True) if error]

    async def _find(self, ref: str) -> Node:
        node = await self._finder.find_ready(ref)
        if is_attached(node.name):
            raise InvalidInput(
                f"{node.name.node} is an attached machine, so it can't have a guard.",
                "Only TPUs that Google can stop or delete have one.",
            )
        return node

    async def _find_for_change(self, ref: str, confirm_name: str) -> Node:
        node = await self._find(ref)
        self._owners.require_consent(node, confirm_name)
        return node

    async def _request(
        self,
        node: Node,
        request: ProtocolRequest[requests.GuardAnswer],
        timeout: float = ANSWER_SECONDS,
    ) -> Guard | None:
        answer = await self._connections.request(node.name, request, timeout)
        return self._apply_report(node.name, node.id, answer["guard"])

    def _found(self, node: Node, guard: Guard | None) -> Guard:
        if guard is None:
            name = node.name.node
            problem = self.awaited.problem(node.name) if self.awaited is not None else None
            if problem is not None:
                raise TPUError(problem.message, Reason.NOT_FOUND, problem.hint)
            raise TPUError(
                f"{name} has no guard: it runs until you stop or delete it.",
                Reason.NOT_FOUND,
                f"Set one with `jupyter tpu guard set {name} --max-idle 2h`.",
            )
        return described(guard, node)

    # ---- what hosts report unasked ----

    def last_known(self, node: Node) -> Guard | None:
        """What its host last said; None if there is no guard, or no one has asked."""
        id, guard = self._known.get(node.name, ("", None))
        return described(guard, node) if guard is not None and id == node.id else None

    def update(self, name: NodeName, report: Mapping[str, Any] | None) -> None:
        """Takes the report of host 0. None: it has no guard, or an older agent."""
        node = self._observed.node(name)
        guard = None if node is None else self._apply_report(name, node.id, report)
        if guard is not None and _needs_server(guard):
            self._due.add(name)
            self._reported.set()
        else:
            self._refusals.pop(name, None)

    def _apply_report(
        self, name: NodeName, node_id: str, report: Mapping[str, Any] | None
    ) -> Guard | None:
        mine = report is not None and report["rule"]["node_id"] == node_id
        guard = _guard(report) if report is not None and mine else None
        if (node := self._observed.node(name)) is not None and node.id == node_id:
            self._stops.heard(node, guard, time.time())
        if self._known.get(name, ("", None)) != (node_id, guard):
            self._known[name] = node_id, guard
            self._changed(name)
        return guard


def _needs_server(guard: Guard) -> bool:
    return guard.phase == "due" and guard.actor == "server"


def cost_deadline(max_cost: float, cost: Cost, now: float, *, late: bool = False) -> float:
    """When a TPU will have cost *max_cost* USD if it continues to run; seconds since the epoch.

    late: whether it may have cost that already. Raises INVALID where that is not known, or will not
    happen.
    """
    cost = counted_cost(cost, now)
    hourly = cost.usd_per_hour
    if hourly is None or cost.usd is None:
        raise InvalidInput(
            "The price of this TPU is not known, so no cost limit can be set.",
            _OTHER,
            field="max_cost",
        )
    if hourly == 0:
        raise InvalidInput(
            "This TPU costs nothing, so no cost limit can be set.", _OTHER, field="max_cost"
        )
    if cost.usd >= max_cost and not late:
        raise InvalidInput(
            f"This TPU has cost ${cost.usd:.2f} already.",
            "Choose a higher limit, or stop it now.",
            field="max_cost",
        )
    return now + (max_cost - cost.usd) / hourly * 3600.0


def server_side_limit(request: SetGuard, cost: Cost, now: float) -> float:
    """After how many seconds Google deletes a new TPU that has this guard, even if the guard does
    not run any more; 0: never. That is after the guard has had the time to act.
    """
    ends = [seconds_of(request.until, "until")] if request.until else []
    if request.max_cost is not None:
        ends.append(cost_deadline(request.max_cost, structs.replace(cost, usd=0.0), now))
    return max(0.0, min(ends) - now) + SERVER_SIDE_GRACE if ends else 0.0


def deletion_time(rule: Mapping[str, Any], now: float) -> float | None:
    """When a guard with this *rule* deletes its TPU at the latest, in seconds since the epoch; None
    where it stops it, or has no limit of time or cost.
    """
    limits = [rule[key] for key in ("until", "cost_until") if rule[key] is not None]
    if rule["action"] != "delete" or not limits:
        return None
    return float(max(min(limits), now + rule["notice"]))


def limit_passed(request: SetGuard, cost: Cost, now: float) -> GuardReason:
    """The limit of *request* that has passed, "time" or "cost"; "" for none."""
    if request.until and seconds_of(request.until, "until") <= now:
        return "time"
    usd = counted_cost(cost, now).usd
    spent = request.max_cost is not None and usd is not None and usd >= request.max_cost
    return "cost" if spent else ""


def check_guard(
    request: SetGuard, *, several: bool, tier: Tier, api: API | None, late: bool = False
) -> None:
    """Raises INVALID for what can't be done with a TPU of that *tier*, or one of *several* hosts,
    and, unless it is *late*, for an end time that has passed.
    """
    if request.until and not late:
        future_seconds(request.until, "until", time.time())
    if request.idle is None and request.max_cost is None and not request.until:
        raise InvalidInput(
            "A guard needs a limit.", "Set an idle limit, a cost limit, or an end time."
        )
    flex = tier == "flex-start" and api == "compute"  # which does not start it again
    if request.action == "stop" and (several or flex or tier == "spot"):
        what = "TPU of several hosts" if several else f"{tier} TPU"
        raise InvalidInput(
            f"A {what} can't be stopped.",
            "Let the guard delete it: --then-delete.",
            field="action",
        )


def guard_rule(
    request: SetGuard,
    name: NodeName,
    cost: Cost,
    now: float,
    *,
    node_id: str,
    hosts: int,
    tier: Tier,
    api: API = "tpu",
    late: bool = False,
) -> dict[str, Any]:
    """What host 0 gets; *node_id*: Google's id of the TPU, "" where the host has to ask for it.

    late: whether its limits may have passed since it was asked for. Raises INVALID for what can't
    be done with this TPU; see `check_guard`.
    """
    check_guard(request, several=hosts > 1, tier=tier, api=api, late=late)
    notice = min(request.notice, request.idle or request.notice)
    if late and limit_passed(request, cost, now):
        # Who has had it for a minute needs no longer notice.
        since = seconds_of(cost.since, "since") if cost.since else now
        notice = min(notice, max(0.0, now - since))
    return {
        "action": request.action,
        "node": _path(name, api, hosts),
        "node_id": node_id,
        "idle": request.idle,
        "until": seconds_of(request.until, "until") if request.until else None,
        "cost_until": None
        if request.max_cost is None
        else cost_deadline(request.max_cost, cost, now, late=late),
        "notice": notice,
        "limits": {"max_cost": request.max_cost, "until": request.until},
        **({} if request.idle is None else {"hosts": max(1, hosts)}),
    }


def _path(name: NodeName, api: API, hosts: int) -> str:
    """By which a host asks Google for its TPU; see `agent.guard.google`."""
    plain = name.node.partition("@")[0]
    if api == "tpu":
        return f"projects/{name.project}/locations/{name.zone}/nodes/{plain}"
    kind = "instanceGroupManagers" if hosts > 1 else "instances"
    return f"projects/{name.project}/zones/{name.zone}/{kind}/{plain}"


def silent_rule(rule: Mapping[str, Any]) -> dict[str, Any]:
    """What the other hosts get next to the *rule* of host 0, where that has an idle limit."""
    return {**_SILENT, **{name: rule[name] for name in _COMMON}}


def _guard(report: Mapping[str, Any]) -> Guard:
    rule = report["rule"]
    ends = report["ends"]
    return convert(
        {
            **{key: rule[key] for key in ("action", "idle")},
            "notice": rule["notice"] or 0.0,
            **(rule["limits"] or {}),
            **{key: report[key] for key in ("phase", "reason", "busy")},
            "no_restart": report.get("no_restart", ""),
            "ends": "" if ends is None else timestamp("seconds", ends),
            "actor": "host" if report["host"] and not report["problem"] else "server",
            "problem": report["problem"] or report["refused"],
        },
        Guard,
    )
