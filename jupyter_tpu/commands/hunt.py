"""``jupyter tpu hunt`` and ``%tpu hunt``: search for a TPU over zones, types and tiers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from ..errors import Reason, TPUError, duration
from ..terminal.costs import hourly
from ..terminal.environment_options import Content, content_options
from ..terminal.field_options import options_of
from ..terminal.grammar import Group, argument, command, examples, parameters, program, section
from ..terminal.node_options import node_options
from ..terminal.parameters import (
    complete_type,
    complete_zone,
    connect_option,
    environment_option,
    project_option,
)
from ..terminal.printing import (
    formatted,
    json_option,
    list_options,
    list_text,
    print_json,
    print_result,
)
from ..terminal.questions import can_ask, confirm, yes_option
from ..terminal.session import FleetSession, open_session
from ..terminal.tables import problem_text, state_text, table
from ..terminal.times import local_time
from ..terminal.waiting import (
    finish_all,
    no_wait_option,
    progress_stream,
    require_server,
    verbose_option,
)
from ..terminal.watching import watch as watch_changes
from ..terminal.watching import watch_option
from ..wording import count
from .guard import guard_options

if TYPE_CHECKING:
    from ..cloud import NodeOptions
    from ..fleet.models import Hunt, HuntCandidate, SetGuard, StartHunt


#: What is said of a hunt in the queue.
QUEUED = "Attempts in the queue are queued resources. They continue while this computer is off."


HELP = """Search for a TPU over zones, types and tiers until one is available.

A hunt tries one zone, type and tier after the other, and begins again after a while, until
it gets a TPU, nothing is left to try, its deadline has passed, or you stop it.
"""


hunt_argument = argument("hunt", metavar="HUNT", help="The name of its TPU, or its ID.")


_options = parameters(
    argument("tpu", metavar="NAME", help="Lower-case letters, digits and hyphens."),
    click.option(
        "--type",
        "--accelerator-type",
        "types",
        required=True,
        multiple=True,
        metavar="TYPE",
        shell_complete=complete_type,
        help="Accelerator type. Repeatable, in order of preference.",
    ),
    click.option(
        "--zone",
        "zones",
        multiple=True,
        metavar="ZONE",
        shell_complete=complete_zone,
        help="Zone; - for all zones that offer the types. Repeatable.  [default: gcloud's]",
    ),
    project_option,
    click.option(
        "--tier",
        "tiers",
        multiple=True,
        default=("on-demand",),
        show_default=False,
        type=click.Choice(["on-demand", "spot", "reserved", "flex-start"]),
        help="Repeatable, in order of preference.  [default: on-demand]",
    ),
    options_of("StartHunt", "deadline", into="hunt"),
    connect_option,
    click.option(
        "--max-price",
        type=click.FloatRange(min=0),
        metavar="USD",
        help="Start it without asking, and try only what costs at most this price in USD an hour.",
    ),
    options_of("CreateTPU", "version"),
)


_more_options = parameters(
    section(
        "How it looks",
        options_of("StartHunt", "queued", "direct", "again", "when_preempted", into="hunt"),
        options_of("CreateTPU", "run_for", "api", "reservation", "disk_gb"),
    ),
    section("Environment, with --connect", environment_option),
    content_options("Environment, with --connect"),
    section("Guard: let it stop or delete itself", guard_options),
    node_options,
)


def hunt_options(function: Callable[..., None]) -> Callable[..., None]:
    """What is hunted for, and where; *function* gets it as `request` (StartHunt)."""

    @wraps(function)
    def with_options(
        *args: Any,
        tpu: str,
        types: tuple[str, ...],
        zones: tuple[str, ...],
        tiers: tuple[Any, ...],
        hunt: dict[str, Any],
        fields: dict[str, Any],
        then_connect: bool,
        environment: str,
        max_price: float | None,
        options: NodeOptions,
        guard: SetGuard | None,
        content: Content,
        **others: Any,
    ) -> None:
        from ..fleet.models import CreateTPU, StartHunt

        if not then_connect:
            content.needs_connect()
        request = CreateTPU(
            name=tpu,
            type=types[0],
            options=options,
            max_price=max_price,
            connect=content.request(environment) if then_connect else None,
            guard=guard,
            **fields,
        )
        start = StartHunt(tpu=request, zones=[*zones], types=[*types], tiers=[*tiers], **hunt)
        function(*args, request=start, **others)

    return _options(_more_options(with_options))


@command(
    "start",
    epilog=examples(
        "jupyter tpu hunt start my-tpu --type v5litepod-8 --zone us-west4-a --zone us-central1-a",
        "jupyter tpu hunt start my-tpu --type v6e-8 --type v5litepod-8 --zone - --tier spot "
        "--tier on-demand --deadline 8h --connect --no-wait",
    ),
)
@hunt_options
@yes_option("Start it without asking, whatever it costs.")
@no_wait_option
@verbose_option
@json_option
def start(request: StartHunt, yes: bool, no_wait: bool, as_json: bool) -> None:
    """Start a hunt, and wait for its end.

    Shows the price of each TPU first, and asks. A running Jupyter server continues the hunt when
    you stop waiting, and so does any later server.
    """
    with open_session() as session:
        hunt_for(session, request, yes=yes, no_wait=no_wait, as_json=as_json)


@command("wait", epilog=examples("jupyter tpu hunt wait my-tpu"))
@hunt_argument
@json_option
def wait(hunt: str, as_json: bool) -> None:
    """Wait for the end of a hunt."""
    with open_session() as session:
        current = session.call(session.fleet.hunts.get(hunt))
        if current.state == "paused":
            raise TPUError(
                f"The hunt for {current.name} is paused, since no Jupyter server runs.",
                Reason.CONFLICT,
                "Start `jupyter lab`, which continues it.",
            )
        wait_for(session, current, as_json)


@command("list", epilog=examples("jupyter tpu hunt list --filter state=running --watch"))
@watch_option
@list_options
def list_hunts(watch: bool) -> None:
    """List running and recent hunts, newest first."""

    def look() -> str:
        return list_text(session.call(session.fleet.hunts.list()), hunt_table)

    with open_session() as session:
        if watch:
            watch_changes(session, look, lambda: False)
        elif text := look():
            print(text)


@command("describe", epilog=examples("jupyter tpu hunt describe my-tpu"))
@hunt_argument
@watch_option
@json_option
def describe(hunt: str, watch: bool, as_json: bool) -> None:
    """Show where a hunt looks, its last attempts, and why they failed.

    With --watch, until the hunt has ended.
    """
    over = False

    def look() -> str:
        nonlocal over
        current = session.call(session.fleet.hunts.get(hunt))
        over = current.state not in ("running", "paused")
        return formatted(current) if as_json else describe_hunt(current)

    with open_session() as session:
        if watch:
            watch_changes(session, look, lambda: over)
        else:
            print(look())


@command("stop", epilog=examples("jupyter tpu hunt stop my-tpu"))
@hunt_argument
@yes_option("Stop it without asking.")
@json_option
def stop(hunt: str, yes: bool, as_json: bool) -> None:
    """Stop a hunt, and delete what its current attempt has made."""
    from ..fleet.client import wait_for_end

    with open_session() as session:
        current = session.call(session.fleet.hunts.get(hunt))
        if current.state in ("running", "paused") and not yes:
            confirm(
                f"Stop the hunt for {current.name} after {count(current.attempted, 'attempt')}? "
                "What its current attempt has made is deleted.",
                "Add --yes to stop it without asking.",
            )
        current = session.call(session.fleet.hunts.stop(hunt))
        operation = session.call(session.fleet.operations.get(current.id))
        session.call(wait_for_end(session.fleet, operation))
        ended = session.call(session.fleet.hunts.get(current.id))
    if as_json:
        print_json(ended)
    elif ended.state == "stopped":
        print(f"Stopped the hunt for {ended.name} after {count(ended.attempted, 'attempt')}.")
    elif ended.state == "found":
        print(f"Not stopped: {ended.name} is in {ended.zone} already.")
    elif ended.problem is not None:
        raise ended.problem.to_error()


def hunt_group(start: click.Command, *more: click.Command) -> Group:
    """``hunt``, with what differs between a terminal and a notebook."""
    commands = [start, list_hunts, describe, *more, stop]
    return Group("hunt", help=HELP, aliases={"show": "describe"}, commands=commands)


hunt = hunt_group(start, wait)


def hunt_for(
    session: FleetSession, request: StartHunt, *, yes: bool, no_wait: bool, as_json: bool
) -> None:
    """Starts a hunt after the user has agreed to its prices, and waits for its end."""
    if no_wait:
        require_server(session)
    request = _approved(session, request, yes=yes, as_json=as_json)
    hunt = session.call(session.fleet.hunts.start(request))
    if hunt.queued and not as_json:
        print(QUEUED, flush=True)
    if not no_wait:
        wait_for(session, hunt, as_json)
    print_result(hunt, left_to_server(hunt), as_json)


def _approved(session: FleetSession, request: StartHunt, *, yes: bool, as_json: bool) -> StartHunt:
    """Says where it looks and what that costs. Asks if it costs anything and there is no limit.

    Returns the request with the confirmation of what was said.
    """
    candidates, confirmed = agreed(session, request)
    costs = costs_money(candidates)
    ask = costs and request.tpu.max_price is None and not yes
    if can_ask() if ask else not as_json:
        out = sys.stderr if as_json else sys.stdout
        print(candidate_table(candidates), file=out, flush=True)
        if costs:
            print("You pay while it is READY, used or not.", file=out, flush=True)
    if ask:
        confirm(
            f"Create {request.tpu.name} in the first of these that is available?",
            "Add --yes to start the hunt without asking, or --max-price USD.",
        )
    return confirmed


def wait_for(session: FleetSession, hunt: Hunt, as_json: bool) -> None:
    """Waits for its end, and prints it."""
    operation = session.call(session.fleet.operations.get(hunt.id))
    finish_all(session, operation, progress_stream(as_json))
    current = session.call(session.fleet.hunts.get(hunt.id))
    if as_json:
        print_json(current)
        return
    print(
        f"{current.name} is ready in {current.zone}, after {count(current.attempted, 'attempt')}."
    )
    if current.request.tpu.connect is None:
        print(f"To use it in notebooks: jupyter tpu connect {current.name}")


def agreed(session: FleetSession, request: StartHunt) -> tuple[Sequence[HuntCandidate], StartHunt]:
    """What a hunt would try, with prices, and the request with the confirmation of these.

    With a limit of the price in the request, that is the confirmation.
    """
    from msgspec import structs

    if request.tpu.max_price is not None:
        return session.call(session.fleet.hunts.quote(request)), request
    tpu = structs.replace(request.tpu, confirm_price=True)
    candidates = session.call(session.fleet.hunts.quote(structs.replace(request, tpu=tpu)))
    # What was said is what may be paid, also if a price changes; None: one is not known.
    prices = [candidate.cost.usd_per_hour for candidate in candidates if not candidate.ruled_out]
    known = [price for price in prices if price is not None]
    most = max(known) if len(known) == len(prices) else None
    return candidates, structs.replace(request, tpu=structs.replace(tpu, max_price=most))


def costs_money(candidates: Sequence[HuntCandidate]) -> bool:
    return any(
        candidate.cost.usd_per_hour != 0 for candidate in candidates if not candidate.ruled_out
    )


def hunt_table(hunts: Sequence[Hunt]) -> str:
    if not hunts:
        start = f"{program()} hunt start my-tpu --type TYPE --zone ZONE --zone ZONE"
        return f"No hunts. Start one: {start}"
    rows = [
        (
            hunt.name,
            state_text(hunt.state),
            hunt.zone,
            str(hunt.attempted),
            local_time(hunt.created),
            hunt.id,
            hunt.message if hunt.waiting else next_text(hunt) or _last_problem(hunt),
        )
        for hunt in hunts
    ]
    heads = ("NAME", "STATE", "ZONE", "ATTEMPTS", "STARTED", "ID", "MESSAGE")
    return table(heads, rows, cut_last=True)


def describe_hunt(hunt: Hunt) -> str:
    """All that is known of one."""
    lines = [f"{hunt.name}  {hunt.state}{f' in {hunt.zone}' if hunt.zone else ''}"]
    if hunt.state == "paused":
        lines.append("No Jupyter server runs. The next one continues this hunt.")
    if hunt.problem is not None:
        lines.append(problem_text(hunt.problem))
    if hunt.request.deadline:
        lines.append(f"No attempt begins after {local_time(hunt.request.deadline)}.")
    if hunt.queued:
        lines.append(QUEUED)
    if hunt.waiting:
        lines.append(f"{hunt.message}.")
    lines += ["", candidate_table(hunt.candidates), "", attempt_table(hunt)]
    if ahead := next_text(hunt):
        lines += ["", ahead]
    return "\n".join(lines)


def candidate_table(candidates: Sequence[HuntCandidate]) -> str:
    """Where it looks, with prices."""
    rows = [
        (
            candidate.type,
            candidate.zone,
            f"{candidate.tier}, queued" if candidate.queued else candidate.tier,
            hourly(candidate.cost, candidate.tier),
            str(candidate.attempts) if candidate.attempts else "",
            f"not tried: {problem_text(candidate.problem)}" if candidate.ruled_out else "",
        )
        for candidate in candidates
    ]
    return table(("TYPE", "ZONE", "TIER", "PRICE", "ATTEMPTS", ""), rows)


def attempt_table(hunt: Hunt) -> str:
    if not hunt.attempts:
        return "No attempts yet."
    rows = [
        (
            str(attempt.number),
            local_time(attempt.started),
            attempt.type,
            attempt.zone,
            f"{attempt.tier}, queued" if attempt.unattended else attempt.tier,
            state_text(attempt.state),
            attempt.problem.message if attempt.problem else "",
        )
        for attempt in hunt.attempts
    ]
    return table(("ATTEMPT", "STARTED", "TYPE", "ZONE", "TIER", "STATE", "MESSAGE"), rows)


def next_text(hunt: Hunt) -> str:
    """When the next attempt begins; "" if that is not known, or there is none."""
    if not hunt.next_attempt or hunt.state != "running":
        return ""
    seconds = (datetime.fromisoformat(hunt.next_attempt) - datetime.now(UTC)).total_seconds()
    return f"The next attempt begins in {duration(max(seconds, 1))}."


def left_to_server(hunt: Hunt) -> str:
    """Where to look for a hunt that no one waits for."""
    look = f"{program()} hunt describe {hunt.name}"
    return f"The Jupyter server hunts for {hunt.name}; `{look}` shows its attempts."


def _last_problem(hunt: Hunt) -> str:
    return hunt.problem.message if hunt.problem is not None else hunt.message
