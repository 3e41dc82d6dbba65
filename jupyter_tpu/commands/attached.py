"""What `jupyter tpu attach` and `%tpu attach` share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..wording import count, phrase
from .field_options import options_of
from .grammar import argument, parameters, program

if TYPE_CHECKING:
    from ..fleet.models import TPU

#: The argument `machines`, and the options `fields`.
machine_options = parameters(
    argument(
        "machines",
        nargs=-1,
        required=True,
        metavar="SSH_ALIAS...",
        help="What you give to `ssh`. For a TPU with several hosts: all of them, host 0 first.",
    ),
    options_of("AttachMachine", "name", "host_keys"),
)


def describe_attached(tpu: TPU) -> str:
    """What was attached, and the command that connects it."""
    chips = f"{count(tpu.chips, 'TPU chip')}: {tpu.type}" if tpu.chips else phrase("no TPU chips")
    what = f"{count(len(tpu.hosts), 'host')} · {chips}" if len(tpu.hosts) > 1 else chips
    sentences = [f"{tpu.name} is attached ({what})."]
    if not tpu.chips:
        sentences.append("JAX uses its CPU.")
    sentences.append(f"To use it in notebooks: {program()} connect {tpu.name}")
    return " ".join(sentences)
