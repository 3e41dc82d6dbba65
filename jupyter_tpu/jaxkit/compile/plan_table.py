"""The planner's answer: types in order of price for the same steps; prints as a table."""

from __future__ import annotations

from html import escape
from typing import Any, Literal

import msgspec
from msgspec import Struct

from ...catalog import usd
from ..tables import binary_size, html_table, text_table
from .roofline import StepTime

Tier = Literal["on-demand", "spot"]

_HEADS = ("type", "ms a step", "range", "bound", "$ per 1000 steps", "spot", "HBM a device", "")


class PlanRow(Struct, kw_only=True, frozen=True):
    """One type: the time and price of a step, or why it has none."""

    type: str
    #: None: it was not compiled for this type; `reason` says why.
    fits: bool | None = None
    devices: int = 0
    devices_used: int = 0
    #: Per device; None where the compiler stopped before it knew.
    needed_bytes: int | None = None
    hbm_bytes: int = 0
    #: Per device and step; None where the compiler gives none.
    flops: float | None = None
    hbm_traffic_bytes: float | None = None
    sent_bytes: float | None = None
    time: StepTime | None = None
    #: For the whole TPU, list prices; None: not known.
    usd_per_hour: float | None = None
    spot_usd_per_hour: float | None = None
    #: Why it does not fit, was not compiled, or has no time.
    reason: str = ""
    notes: tuple[str, ...] = ()

    @property
    def usd_per_1000_steps(self) -> float | None:
        """On demand, at the expected time; None if price or time are not known."""
        return self.usd_for_1000_steps("on-demand")

    def usd_for_1000_steps(self, tier: Tier) -> float | None:
        """At the expected time, in that *tier*; None if price or time are not known."""
        price = self.usd_per_hour if tier == "on-demand" else self.spot_usd_per_hour
        if price is None or self.time is None:
            return None
        return self.time.ms * price / 3600  # 1000 steps of ms / 1000 seconds


class Plan(Struct, kw_only=True, frozen=True):
    """Types for a program, the cheapest a step first; then those without a price, then the rest."""

    rows: tuple[PlanRow, ...]
    tier: Tier
    zone: str  # "": the cheapest region of each type
    #: The time ran out before all types were compiled.
    partial: bool
    prices: str  # their source and date
    peaks: str

    @property
    def best(self) -> PlanRow | None:
        """The first row, if its program fits and its price is known."""
        first = self.rows[0] if self.rows else None
        known = first is not None and first.usd_for_1000_steps(self.tier) is not None
        return first if known else None

    def to_json(self) -> str:
        """As `to_builtins`, in JSON."""
        return msgspec.json.encode(self.to_builtins()).decode()

    def to_builtins(self) -> dict[str, Any]:
        """All fields, and the prices of 1000 steps in USD."""
        fields: dict[str, Any] = msgspec.to_builtins(self)
        for row, out in zip(self.rows, fields["rows"], strict=True):
            out["usd_per_1000_steps"] = row.usd_for_1000_steps("on-demand")
            out["spot_usd_per_1000_steps"] = row.usd_for_1000_steps("spot")
        return fields

    def __repr__(self) -> str:
        return "\n\n".join((text_table(_HEADS, self._cells()), "\n".join(self._remarks())))

    def _repr_html_(self) -> str:
        remarks = "".join(f"<p>{escape(line)}</p>" for line in self._remarks())
        return html_table(_HEADS, self._cells()) + remarks

    def _cells(self) -> list[tuple[str, ...]]:
        return [_cells_of(row) for row in self.rows]

    def _remarks(self) -> list[str]:
        lines = []
        if self.partial:
            lines.append("This table is partial: the time ran out before all types were compiled.")
        if near := self._as_cheap():
            lines.append(
                f"Within their ranges, {', '.join(near)} may be cheaper than {self.rows[0].type}."
            )
        lines += list(dict.fromkeys(f"{r.type}: {note}" for r in self.rows for note in r.notes))
        where = f"in the region of {self.zone}" if self.zone else "in the cheapest region"
        lines += [
            "The range goes from the time at peak figures, which no bf16 program beats, to that at "
            "poor efficiency with nothing overlapped. Latencies and input are left out: a step "
            "well below 1 ms takes longer.",
            f"Ranked by the {self.tier} price {where}. {self.prices}. {self.peaks}.",
        ]
        return lines

    def _as_cheap(self) -> list[str]:
        best = self.best
        if best is None or best.time is None:
            return []
        cost = best.usd_for_1000_steps(self.tier) or 0.0
        longest = best.time.longest_ms
        most = float("inf") if longest is None else cost * longest / best.time.ms
        cheap = []
        for row in self.rows[1:]:
            its = row.usd_for_1000_steps(self.tier)
            if its is not None and row.time and its * row.time.shortest_ms / row.time.ms < most:
                cheap.append(row.type)
        return cheap


def _cells_of(row: PlanRow) -> tuple[str, ...]:
    time = row.time
    needs = "" if row.needed_bytes is None else f"{binary_size(row.needed_bytes)} of "
    memory = f"{needs}{binary_size(row.hbm_bytes)}" if row.hbm_bytes else ""
    if time is None:
        return (row.type, "", "", "", "", "", memory, row.reason)
    longest = "not known" if time.longest_ms is None else _ms(time.longest_ms)
    return (
        row.type,
        _ms(time.ms),
        f"{_ms(time.shortest_ms)} to {longest}",
        time.bound,
        _price(row.usd_for_1000_steps("on-demand")),
        _price(row.usd_for_1000_steps("spot")),
        memory,
        row.reason,
    )


def _ms(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _price(amount: float | None) -> str:
    if amount is None:
        return "not known"
    return usd(amount) if amount >= 1 else f"${amount:.2g}"
