"""Which TPU runs a step cheapest? Compiled for each type, timed by a roofline, without a TPU.

`plan` is for a function of this process, `plan_code` for the code of a REST request.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol, get_args

from msgspec import structs

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
from ..arrays import MeshAxes
from ..tables import binary_size
from ..topology import GENERATIONS, topology
from .compiler import StepWatch, compile_for, compile_trial, need_libtpu
from .layouts import batch_spec, checked_axes, layouts, split_arguments, weight_spec
from .models import CompileLimits, CompileRequest, PlanRequest
from .plan_row import PlanRow, Tier
from .plan_table import TypePlan
from .report import CompileReport
from .roofline import StepWork, step_time
from .search import by_price

_LEAST_SECONDS = 1.0  # below that, no compiler is started
#: Programs that one plan compiles at most.
MOST_PROGRAMS = 200


def plan(
    fn: Callable[..., Any],
    args: Sequence[Any],
    *,
    types: Iterable[str] | None = None,
    axes: Iterable[str] | None = None,
    max_devices: int = 8,
    tier: Tier = "on-demand",
    zone: str = "",
    seconds: float = 600.0,
    limits: CompileLimits | None = None,
    on_row: Callable[[PlanRow], None] | None = None,
    **options: Any,
) -> TypePlan:
    """Which type runs a step of *fn* cheapest, with the time and price of a step on each.

    *args*: the arguments of *fn*, as the *shapes* of `compile_for`; they are those of the whole
    TPU, so that every type does the same step. *types*: types ("v5litepod-8", "tpu7x-2x2x1") and
    generations ("v5e": its types with up to *max_devices* devices); by default all of the catalog's
    up to that. *axes*: of "data", "fsdp" and "tensor": meshes of them are compared, too, with
    shardings by the rules of `layouts`, instead of *mesh* and *in_shardings*; the last argument is
    the batch. *tier*: the price to rank by. *zone*: prices of its region instead of the cheapest.
    *seconds*: for all types together; those left then are rows that say so, and the plan is
    `partial`. *limits*: of each compilation. *on_row* is called with each row when it is known.
    *options*: as for `compile_for`; a mesh with a -1 (``{"data": -1}``) grows with the type.

    A type that the program does not fit, or can't be compiled for, is a row with the reason. Prices
    that are not known stay None and rank last. Raises `InvalidInput` for unknown types, and
    `TPUError` with ENVIRONMENT where libtpu is missing.
    """
    planning = Planning(
        types, axes, max_devices, tier=tier, zone=zone, seconds=seconds, limits=limits
    )
    if planning.axes and options.keys() & {"mesh", "in_shardings"}:
        raise InvalidInput("Set axes, or mesh and in_shardings, not both.")
    planning.on_row = on_row
    need_libtpu()
    for trial in planning.trials():
        split = options
        try:
            if trial.mesh:
                split = options | {"mesh": trial.mesh, "in_shardings": _split(args, trial.mesh)}
            report = compile_for(trial.type, fn, *args, limits=trial.limits, **split)
        except TPUError as error:
            planning.failed(trial, error)
        else:
            planning.compiled(trial, report)
    return planning.plan()


def _split(args: Sequence[Any], mesh: MeshAxes) -> tuple[Any, ...]:
    """Partition specs of the arguments, by the rules of `layouts`."""
    import jax
    from jax.sharding import PartitionSpec

    from .export import shape_specs

    def spec(leaf: Any, batch: bool) -> Any:
        parts = batch_spec(leaf.shape, mesh) if batch else weight_spec(leaf.shape, mesh)
        return PartitionSpec(*(tuple(part) if isinstance(part, list) else part for part in parts))

    return tuple(
        jax.tree.map(partial(spec, batch=number == len(args) - 1), shape_specs(argument))
        for number, argument in enumerate(args)
    )


class RowWatch(StepWatch, Protocol):
    """Receives the progress of `plan_code`; what begins is the key of a trial."""

    def end(self, key: str, row: PlanRow) -> None:
        """The row of that trial."""


async def plan_code(
    request: PlanRequest, watch: RowWatch | None = None, planning: Planning | None = None
) -> TypePlan:
    """POST jax/plan: runs the code and compiles its function, in a process for each row.

    Raises `InvalidInput` for unknown types, and ENVIRONMENT where libtpu is missing. Cancelling it
    stops the process. *planning*: that of `planning_of`, if there is one already.
    """
    planning = planning or planning_of(request)
    need_libtpu()
    for trial in planning.trials():
        if watch is not None:
            watch.begin(trial.key)
        try:
            report = await compile_trial(trial.type, code_for(request, trial), trial.limits, watch)
        except TPUError as error:
            row = planning.failed(trial, error)
        else:
            row = planning.compiled(trial, report)
        if watch is not None:
            watch.end(trial.key, row)
    return planning.plan()


def planning_of(request: PlanRequest) -> Planning:
    """Raises `InvalidInput` for what can't be meant."""
    planning = Planning(
        request.types,
        request.axes,
        request.max_devices,
        tier=request.tier,
        zone=request.zone,
        seconds=request.seconds,
        limits=request.limits,
    )
    if planning.axes:
        if request.mesh is not None:
            raise InvalidInput("Set axes, or a mesh and the arguments' specs, not both.")
        split_arguments(request.arguments, {})
    return planning


def code_for(request: PlanRequest, trial: Trial) -> CompileRequest:
    """The request to compile the code for one trial."""
    arguments, mesh = request.arguments, request.mesh
    if trial.mesh:
        arguments, mesh = split_arguments(request.arguments, trial.mesh), trial.mesh
    return CompileRequest(
        code=request.code,
        function=request.function,
        arguments=arguments,
        type=trial.type,
        mesh=mesh,
        donate=request.donate,
        limits=trial.limits,
    )


class Trial(NamedTuple):
    """One compilation of a plan."""

    type: str
    #: {}: as the caller has said.
    mesh: MeshAxes
    limits: CompileLimits
    #: Whether its limit of time is what the plan has left.
    cut: bool

    @property
    def key(self) -> str:
        """Its key among the trials of its plan: "v5litepod-8 data=4 tensor=2"."""
        return _key(self.type, self.mesh)


class Planning:
    """A plan in the making: what to compile next within its time, and the rows so far.

    Raises `InvalidInput` for unknown types, axes and tiers.
    """

    on_row: Callable[[PlanRow], None] | None = None

    def __init__(
        self,
        types: Iterable[str] | None,
        axes: Iterable[str] | None,
        max_devices: int,
        *,
        tier: Tier,
        zone: str,
        seconds: float,
        limits: CompileLimits | None,
    ) -> None:
        if tier not in get_args(Tier):
            raise InvalidInput(
                f"Unknown tier {tier!r}.", f"Use one of {', '.join(get_args(Tier))}."
            )
        self.axes = () if axes is None else checked_axes(axes)
        self.candidates = [
            (name, mesh)
            for name in _named(types, max_devices)
            for mesh in (layouts(self.axes, topology(name).devices) if self.axes else [{}])
        ]
        if len(self.candidates) > MOST_PROGRAMS:
            raise InvalidInput(
                f"These are {len(self.candidates)} programs to compile; "
                f"at most {MOST_PROGRAMS} are.",
                "Name fewer types or axes, or lower max_devices.",
            )
        self._tier = tier
        self._zone = zone
        self._seconds = seconds
        self._limits = limits or CompileLimits()
        self._rows: list[PlanRow] = []
        self._partial = False

    @property
    def keys(self) -> list[str]:
        """The keys of all trials."""
        return [_key(name, mesh) for name, mesh in self.candidates]

    def trials(self) -> Iterator[Trial]:
        """What to compile, one after the other, until the time is over; the others become rows."""
        end = time.monotonic() + self._seconds
        for name, mesh in self.candidates:
            left = end - time.monotonic()
            limits = CompileLimits(
                seconds=max(_LEAST_SECONDS, min(self._limits.seconds, left)),
                memory_bytes=self._limits.memory_bytes,
            )
            trial = Trial(name, mesh, limits, cut=left < self._limits.seconds)
            if left >= _LEAST_SECONDS:
                yield trial
            else:
                self._partial = True
                self._without(trial, f"Not compiled: the plan's {self._seconds:g} s were over.")

    def compiled(self, trial: Trial, report: CompileReport) -> PlanRow:
        """The compiler has reported on a trial."""
        row = row_of(report, *_prices(trial.type, self._zone))
        return self._add(structs.replace(row, mesh=trial.mesh) if trial.mesh else row)

    def failed(self, trial: Trial, error: TPUError) -> PlanRow:
        """It could not be compiled, or not in time."""
        self._partial = self._partial or (trial.cut and error.reason is Reason.TIMEOUT)
        return self._without(trial, error.message)

    def plan(self) -> TypePlan:
        """The rows, the cheapest first."""
        return TypePlan(
            rows=tuple(sorted(self._rows, key=lambda row: _rank(row, self._tier))),
            tier=self._tier,
            zone=self._zone,
            partial=self._partial,
            prices=f"{PRICES_SOURCE if not self._zone else 'List prices'}, {PRICES_READ}",
            peaks=f"{PEAKS_SOURCE}, {PEAKS_READ}",
        )

    def _without(self, trial: Trial, reason: str) -> PlanRow:
        where = topology(trial.type)
        on_demand, spot = _prices(trial.type, self._zone)
        return self._add(
            PlanRow(
                type=trial.type,
                topology=where.shape,
                mesh=trial.mesh,
                devices=where.devices,
                hbm_bytes=where.hbm_bytes,
                usd_per_hour=on_demand,
                spot_usd_per_hour=spot,
                reason=reason,
            )
        )

    def _add(self, row: PlanRow) -> PlanRow:
        self._rows.append(row)
        if self.on_row is not None:
            self.on_row(row)
        return row


def _key(name: str, mesh: MeshAxes) -> str:
    return " ".join((name, *(f"{axis}={size}" for axis, size in mesh.items())))


def row_of(report: CompileReport, on_demand: float | None, spot: float | None) -> PlanRow:
    """The row for a compiled program, at these prices of the whole TPU an hour in USD."""
    where = topology(report.type)
    fixed: dict[str, Any] = {
        "type": report.type,
        "topology": where.shape,
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
    if report.host_traffic_bytes:
        notes.append(
            f"{binary_size(report.host_traffic_bytes)} go from and to the host's memory in a step, "
            "for which no time is counted"
        )
    uncounted = report.custom_kernels - report.estimated_kernels
    if uncounted:
        notes.append("custom kernels (Pallas) are not counted; the step takes longer")
    if report.estimated_kernels:
        notes.append("FLOPs of custom kernels (Pallas) are those that pl.CostEstimate says")
    timed = step_time(
        StepWork(
            flops=flops,
            hbm_bytes=traffic,
            sent_bytes=sent,
            sent_on_all_ports=(
                float(sum(row.sent_by_all for row in report.collectives)) if where.is_torus else 0.0
            ),
            incomplete=report.unknown_loops or uncounted > 0 or report.host_traffic_bytes > 0,
        ),
        peak,
        devices_per_chip=2 if where.generation == "tpu7x" else 1,
    )
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


def _rank(row: PlanRow, tier: Tier) -> tuple[int, float]:
    cost = row.usd_for_1000_steps(tier)
    if cost is not None:
        return 0, cost
    if row.time is not None:
        return 1, row.time.ms
    return (2 if row.fits is False else 3), 0.0
