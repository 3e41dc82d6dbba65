"""What can be created, from Google's lists, or from the catalog if Google does not answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from ... import catalog
from ...catalog import SHIPPED, AcceleratorType, PriceTable
from ...cloud import Cloud
from ...cloud.models import check_zone
from ...errors import Reason, TPUError
from ..models import Catalog, CreateTPU, Problem
from . import choices

#: How long a list from Google is used before it is asked for again; seconds.
FRESH = 3600.0
#: How long to wait for one; seconds.
LIST_TIMEOUT = 25.0


class Availability:
    """Zones, types and versions; Google is asked for each list at most once an hour."""

    def __init__(self, cloud: Cloud, prices: Callable[[], PriceTable] = lambda: SHIPPED) -> None:
        self._cloud = cloud
        self._prices = prices
        self._lists: dict[tuple[str, ...], tuple[float, tuple[str, ...]]] = {}

    async def catalog(self, zone: str | None = None) -> Catalog:
        """All there is to choose from. Raises INVALID for what can't be a zone's name."""
        if zone is not None:
            check_zone(zone)
        problem: Problem | None = None
        zones, types, versions = catalog.zones(), catalog.types(), catalog.versions()
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
                each.name: catalog.nearest_zones(each.zones, default_zone)[0]
                for each in types
                if each.zones
            },
            emulated=self._cloud.emulated,
            cloud=cloud,
            problem=problem,
        )

    async def _types_and_versions(
        self, zone: str
    ) -> tuple[tuple[AcceleratorType, ...], tuple[str, ...]]:
        offered, versions = await asyncio.gather(self._types(zone), self._versions(zone))
        known = [each for each in catalog.types() if each.name in offered]
        names = {each.name for each in known}
        unlisted = [catalog.unlisted_type(each, zone) for each in offered if each not in names]
        return (*known, *unlisted), versions

    async def resolve_defaults(self, request: CreateTPU) -> CreateTPU:
        """The request with zone and version filled in; raises INVALID if it can't be met.

        If Google can't be asked for its lists, the catalog is used; creating fails later if needed.
        """
        try:
            zones = await self._list(("zones",), self._cloud.locations)
        except TPUError:
            zones = catalog.zones()
        zone = await self._zone(request, zones)
        try:
            types, versions = await asyncio.gather(self._types(zone), self._versions(zone))
        except TPUError:
            types = tuple(kind.name for kind in catalog.types_in(zone))
            versions = catalog.versions()
        kind = choices.accelerator(request.type, zone, types)
        version = choices.version(request.version, kind, versions)
        return msgspec.structs.replace(request, zone=zone, version=version)

    async def _zone(self, request: CreateTPU, known: Sequence[str]) -> str:
        """That of the request; without one, the user's default zone or the nearest that offers the
        type.
        """
        home = self._cloud.zone
        if request.zone or not home:
            return choices.zone(request.zone, home, known)
        for zone in choices.default_zones(request.type, home, known):
            try:
                types = await self._types(zone)
            except TPUError:
                types = tuple(kind.name for kind in catalog.types_in(zone))
            if request.type in types:
                return zone
        return choices.zone(None, home, known)

    async def _types(self, zone: str) -> tuple[str, ...]:
        return await self._list(("types", zone), lambda: self._cloud.accelerator_types(zone))

    async def _versions(self, zone: str) -> tuple[str, ...]:
        return await self._list(("versions", zone), lambda: self._cloud.runtime_versions(zone))

    async def _list(
        self, key: tuple[str, ...], ask: Callable[[], Awaitable[tuple[str, ...]]]
    ) -> tuple[str, ...]:
        asked, answer = self._lists.get(key, (float("-inf"), ()))
        if time.monotonic() - asked > FRESH:
            try:
                async with asyncio.timeout(LIST_TIMEOUT):
                    answer = await ask()
            except TimeoutError:
                raise TPUError(
                    "Google did not list its TPU types in time.", Reason.TIMEOUT, "Try again."
                ) from None
            self._lists[key] = (time.monotonic(), answer)
        return answer
