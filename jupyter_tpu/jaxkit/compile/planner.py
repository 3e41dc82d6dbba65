"""Which TPU runs a step cheapest? Compiled for each type, timed by a roofline, without a TPU."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, get_args

from ... import catalog
from ...catalog import (
    PEAKS_READ,
    PEAKS_SOURCE,
    PRICES_READ,
    PRICES_SOURCE,
    RegionPrice,
    UnknownType,
    accelerator_type,
    chip_peak,
    price_in,
)
from ...errors import InvalidInput, Reason, TPUError
from ..topology import GENERATIONS, topology
from .compiler import compile_for, need_libtpu
from .models import CompileLimits
from .plan_table import Plan, PlanRow, Tier
from .report import CompileReport
from .roofline import StepWork, step_time
from .search import by_price

_LEAST_SECONDS = 1.0  # below that, no compiler is started


def plan(
    fn: Callable[..., Any],
    args: Sequence[Any],
    *,
    types: Iterable[str] | None = None,
    max_devices: int = 8,
    tier: Tier = "on-demand",
    zone: str = "",
    seconds: float = 600.0,
    limits: CompileLimits | None = None,
    on_row: Callable[[PlanRow], None] | None = None,
    **options: Any,
) -> Plan:
    """Which type runs a step of *fn* cheapest, with the time and price of a step on each.

    *args*: the arguments of *fn*, as the *shapes* of `compile_for`; they are those of the whole
    TPU, so that every type does the same step. *types*: types ("v5litepod-8", "tpu7x-2x2x1") and
    generations ("v5e": its types with up to *max_devices* devices); by default all of the catalog's
    up to that. *tier*: the price to rank by. *zone*: prices of its region instead of the cheapest.
    *seconds*: for all types together; those left then are rows that say so, and the plan is
    `partial`. *limits*: of each compilation. *on_row* is called with each row when it is known.
    *options*: as for `compile_for`; a mesh with a -1 (``{"data": -1}``) grows with the type.

    A type that the program does not fit, or can't be compiled for, is a row with the reason. Prices
    that are not known stay None and rank last. Raises `InvalidInput` for unknown types, and
    `TPUError` with ENVIRONMENT where libtpu is missing.
    """
    if tier not in get_args(Tier):
        raise InvalidInput(f"Unknown tier {tier!r}.", f"Use one of {', '.join(get_args(Tier))}.")
    names = _named(types, max_devices)
    need_libtpu()
    bounds = limits or CompileLimits()
    end = time.monotonic() + seconds
    rows: list[PlanRow] = []
    partial = False
    for name in names:
        left = end - time.monotonic()
        cut = left < bounds.seconds  # by the plan's own limit
        prices = _prices(name, zone)
        if left < _LEAST_SECONDS:
            partial = True
            row = _no_row(name, prices, f"Not compiled: the plan's {seconds:g} s were over.")
        else:
            within = CompileLimits(
                seconds=min(bounds.seconds, left), memory_bytes=bounds.memory_bytes
            )
            try:
                row = row_of(compile_for(name, fn, *args, limits=within, **options), *prices)
            except TPUError as error:
                partial = partial or (cut and error.reason is Reason.TIMEOUT)
                row = _no_row(name, prices, error.message)
        rows.append(row)
        if on_row is not None:
            on_row(row)
    rows.sort(key=lambda row: _rank(row, tier))
    return Plan(
        rows=tuple(rows),
        tier=tier,
        zone=zone,
        partial=partial,
        prices=f"{PRICES_SOURCE if not zone else 'List prices'}, {PRICES_READ}",
        peaks=f"{PEAKS_SOURCE}, {PEAKS_READ}",
    )


def row_of(report: CompileReport, on_demand: float | None, spot: float | None) -> PlanRow:
    """The row for a compiled program, at these prices of the whole TPU an hour in USD."""
    where = topology(report.type)
    fixed: dict[str, Any] = {
        "type": report.type,
        "fits": report.fits,
        "devices": report.devices,
        "devices_used": report.devices_used,
        "needed_bytes": report.needed_bytes,
        "hbm_bytes": report.hbm_bytes,
        "usd_per_hour": on_demand,
        "spot_usd_per_hour": spot,
    }
    if not report.fits:
        return PlanRow(**fixed, reason=f"Does not fit. {report.message}".strip())
    if not _is_count(report.flops) or not _is_count(report.hbm_traffic_bytes):
        return PlanRow(**fixed, reason="The compiler gives no FLOPs.")
    flops = (report.flops or 0.0) + (report.loop_flops or 0.0)
    traffic = report.hbm_traffic_bytes or 0.0
    sent = float(sum(row.sent_bytes for row in report.collectives))
    fixed |= {"flops": flops, "hbm_traffic_bytes": traffic, "sent_bytes": sent}
    peak = chip_peak(where.generation)
    if peak is None:
        return PlanRow(**fixed, reason=f"No published peak figures of {where.generation}.")
    notes = []
    if report.devices_used < report.devices:
        notes.append(f"uses {report.devices_used} of {report.devices} devices")
    if report.unknown_loops:
        notes.append("a loop of unknown length is counted once; the step may take longer")
    if report.custom_kernels:
        notes.append("custom kernels (Pallas) are not counted; the step takes longer")
    timed = step_time(
        StepWork(
            flops=flops,
            hbm_bytes=traffic,
            sent_bytes=sent,
            incomplete=report.unknown_loops or report.custom_kernels > 0,
        ),
        peak,
        devices_per_chip=2 if where.generation == "tpu7x" else 1,
    )
    if timed.ici_ms is None:
        notes.append("its ICI bandwidth is not known; communication is left out")
    return PlanRow(**fixed, time=timed, notes=tuple(notes))


def _is_count(number: float | None) -> bool:
    return number is not None and 0 <= number < float("inf")


def _named(types: Iterable[str] | None, max_devices: int) -> list[str]:
    """Each type once, generations replaced by their types."""
    if types is None:
        return by_price(max_devices)
    type_names: list[str] = []
    for name in [types] if isinstance(types, str) else types:
        if name not in GENERATIONS:
            type_names.append(topology(name).type)
            continue
        sizes = [kind.name for kind in catalog.types() if kind.generation == name]
        if name == "tpu7x":
            sizes = ["tpu7x-2x2x1"]
        within = [size for size in sizes if topology(size).devices <= max_devices]
        if not within:
            raise InvalidInput(
                f"No type of {name} has {max_devices} devices or fewer.", "Raise max_devices."
            )
        type_names += within
    if not type_names:
        raise InvalidInput("There are no types to plan with.")
    return list(dict.fromkeys(type_names))


def _prices(name: str, zone: str) -> tuple[float | None, float | None]:
    """On demand and spot, for the whole TPU an hour."""
    try:
        kind = accelerator_type(name)
    except UnknownType:  # tpu7x is not rented by the type
        return None, None
    prices: Sequence[RegionPrice] = kind.prices
    if zone:
        price = price_in(kind, zone)
        prices = [price] if price else []
    spots = [price.spot for price in prices if price.spot is not None]
    return min((price.on_demand for price in prices), default=None), min(spots, default=None)


def _no_row(name: str, prices: tuple[float | None, float | None], reason: str) -> PlanRow:
    where = topology(name)
    return PlanRow(
        type=name,
        devices=where.devices,
        hbm_bytes=where.hbm_bytes,
        usd_per_hour=prices[0],
        spot_usd_per_hour=prices[1],
        reason=reason,
    )


def _rank(row: PlanRow, tier: Tier) -> tuple[int, float]:
    cost = row.usd_for_1000_steps(tier)
    if cost is not None:
        return 0, cost
    if row.time is not None:
        return 1, row.time.ms
    return (2 if row.fits is False else 3), 0.0
