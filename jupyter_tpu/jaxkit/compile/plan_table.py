"""The planner's answer: types in order of price for the same steps; prints as a table."""

from __future__ import annotations

from html import escape
from typing import Any

import msgspec
from msgspec import Struct

from ..tables import binary_size, html_table, text_table
from ..topology import generation_of
from .plan_plot import draw_plan, ms_text, price_text
from .plan_row import PlanRow, Tier

_HEADS = (
    *("type", "chips", "mesh", "ms a step", "range", "bound", "$ per 1000 steps", "spot"),
    *("HBM a device", ""),
)


class TypePlan(Struct, kw_only=True, frozen=True):
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
        """All fields."""
        fields: dict[str, Any] = msgspec.to_builtins(self)
        return fields

    def svg(self) -> str:
        """The plot: ms a step on each type, with its range, its bound and the price."""
        return draw_plan(self.rows, self.tier)

    def __repr__(self) -> str:
        return "\n\n".join((text_table(_HEADS, self._cells()), "\n".join(self._remarks())))

    def _repr_html_(self) -> str:
        remarks = "".join(f"<p>{escape(line)}</p>" for line in self._remarks())
        return self.svg() + html_table(_HEADS, self._cells()) + remarks

    def _cells(self) -> list[tuple[str, ...]]:
        return [_cells_of(row) for row in self.rows]

    def _best_of_generations(self) -> list[str]:
        """Where there are several types of one: the cheapest of each that fits."""
        best: dict[str, PlanRow] = {}
        for row in self.rows:
            if row.time is not None:
                best.setdefault(generation_of(row.type), row)
        several = len({row.type for row in self.rows}) > len(
            {generation_of(row.type) for row in self.rows}
        )
        return [f"{name}: {row.title}" for name, row in best.items()] if several else []

    def _remarks(self) -> list[str]:
        lines = []
        if self.partial:
            lines.append("This table is partial: the time ran out before all types were compiled.")
        if best := self._best_of_generations():
            lines.append(f"First of each generation: {', '.join(best)}.")
        if near := self._as_cheap():
            lines.append(
                f"Within their ranges, {', '.join(near)} may be cheaper than {self.rows[0].title}."
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
                cheap.append(row.title)
        return cheap


def _cells_of(row: PlanRow) -> tuple[str, ...]:
    time = row.time
    needs = "" if row.needed_bytes is None else f"{binary_size(row.needed_bytes)} of "
    memory = f"{needs}{binary_size(row.hbm_bytes)}" if row.hbm_bytes else ""
    head = (row.type, row.topology, row.mesh_text)
    if time is None:
        return (*head, "", "", "", "", "", memory, row.reason)
    longest = "not known" if time.longest_ms is None else ms_text(time.longest_ms)
    return (
        *head,
        ms_text(time.ms),
        f"{ms_text(time.shortest_ms)} to {longest}",
        time.bound,
        price_text(row.usd_for_1000_steps("on-demand")),
        price_text(row.usd_for_1000_steps("spot")),
        memory,
        row.reason,
    )
