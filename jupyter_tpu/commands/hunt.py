"""``jupyter tpu hunt``: search for a TPU over zones, types and tiers until there is one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ..errors import Reason, TPUError
from ..terminal.console import (
    can_ask,
    confirm,
    json_option,
    no_wait_option,
    print_json,
    print_result,
    verbose_option,
    yes_option,
)
from ..terminal.grammar import command, examples
from ..terminal.session import Session, open_session
from ..terminal.waiting import finish_all, progress_stream, require_server
from ..wording import count
from .hunt_text import (
    QUEUED,
    agreed,
    candidate_table,
    costs_money,
    hunt_argument,
    hunt_group,
    hunt_options,
    left_to_server,
)

if TYPE_CHECKING:
    from ..fleet.models import Hunt, StartHunt


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


hunt = hunt_group(start, wait)


# ---- starting one ------------------------------------------------------------------------------


def hunt_for(
    session: Session, request: StartHunt, *, yes: bool, no_wait: bool, as_json: bool
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


def _approved(session: Session, request: StartHunt, *, yes: bool, as_json: bool) -> StartHunt:
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


def wait_for(session: Session, hunt: Hunt, as_json: bool) -> None:
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
