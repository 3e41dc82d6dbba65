"""Which TPUs their guards have stopped: Google does not say who stopped one.

What a guard last said, and whether a user has stopped the TPU, is kept in the store. If the guard
was about to stop a TPU, and the TPU is stopped at the next look, the guard did it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

from msgspec import structs

from ...cloud import Cloud, Node, NodeName, NodeState
from ...errors import Reason, TPUError
from ...own_log import happened
from ..core.core import Core
from ..core.observer import Observer
from ..core.records import GuardRecord
from ..models import Guard, GuardReason, GuardStop, Problem
from ..models.core import seconds_of, timestamp

log = logging.getLogger(__name__)

#: Seconds by which a stop may come before the time that the guard has said last.
EARLY_SECONDS = 60.0
#: A guard that has said nothing for so many seconds may have acted unheard.
UNHEARD_SECONDS = 300.0
_STOPPED = (NodeState.STOPPING, NodeState.STOPPED)


class GuardStops:
    """The stops by guards of TPUs that are known."""

    def __init__(self, core: Core) -> None:
        self._store = core.store
        self._observed = core.observed
        self._changed = core.changes.mark_tpu_changed
        self._records = dict(core.store.snapshot.guards)
        self._heard: dict[NodeName, float] = {}

    def reload(self, records: Mapping[NodeName, GuardRecord]) -> None:
        """Takes over what other processes wrote."""
        self._records = dict(records)

    def of(self, node: Node) -> GuardStop | None:
        """How its guard has stopped a TPU that is stopped; None if it has not."""
        record = self._records.get(node.name)
        if record is None or record.node_id != node.id or node.state not in _STOPPED:
            return None
        return record.stop

    def heard(self, node: Node, guard: Guard | None, now: float) -> None:
        """What the guard of a TPU says now; None: it has none. *now*: seconds since the epoch."""
        self._heard[node.name] = now
        before = self._records.get(node.name)
        if guard is None:
            self._forget(node.name)
        elif before is None or before.node_id != node.id or before.guard != guard:
            self._save(node.name, GuardRecord(node_id=node.id, guard=guard, heard=now))

    def stopping(self, node: Node, reason: GuardReason | None, now: float) -> None:
        """An operation begins to stop a TPU: in place of its guard, for this *reason*; or for a
        user (None).
        """
        record = self._records.get(node.name)
        guard = record.guard if record is not None and record.node_id == node.id else None
        if guard is None and reason is None:
            return
        stop = None if reason is None else GuardStop(time=_time(now), reason=reason)
        made = GuardRecord(node_id=node.id, guard=guard, heard=now, known=True, stop=stop)
        self._save(node.name, made)

    def observe(self, nodes: Iterable[Node], now: float) -> None:
        """Takes in what Google said of nodes."""
        for node in nodes:
            record = self._records.get(node.name)
            if record is None or record.node_id != node.id:
                continue
            if node.state is NodeState.READY and record.down:
                self._save(node.name, GuardRecord(node_id=node.id, guard=record.guard, heard=now))
            elif node.state in _STOPPED and not record.down:
                stop = record.stop
                if not record.known and record.guard is not None:
                    stop = _stop_of(record.guard, self._heard.get(node.name, record.heard), now)
                self._save(node.name, structs.replace(record, known=True, stop=stop, down=True))
        for tpu in self._observed.gone.intersection(self.tpus()):
            self._forget(tpu[0])

    def tpus(self) -> list[tuple[NodeName, str]]:
        """The names and ids of the TPUs whose guards are remembered."""
        return [(name, record.node_id) for name, record in self._records.items()]

    def _save(self, name: NodeName, record: GuardRecord) -> None:
        before = self._records.get(name)
        if before is None or _outline(before) != _outline(record):
            note = f"{_outline(before)} → " if before is not None else ""
            happened(f"Guard: {note}{_outline(record)}", tpu=name.node, costs=True)
        self._records[name] = record
        self._store.save_guard(name, record)
        self._changed(name)

    def _forget(self, name: NodeName) -> None:
        if self._records.pop(name, None) is not None:
            happened("Guard: none", tpu=name.node, costs=True)
            self._store.drop_guard(name)


def _outline(record: GuardRecord) -> str:
    """What it is about to do, or has done, in words."""
    words = ["set"]
    if (guard := record.guard) is not None:
        limits = {"idle": guard.idle, "cost": guard.max_cost, "until": guard.until}
        shown = ", ".join(f"{name} {limit}" for name, limit in limits.items() if limit)
        words = [f"{guard.phase}, will {guard.action} ({shown})"]
        words += [guard.problem.message] if guard.problem is not None else []
    if record.stop is not None:
        words.append(f"has stopped the TPU ({record.stop.reason or 'reason not known'})")
    if record.down:
        words.append("the TPU is stopped")
    return ", ".join(words)


def _stop_of(guard: Guard, heard: float, now: float) -> GuardStop | None:
    """Whether a guard that was last *heard* then has stopped its TPU, which is found stopped."""
    if guard.action != "stop":
        return None
    if guard.phase != "watching":
        return GuardStop(time=_time(now), reason=guard.reason)
    if guard.ends and seconds_of(guard.ends, "ends") <= now + EARLY_SECONDS:
        return GuardStop(time=guard.ends, reason=guard.reason)
    if guard.until and seconds_of(guard.until, "until") <= now:
        return GuardStop(time=guard.until, reason="time")
    if now - heard > UNHEARD_SECONDS:
        return GuardStop(reason="idle" if guard.idle is not None else "cost", certain=False)
    return None


def _time(now: float) -> str:
    return timestamp("seconds", at=now)


#: How much later than a guard Google deletes its TPU; seconds.
SERVER_SIDE_GRACE = 900.0
#: An end that Google has already is left alone if it is at most so much earlier or later; seconds.
_EARLIER_SECONDS, _LATER_SECONDS = 60.0, 900.0


class GoogleEnds:
    """The ends of TPUs at *cloud*. What is learned of the TPUs goes to *observer*."""

    def __init__(self, cloud: Cloud, observer: Observer) -> None:
        self._cloud = cloud
        self._observer = observer

    async def follow(self, node: Node, rule: Mapping[str, Any], guard: Guard) -> Guard:
        """Sets the end of *node* to that of its new *guard*, which has this *rule*; returns the
        guard with what became of that. The guard counts in any case.
        """
        if node.api != "compute":
            return guard
        limits = [rule[key] for key in ("until", "cost_until") if rule.get(key) is not None]
        deadline = max(min(limits), time.time() + (rule["notice"] or 0.0)) if limits else None
        try:
            return described(guard, await self._set(node, deadline))
        except TPUError as error:
            return structs.replace(described(guard, node), google_problem=_not_set(node, error))

    @asynccontextmanager
    async def put_off(self, node: Node, until: float | None) -> AsyncIterator[None]:
        """Around what keeps the guard of *node* from acting before *until*, or removes it (None).

        Raises where Google would delete the TPU earlier. Where the guard is not changed, Google's
        end is set back.
        """
        before = _seconds(node)
        is_later = until is not None and before >= until + SERVER_SIDE_GRACE
        if node.api != "compute" or not before or is_later:
            yield
            return
        await self._require(node, until)
        try:
            yield
        except BaseException:
            try:
                self._observer.upsert(await self._cloud.set_end(node, before))
            except TPUError as error:
                log.warning("Google's end of %s is not set back: %s", node.name.node, error)
            raise

    async def _require(self, node: Node, deadline: float | None) -> None:
        try:
            await self._set(node, deadline)
        except TPUError as error:
            problem = _not_set(node, error)
            raise TPUError(problem.message, error.reason, problem.hint) from error

    async def _set(self, node: Node, deadline: float | None) -> Node:
        end = None if deadline is None else deadline + SERVER_SIDE_GRACE
        if end is not None and end - _EARLIER_SECONDS <= _seconds(node) <= end + _LATER_SECONDS:
            return node
        changed = await self._cloud.set_end(node, end)
        self._observer.upsert(changed)
        if changed.tier != "flex-start":  # which Google ends by its own run time
            if end is not None and 0.0 < _seconds(changed) < end - _EARLIER_SECONDS:
                raise TPUError("Its time limit at Google is an earlier one.", Reason.CONFLICT)
            if end is not None and not changed.ends:
                raise TPUError("Google does not show the new time limit.", Reason.UNAVAILABLE)
        return changed


def described(guard: Guard, node: Node) -> Guard:
    """*guard*, with the end of its *node* at Google."""
    if node.api != "compute":
        return guard
    problem = None
    if (guard.until or guard.max_cost is not None) and not node.ends:
        problem = Problem(
            message=f"Google has no end time for {node.name.node}. If the guard can't act, the TPU "
            "continues to run.",
            reason=Reason.NOT_FOUND,
            hint="Set the guard again.",
        )
    return structs.replace(guard, google_deletes=node.ends, google_problem=problem)


def _seconds(node: Node) -> float:
    """When Google deletes it, since the epoch; 0: never."""
    return datetime.fromisoformat(node.ends).timestamp() if node.ends else 0.0


def _not_set(node: Node, error: TPUError) -> Problem:
    name = node.name.node
    now = (
        f"It deletes {name} at {node.ends} in any case."
        if node.ends
        else f"If the guard can't act, {name} continues to run."
    )
    return Problem(
        message=f"Google did not change the end time of {name}: {error.message} {now}",
        reason=error.reason,
        hint="Try again later. Google may accept it only while the TPU is stopped.",
    )
