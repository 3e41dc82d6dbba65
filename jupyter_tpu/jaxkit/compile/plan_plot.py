"""The planner's plot: a bar for each type, as plain SVG without scripts."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from ...catalog import usd
from .plan_row import PlanRow, Tier

#: By bound; colour-blind readers can tell them apart, and the text says it, too.
_FILLS = {"compute": "#4477aa", "HBM": "#ee8866", "ICI": "#228833"}
_LEFT_PIXELS, _WIDTH_PIXELS, _RIGHT_PIXELS, _LINE_PIXELS = 250, 300, 260, 26
_MOST_ROWS = 40  # rows


def draw_plan(rows: Sequence[PlanRow], tier: Tier) -> str:
    """SVG of the rows that have a time: ms a step as a bar, its range as a line, and the price.

    "" if none has one.
    """
    timed = [row for row in rows if row.time is not None][:_MOST_ROWS]
    longest = max((row.time.ms for row in timed if row.time), default=0.0)
    if not longest:
        return ""
    shapes, left = [], _LEFT_PIXELS
    for number, row in enumerate(timed):
        assert row.time is not None
        time, top = row.time, 8 + number * _LINE_PIXELS
        middle = top + 9

        def at(ms: float) -> float:
            return left + _WIDTH_PIXELS * min(1.0, ms / longest)

        last = left + _WIDTH_PIXELS if time.longest_ms is None else at(time.longest_ms)
        cost = row.usd_for_1000_steps(tier)
        price = "price not known" if cost is None else f"{price_text(cost)} per 1000 steps"
        shapes.append(
            f'<text x="{left - 8}" y="{middle}" text-anchor="end">{escape(row.title)}</text>'
            f'<rect x="{left}" y="{top}" width="{at(time.ms) - left:.1f}" height="18" '
            f'fill="{_FILLS[time.bound]}" fill-opacity="0.6"/>'
            f'<line x1="{at(time.shortest_ms):.1f}" y1="{middle}" x2="{last:.1f}" y2="{middle}" '
            'stroke="currentColor"/>'
            f'<text x="{left + _WIDTH_PIXELS + 8}" y="{middle}">'
            f"{ms_text(time.ms)} ms · {time.bound} · {price}</text>"
        )
    width, height = _LEFT_PIXELS + _WIDTH_PIXELS + _RIGHT_PIXELS, 12 + len(timed) * _LINE_PIXELS
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="Time of a step by type" '
        f'viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'style="max-width:100%" font-family="sans-serif" font-size="13" fill="currentColor" '
        f'dominant-baseline="central">{"".join(shapes)}</svg>'
    )


def ms_text(value: float) -> str:
    """ "1,234" or "12.3"."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def price_text(amount: float | None) -> str:
    """ "$12.30" or "$0.0012"."""
    if amount is None:
        return "not known"
    return usd(amount) if amount >= 1 else f"${amount:.2g}"
