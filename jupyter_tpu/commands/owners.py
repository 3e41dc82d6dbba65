"""What other people's TPUs need before something is done to them: their names, typed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import click

from ..errors import Reason, TPUError
from .questions import ask, can_ask

if TYPE_CHECKING:
    from ..fleet.models import TPU, QueuedResource

confirm_name_option = click.option(
    "--confirm-name",
    "confirmed",
    multiple=True,
    metavar="NAME",
    help="Confirm the name of a TPU or queued resource of another person. In a terminal, you are "
    "asked for it.",
)


def confirmed_names(things: Sequence[TPU | QueuedResource], confirmed: Collection[str]) -> set[str]:
    """The names that were given as *confirmed* or are typed now.

    Raises CANCELLED if another name is typed. Without a terminal, the fleet refuses the rest.
    """
    names = set(confirmed)
    for thing in things:
        if thing.not_yours and thing.name not in names and can_ask():
            typed = ask(
                f'{thing.name} belongs to {thing.owner}. To continue, type "{thing.name}": '
            )
            if typed.strip() != thing.name:
                raise TPUError("Nothing was changed.", Reason.CANCELLED)
            names.add(thing.name)
    return names
