"""What a hunt tries next, and when; without I/O, clock or chance of its own.

A :class:`HuntRecord` has the candidates (zone × type × tier × control plane) in order of
preference, and what was learned of each. :func:`next_step` reads it; :func:`learn` writes down why
an attempt failed. Of the candidates that may be tried now, the one that failed least often is next.

====================  ==========================================================================
why it failed         what that says
====================  ==========================================================================
NO_CAPACITY           about this type and tier in the zone (or region, where Google says that):
CONFLICT              later, after a pause that doubles. CONFLICT: a TPU that was preempted at once
QUOTA, of 0           this generation and tier are ruled out in the zone, region or project
QUOTA, all used       this type and tier there: later, since someone may delete a TPU
PRICE                 the same: the grant has too few chips left, and no price was confirmed
BUDGET                the same: too little of the budget is left today
EXISTS                the zone is ruled out: another TPU has the name there
INVALID, PERMISSION   this candidate is ruled out
anything else         nothing about the candidate: all wait, as long as Google says, or for a pause
                      that doubles (no credentials, a rate limit, no network, a full disk)
====================  ==========================================================================

Capacity and quotas are those of a control plane: what one refuses, the other may have.

An attempt that waits for capacity at Google does so for its :func:`turn`. Google could grant
several requests at the same time, so that one is surely gone before the next is made.

A hunt is over when all candidates are ruled out, and when its deadline has passed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from ...backoff import Backoff
from ...errors import Reason, TPUError
from ..core.operation_records import Candidate, HuntRecord
from ..models import Problem
from ..models.core import known_type, timestamp

#: Pauses are up to a quarter shorter or longer, by chance: many hunts do not ask in step.
_JITTER = (0.75, 1.25)
_CAPACITY = Backoff(20.0, 300.0, jitter=_JITTER)
_QUOTA = Backoff(120.0, 1800.0, jitter=_JITTER)
#: What time may mend, and the pauses after it.
#: PRICE: the grant that covers it has too few chips left now. BUDGET: it is used up today.
MENDED_BY_TIME = {
    Reason.NO_CAPACITY: _CAPACITY,
    Reason.CONFLICT: _CAPACITY,
    Reason.QUOTA: _QUOTA,
    Reason.PRICE: _QUOTA,
    Reason.BUDGET: _QUOTA,
}
#: The same, of what is not about a candidate.
GOOGLE = Backoff(10.0, 300.0, jitter=_JITTER)
#: How long an attempt of a candidate that waits for capacity at Google may keep the others waiting.
TURN = Backoff(120.0, 1800.0)
#: The same, of a request that Compute Engine takes long to delete: a user has seen 39 minutes.
COMPUTE_TURN = Backoff(1800.0, 7200.0)
#: A longer pause than any: what waits longer has met a clock that was set back. Seconds.
_LONGEST_PAUSE_SECONDS = 3600.0

_FOR_GOOD = (Reason.INVALID, Reason.PERMISSION)
_ABOUT_CAPACITY = (Reason.NO_CAPACITY, Reason.CONFLICT)


class Attempt(Struct, frozen=True):
    """Try to create this one now."""

    candidate: Candidate


class Wait(Struct, frozen=True):
    """Ask again then, seconds since the epoch; or earlier."""

    until: float


class Exhausted(Struct, frozen=True):
    """No attempt is left."""

    error: TPUError


def next_step(hunt: HuntRecord, now: float) -> Attempt | Wait | Exhausted:
    """*now*: seconds since the epoch. Nothing is changed."""
    left = [candidate for candidate in hunt.candidates if not candidate.ruled_out]
    if not left:
        return Exhausted(_nothing_left(hunt))
    if hunt.deadline is not None and now >= hunt.deadline:
        return Exhausted(_too_late(hunt, hunt.deadline))
    at = min(due(hunt, candidate, now) for candidate in left)
    if at > now:
        return Wait(at if hunt.deadline is None else min(at, hunt.deadline))
    ready = [candidate for candidate in left if due(hunt, candidate, now) <= now]
    return Attempt(min(ready, key=lambda candidate: candidate.failures))  # the first of equal ones


def due(hunt: HuntRecord, candidate: Candidate, now: float) -> float:
    """When it may be tried; seconds since the epoch."""
    return min(max(candidate.retry_at, hunt.retry_at), now + _LONGEST_PAUSE_SECONDS)


def clock_set(hunt: HuntRecord, seconds: float) -> None:
    """The clock was set by so many seconds: pauses end at the same moments as before."""
    paused: list[HuntRecord | Candidate] = [hunt, *hunt.candidates]
    for candidate in paused:
        if candidate.retry_at > 0:
            candidate.retry_at += seconds


def turn(hunt: HuntRecord, candidate: Candidate) -> float | None:
    """How long *candidate* may wait for capacity at Google, in seconds; None if there is no other
    candidate to try: then there is no limit.
    """
    others = any(other is not candidate and not other.ruled_out for other in hunt.candidates)
    turns = COMPUTE_TURN if candidate.api == "compute" else TURN
    return turns.after(candidate.failures + 1) if others else None


def learn(
    hunt: HuntRecord, candidate: Candidate, error: TPUError, now: float, chance: float
) -> None:
    """An attempt to create *candidate* failed. *chance*: a random number from 0 to 1."""
    problem, reason = Problem.of(error), error.reason
    candidate.problem = problem
    if reason is Reason.EXISTS:
        _rule_out(
            (zone for zone in hunt.candidates if zone.zone == candidate.zone),
            problem,
        )
    elif reason in _FOR_GOOD:
        _rule_out((candidate,), problem)
    elif reason is Reason.QUOTA and re.search(r"\bLimit:? 0\b", error.message):
        same = _generation(candidate.type)
        there = _in_scope(hunt, candidate, error.scope)
        _rule_out(
            (candidate for candidate in there if _generation(candidate.type) == same), problem
        )
    elif reason in MENDED_BY_TIME:
        candidate.failures += 1
        pause = MENDED_BY_TIME[reason].after(candidate.failures, chance)
        for other in _in_scope(hunt, candidate, error.scope):
            # Where there is no capacity now, there may be some for who waits, and the reverse.
            alike = reason not in _ABOUT_CAPACITY or other.direct == candidate.direct
            if other.type == candidate.type and alike:
                other.problem = problem
                other.retry_at = now + max(pause, error.retry_after or 0.0)
    else:
        hunt.failures += 1
        pause = GOOGLE.after(hunt.failures, chance)
        hunt.retry_at = now + max(pause, error.retry_after or 0.0)
        return
    hunt.failures = 0


def _in_scope(hunt: HuntRecord, candidate: Candidate, scope: str) -> list[Candidate]:
    """Those of its tier that a limit of this scope is about ("": of the zone)."""
    region = candidate.zone.rpartition("-")[0]
    return [
        other
        for other in hunt.candidates
        if (other.tier, other.api) == (candidate.tier, candidate.api)
        and (
            other.zone == candidate.zone
            or scope == "project"
            or (scope == "region" and other.zone.rpartition("-")[0] == region)
        )
    ]


def _rule_out(candidates: Iterable[Candidate], problem: Problem) -> None:
    for candidate in candidates:
        if not candidate.ruled_out:
            candidate.ruled_out, candidate.problem = True, problem


def _generation(type: str) -> str:
    accelerator = known_type(type)
    return accelerator.generation if accelerator is not None else type


def _nothing_left(hunt: HuntRecord) -> TPUError:
    """Every reason once, with the candidates that it is about."""
    about: dict[str, list[Candidate]] = {}
    for candidate in hunt.candidates:
        about.setdefault(candidate.problem.message if candidate.problem else "", []).append(
            candidate
        )
    reasons = [f"{_names(candidates)}: {message}" for message, candidates in about.items()]
    problems = [candidate.problem for candidate in hunt.candidates if candidate.problem is not None]
    # A confirmation of the price mends that; else what all have in common is the reason.
    shown = next((problem for problem in problems if problem.reason is Reason.PRICE), None)
    if shown is None and len({problem.reason for problem in problems}) == 1:
        shown = problems[0]
    return TPUError(
        f"{hunt.request.tpu.name} can't be created anywhere. {' '.join(reasons)}",
        shown.reason if shown else Reason.CONFLICT,
        shown.hint if shown else "Hunt in other zones, for other types or tiers.",
        field=problems[0].field if len({problem.field for problem in problems}) == 1 else "",
    )


def _names(candidates: list[Candidate]) -> str:
    names = list(
        dict.fromkeys(
            f"{candidate.type} ({candidate.tier}) in {candidate.zone}" for candidate in candidates
        )
    )
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _too_late(hunt: HuntRecord, deadline: float) -> TPUError:
    last = next((attempt.problem for attempt in reversed(hunt.attempts) if attempt.problem), None)
    return TPUError(
        f"No TPU was found until {timestamp('seconds', at=deadline)}."
        + (f" The last attempt: {last.message}" if last else ""),
        Reason.TIMEOUT,
        "Start another hunt, with more zones or types.",
    )
