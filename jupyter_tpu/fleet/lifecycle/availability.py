"""What can be created, from Google's lists, or from the catalog if Google does not answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from ... import catalog
from ...catalog import API, SHIPPED, AcceleratorType, PriceTable
from ...cloud import Cloud
from ...cloud.models import check_zone
from ...errors import Reason, TPUError
from ..models import Catalog, CreateTPU, Problem
from . import choices
from .choices import ControlPlanes

#: How long a list from Google is used before it is asked for again; seconds.
FRESH_LIST_SECONDS = 3600.0
#: How long to wait for one; seconds.
LIST_TIMEOUT = 25.0
#: What a control plane answers that has no such zone, or that the project does not use.
NOT_USED = (Reason.PERMISSION, Reason.NOT_FOUND, Reason.INVALID)


class Availability:
    """Zones, types and versions; Google is asked for each list at most once an hour."""

    def __init__(self, cloud: Cloud, prices: Callable[[], PriceTable] = lambda: SHIPPED) -> None:
        self._cloud = cloud
        self._prices = prices
        self.control_planes = ControlPlanes(cloud)
        self._lists: dict[tuple[str, ...], tuple[float, tuple[str, ...]]] = {}

    async def catalog(self, zone: str | None = None) -> Catalog:
        """All there is to choose from. Raises INVALID for what can't be a zone's name."""
        if zone is not None:
            check_zone(zone)
        problem: Problem | None = None
        zones, versions = catalog.zones(), catalog.versions()
        types = tuple(t for t in catalog.types() if {*t.apis()} & {*self._cloud.apis})
        project = cloud = default_zone = ""
        try:
            cloud = self._cloud.identity
            default_zone = self._cloud.zone or ""
            project = self._cloud.project
            zones = await self._list(("zones",), self._cloud.locations)
            if zone is not None:
                types, versions = await self._types_and_versions(zone)
        except TPUError as error:
            problem = Problem.of(error)
            if zone is not None:
                types = catalog.types_in(zone)
        return Catalog(
            types=[*map(self._prices().of, types)],
            zones=sorted(zones),
            versions=list(versions),
            project=project,
            default_zone=default_zone,
            suggested_zones={
                type_.name: catalog.nearest_zones(type_.zones, default_zone)[0]
                for type_ in types
                if type_.zones
            },
            emulated=self._cloud.emulated,
            cloud=cloud,
            problem=problem,
        )

    async def _types_and_versions(
        self, zone: str
    ) -> tuple[tuple[AcceleratorType, ...], tuple[str, ...]]:
        offered, versions = await asyncio.gather(self._types(zone), self._versions(zone))
        known = [type_ for type_ in catalog.types() if type_.name in offered]
        names = {accelerator_type.name for accelerator_type in known}
        unlisted = [catalog.unlisted_type(name, zone) for name in offered if name not in names]
        return (*known, *unlisted), versions

    async def resolve_defaults(self, request: CreateTPU) -> CreateTPU:
        """The request with zone, control plane and version filled in; raises INVALID if it can't be
        met.

        If Google can't be asked for its lists, the catalog is used; creating fails later if needed.
        """
        return (await self.resolve(request))[0]

    async def resolve(self, request: CreateTPU) -> tuple[CreateTPU, str]:
        """As `resolve_defaults`, with why that control plane makes it; "" where no other could."""
        request = self.control_planes.named(request)
        api = request.api
        try:
            zones = await self._zones(api)
        except TPUError:
            zones = catalog.zones(api)
        zone = await self._zone(request, zones)
        planes = self._cloud.apis
        lists = await asyncio.gather(*(self._offered(zone, plane) for plane in planes))
        offered = dict(zip(planes, lists, strict=True))
        anywhere = [name for types in offered.values() for name in types]
        kind = choices.accelerator(request.type, zone, anywhere)
        choice = await self.control_planes.choose(request, zone, offered)
        try:
            versions = await self._versions(zone, choice.api)
        except TPUError:
            versions = catalog.versions(choice.api)
        version = choices.version(request.version, kind, versions, choice.api)
        create_tpu = msgspec.structs.replace(request, zone=zone, version=version, api=choice.api)
        return create_tpu, choice.reason

    async def _zone(self, request: CreateTPU, known: Sequence[str]) -> str:
        """That of the request; without one, the user's default zone or the nearest that offers the
        type.
        """
        home = self._cloud.zone
        if request.zone or not home:
            return choices.zone(request.zone, home, known)
        for zone in choices.default_zones(request.type, home, known, request.api):
            if request.type in await self._offered(zone, request.api):
                return zone
        return choices.zone(None, home, known)

    async def _zones(self, api: API | None) -> tuple[str, ...]:
        if api is None:
            return await self._list(("zones",), self._cloud.locations)
        return await self._list(("zones", api), self._cloud.of_api(api).locations)

    async def _offered(self, zone: str, api: API | None) -> tuple[str, ...]:
        """The types that Google lists there, or the catalog if Google does not answer."""
        try:
            return await self._types(zone, api)
        except TPUError as error:
            if api is not None and len(self._cloud.apis) > 1 and error.reason in NOT_USED:
                return ()
            return tuple(kind.name for kind in catalog.types_in(zone, api))

    async def _types(self, zone: str, api: API | None = None) -> tuple[str, ...]:
        cloud = self._cloud if api is None else self._cloud.of_api(api)
        return await self._list(("types", zone, api or ""), lambda: cloud.accelerator_types(zone))

    async def _versions(self, zone: str, api: API | None = None) -> tuple[str, ...]:
        cloud = self._cloud if api is None else self._cloud.of_api(api)
        return await self._list(("versions", zone, api or ""), lambda: cloud.runtime_versions(zone))

    async def _list(
        self, key: tuple[str, ...], ask: Callable[[], Awaitable[tuple[str, ...]]]
    ) -> tuple[str, ...]:
        asked, answer = self._lists.get(key, (float("-inf"), ()))
        if time.monotonic() - asked > FRESH_LIST_SECONDS:
            try:
                async with asyncio.timeout(LIST_TIMEOUT):
                    answer = await ask()
            except TimeoutError:
                raise TPUError(
                    "Google did not list its TPU types in time.", Reason.TIMEOUT, "Try again."
                ) from None
            self._lists[key] = (time.monotonic(), answer)
        return answer
