"""``jupyter tpu doctor``: what keeps JAX from the chips, or a TPU from being created."""

from __future__ import annotations

from typing import Any

import click

from ..errors import InvalidInput
from .doctor import describe
from .field_options import options_of
from .grammar import command, examples, section
from .parameters import tpu_argument
from .printing import json_option, note, print_json
from .session import open_session


@command(
    "doctor",
    epilog=examples(
        "jupyter tpu doctor",
        "jupyter tpu doctor --type v5litepod-8 --zone us-west4-a --spot",
        "jupyter tpu doctor my-tpu",
    ),
)
@tpu_argument(required=False, zone_alone=True)
@section(
    "Without NAME",
    options_of("CheckSetup", "type", "version", "network"),
    click.option("--spot", is_flag=True, help="With --type: as a spot TPU."),
)
@json_option
@click.pass_context
def doctor(
    ctx: click.Context,
    name: str | None,
    fields: dict[str, Any],
    spot: bool,
    as_json: bool,
) -> None:
    """Check what keeps JAX from the chips of a TPU, or a TPU from being created.

    With NAME, checks all hosts at once: chips and the processes that use them, libtpu and JAX in
    each environment, logins, disks, clocks, and the ports between hosts. Without NAME, checks what
    can be checked before a TPU exists: login, API, permissions, your SSH key and the firewall; with
    --type also the zone, the runtime version and the quota. Changes nothing. The exit code is 1 if
    there is a problem.
    """
    if name is not None and (spot or fields):
        raise InvalidInput("Options of a new TPU, such as --type, are for a check without NAME.")
    note(f"Checking {f'the hosts of {name}' if name else 'the project'}. This can take a minute.")
    with open_session() as session:
        if name is not None:
            diagnosis = session.call(session.fleet.doctor.check(name))
        else:
            from ..fleet.models import CheckSetup

            check_setup = CheckSetup(
                zone=ctx.meta.get("zone"), tier="spot" if spot else "on-demand", **fields
            )
            diagnosis = session.call(session.fleet.doctor.preflight(check_setup))
    if as_json:
        print_json(diagnosis)
    else:
        print(describe(diagnosis))
    if not diagnosis.healthy:
        raise click.exceptions.Exit(1)
