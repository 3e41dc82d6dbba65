"""Where a hunt may look: the zones, types, tiers and control planes that Google offers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import UTC
from typing import TypeVar

from msgspec import structs

from ...catalog import API
from ...cloud import NodeName, Tier
from ...errors import InvalidInput, Reason, TPUError
from ..core.checks import check_run_for
from ..core.operation_records import Candidate, HuntRecord
from ..models import CreateTPU, Problem, StartHunt
from ..models.core import future_seconds, known_type
from .planner import Exhausted, next_step

T = TypeVar("T")

#: A hunt whose deadline is further away continues while this computer is off, unless its request
#: says otherwise; seconds.
OVERNIGHT_SECONDS = 4 * 3600.0

#: Fills in a request's defaults; raises INVALID for what its zone does not offer.
Resolve = Callable[[CreateTPU], Awaitable[tuple[CreateTPU, NodeName]]]


async def plan(
    request: StartHunt, resolve: Resolve, check_price: Callable[[Candidate], None], now: float
) -> HuntRecord:
    """The hunt before its first attempt.

    check_price: raises PRICE for a price that no one has confirmed, INVALID for what its type or
    tier does not allow. This raises INVALID or PRICE if there is nothing to try, and what *resolve*
    raises apart from that.
    """
    types = _unique(request.types or [request.tpu.type])
    tiers = _unique(request.tiers or [request.tpu.tier])
    template = request.tpu
    if "flex-start" in tiers:  # the others have no time to run; `check_price` looks at each
        check_run_for(template.run_for, "flex-start")
        template = structs.replace(template, tier="on-demand", run_for=None)
    zones = _unique(await _zones(request, template, types, resolve))
    per_zone = await asyncio.gather(*(_resolved(template, zone, types, resolve) for zone in zones))
    by_zone = dict(zip(zones, per_zone, strict=True))
    deadline = (
        future_seconds(request.deadline, "deadline", now, zone=UTC) if request.deadline else None
    )
    overnight = deadline is not None and deadline - now > OVERNIGHT_SECONDS
    queued = overnight if request.queued is None else request.queued
    hunt = HuntRecord(
        request=request,
        candidates=_ordered(by_zone, types, tiers, zones, direct=queued and request.direct),
        deadline=deadline,
        queued=queued,
    )
    for candidate in hunt.candidates:
        if not candidate.ruled_out:
            try:
                check_price(candidate)
            except TPUError as error:
                candidate.ruled_out, candidate.problem = True, Problem.of(error)
    step = next_step(hunt, now)
    if isinstance(step, Exhausted):
        raise step.error
    return hunt


def _ordered(
    by_zone: Mapping[str, Mapping[str, Sequence[Candidate]]],
    types: Sequence[str],
    tiers: Sequence[Tier],
    zones: Sequence[str],
    *,
    direct: bool,
) -> list[Candidate]:
    """The most wanted first. direct: each is tried without the queue, too."""
    all_of_them = [
        structs.replace(candidate, tier=tier)
        for type in types
        for tier in tiers
        for zone in zones
        for candidate in by_zone[zone][type]
    ]
    first = [
        structs.replace(candidate, direct=True)
        for candidate in all_of_them
        if (_can_be_probed(candidate) and len(all_of_them) > 1)
        or (direct and candidate.tier != "flex-start" and candidate.api == "tpu")
    ]
    return [*first, *all_of_them]


def _can_be_probed(candidate: Candidate) -> bool:
    """Whether Google says in seconds that there is no capacity: it has no queue to wait in then."""
    if candidate.tier != "flex-start" or candidate.api != "compute":
        return False
    accelerator = known_type(candidate.type)
    return accelerator is not None and accelerator.hosts == 1 and not candidate.ruled_out


def request_of(hunt: StartHunt, candidate: Candidate) -> CreateTPU:
    """What is created where *candidate* is tried."""
    return structs.replace(
        hunt.tpu,
        zone=candidate.zone,
        type=candidate.type,
        tier=candidate.tier,
        api=candidate.api,
        version=candidate.version,
        run_for=hunt.tpu.run_for if candidate.tier == "flex-start" else None,
    )


def _unique(items: Iterable[T]) -> list[T]:
    return list(dict.fromkeys(items))


async def _zones(
    request: StartHunt, template: CreateTPU, types: list[str], resolve: Resolve
) -> list[str]:
    if "-" in request.zones:
        offered = [zone for type in types if (t := known_type(type)) for zone in t.zones]
        if not offered:
            raise InvalidInput(
                f"It is not known which zones offer {' or '.join(types)}.", "Name the zones."
            )
        return offered
    if request.zones or request.tpu.zone:
        return request.zones or [request.tpu.zone or ""]
    return [(await resolve(structs.replace(template, type=types[0])))[1].zone]


async def _resolved(
    template: CreateTPU, zone: str, types: list[str], resolve: Resolve
) -> dict[str, list[Candidate]]:
    """By type: one for each control plane that offers it, what would be chosen first. One after the
    other: each list is asked of Google once.
    """
    resolved = {}
    for type in types:
        request = structs.replace(template, zone=zone, type=type)
        first = await _candidate(request, resolve)
        resolved[type] = [first]
        if not first.ruled_out and (other := _other_api(request, first)) is not None:
            second = await _candidate(structs.replace(request, api=other), resolve)
            resolved[type] += [] if second.ruled_out else [second]
    return resolved


async def _candidate(request: CreateTPU, resolve: Resolve) -> Candidate:
    candidate = Candidate(
        zone=request.zone or "",
        type=request.type,
        tier=request.tier,
        api=request.api or "tpu",
    )
    try:
        create_tpu, _ = await resolve(request)
    except TPUError as error:
        if error.reason is not Reason.INVALID:
            raise
        candidate.ruled_out, candidate.problem = True, Problem.of(error)
    else:
        candidate.type, candidate.version = create_tpu.type, create_tpu.version or ""
        candidate.api = create_tpu.api or "tpu"
    return candidate


def _other_api(request: CreateTPU, candidate: Candidate) -> API | None:
    """The other control plane that may offer it there; None where the request says which."""
    accelerator = known_type(candidate.type)
    if request.api is not None or request.version or accelerator is None:
        return None
    others = [api for api in accelerator.apis(candidate.zone) if api != candidate.api]
    return others[0] if others else None
