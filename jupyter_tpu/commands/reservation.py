"""``jupyter tpu reservation``: capacity that is reserved, and calendar mode."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from ..errors import Reason, TPUError
from ..terminal.field_options import options_of
from ..terminal.grammar import Group, argument, examples
from ..terminal.parameters import project_option
from ..terminal.printing import json_option, list_options, print_list, print_result
from ..terminal.questions import ask, can_ask, confirm, yes_option
from ..terminal.session import fleet_call, open_session
from ..terminal.tables import table
from ..terminal.times import local_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..fleet.models import ReservationView


@click.group("reservation", cls=Group)
def reservation() -> None:
    """Capacity of Compute Engine that is reserved: now, or for some days (calendar mode).

    To use one: `jupyter tpu create NAME --reserved --reservation RESERVATION`.
    """


@reservation.command("list")
@project_option
@list_options
def list_all() -> None:
    """List reservations, and those that are still to come, with their dates."""
    reservations = fleet_call(lambda fleet: fleet.reservations.list())
    print_list(reservations, _table)


@reservation.command(
    "create",
    epilog=examples(
        "jupyter tpu reservation create may-run --type v6e --chips 16 --zone us-east5-a "
        "--start 2026-12-24T08:00 --days 7"
    ),
)
@argument("name", metavar="NAME", help="Of the reservation.")
@click.option("--type", "type", required=True, metavar="TYPE", help="Such as v6e or tpu7x.")
@click.option("--zone", required=True, metavar="ZONE", help="The zone.")
@options_of("CreateReservation", "chips", "start", "days", "workload", into="dates")
@yes_option("Agree to the cost without being asked. The name has to be confirmed, too.")
@click.option(
    "--confirm-name", "typed", metavar="NAME", help="The reservation's name again: reserve it."
)
@project_option
@json_option
def create(
    name: str,
    type: str,
    zone: str,
    dates: dict[str, Any],
    yes: bool,
    typed: str | None,
    as_json: bool,
) -> None:
    """Reserve chips for some days (calendar mode).

    Asks twice, since Google bills all days, used or not.
    """
    from msgspec import convert, structs

    from ..fleet.models import CreateReservation

    request = convert({"name": name, "type": type, "zone": zone, **dates}, CreateReservation)
    with open_session() as session:
        quote = session.call(session.fleet.reservations.quote(request))
        print(quote.question, file=sys.stderr if as_json else sys.stdout, flush=True)
        if not yes:
            confirm("Reserve it?", "Add --yes and --confirm-name NAME to reserve without asking.")
        if typed is None and can_ask():
            typed = ask(f'This is billed for {quote.days} days. To reserve it, type "{name}": ')
            if typed.strip() != name:
                raise TPUError("Nothing was reserved.", Reason.CANCELLED)
        request = structs.replace(request, confirm_cost=True, confirm_name=(typed or "").strip())
        made = session.call(session.fleet.reservations.create(request))
    print_result(
        made,
        f"Google has the request for {made.name}. It is {made.state or 'not decided yet'}.",
        as_json,
    )


def _table(reservations: Sequence[ReservationView]) -> str:
    rows = [
        [
            entry.name,
            entry.zone,
            entry.type,
            "" if entry.chips is None else str(entry.chips),
            "" if entry.used is None else str(entry.used),
            entry.state,
            local_time(entry.start) if entry.start else "",
            local_time(entry.end) if entry.end else "",
        ]
        for entry in reservations
    ]
    columns = ["NAME", "ZONE", "TYPE", "CHIPS", "IN USE", "STATE", "FROM", "TO"]
    return table(columns, rows) if rows else "No reservations for TPUs."
