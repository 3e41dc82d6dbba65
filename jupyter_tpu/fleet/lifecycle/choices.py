"""Zone, type, version and control plane of a new TPU, or one clear sentence about what is wrong.

Google's control planes are the Cloud TPU API and Compute Engine. The user's choice comes first
(`--api`, then the setting), then what the project's quota allows. A TPU's type, zone and image
leave no choice in most cases.
"""

from __future__ import annotations

import asyncio
import difflib
import os
import time
from collections.abc import Iterable, Mapping

from msgspec import Struct, structs

from ... import catalog
from ...catalog import API, API_NAMES, AcceleratorType, UnknownType
from ...cloud import Cloud, preflight
from ...cloud.google_apis import GoogleAPIs
from ...cloud.models import Tier
from ...errors import InvalidInput, TPUError
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


#: The setting: "tpu" or "compute"; anything else: what the quota allows.
API_VARIABLE = "JUPYTER_TPU_API"
#: How long an answer about quotas is used; seconds.
_FRESH_ANSWER_SECONDS = 300.0
#: How long to wait for one; seconds.
_ANSWER_SECONDS = 15.0
_NAMED: dict[API, str] = {"tpu": "the Cloud TPU API", "compute": "Compute Engine"}


class ControlPlaneChoice(Struct, frozen=True):
    """What makes a TPU, and why that, in a sentence; "" where there is no choice."""

    api: API
    reason: str = ""


class ControlPlanes:
    """The control planes of *cloud*."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._quotas: dict[tuple[str, ...], tuple[float, int | None]] = {}

    def named(self, request: CreateTPU) -> CreateTPU:
        """The request with the catalog's name of its type, and the control plane that its type or
        version is a name of. Raises INVALID if these don't go together.
        """
        api = request.api
        machine: API | None = "compute" if catalog.is_machine_type(request.type) else None
        says: list[tuple[str | None, str, API | None]] = [
            (request.type, "a machine type", machine),
            (request.version, "an image", catalog.api_of_version(request.version or "")),
        ]
        for said, what, implied in says:
            if implied is None or len(self._cloud.apis) == 1:
                continue
            if api is not None and api != implied:
                raise InvalidInput(
                    f"{said} is {what} of {_NAMED[implied]}, not of {_NAMED[api]}.",
                    f"Omit it, or choose {_NAMED[implied]}: --api {implied}",
                    field="api",
                )
            api = implied
        name = catalog.official_name(request.type)
        known = name if known_type(name) is not None else request.type
        return structs.replace(request, type=known, api=api)

    async def choose(
        self, request: CreateTPU, zone: str, offered: Mapping[API, Iterable[str]]
    ) -> ControlPlaneChoice:
        """What makes it in *zone*. offered: the types that each has there.

        Raises INVALID if what was asked for can't make it.
        """
        can = [api for api in self._cloud.apis if request.type in offered.get(api, ())]
        if request.api is not None:
            if can and request.api not in can:
                raise InvalidInput(
                    f"{API_NAMES[request.api]} does not offer {request.type} in {zone}. "
                    f"{API_NAMES[can[0]]} does.",
                    f"Choose that: --api {can[0]}",
                    field="api",
                )
            return ControlPlaneChoice(request.api)
        if len(can) < 2:
            return ControlPlaneChoice(can[0] if can else self._cloud.apis[0])
        setting = os.environ.get(API_VARIABLE, "")
        for api in can:
            if setting == api:
                return ControlPlaneChoice(
                    api, f"{API_NAMES[api]} makes it, as {API_VARIABLE} says."
                )
        return await self._by_quota(request, zone)

    async def _by_quota(self, request: CreateTPU, zone: str) -> ControlPlaneChoice:
        accelerator = known_type(request.type)
        generation = accelerator.generation if accelerator is not None else ""
        tpu, compute = await asyncio.gather(
            *(self.quota(api, generation, request.tier, zone) for api in ("tpu", "compute"))
        )
        what = f"{generation} ({request.tier}) in {zone}"
        if tpu == 0 and compute:
            return ControlPlaneChoice(
                "compute",
                f"Compute Engine makes it: the Cloud TPU API's quota for {what} is 0.",
            )
        if not compute:
            return ControlPlaneChoice("tpu")
        too = "Compute Engine can make it, too: --api compute"
        return ControlPlaneChoice("tpu", f"The Cloud TPU API makes it. {too}")

    async def quota(self, api: API, generation: str, tier: Tier, zone: str) -> int | None:
        """How many chips *api* allows there at most, -1 for no limit; None if that is not known.

        Google is asked at most once in five minutes.
        """
        key = (api, generation, tier, zone)
        asked, answer = self._quotas.get(key, (float("-inf"), None))
        if time.monotonic() - asked > _FRESH_ANSWER_SECONDS:
            try:
                project = self._cloud.project
                async with asyncio.timeout(_ANSWER_SECONDS):
                    quotas = await preflight.quotas(
                        GoogleAPIs(self._cloud.target, project),
                        project,
                        generation=generation,
                        tier=tier,
                        zone=zone,
                        api=api,
                    )
                answer = preflight.allowed(quotas, tier)
            except (TPUError, TimeoutError):
                answer = None
            self._quotas[key] = (time.monotonic(), answer)
        return answer
