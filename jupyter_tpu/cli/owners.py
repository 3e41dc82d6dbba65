"""``jupyter tpu adopt``, and what other people's TPUs need: their names, typed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import click

from ..commands.grammar import command, examples, tpu_argument
from ..commands.session import open_session, tpu_ref
from ..errors import Reason, TPUError
from .console import ask, can_ask, json_option, print_json

if TYPE_CHECKING:
    from ..fleet.models import TPU, QueuedResource

confirm_name_option = click.option(
    "--confirm-name",
    "confirmed",
    multiple=True,
    metavar="NAME",
    help="The name again, if it belongs to someone else. In a terminal you are asked.",
)


def confirmed_names(
    things: Sequence[TPU | QueuedResource], confirmed: Collection[str], act: str
) -> set[str]:
    """The names that were given as *confirmed* or are typed now; *act*: "delete".

    Raises CANCELLED if another name is typed. Without a terminal, the fleet refuses the rest.
    """
    names = set(confirmed)
    for each in things:
        if each.not_yours and each.name not in names and can_ask():
            typed = ask(f"{each.name} belongs to {each.owner}. To {act} it, type its name: ")
            if typed.strip() != each.name:
                raise TPUError("Nothing was changed.", Reason.CANCELLED)
            names.add(each.name)
    return names


@command("adopt", epilog=examples("jupyter tpu adopt my-tpu"))
@tpu_argument()
@confirm_name_option
@json_option
def adopt(name: str, confirmed: tuple[str, ...], as_json: bool) -> None:
    """Make a TPU yours that someone else or another program created.

    This changes the label with its owner, which `usage` shows. To use the TPU, connect it.
    """
    from ..fleet.models import AdoptTPU

    with open_session() as session:
        tpu = session.call(session.fleet.tpu(name))
        names = confirmed_names([tpu], confirmed, "adopt")
        request = AdoptTPU(confirm_name=tpu.name if tpu.name in names else "")
        found = session.call(session.fleet.usage.adopt(tpu_ref(tpu), request))
    if as_json:
        print_json(found)
    else:
        print(f"{found.name} is yours.")
        print(f"To use it in notebooks: jupyter tpu connect {found.name}")
