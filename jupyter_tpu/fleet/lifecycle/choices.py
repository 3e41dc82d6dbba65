"""The zone, type and version of a new TPU, or one clear sentence about what is wrong."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from ... import catalog
from ...catalog import API, AcceleratorType, UnknownType
from ...errors import InvalidInput
from ...wording import count
from ..models import CreateTPU
from ..models.core import known_type


def zone(requested: str | None, default: str | None, known: Iterable[str]) -> str:
    """The zone to create in."""
    chosen = requested or default
    known = sorted(known)
    if not chosen:
        raise InvalidInput(
            "No zone is given, and gcloud has no default zone.",
            "Choose a zone, or set one with `gcloud config set compute/zone ZONE`.",
            field="zone",
        )
    if chosen not in known:
        raise InvalidInput(
            f"The zone {chosen} does not exist, or has no TPUs.{_did_you_mean(chosen, known)}",
            f"Zones with TPUs: {', '.join(known)}.",
            field="zone",
        )
    return chosen


def default_zones(type: str, home: str, known: Iterable[str], api: API | None = None) -> list[str]:
    """Where to create a TPU for which no zone was chosen, as far as the catalog knows: in *home*,
    the user's default zone, or in the nearest zone that offers the type (by *api*). The best first.
    """
    try:
        offered = {home, *catalog.accelerator_type(type).zones_of(api)}
    except UnknownType:
        offered = {home}
    return catalog.nearest_zones(offered.intersection(known), home)


def another_zone(type: str, home: str, zone: str) -> str:
    """Why *zone* was chosen, and not the default zone *home*; "" if it is that."""
    if not home or zone == home:
        return ""
    return f"{home}, your default zone, does not offer {type}. {zone} is the nearest one that does."


def other_form(request: CreateTPU, zone: str) -> str:
    """What a type's name does not say, where as many chips are offered in another form: that, and
    how to get the other one; "" of other types.
    """
    kind = known_type(request.type)
    other = known_type(kind.other_form) if kind is not None and kind.other_form else None
    if kind is None or other is None or zone not in other.zones:
        return ""
    return (
        f"{kind.name} is {count(kind.hosts, 'VM')} of {kind.chips_per_host} chips. For "
        f"{count(other.hosts, 'VM')} of {other.chips_per_host} chips, choose {other.name}."
    )


def accelerator(requested: str, in_zone: str, offered: Iterable[str]) -> AcceleratorType | None:
    """The type to create; None for one that Google offers there and the catalog does not know."""
    offered = set(offered)
    try:
        kind = catalog.accelerator_type(requested)
    except UnknownType as error:
        if requested in offered:
            return None
        raise InvalidInput(str(error), _offers(in_zone, offered), field="type") from None
    if requested not in offered:
        elsewhere = ", ".join(z for z in kind.zones if z != in_zone)
        raise InvalidInput(
            f"{requested} is not offered in {in_zone}"
            + (f"; it is in {elsewhere}." if elsewhere else "."),
            _offers(in_zone, offered),
            field="type",
        )
    return kind


def version(
    requested: str | None, kind: AcceleratorType | None, known: Iterable[str], api: API = "tpu"
) -> str:
    """The image to create with *api*: the type's own unless one is asked for."""
    if requested is None:
        if kind is None:
            raise InvalidInput(
                "The default runtime version of this type is not known.",
                "Choose a version.",
                field="version",
            )
        return kind.version_of(api)
    known = {*known, *catalog.versions(api)}
    if api == "compute" and "/" in requested:  # an image of somebody's own
        return requested
    if requested not in known:
        raise InvalidInput(
            f"The runtime version {requested} does not exist.{_did_you_mean(requested, known)}",
            f"The default for {kind.name} is {kind.version_of(api)}." if kind else "",
            field="version",
        )
    return requested


def _did_you_mean(requested: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(requested.lower(), list(known), n=3, cutoff=0.6)
    return f" Did you mean {' or '.join(near)}?" if near else ""


def _offers(in_zone: str, offered: set[str]) -> str:
    known = [kind.name for kind in catalog.types() if kind.name in offered]
    if not known:
        return ""
    shown = ", ".join(known[:8])
    return f"{in_zone} offers {shown}{' and larger ones' if len(known) > 8 else ''}."
