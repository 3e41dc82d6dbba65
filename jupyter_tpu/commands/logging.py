"""``jupyter tpu logging``: whether Cloud Logging stores what the hosts of a TPU log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..terminal.grammar import Group, examples
from ..terminal.parameters import tpu_argument
from ..terminal.printing import json_option, print_json
from ..terminal.session import open_session

if TYPE_CHECKING:
    from ..fleet.models import TPULogging


@click.group("logging", cls=Group, aliases={"show": "describe"})
def logging() -> None:
    """Choose whether Google's Cloud Logging stores what the hosts of a TPU log."""


@logging.command("describe", epilog=examples("jupyter tpu logging describe my-tpu"))
@tpu_argument()
@json_option
def describe(name: str, as_json: bool) -> None:
    """Show whether the logs are stored, what that costs, and how to find them."""
    with open_session() as session:
        _print(session.call(session.fleet.logs.show(name)), as_json)


@logging.command("off", epilog=examples("jupyter tpu logging off my-pod"))
@tpu_argument()
@json_option
def off(name: str, as_json: bool) -> None:
    """Stop storing the logs of the TPU, with an exclusion in its project.

    Needs the role Logs Configuration Writer. Logs that are already stored are kept.
    """
    _set(name, as_json, enabled=False)


@logging.command("on")
@tpu_argument()
@json_option
def on(name: str, as_json: bool) -> None:
    """Store the logs of the TPU from now on."""
    _set(name, as_json, enabled=True)


def _set(name: str, as_json: bool, *, enabled: bool) -> None:
    from ..fleet.models import SetLogging

    with open_session() as session:
        _print(session.call(session.fleet.logs.set(name, SetLogging(enabled=enabled))), as_json)


def _print(status: TPULogging, as_json: bool) -> None:
    if as_json:
        print_json(status)
        return
    where = f"the logs of {status.tpu}{' (emulated)' if status.emulated else ''}"
    if not status.enabled:
        print(f"Cloud Logging does not store {where}.")
        return
    print(
        f"Cloud Logging stores {where}. Each month, the first {status.free_gib} GiB of a project "
        f"are free. More costs ${status.usd_per_gib:.2f} per GiB (price as of {status.price_date})."
    )
    print(f"To find them: {status.filter}")
