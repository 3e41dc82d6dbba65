"""``jupyter tpu create``: a TPU, after its price was shown; or a plan of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ..errors import InvalidInput
from ..terminal.environment_options import Content, content_options
from ..terminal.field_options import options_of
from ..terminal.grammar import argument, command, examples, section
from ..terminal.node_options import node_options, type_and_zone
from ..terminal.parameters import connect_option, environment_option
from ..terminal.printing import json_option, print_json
from ..terminal.questions import yes_option
from ..terminal.session import open_session
from ..terminal.tables import type_text
from ..terminal.waiting import (
    finish_all,
    leave_and_print,
    no_wait_option,
    progress_stream,
    require_server,
    verbose_option,
)
from .approval import approve_cost, create_planned, is_several, print_plan
from .connect import print_job, print_kernels
from .guard import guard_options, guard_text
from .losses import session_hint

if TYPE_CHECKING:
    from ..cloud import NodeOptions, Tier
    from ..fleet.models import SetGuard


@command(
    "create",
    epilog=examples(
        "jupyter tpu create my-tpu --type v5litepod-8 --zone us-west4-a --connect",
        "jupyter tpu create my-tpu --type v4-8 --spot --no-wait",
        "jupyter tpu create my-tpu --type v6e-8 --zone us-east5-a --flex-start --run-for 4h",
        "jupyter tpu create my-tpu --type v6e-8 --zone us-east5-a,us-east5-b --until-available",
    ),
)
@argument("name", metavar="NAME", required=False, help="Lower-case letters, digits and hyphens.")
@type_and_zone(required=False)
@click.option(
    "--spot",
    "--preemptible",
    "spot",
    is_flag=True,
    help="Cheaper; Google may preempt it at any time.",
)
@connect_option
@click.option(
    "--until-available",
    is_flag=True,
    help="Try again until there is capacity. --zone can list several zones, as in "
    "us-west4-a,us-east5-b; `hunt` can also try several types and tiers.",
)
@click.option(
    "--max-price",
    type=click.FloatRange(min=0),
    metavar="USD",
    help="Create it without asking if it costs at most this price in USD an hour; otherwise fail.",
)
@yes_option("Create it without asking, whatever it costs.")
@options_of("CreateTPU", "version")
@verbose_option
@no_wait_option
@json_option
@section(
    "Tiers and queues",
    click.option("--reserved", is_flag=True, help="From your project's reservation."),
    click.option(
        "--flex-start",
        is_flag=True,
        help="A TPU that runs for a limited time. Waits in Google's queue. Needs --run-for.",
    ),
    options_of("CreateTPU", "run_for", "api", "reservation", "disk_gb"),
    click.option(
        "--queued",
        is_flag=True,
        help="With --until-available: wait in Google's queue, even while this computer is off.",
    ),
)
@section("Environment, with --connect", environment_option)
@content_options("Environment, with --connect")
@section(
    "In two steps: plan, then create",
    click.option(
        "--plan-only",
        is_flag=True,
        help="Create nothing. Print what it would cost at most, and a plan's ID. See `budget`.",
    ),
    click.option(
        "--plan",
        metavar="ID",
        help="Create what was planned, without NAME and other options. The TPU is deleted at the "
        "plan's limits.",
    ),
    options_of("PlanTPU", "time", into="plan_fields"),
    rare=True,
)
@section("Guard: let it stop or delete itself", guard_options)
@section(
    "Home folders",
    click.option(
        "--home",
        metavar="PLACE",
        help="Keep folders of its home in this bucket: gs://BUCKET/FOLDER. See `home`.",
    ),
    rare=True,
)
@node_options
def create(
    name: str | None,
    accelerator_type: str | None,
    zone: str | None,
    spot: bool,
    reserved: bool,
    flex_start: bool,
    fields: dict[str, Any],
    home: str | None,
    then_connect: bool,
    until_available: bool,
    queued: bool,
    environment: str,
    yes: bool,
    max_price: float | None,
    no_wait: bool,
    as_json: bool,
    options: NodeOptions,
    guard: SetGuard | None,
    content: Content,
    plan_only: bool,
    plan: str | None,
    plan_fields: dict[str, Any],
) -> None:
    """Create a TPU.

    Shows the price first, and asks. It does not ask if the TPU costs nothing: an emulated TPU, or
    a TPU inside a grant (see `grant`).
    """
    from msgspec import structs

    from ..fleet.models import CreateTPU, SetHome, StartHunt

    if plan is not None:
        if name or accelerator_type or plan_only:
            raise click.UsageError("--plan ID has all of it: omit NAME, --type and --plan-only.")
        return create_planned(plan, yes=yes, no_wait=no_wait, as_json=as_json)
    if not name:
        raise click.UsageError("Missing argument 'NAME'.")
    if not accelerator_type:
        raise click.UsageError("Missing option '--type' / '--accelerator-type'.")
    if plan_fields.get("time") and not plan_only:
        raise click.UsageError("--time needs --plan-only. Otherwise: --until.")
    tiers: list[Tier] = ["spot"] if spot else []
    tiers += ["reserved"] if reserved else []
    tiers += ["flex-start"] if flex_start else []
    if len(tiers) > 1:
        flags = " and ".join(f"--{tier}" for tier in tiers)
        raise InvalidInput(f"{flags} can't be used together.", "Choose one of them.")
    if queued and not until_available:
        raise InvalidInput(
            "--queued needs --until-available.",
            "Add it; or ask for a queued resource with `jupyter tpu queued create`.",
        )
    if not then_connect:
        content.needs_connect()
    request = CreateTPU(
        name=name,
        type=accelerator_type,
        zone=None if until_available or (plan_only and is_several(zone)) else zone,
        tier=tiers[0] if tiers else "on-demand",
        options=options,
        connect=content.request(environment) if then_connect else None,
        guard=guard,
        home=SetHome(place=home) if home else None,
        **fields,
    )
    if plan_only:
        request = structs.replace(request, max_price=max_price)
        return print_plan(request, zone, plan_fields, as_json=as_json)
    with open_session() as session:
        if until_available:
            from .hunt import hunt_for

            request = structs.replace(request, max_price=max_price)
            zones = zone.split(",") if zone else []
            hunt = StartHunt(tpu=request, zones=zones, queued=queued)
            return hunt_for(session, hunt, yes=yes, no_wait=no_wait, as_json=as_json)
        if no_wait and (then_connect or guard is not None):
            require_server(session)
        quote = session.call(session.fleet.quote(request))
        approve_cost(quote, yes=yes or max_price is not None, as_json=as_json)
        # What was said is what is created, also if gcloud's default zone or a price changes.
        request = structs.replace(
            request,
            zone=quote.zone,
            version=quote.version,
            api=quote.api,
            confirm_price=bool(quote.question),
            max_price=quote.cost.usd_per_hour if max_price is None else max_price,
        )
        operation = session.call(session.fleet.create(request))
        ref = f"{operation.zone}~{operation.tpu}" if operation.zone else operation.tpu
        if no_wait:
            return leave_and_print(session, operation, as_json)
        finish_all(session, operation, progress_stream(as_json))
        tpu = session.call(session.fleet.tpu(ref))
        if as_json:
            return print_json(tpu)
        print(f"{tpu.name} is ready: {type_text(tpu)}, in {tpu.zone}.")
        if tpu.guard is not None:
            print(guard_text(tpu.name, tpu.guard))
        if request.tier == "spot" and tpu.sessions is None:
            print(session_hint(tpu.name))
        if request.connect is not None:
            print_kernels(tpu)
            print_job(tpu.name, request.connect)
        else:
            print(f"To use it in notebooks: jupyter tpu connect {tpu.name}")
    return None
