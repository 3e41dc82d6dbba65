"""What `jupyter tpu attach` and `%tpu attach` share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..wording import count
from .grammar import argument, parameters

if TYPE_CHECKING:
    from ..fleet.models import TPU

#: The argument `machine`, and the options `as_name` and `host_key`.
machine_options = parameters(
    argument("machine", metavar="SSH_ALIAS", help="What you give to `ssh`."),
    click.option(
        "--name",
        "as_name",
        metavar="NAME",
        help="Its name here.  [default: made from SSH_ALIAS]",
    ),
    click.option(
        "--host-key",
        default="",
        metavar="FINGERPRINT",
        help="Trust the host key with this fingerprint (SHA256:…) without asking, if your "
        "known hosts do not have it.",
    ),
)


def describe_attached(tpu: TPU, connect: str) -> str:
    """connect: the command that connects it: "jupyter tpu connect"."""
    chips = f"{count(tpu.chips, 'TPU chip')}: {tpu.type}" if tpu.chips else "no TPU chips"
    note = "" if tpu.chips else " JAX uses its CPU."
    return f"{tpu.name} is attached ({chips}).{note} To use it in notebooks: {connect} {tpu.name}"
