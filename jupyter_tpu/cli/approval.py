"""Shows what a TPU costs, and asks before it is created."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..commands.costs import hourly
from .console import can_ask, confirm

if TYPE_CHECKING:
    from ..fleet.models import TPU, Cost, Quote


def approve_cost(quote: Quote, *, yes: bool, as_json: bool) -> None:
    """Says what will be created and what that costs. Asks if it costs anything, as `confirm` does.

    yes: it is not to ask; as_json: stdout is for a program.
    """
    price = hourly(quote.cost, quote.tier)
    ask = bool(quote.question) and not yes
    if can_ask() if ask else not as_json:
        meaning = f"{quote.type} = {quote.meaning}" if quote.meaning else quote.type
        where = f"{meaning}{' (emulated)' if quote.emulated else ''}, in {quote.zone}"
        out = sys.stderr if as_json else sys.stdout
        print(where, _sentence(price, quote.cost), sep="\n", file=out, flush=True)
        notes = (
            quote.zone_reason,
            quote.other_form,
            quote.api_reason,
            quote.uncovered,
            quote.warning,
        )
        for more in filter(None, notes):
            print(more, file=out, flush=True)
    if ask:
        shown = "" if can_ask() else f", {price}"
        confirm(
            f"Create {quote.name}{shown}?",
            "Add --yes to create it without asking, or --max-price USD.",
        )


def approve_start(tpus: Sequence[TPU], *, yes: bool, as_json: bool) -> None:
    """As `approve_cost`, for stopped TPUs that are about to be started."""
    prices = [(tpu, hourly(tpu.cost, tpu.tier)) for tpu in tpus if not tpu.emulated]
    ask = any(tpu.cost.usd_per_hour != 0 for tpu in tpus) and not yes
    if can_ask() if ask else not as_json:
        out = sys.stderr if as_json else sys.stdout
        for tpu, price in prices:
            which = f"{tpu.name}: " if len(tpus) > 1 else ""
            print(f"{which}{_sentence(price, tpu.cost)}", file=out, flush=True)
    if ask:
        shown = "" if can_ask() else f", {'; '.join(price for _, price in prices)}"
        confirm(
            f"Start {', '.join(tpu.name for tpu in tpus)}{shown}?",
            "Add --yes to start without asking, or --max-price USD.",
        )


def _sentence(price: str, cost: Cost) -> str:
    billed = "" if cost.usd_per_hour == 0 else " You pay while it is READY, used or not."
    return f"{price[:1].upper()}{price[1:]}.{billed}"
