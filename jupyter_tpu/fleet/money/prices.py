"""Prices, shipped ones and those read from Google; and reservations, which are paid in advance."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from msgspec import structs, to_builtins

from ... import catalog
from ...catalog import SHIPPED, PriceTable, usd
from ...cloud import Cloud
from ...cloud.billing import read_prices
from ...cloud.google_apis import GoogleAPIs
from ...cloud.models import Reservation, ReservationSpec
from ...errors import InvalidInput, Reason, TPUError
from ...wording import phrase
from ..core.core import Core
from ..models import CreateReservation, PriceList, ReservationQuote, ReservationView
from ..models.core import future_seconds, timestamp, validated


class Prices:
    """As a :class:`~jupyter_tpu.fleet.api.PricesAPI`."""

    def __init__(self, core: Core) -> None:
        self._cloud = core.cloud
        self._store = core.store
        self._observed = core.observed
        self._changes = core.changes
        self._reload = core.shared.reload
        self._read: PriceList | None = None
        self.table = SHIPPED
        self.take_over(core.store.snapshot.prices)

    def take_over(self, read: PriceList | None) -> None:
        """Takes over what other processes wrote."""
        if read != self._read:
            self._read = read
            self.table = PriceTable(read.prices if read is not None else ())
            self._changes.mark_changed("prices", "prices")
            self._changes.mark_tpus_changed(self._observed.nodes)

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


class ReservationService:
    """A :class:`~jupyter_tpu.fleet.api.ReservationsAPI`."""

    def __init__(self, cloud: Cloud, prices: Prices) -> None:
        self._cloud = cloud
        self._prices = prices

    async def list(self) -> Sequence[ReservationView]:
        return [_view(reservation) for reservation in await self._cloud.reservations()]

    async def quote(self, request: CreateReservation) -> ReservationQuote:
        request = validated(request)
        start = future_seconds(request.start, "start", time.time())
        end = start + timedelta(days=request.days).total_seconds()
        generation = _generation(request.type)
        listed = self._list_price(generation, request)
        emulated = self._cloud.emulated
        price = (
            phrase("an emulated one costs nothing")
            if emulated
            else phrase("its price is not known")
            if listed is None
            else phrase(f"about {usd(listed)} at the on-demand list price")
        )
        first, last = (datetime.fromtimestamp(at, UTC).date().isoformat() for at in (start, end))
        return ReservationQuote(
            chips=request.chips,
            start=timestamp("seconds", at=start),
            end=timestamp("seconds", at=end),
            days=request.days,
            list_usd=listed,
            emulated=emulated,
            question=f"Reserve {request.chips} chips of {generation} in {request.zone} from "
            f"{first} to {last} ({request.days} days): {price}. Google bills all days, used or "
            "not, and may not let you cancel.",
        )

    async def create(self, request: CreateReservation) -> ReservationView:
        quote = await self.quote(request)
        if not request.confirm_cost:
            raise TPUError(
                quote.question,
                Reason.PRICE,
                "Confirm the cost (confirm_cost), and then the name (confirm_name).",
                field="confirm_cost",
            )
        if request.confirm_name != request.name:
            raise TPUError(
                f"A reservation of {request.days} days has to be confirmed twice.",
                Reason.PRICE,
                f"Confirm its name, too: {request.name} (confirm_name).",
                field="confirm_name",
            )
        spec = ReservationSpec(
            name=request.name,
            zone=request.zone,
            generation=_generation(request.type),
            chips=request.chips,
            start=quote.start,
            seconds=request.days * 86_400,
            workload=request.workload,
        )
        return _view(await self._cloud.reserve(spec))

    def _list_price(self, generation: str, request: CreateReservation) -> float | None:
        """The price of all its days on demand, USD."""
        types = [
            candidate
            for candidate in catalog.types("compute")
            if candidate.generation == generation
        ]
        for accelerator in types:
            price = catalog.price_in(self._prices.table.of(accelerator), request.zone)
            if price is not None and price.on_demand is not None:
                return price.on_demand / accelerator.chips * request.chips * request.days * 24
        return None


def _generation(type: str) -> str:
    """The generation of a type, a machine type or a generation; raises INVALID."""
    generations = {accelerator.generation for accelerator in catalog.types("compute")}
    if type in generations:
        return type
    try:
        return catalog.accelerator_type(catalog.official_name(type)).generation
    except catalog.UnknownType as error:
        hint = f"Choose one of {', '.join(sorted(generations))}."
        raise InvalidInput(str(error), hint, field="type") from None


def _view(reservation: Reservation) -> ReservationView:
    return structs.replace(ReservationView(name="", zone=""), **to_builtins(reservation))
