"""``jupyter tpu start``: stopped TPUs run again, after their price was shown."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any

import click

from ..terminal.grammar import command, examples
from ..terminal.parameters import tpu_argument
from ..terminal.printing import json_option
from ..terminal.questions import confirm_name_option, confirmed_names, yes_option
from ..terminal.session import open_session, tpu_ref
from ..terminal.waiting import no_wait_option
from .approval import approve_start
from .several_tpus import SEVERAL, find_tpus, run_on_each

if TYPE_CHECKING:
    from ..fleet.models import TPU, Operation


@command("start", epilog=examples(SEVERAL.format("start")))
@tpu_argument(several=True)
@yes_option("Start them without asking, whatever they cost.")
@click.option(
    "--max-price",
    type=click.FloatRange(min=0),
    metavar="USD",
    help="Start TPUs without asking if they cost at most this price in USD an hour.",
)
@confirm_name_option
@no_wait_option
@json_option
def start(
    names: Sequence[str],
    yes: bool,
    max_price: float | None,
    confirmed: tuple[str, ...],
    no_wait: bool,
    as_json: bool,
) -> None:
    """Start stopped TPUs. Shows the price first, and asks."""
    from ..fleet.models import StartTPU

    limited = max_price is not None
    with open_session() as session:
        tpus = find_tpus(session, names, "started")
        approve_start(tpus, yes=yes or limited, as_json=as_json)
        typed = confirmed_names(tpus, confirmed)

        def begin(tpu: TPU) -> Coroutine[Any, Any, Operation]:
            # What was said is what may be paid, also if the price changes; None: it is not known.
            price = max_price if yes or limited else tpu.cost.usd_per_hour or None
            agreed = yes or tpu.cost.usd_per_hour != 0
            name = tpu.name if tpu.name in typed else ""
            options = StartTPU(confirm_price=agreed, max_price=price, confirm_name=name)
            return session.fleet.start(tpu_ref(tpu), options)

        run_on_each(session, tpus, begin, "Started {}.", no_wait, as_json)
