"""Which TPUs their guards have stopped: Google does not say who stopped one.

What a guard last said, and whether a user has stopped the TPU, is kept in the store. If the guard
was about to stop a TPU, and the TPU is stopped at the next look, the guard did it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from msgspec import structs

from ...cloud import Node, NodeName, NodeState
from ..core.observed import ObservedState
from ..core.records import GuardRecord
from ..core.store import Store
from ..models import Guard, GuardReason, GuardStop
from ..models.core import seconds_of, timestamp

#: Seconds by which a stop may come before the time that the guard has said last.
EARLY = 60.0
#: A guard that has said nothing for so many seconds may have acted unheard.
UNHEARD = 300.0
_STOPPED = (NodeState.STOPPING, NodeState.STOPPED)


class GuardStops:
    """changed(name) is called for a TPU that is found to be stopped by its guard."""

    def __init__(
        self, store: Store, observed: ObservedState, changed: Callable[[NodeName], None]
    ) -> None:
        self._store = store
        self._observed = observed
        self._changed = changed
        self._records = dict(store.snapshot.guards)
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
        for name in list(self._records):
            if self._observed.node(name) is None and self._observed.complete(name):
                self._forget(name)

    def _save(self, name: NodeName, record: GuardRecord) -> None:
        self._records[name] = record
        self._store.save_guard(name, record)
        self._changed(name)

    def _forget(self, name: NodeName) -> None:
        if self._records.pop(name, None) is not None:
            self._store.drop_guard(name)


def _stop_of(guard: Guard, heard: float, now: float) -> GuardStop | None:
    """Whether a guard that was last *heard* then has stopped its TPU, which is found stopped."""
    if guard.action != "stop":
        return None
    if guard.phase != "watching":
        return GuardStop(time=_time(now), reason=guard.reason)
    if guard.ends and seconds_of(guard.ends, "ends") <= now + EARLY:
        return GuardStop(time=guard.ends, reason=guard.reason)
    if guard.until and seconds_of(guard.until, "until") <= now:
        return GuardStop(time=guard.until, reason="time")
    if now - heard > UNHEARD:
        return GuardStop(reason="idle" if guard.idle is not None else "cost", certain=False)
    return None


def _time(now: float) -> str:
    return timestamp("seconds", at=now)
