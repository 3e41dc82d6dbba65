"""``jupyter tpu hunt``: search for a TPU over zones, types and tiers until there is one."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from ..commands.connection import connection, content_options
from ..commands.grammar import (
    Group,
    argument,
    complete_type,
    complete_version,
    complete_zone,
    environment_option,
    examples,
    project_option,
)
from ..commands.hunts import candidate_table, deadline, describe_hunt, hunt_table
from ..commands.session import Session, open_session
from ..errors import InvalidInput, Reason, TPUError
from ..wording import count
from .console import (
    can_ask,
    confirm,
    json_option,
    no_wait_option,
    print_json,
    verbose_option,
    yes_option,
)
from .node_options import node_options
from .waiting import finish_all, progress_stream, require_server

if TYPE_CHECKING:
    from ..cloud import NodeOptions
    from ..fleet.models import CreateTPU, Hunt, StartHunt

_hunt_argument = argument("hunt", metavar="HUNT", help="The name of its TPU, or its ID.")


@click.group("hunt", cls=Group, aliases={"show": "describe"})
def hunt() -> None:
    """Search for a TPU over zones, types and tiers until there is one.

    A hunt tries one zone, type and tier after the other, and begins again after a while, until
    there is a TPU, nothing is left to try, its deadline has passed, or you stop it.
    """


@hunt.command(
    "start",
    epilog=examples(
        "jupyter tpu hunt start my-tpu --type v5litepod-8 --zone us-west4-a --zone us-central1-a",
        "jupyter tpu hunt start my-tpu --type v6e-8 --type v5litepod-8 --zone - --tier spot "
        "--tier on-demand --deadline 8h --connect --no-wait",
    ),
)
@argument("tpu", metavar="NAME", help="Lower-case letters, digits and hyphens.")
@click.option(
    "--type",
    "--accelerator-type",
    "types",
    required=True,
    multiple=True,
    metavar="TYPE",
    shell_complete=complete_type,
    help="Accelerator type, the most wanted first. Repeatable.",
)
@click.option(
    "--zone",
    "zones",
    multiple=True,
    metavar="ZONE",
    shell_complete=complete_zone,
    help="Zone; - for all that offer the types. Repeatable.  [default: gcloud's]",
)
@project_option
@click.option(
    "--tier",
    "tiers",
    multiple=True,
    default=("on-demand",),
    show_default=False,
    type=click.Choice(["on-demand", "spot", "reserved"]),
    help="The most wanted first. Repeatable.  [default: on-demand]",
)
@click.option(
    "--deadline",
    default="",
    show_default=False,
    metavar="TIME",
    help="No attempt begins later: 90m, 8h, 2d, or a time such as 2026-07-01T08:00.",
)
@click.option(
    "--version",
    metavar="VERSION",
    shell_complete=complete_version,
    help="Runtime version (OS image).  [default: depends on the type]",
)
@click.option("--network", metavar="NETWORK", help="VPC network.  [default: the project's]")
@click.option("--subnetwork", metavar="SUBNETWORK", help="Subnetwork of the VPC network.")
@click.option("--connect", "then_connect", is_flag=True, help="Then connect it (see `connect`).")
@node_options
@environment_option
@content_options
@yes_option("Start it without asking, whatever it costs.")
@click.option(
    "--max-price",
    type=click.FloatRange(min=0),
    metavar="USD",
    help="Start it without asking, and try only what costs at most so many USD an hour.",
)
@no_wait_option
@verbose_option
@json_option
def start(
    tpu: str,
    types: tuple[str, ...],
    zones: tuple[str, ...],
    tiers: tuple[Any, ...],
    deadline: str,
    version: str | None,
    network: str | None,
    subnetwork: str | None,
    then_connect: bool,
    environment: str,
    yes: bool,
    max_price: float | None,
    no_wait: bool,
    as_json: bool,
    options: NodeOptions,
    labels: dict[str, str],
    **content: Any,
) -> None:
    """Start a hunt, and wait for its end.

    Says first what each TPU costs, and asks. A running Jupyter server continues the hunt when you
    stop waiting, and any later server after that.
    """
    from ..fleet.models import CreateTPU

    if not then_connect and any(content.values()):
        raise InvalidInput(
            "Options of an environment, such as --packages, need --connect.", "Add --connect."
        )
    wanted = CreateTPU(
        name=tpu,
        type=types[0],
        version=version,
        network=network,
        subnetwork=subnetwork,
        labels=labels,
        options=options,
        max_price=max_price,
        connect=connection(environment, **content) if then_connect else None,
    )
    with open_session() as session:
        hunt_for(
            session,
            wanted,
            types=types,
            zones=zones,
            tiers=tiers,
            end=deadline,
            yes=yes,
            no_wait=no_wait,
            as_json=as_json,
        )


@hunt.command("list")
@json_option
def list_hunts(as_json: bool) -> None:
    """List running and recent hunts, newest first."""
    with open_session() as session:
        hunts = session.call(session.fleet.hunts.list())
    if as_json:
        print_json(hunts)
    else:
        print(hunt_table(hunts))


@hunt.command("describe", epilog=examples("jupyter tpu hunt describe my-tpu"))
@_hunt_argument
@json_option
def describe(hunt: str, as_json: bool) -> None:
    """Show where a hunt looks, its last attempts, and why they failed."""
    with open_session() as session:
        found = session.call(session.fleet.hunts.get(hunt))
    if as_json:
        print_json(found)
    else:
        print(describe_hunt(found))


@hunt.command("wait", epilog=examples("jupyter tpu hunt wait my-tpu"))
@_hunt_argument
@json_option
def wait(hunt: str, as_json: bool) -> None:
    """Wait for the end of a hunt."""
    with open_session() as session:
        found = session.call(session.fleet.hunts.get(hunt))
        if found.state == "paused":
            raise TPUError(
                f"The hunt for {found.name} is paused, since no Jupyter server runs.",
                Reason.CONFLICT,
                "Start `jupyter lab`, which continues it.",
            )
        _wait(session, found, as_json)


@hunt.command("stop", epilog=examples("jupyter tpu hunt stop my-tpu"))
@_hunt_argument
@json_option
def stop(hunt: str, as_json: bool) -> None:
    """Stop a hunt, and delete what its current attempt has made."""
    from ..fleet.client import wait_for_end

    with open_session() as session:
        found = session.call(session.fleet.hunts.stop(hunt))
        operation = session.call(session.fleet.operation(found.id))
        session.call(wait_for_end(session.fleet, operation))
        ended = session.call(session.fleet.hunts.get(found.id))
    if as_json:
        print_json(ended)
    elif ended.state == "stopped":
        print(f"Stopped the hunt for {ended.name} after {count(ended.attempted, 'attempt')}.")
    elif ended.state == "found":
        print(f"Not stopped: {ended.name} is in {ended.zone} already.")
    elif ended.problem is not None:
        raise ended.problem.to_error()


# ---- starting one ------------------------------------------------------------------------------


def hunt_for(
    session: Session,
    tpu: CreateTPU,
    *,
    types: Sequence[str] = (),
    zones: Sequence[str] = (),
    tiers: Sequence[Any] = (),
    end: str = "",
    yes: bool,
    no_wait: bool,
    as_json: bool,
) -> None:
    """Starts a hunt after the user has agreed to its prices, and waits for its end."""
    from ..fleet.models import StartHunt

    wanted = StartHunt(
        tpu=tpu,
        zones=[*zones],
        types=[*types],
        tiers=[*tiers],
        deadline=deadline(end) if end else "",
    )
    if no_wait:
        require_server(session, "continues the hunt")
    wanted = _approved(session, wanted, yes=yes, as_json=as_json)
    found = session.call(session.fleet.hunts.start(wanted))
    if not no_wait:
        _wait(session, found, as_json)
    elif as_json:
        print_json(found)
    else:
        print(
            f"The Jupyter server hunts for {found.name}; "
            f"`jupyter tpu hunt describe {found.name}` shows its attempts."
        )


def _approved(session: Session, wanted: StartHunt, *, yes: bool, as_json: bool) -> StartHunt:
    """Says where it looks and what that costs. Asks if it costs anything and there is no limit.

    Returns the request with the confirmation of what was said.
    """
    from msgspec import structs

    limit = wanted.tpu.max_price
    confirmed = structs.replace(wanted, tpu=structs.replace(wanted.tpu, confirm_price=True))
    candidates = session.call(session.fleet.hunts.quote(wanted if limit is not None else confirmed))
    prices = [each.cost.usd_per_hour for each in candidates if not each.ruled_out]
    ask = limit is None and not yes and any(price != 0 for price in prices)
    if can_ask() if ask else not as_json:
        out = sys.stderr if as_json else sys.stdout
        print(candidate_table(candidates), file=out, flush=True)
        if any(price != 0 for price in prices):
            print("You pay while it is READY, used or not.", file=out, flush=True)
    if ask:
        confirm(
            f"Create {wanted.tpu.name} in the first of these that is available?",
            "Add --yes to start the hunt without asking, or --max-price USD.",
        )
    if limit is not None:
        return wanted
    # What was said is what may be paid, also if a price changes; None: one is not known.
    known = [price for price in prices if price is not None]
    most = max(known) if len(known) == len(prices) else None
    return structs.replace(confirmed, tpu=structs.replace(confirmed.tpu, max_price=most))


def _wait(session: Session, hunt: Hunt, as_json: bool) -> None:
    operation = session.call(session.fleet.operation(hunt.id))
    finish_all(session, operation, progress_stream(as_json))
    found = session.call(session.fleet.hunts.get(hunt.id))
    if as_json:
        print_json(found)
        return
    print(f"{found.name} is ready in {found.zone}, after {count(found.attempted, 'attempt')}.")
    if found.request.tpu.connect is None:
        print(f"To use it in notebooks: jupyter tpu connect {found.name}")
