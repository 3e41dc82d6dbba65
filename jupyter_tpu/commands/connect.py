"""``jupyter tpu connect``: an environment on the hosts of a TPU, and its kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ..terminal.environment_options import Content, content_options
from ..terminal.grammar import command, examples
from ..terminal.parameters import environment_option, tpu_argument
from ..terminal.printing import json_option, note, print_json
from ..terminal.session import FleetSession, open_session
from ..terminal.tables import problem_text
from ..terminal.waiting import (
    finish,
    leave_and_print,
    no_wait_option,
    progress_stream,
    require_server,
    verbose_option,
)
from ..wording import count

if TYPE_CHECKING:
    from ..fleet.models import TPU, ConnectTPU


@command(
    "connect", epilog=examples("jupyter tpu connect my-tpu --python 3.12 --packages flax optax")
)
@tpu_argument()
@environment_option
@content_options()
@click.option(
    "--pass-env",
    "tokens",
    multiple=True,
    metavar="NAME",
    help="Also pass this variable of your computer, such as HF_TOKEN, to kernels, commands and "
    "jobs on TPUs from now on (see `token`). Repeatable.",
)
@verbose_option
@no_wait_option
@json_option
def connect(
    name: str,
    environment: str,
    tokens: tuple[str, ...],
    no_wait: bool,
    as_json: bool,
    content: Content,
) -> None:
    """Prepare a TPU for notebooks.

    Creates a Python environment with JAX or PyTorch on its hosts, and adds its kernel to Jupyter's
    kernel pickers.
    """
    request = content.request(environment)
    connect_with(name, request, no_wait=no_wait, as_json=as_json, tokens=tokens)


def connect_with(
    name: str, request: ConnectTPU, *, no_wait: bool, as_json: bool, tokens: Sequence[str] = ()
) -> None:
    """Connects, and prints the kernel. tokens: names to pass on to what is started there."""
    with open_session() as session:
        if no_wait:
            require_server(session)
        if tokens:
            _pass_on(session, tokens)
        operation = session.call(session.fleet.connect(name, request))
        if no_wait:
            return leave_and_print(session, operation, as_json)
        finish(session, operation, progress_stream(as_json))
        tpu = session.call(session.fleet.tpu(name))
        if as_json:
            print_json(tpu)
        else:
            print_kernels(tpu, request.environment)
            print_job(tpu.name, request)


def _pass_on(session: FleetSession, tokens: Sequence[str]) -> None:
    from ..fleet.models import PassTokens
    from .token import MISSING

    for token in session.call(session.fleet.tokens.pass_on(PassTokens(names=[*tokens]))):
        if token.hint and token.name in tokens:
            note(f"{token.name}: {MISSING}. {token.hint}")


def print_kernels(tpu: TPU, environment: str | None = None) -> None:
    for candidate in tpu.environments:
        if candidate.state == "ready" and environment in (None, candidate.name):
            devices = count(candidate.devices, "device") if candidate.devices else ""
            devices += f" ({candidate.platform})" if devices else ""
            versions = ", ".join(filter(None, (candidate.framework_version, devices)))
            print(f'The kernel "{candidate.display_name}" is in every kernel picker: {versions}.')
            if candidate.pod_display_name:
                print(f'The kernel "{candidate.pod_display_name}" runs each cell on all hosts.')
            if candidate.problem is not None:
                note(f"Warning: {problem_text(candidate.problem)}")


def print_job(name: str, request: ConnectTPU) -> None:
    if request.then_run:
        print(f"Started {request.then_run!r} as a job: jupyter tpu job list {name}")
