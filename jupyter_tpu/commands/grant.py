"""``jupyter tpu grant``: what may be used at no charge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from ..terminal.field_options import options_of
from ..terminal.grammar import Group, argument, examples, program
from ..terminal.parameters import project_option
from ..terminal.printing import json_option, list_options, print_list, print_result
from ..terminal.session import fleet_call
from ..terminal.tables import table

if TYPE_CHECKING:
    from ..fleet.models import GrantUse


def grant_table(grants: Sequence[GrantUse]) -> str:
    """The grants, and what is in use of each."""
    if not grants:
        return (
            "No grants: each TPU is created only after you confirmed its price. To add one: "
            f"{program()} grant add NAME --type TYPE --zone ZONE --tier TIER --chips N"
        )
    heads = ("NAME", "PROJECT", "TYPES", "ZONES", "TIERS", "CHIPS", "IN USE", "UNTIL")
    return str(table(heads, [_grant_row(grant_use) for grant_use in grants]))


def _grant_row(use: GrantUse) -> tuple[str, ...]:
    grant = use.grant
    return (
        grant.name,
        grant.project,
        ", ".join(grant.types),
        ", ".join(grant.zones),
        ", ".join(grant.tiers),
        str(grant.chips),
        "not known" if use.used is None else str(use.used),
        f"{grant.until} (ended)" if use.expired else grant.until,
    )


_name_argument = argument("title", metavar="NAME", help="Your name for it, such as trc-v5e.")


@click.group("grant", cls=Group)
def grant() -> None:
    """Say which TPUs you may use at no charge, such as those of the TPU Research Cloud (TRC).

    TPUs inside a grant are created without a question about the price. For other TPUs, the price
    must be confirmed. Google does not tell programs what it has granted, so
    copy it from Google's email: one grant for each line.
    """


@grant.command("list")
@project_option
@list_options
def list_all() -> None:
    """List the grants, and how many chips of each are in use."""
    grant_uses = fleet_call(lambda fleet: fleet.grants.list())
    print_list(grant_uses, grant_table)


@grant.command(
    "add",
    epilog=examples(
        "jupyter tpu grant add trc-v5e --type v5e --zone us-central1-a --tier spot --chips 64",
        "jupyter tpu grant add trc-v4 --type v4 --zone us-central2-b --tier on-demand "
        "--chips 32 --until 2026-12-31",
    ),
)
@_name_argument
@options_of("Grant", "types", "zones", "tiers", "chips", "until")
@project_option
@json_option
def add(title: str, fields: dict[str, Any], as_json: bool) -> None:
    """Add a grant."""
    from ..fleet.models import Grant

    new_grant = Grant(name=title, **fields)
    grant_uses = fleet_call(lambda fleet: fleet.grants.add(new_grant))
    print_result(
        next(grant_use for grant_use in grant_uses if grant_use.grant.name == title),
        grant_table(grant_uses),
        as_json,
    )


@grant.command("remove", epilog=examples("jupyter tpu grant remove trc-v5e"))
@_name_argument
def remove(title: str) -> None:
    """Remove a grant. TPUs inside it stay, and count as charged from then on."""
    fleet_call(lambda fleet: fleet.grants.remove(title))
    print(f"Removed the grant {title}.")
