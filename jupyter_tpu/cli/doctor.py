"""``jupyter tpu doctor``: what keeps JAX from the chips of a TPU, and what to do."""

from __future__ import annotations

import click

from ..commands.doctor import describe
from ..commands.grammar import examples, tpu_argument
from ..commands.session import open_session
from .console import json_option, note, print_json


@click.command("doctor", epilog=examples("jupyter tpu doctor my-tpu"))
@tpu_argument()
@json_option
def doctor(name: str, as_json: bool) -> None:
    """Check what keeps JAX from the chips of a TPU.

    Checks all hosts at once: chips and the processes that use them, libtpu and JAX in each
    environment, logins, disks, clocks, and the ports between hosts. Changes nothing. The exit code
    is 1 if there is a problem.
    """
    note(f"Checking the hosts of {name}. This can take a minute.")
    with open_session() as session:
        found = session.call(session.fleet.doctor.check(name))
    if as_json:
        print_json(found)
    else:
        print(describe(found))
    if not found.healthy:
        raise click.exceptions.Exit(1)
