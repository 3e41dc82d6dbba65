"""The commands on TPUs: create, list, describe, start, stop, delete, connect, disconnect."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from ..commands.grammar import (
    argument,
    command,
    environment_option,
    examples,
    packages_option,
    python_option,
    tpu_argument,
)
from ..commands.operations import left_running
from ..commands.session import Session, open_session
from ..commands.tables import problem_text, status_problems, tpu_table
from ..errors import InvalidInput, Reason, TPUError
from .approval import approve_cost, print_cost
from .console import confirm, json_option, note, print_json, yes_option
from .waiting import finish, finish_all, leave, progress_stream

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from ..fleet.models import TPU, ConnectTPU, Kernel, Operation

F = TypeVar("F", bound=Callable[..., object])

_requirements_option = click.option(
    "--requirements", metavar="FILE", help="A requirements file of packages to install."
)
_no_wait_option = click.option(
    "--no-wait", is_flag=True, help="Return immediately; the operation continues."
)


def _complete_type(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    from ..catalog import types

    return [each.name for each in types() if each.name.startswith(incomplete)]


@command(
    "create",
    epilog=examples(
        "jupyter tpu create my-tpu --type v5litepod-8 --zone us-west4-a --connect",
        "jupyter tpu create my-tpu --type v4-8 --spot --no-wait",
    ),
)
@argument("name", metavar="NAME", help="Lower-case letters, digits and hyphens.")
@click.option(
    "--type",
    "--accelerator-type",
    "accelerator_type",
    required=True,
    metavar="TYPE",
    shell_complete=_complete_type,
    help="Accelerator type, such as v5litepod-8.",
)
@click.option("--zone", metavar="ZONE", help="Its zone.  [default: gcloud's]")
@click.option(
    "--version",
    metavar="VERSION",
    help="Runtime version (OS image).  [default: depends on the type]",
)
@click.option("--spot", is_flag=True, help="Cheaper; Google may preempt it at any time.")
@click.option("--network", metavar="NETWORK", help="VPC network.  [default: the project's]")
@click.option("--subnetwork", metavar="SUBNETWORK", help="Subnetwork of the VPC network.")
@click.option(
    "--connect",
    "then_connect",
    is_flag=True,
    help="Then connect it (see `connect`).",
)
@environment_option
@python_option
@packages_option
@_requirements_option
@yes_option("Create it without asking.")
@_no_wait_option
@json_option
def create(
    name: str,
    accelerator_type: str,
    zone: str | None,
    version: str | None,
    spot: bool,
    network: str | None,
    subnetwork: str | None,
    then_connect: bool,
    environment: str,
    python: str | None,
    packages: tuple[str, ...],
    requirements: str | None,
    yes: bool,
    no_wait: bool,
    as_json: bool,
) -> None:
    """Create a TPU.

    Says first what it costs, and asks. An emulated TPU costs nothing, so it does not ask then.
    """
    from msgspec import structs

    from ..fleet.models import CreateTPU

    if not then_connect and (python or packages or requirements):
        raise InvalidInput(
            "--python, --packages and --requirements need --connect.",
            "Add --connect, or give them to `jupyter tpu connect` later.",
        )
    wanted = CreateTPU(
        name=name,
        type=accelerator_type,
        zone=zone,
        version=version,
        tier="spot" if spot else "on-demand",
        network=network,
        subnetwork=subnetwork,
        connect=_connection(environment, python, packages, requirements) if then_connect else None,
    )
    with open_session() as session:
        if then_connect and no_wait:
            _require_server(session)
        quote = session.call(session.fleet.quote(wanted))
        approve_cost(quote, yes=yes, as_json=as_json)
        # What was said is what is created, also if gcloud's default zone changes meanwhile.
        wanted = structs.replace(wanted, zone=quote.zone, version=quote.version)
        operation = session.call(session.fleet.create(wanted))
        ref = f"{operation.zone}~{operation.tpu}" if operation.zone else operation.tpu
        if no_wait:
            return _leave(session, operation, as_json)
        finish_all(session, operation, progress_stream(as_json))
        tpu = session.call(session.fleet.tpu(ref))
        if as_json:
            return print_json(tpu)
        print(f"{tpu.name} is ready: {_type_of(tpu)}, in {tpu.zone}.")
        if then_connect:
            _print_kernels(tpu)
        else:
            print(f"To use it in notebooks: jupyter tpu connect {tpu.name}")
    return None


@command("list")
@json_option
def list_tpus(as_json: bool) -> None:
    """List the project's TPUs."""
    with open_session() as session:
        found = session.call(session.fleet.tpus())
        status = session.call(session.fleet.status())
    problem = found.problem
    if problem is not None and not found.tpus:
        raise problem.to_error()
    if as_json:
        print_json(found)
    else:
        print(tpu_table(found))
    if problem is not None:
        note(f"This list may be incomplete: {problem_text(problem)}")
    for line in status_problems(status):
        note(line)


@command("describe")
@tpu_argument()
@json_option
def describe(name: str, as_json: bool) -> None:
    """Show a TPU's hosts, environments and running kernels."""
    with open_session() as session:
        tpu = session.call(session.fleet.tpu(name))
        if as_json:
            return print_json(tpu)
        kernels = _kernels(session, tpu)
    from .description import description

    print(description(tpu, kernels))
    return None


@command("start")
@tpu_argument()
@_no_wait_option
@json_option
def start(name: str, no_wait: bool, as_json: bool) -> None:
    """Start a stopped TPU."""
    with open_session() as session:
        tpu = session.call(session.fleet.tpu(name))
        if not as_json:
            print_cost(tpu)
        _run(session, name, session.fleet.start(_ref(tpu)), "Started {}.", no_wait, as_json)


@command("stop")
@tpu_argument()
@yes_option("Shut down the kernels that run there without asking.")
@_no_wait_option
@json_option
def stop(name: str, yes: bool, no_wait: bool, as_json: bool) -> None:
    """Stop a TPU. Its disk is kept."""
    from ..fleet.models import StopTPU

    with open_session() as session:
        ref, end = _confirm_kernels(session, name, yes, "Stop")
        stopping = session.fleet.stop(ref, StopTPU(end_kernels=end))
        _run(session, name, stopping, "Stopped {}. Its disk is kept.", no_wait, as_json)


@command("disconnect")
@tpu_argument()
@yes_option("Shut down the kernels that run there without asking.")
@_no_wait_option
@json_option
def disconnect(name: str, yes: bool, no_wait: bool, as_json: bool) -> None:
    """Remove a TPU's kernels from Jupyter. Its environments stay on its hosts."""
    from ..fleet.models import DisconnectTPU

    with open_session() as session:
        ref, end = _confirm_kernels(session, name, yes, "Disconnect")
        no_wait = no_wait and session.server is not None  # alone it takes no time worth leaving
        disconnecting = session.fleet.disconnect(ref, DisconnectTPU(end_kernels=end))
        done = "Disconnected {}. Its environments stay on its hosts."
        _run(session, name, disconnecting, done, no_wait, as_json)


@command("delete", epilog=examples("jupyter tpu delete my-tpu --yes"))
@tpu_argument()
@yes_option("Delete it, and shut down the kernels that run there, without asking.")
@_no_wait_option
@json_option
def delete(name: str, yes: bool, no_wait: bool, as_json: bool) -> None:
    """Delete a TPU and everything on its disk."""
    from ..fleet.models import DeleteTPU

    with open_session() as session:
        tpu = session.call(session.fleet.tpu(name))
        if not yes:
            confirm(
                f"Delete {tpu.name} ({_type_of(tpu)}, in {tpu.zone}) and everything on its disk?"
                + _kernels_that_end(tpu, _kernels(session, tpu)),
                "Add --yes to delete it without asking.",
            )
        operation = session.call(session.fleet.delete(_ref(tpu), DeleteTPU(end_kernels=True)))
        if no_wait:
            return _leave(session, operation, as_json)
        finish(session, operation, progress_stream(as_json))
        if as_json:
            print_json(session.call(session.fleet.operation(operation.id)))
        else:
            print(f"Deleted {tpu.name}.")
    return None


@command(
    "connect", epilog=examples("jupyter tpu connect my-tpu --python 3.12 --packages flax optax")
)
@tpu_argument()
@environment_option
@python_option
@packages_option
@_requirements_option
@_no_wait_option
@json_option
def connect(
    name: str,
    environment: str,
    python: str | None,
    packages: tuple[str, ...],
    requirements: str | None,
    no_wait: bool,
    as_json: bool,
) -> None:
    """Prepare a TPU for notebooks.

    Creates a Python environment with JAX on its hosts, and adds the environment's kernel to
    Jupyter's kernel pickers.
    """
    wanted = _connection(environment, python, packages, requirements)
    with open_session() as session:
        if no_wait:
            _require_server(session)
        operation = session.call(session.fleet.connect(name, wanted))
        if no_wait:
            return _leave(session, operation, as_json)
        finish(session, operation, progress_stream(as_json))
        tpu = session.call(session.fleet.tpu(name))
        if as_json:
            print_json(tpu)
        else:
            _print_kernels(tpu, environment)
    return None


# ---- the request -------------------------------------------------------------------------------


def _connection(
    environment: str, python: str | None, packages: Sequence[str], requirements: str | None
) -> ConnectTPU:
    from ..fleet.models import ConnectTPU

    return ConnectTPU(
        environment=environment,
        python=python,
        packages=list(packages),
        requirements=_read(requirements) if requirements else None,
    )


def _read(path: str) -> str:
    try:
        return Path(path).expanduser().read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"Can't read {path}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} is not a text file.") from None


def _require_server(session: Session) -> None:
    """Raises CONFLICT if nothing would continue to connect the TPU after this command."""
    if session.server is None:
        raise TPUError(
            "--no-wait needs a running Jupyter server, which continues to connect the TPU.",
            Reason.CONFLICT,
            "Omit --no-wait, or start `jupyter lab` first.",
        )


def _confirm_kernels(session: Session, name: str, yes: bool, verb: str) -> tuple[str, bool]:
    """The TPU's reference, and whether its kernels may end. Asks the user if there are any."""
    tpu = session.call(session.fleet.tpu(name))
    kernels = _kernels(session, tpu)
    if kernels and not yes:
        confirm(
            f"{verb} {tpu.name}?" + _kernels_that_end(tpu, kernels),
            "Add --yes to shut them down without asking.",
        )
    return _ref(tpu), bool(kernels) or yes


def _kernels(session: Session, tpu: TPU) -> list[Kernel]:
    """The kernels running there; none if they can't be listed now."""
    if not tpu.kernels and tpu.connection.value == "disconnected":
        return []
    try:
        return session.call(session.fleet.kernels(_ref(tpu)))
    except TPUError as error:
        note(f"Can't list the kernels on {tpu.name}: {error.message}")
        return []


def _kernels_that_end(tpu: TPU, kernels: Sequence[Kernel]) -> str:
    count = len(kernels) or tpu.kernels
    if not count:
        return ""
    names = ", ".join(
        f"{kernel.notebook or kernel.id} ({kernel.state}, {kernel.environment})"
        for kernel in kernels
    )
    loss = "1 running kernel" if count == 1 else f"{count} running kernels"
    return f" This shuts down {loss}" + (f": {names}." if names else ".")


def _ref(tpu: TPU) -> str:
    return f"{tpu.zone}~{tpu.name}"


# ---- the output --------------------------------------------------------------------------------


def _run(
    session: Session,
    name: str,
    beginning: Coroutine[Any, Any, Operation],
    done: str,
    no_wait: bool,
    as_json: bool,
) -> None:
    """Begins an operation, waits for it, and prints *done* with the TPU's name, or the TPU."""
    operation = session.call(beginning)
    if no_wait:
        return _leave(session, operation, as_json)
    finish(session, operation, progress_stream(as_json))
    tpu = session.call(session.fleet.tpu(name))
    if as_json:
        print_json(tpu)
    else:
        print(done.format(tpu.name))
    return None


def _leave(session: Session, operation: Operation, as_json: bool) -> None:
    """Ends a command that does not wait."""
    leave(session, operation)
    if as_json:
        print_json(operation)
    else:
        print(f"{left_running(session, operation)} (operation {operation.id})")


def _print_kernels(tpu: TPU, environment: str | None = None) -> None:
    for each in tpu.environments:
        if each.state == "ready" and environment in (None, each.name):
            devices = f"{each.devices} devices ({each.platform})" if each.devices else ""
            versions = ", ".join(filter(None, (f"JAX {each.jax}" if each.jax else "", devices)))
            print(f'The kernel "{each.display_name}" is in every kernel picker: {versions}.')


def _type_of(tpu: TPU) -> str:
    meaning = f"{tpu.type} = {tpu.meaning}" if tpu.meaning else tpu.type
    return meaning + (" (emulated)" if tpu.emulated else "")
