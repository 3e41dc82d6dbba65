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


def confirmed_names(
    things: Sequence[TPU | QueuedResource], confirmed: Collection[str], act: str
) -> set[str]:
    """The names that were given as *confirmed* or are typed now; *act*: "delete it".

    Raises CANCELLED if another name is typed. Without a terminal, the fleet refuses the rest.
    """
    names = set(confirmed)
    for each in things:
        if each.not_yours and each.name not in names and can_ask():
            typed = ask(f'{each.name} belongs to {each.owner}. To {act}, type "{each.name}": ')
            if typed.strip() != each.name:
                raise TPUError("Nothing was changed.", Reason.CANCELLED)
            names.add(each.name)
    return names
