"""The fleet's part ``prices``: the shipped ones, and those that were last read from Google."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from ...catalog import SHIPPED, PriceTable
from ...cloud import Cloud
from ...cloud.billing import read_prices
from ...cloud.google_apis import GoogleAPIs
from ...errors import Reason, TPUError
from ..core.store import Store
from ..models import PriceList
from ..models.core import timestamp


class Prices:
    """As a :class:`~jupyter_tpu.fleet.api.PricesAPI`.

    reload(): takes over what other processes wrote. changed() is called when prices are others.
    """

    def __init__(
        self,
        cloud: Cloud,
        store: Store,
        *,
        reload: Callable[[], Awaitable[None]],
        changed: Callable[[], None],
    ) -> None:
        self._cloud = cloud
        self._store = store
        self._reload = reload
        self._changed = changed
        self._read: PriceList | None = None
        self.table = SHIPPED
        self.take_over(store.snapshot.prices)

    def take_over(self, read: PriceList | None) -> None:
        """Takes over what other processes wrote."""
        if read != self._read:
            self._read = read
            self.table = PriceTable(read.prices if read is not None else ())
            self._changed()

    async def list(self) -> PriceList:
        await self._reload()
        return self.find()

    def find(self, _: str = "") -> PriceList:
        """As `list`, at once: for events."""
        return PriceList(
            read=self._read.read if self._read is not None else "",
            prices=[*self.table.rows()],
            unknown=self._read.unknown if self._read is not None else [],
        )

    async def refresh(self) -> PriceList:
        await self._reload()
        apis = GoogleAPIs(self._cloud.target, self._cloud.project)
        today = datetime.now(UTC).date().isoformat()
        prices = await read_prices(apis, today=today)
        if not prices.prices:
            raise TPUError(
                "No TPU prices could be read from Google's Cloud Billing Catalog. The previous "
                "prices are kept.",
                Reason.INTERNAL,
                "Look them up: https://cloud.google.com/tpu/pricing",
            )
        read = PriceList(read=timestamp(), prices=[*prices.prices], unknown=[*prices.unknown])
        self._store.save_prices(read)
        self.take_over(read)
        await self._store.flush()
        return await self.list()
