"""Google's own end of a TPU of Compute Engine: it holds where the guard on the host does not run.

Google deletes the TPU then, whatever the guard's action is. So it comes after the guard has had
time to act, and follows the guard when that is changed, put off or removed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import structs

from ...cloud import Cloud, Node
from ...errors import Reason, TPUError
from ..core.observer import Observer
from ..models import Guard, Problem

#: How much later than a guard Google deletes its TPU; seconds.
SERVER_SIDE_GRACE = 900.0
#: An end that Google has already is left alone if it is at most so much earlier or later; seconds.
_EARLIER, _LATER = 60.0, 900.0


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

    async def put_off(self, node: Node, until: float) -> None:
        """The guard will not act before then. Raises where Google would delete *node* earlier."""
        if node.api == "compute" and 0.0 < _seconds(node) < until + SERVER_SIDE_GRACE:
            await self._require(node, until)

    async def remove(self, node: Node) -> None:
        """The guard is removed. Raises where Google would delete *node* all the same."""
        if node.api == "compute" and node.ends:
            await self._require(node, None)

    async def _require(self, node: Node, deadline: float | None) -> None:
        try:
            await self._set(node, deadline)
        except TPUError as error:
            problem = _not_set(node, error)
            raise TPUError(problem.message, error.reason, problem.hint) from error

    async def _set(self, node: Node, deadline: float | None) -> Node:
        end = None if deadline is None else deadline + SERVER_SIDE_GRACE
        if end is not None and end - _EARLIER <= _seconds(node) <= end + _LATER:
            return node
        changed = await self._cloud.set_end(node, end)
        self._observer.upsert(changed)
        if changed.tier != "flex-start":  # which Google ends by its own run time
            if end is not None and 0.0 < _seconds(changed) < end - _EARLIER:
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
