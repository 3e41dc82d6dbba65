"""How long TPUs have been READY, which is what Google charges for.

Google reports when a node was created, and its current state. What happened between two polls is
not known. So a node that is READY in the first poll counts as READY since its creation, and one
that is later found stopped counts as READY until then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from ...cloud import Node, NodeName, NodeState, is_attached
from ..core.records import RunRecord
from ..core.store import Store


class RunTimes:
    """The run times of all nodes, kept in *store*."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._runs = dict(store.snapshot.runs)

    def reload(self, runs: Mapping[NodeName, RunRecord]) -> None:
        """Takes over what other processes wrote."""
        self._runs = dict(runs)

    def observe(self, nodes: Iterable[Node], now: float) -> None:
        """Takes in what Google said of nodes. *now*: seconds since the epoch."""
        for node in nodes:
            if is_attached(node.name):
                continue  # it runs whether it is attached or not
            before = self._runs.get(node.name)
            if before is not None and before.node_id != node.id:
                before = None  # another node of the same name
            after = _next(before, node, now)
            if after != before:
                self._runs[node.name] = after
                self._store.save_run(node.name, after)

    def forget(self, gone: Iterable[NodeName]) -> None:
        """These nodes are gone."""
        for name in gone:
            if self._runs.pop(name, None) is not None:
                self._store.drop_run(name)

    def names(self) -> set[NodeName]:
        """The nodes whose run time is kept."""
        return set(self._runs)

    def since(self, node: Node) -> float | None:
        """Since when it is READY, in seconds since the epoch; None if it is not."""
        record = self._runs.get(node.name)
        return record.since if record is not None and record.node_id == node.id else None

    def ended(self, node: Node) -> float | None:
        """When it was first seen that it is no longer READY, in seconds since the epoch; None if it
        is, or if that was not seen.
        """
        record = self._runs.get(node.name)
        return record.ended if record is not None and record.node_id == node.id else None

    def seconds(self, node: Node, now: float) -> float | None:
        """How long it was READY until *now*; None if that is not known."""
        record = self._runs.get(node.name)
        return _seconds(record, now) if record is not None and record.node_id == node.id else None

    def estimate(self, node: Node, now: float) -> tuple[float | None, float | None]:
        """As `since` and `seconds`; of a node that was never observed, such as one of another
        project, what the first poll would say.
        """
        record = self._runs.get(node.name)
        if record is None or record.node_id != node.id:
            record = _next(None, node, now)
        return record.since, _seconds(record, now)


def _seconds(record: RunRecord, now: float) -> float | None:
    if record.seconds is None:
        return None
    return record.seconds + (max(0.0, now - record.since) if record.since is not None else 0.0)


def _next(before: RunRecord | None, node: Node, now: float) -> RunRecord:
    ready = node.state is NodeState.READY
    if before is None:
        if ready:
            return RunRecord(node_id=node.id, since=_created(node) or now, seconds=0.0)
        # One that is stopped has run for an unknown time.
        return RunRecord(node_id=node.id, seconds=0.0 if node.state is NodeState.CREATING else None)
    if ready and before.since is None:
        return RunRecord(node_id=node.id, since=now, seconds=before.seconds)
    if not ready and before.since is not None:
        seconds = None if before.seconds is None else before.seconds + max(0.0, now - before.since)
        return RunRecord(node_id=node.id, seconds=seconds, ended=now)
    return before


def _created(node: Node) -> float | None:
    try:
        return datetime.fromisoformat(node.created).timestamp()
    except ValueError:
        return None
