"""``jupyter tpu prices``: what TPUs cost, and when that was read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..terminal.grammar import Group
from ..terminal.parameters import project_option
from ..terminal.printing import json_option, list_options, note, print_list, print_result
from ..terminal.session import fleet_call
from ..terminal.tables import table

if TYPE_CHECKING:
    from ..fleet.models import PriceList


@click.group("prices", cls=Group)
def prices() -> None:
    """Show what TPUs cost, and update the prices from Google."""


def price_table(prices: PriceList) -> str:
    """The prices of one chip, and what was not understood."""
    from ..catalog import usd

    heads = ("CHIP", "REGION", "ON DEMAND", "SPOT", "DATE")
    rows = [
        (row.name, row.region, usd(row.on_demand), usd(row.spot) if row.spot else "", row.date)
        for row in prices.prices
    ]
    lines = [str(table(heads, rows)), "USD for an hour of one chip. Reservations: not known."]
    if prices.unknown:
        lines.append(f"Not understood, and left out: {'; '.join(prices.unknown)}")
    return "\n".join(lines)


@prices.command("list")
@list_options
def list_prices() -> None:
    """List what an hour of one chip costs, with the date of each price."""
    price_list = fleet_call(lambda fleet: fleet.prices.list())
    print_list(price_list, price_table, "prices")


@prices.command("refresh")
@project_option
@json_option
def refresh(as_json: bool) -> None:
    """Read the prices from Google's Cloud Billing Catalog.

    Needs a login, and the API cloudbilling.googleapis.com. If it fails, the previous prices are
    kept.
    """
    note("Reading the prices. This can take half a minute.")
    price_list = fleet_call(lambda fleet: fleet.prices.refresh())
    print_result(price_list, price_table(price_list), as_json)
