"""The fleet's part ``logs``: whether Cloud Logging stores what the hosts of a TPU log."""

from __future__ import annotations

from ...cloud import Cloud, NodeName, check_ours
from ...cloud.google_apis import GoogleAPIs
from ...cloud.log_exclusions import FREE_GIB, PRICE_DATE, USD_PER_GIB, LogExclusion, log_filter
from ..core.finder import TPUFinder
from ..models import SetLogging, TPULogging
from ..models.core import validated


class LogService:
    """As a :class:`~jupyter_tpu.fleet.api.LogsAPI`."""

    def __init__(self, cloud: Cloud, finder: TPUFinder) -> None:
        self._cloud = cloud
        self._finder = finder

    async def show(self, ref: str) -> TPULogging:
        name, exclusion = await self._find(ref)
        return self._described(name, enabled=not await exclusion.exists())

    async def set(self, ref: str, request: SetLogging) -> TPULogging:
        enabled = validated(request).enabled
        name, exclusion = await self._find(ref)
        await (exclusion.delete() if enabled else exclusion.create())
        return self._described(name, enabled=enabled)

    async def _find(self, ref: str) -> tuple[NodeName, LogExclusion]:
        name = await self._finder.find(ref)
        check_ours(name, "kept out of Cloud Logging")
        return name, LogExclusion(GoogleAPIs(self._cloud.target, name.project), name)

    def _described(self, name: NodeName, *, enabled: bool) -> TPULogging:
        return TPULogging(
            tpu=name.node,
            zone=name.zone,
            project=name.project,
            emulated=self._cloud.emulated,
            enabled=enabled,
            filter=log_filter(name),
            usd_per_gib=USD_PER_GIB,
            free_gib=FREE_GIB,
            price_date=PRICE_DATE,
        )
