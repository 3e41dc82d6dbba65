"""``%tpu hunt``: search for a TPU from a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..commands.grammar import command, examples
from ..commands.hunt_group import agreed, costs_money, hunt_group, hunt_options
from ..commands.hunts import QUEUED, candidate_table, left_to_server
from ..commands.session import open_session
from ..errors import Reason, TPUError
from .show import wait_for

if TYPE_CHECKING:
    from ..fleet.models import StartHunt


@command(
    "start",
    epilog=examples(
        "%tpu hunt start my-tpu --type v5litepod-8 --zone us-west4-a --zone us-central1-a --yes",
        "%tpu hunt start my-tpu --type v6e-8 --zone - --tier spot --max-price 5 --deadline 8h",
    ),
)
@hunt_options
@click.option("--yes", "-y", is_flag=True, help="Start it, whatever it costs.")
def start(request: StartHunt, yes: bool) -> None:
    """Start a hunt. The running Jupyter server continues it; without one, this waits for its end.

    What costs something needs --yes or --max-price.
    """
    with open_session() as session:
        candidates, confirmed = agreed(session, request)
        print(candidate_table(candidates))
        if costs_money(candidates) and request.tpu.max_price is None and not yes:
            raise TPUError(
                "You would pay while it is READY, used or not. Nothing was started.",
                Reason.PRICE,
                "Add --yes to agree to these prices, or --max-price USD.",
            )
        hunt = session.call(session.fleet.hunts.start(confirmed))
        if hunt.queued:
            print(QUEUED)
        if session.server is not None:
            print(left_to_server(hunt))
        else:
            wait_for(session, session.call(session.fleet.operations.get(hunt.id)))


hunt = hunt_group(start)
