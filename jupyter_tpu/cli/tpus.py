"""The commands on TPUs: create, list, describe, start, stop, delete, connect, disconnect."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from ..commands.operations import left_running
from ..commands.session import Session, open_session
from ..commands.tables import colour, is_terminal, problem_sentence, state, table, tpu_table
from ..errors import Reason, TPUError
from .console import confirm, note, print_json
from .waiting import finish, finish_all, leave

if TYPE_CHECKING:
    from ..fleet.models import TPU, ConnectTPU, Kernel, Operation, WarmKernel


def create(chosen: argparse.Namespace) -> None:
    from ..fleet.models import CreateTPU

    wanted = CreateTPU(
        name=chosen.name,
        type=chosen.type,
        zone=chosen.zone,
        version=chosen.version,
        tier="spot" if chosen.spot else "on-demand",
        network=chosen.network,
        subnetwork=chosen.subnetwork,
        connect=_connection(chosen) if chosen.connect else None,
    )
    if not chosen.connect and (chosen.python or chosen.packages or chosen.requirements):
        raise TPUError(
            "--python, --packages and --requirements are for --connect.",
            Reason.INVALID,
            "Add --connect, or give them to `jupyter tpu connect` later.",
        )
    with open_session() as session:
        if chosen.connect:
            _needs_server_to_leave(session, chosen)
        operation = session.call(session.fleet.create(wanted))
        ref = f"{operation.zone}~{operation.tpu}" if operation.zone else operation.tpu
        if _no_wait(session, operation, chosen):
            return
        if not chosen.json:
            _say_what(session, chosen.type)
        finish_all(session, operation, stream_of(chosen))
        tpu = session.call(session.fleet.tpu(ref))
        if chosen.json:
            print_json(tpu)
        else:
            print(f"{tpu.name} is ready: {_what(tpu)}, in {tpu.zone}.")
            if chosen.connect:
                _say_kernels(tpu)
            else:
                print(f"Make it ready for notebooks: jupyter tpu connect {tpu.name}")


def list_(chosen: argparse.Namespace) -> None:
    with open_session() as session:
        found = session.call(session.fleet.tpus())
    if found.problem is not None and not found.tpus:
        raise TPUError(found.problem.message, found.problem.reason, found.problem.hint)
    if chosen.json:
        print_json(found)
    else:
        print(tpu_table(found))
    if found.problem is not None:
        note(f"This list may be incomplete: {found.problem.message} {found.problem.hint}")


def describe(chosen: argparse.Namespace) -> None:
    with open_session() as session:
        tpu = session.call(session.fleet.tpu(chosen.name))
        if chosen.json:
            print_json(tpu)
            return
        kernels = _kernels(session, tpu)
    facts = [
        ("type", f"{tpu.type} = {tpu.meaning}" if tpu.meaning else tpu.type),
        ("zone", tpu.zone),
        ("project", tpu.project),
        ("state", state(tpu.state) + (f", health {tpu.health}" if tpu.health else "")),
        ("connection", state(tpu.connection.value)),
        ("version", tpu.version),
        ("tier", tpu.tier),
        ("created", tpu.created),
        ("problem", problem_sentence(tpu.problem)),
    ]
    print(colour(tpu.name, "bold") + ("  (emulated)" if tpu.emulated else ""))
    print("\n".join(f"  {name:11} {value}" for name, value in facts if value))
    if tpu.hosts:
        rows = [
            (
                str(host.index),
                host.internal_address,
                host.external_address,
                state(host.link.state.value),
                problem_sentence(host.link.problem),
            )
            for host in tpu.hosts
        ]
        print("\n" + table(("HOST", "INTERNAL", "EXTERNAL", "LINK", "PROBLEM"), rows))
    if tpu.environments:
        made = [
            (
                each.name,
                state(each.state),
                each.python,
                each.jax,
                each.display_name,
                _warm(each.warm),
                each.path,
            )
            for each in tpu.environments
        ]
        heads = ("ENVIRONMENT", "STATE", "PYTHON", "JAX", "KERNEL", "WARM KERNEL", "PATH")
        print("\n" + table(heads, made))
    if kernels:
        rows = [(k.id, k.state, k.environment, str(k.pid or ""), k.notebook) for k in kernels]
        print("\n" + table(("RUNNING KERNEL", "STATE", "ENVIRONMENT", "PID", "NOTEBOOK"), rows))


def start(chosen: argparse.Namespace) -> None:
    with open_session() as session:
        operation = session.call(session.fleet.start(chosen.name))
        _end(session, operation, chosen, "is running again")


def stop(chosen: argparse.Namespace) -> None:
    from ..fleet.models import StopTPU

    with open_session() as session:
        tpu, end = _kernels_may_end(session, chosen, "Stop")
        operation = session.call(session.fleet.stop(tpu, StopTPU(end_kernels=end)))
        _end(session, operation, chosen, "is stopped; its disk stays")


def disconnect(chosen: argparse.Namespace) -> None:
    from ..fleet.models import DisconnectTPU

    with open_session() as session:
        tpu, end = _kernels_may_end(session, chosen, "Disconnect")
        operation = session.call(session.fleet.disconnect(tpu, DisconnectTPU(end_kernels=end)))
        _end(session, operation, chosen, "is disconnected; its environments stay on its hosts")


def delete(chosen: argparse.Namespace) -> None:
    from ..fleet.models import DeleteTPU

    with open_session() as session:
        tpu = session.call(session.fleet.tpu(chosen.name))
        kernels = _kernels(session, tpu)
        if not chosen.yes:
            confirm(
                f"Delete {tpu.name} ({_what(tpu)}, in {tpu.zone}) with everything on its disk?"
                + _that_end(tpu, kernels),
                "Add --yes to delete it without being asked.",
            )
        ref = f"{tpu.zone}~{tpu.name}"
        operation = session.call(session.fleet.delete(ref, DeleteTPU(end_kernels=True)))
        if _no_wait(session, operation, chosen):
            return
        finish(session, operation, stream_of(chosen))
        if not chosen.json:
            print(f"{tpu.name} is deleted.")


def connect(chosen: argparse.Namespace) -> None:
    wanted = _connection(chosen)
    with open_session() as session:
        _needs_server_to_leave(session, chosen)
        operation = session.call(session.fleet.connect(chosen.name, wanted))
        if _no_wait(session, operation, chosen):
            return
        finish(session, operation, stream_of(chosen))
        tpu = session.call(session.fleet.tpu(chosen.name))
        if chosen.json:
            print_json(tpu)
        else:
            _say_kernels(tpu, wanted.environment)


# ---- what is asked for -------------------------------------------------------------------------


def _connection(chosen: argparse.Namespace) -> ConnectTPU:
    from ..fleet.models import ConnectTPU

    return ConnectTPU(
        environment=chosen.env,
        python=chosen.python,
        packages=list(chosen.packages),
        requirements=_text(chosen.requirements) if chosen.requirements else None,
    )


def _text(path: str) -> str:
    try:
        return Path(path).expanduser().read_text(encoding="utf-8")
    except OSError as error:
        raise TPUError(f"{path} can't be read: {error.strerror}.", Reason.INVALID) from None
    except UnicodeDecodeError:
        raise TPUError(f"{path} is not a text file.", Reason.INVALID) from None


def _kernels(session: Session, tpu: TPU) -> list[Kernel]:
    """The kernels running there; none for a TPU that can't be asked now."""
    if not tpu.kernels and tpu.connection.value == "disconnected":
        return []
    try:
        return session.call(session.fleet.kernels(f"{tpu.zone}~{tpu.name}"))
    except TPUError as error:
        note(f"The kernels on {tpu.name} can't be listed: {error.message}")
        return []


def _that_end(tpu: TPU, kernels: Sequence[Kernel]) -> str:
    if not kernels:
        return f" {tpu.kernels} running kernel(s) end with it." if tpu.kernels else ""
    names = ", ".join(
        f"{kernel.notebook or kernel.id} ({kernel.state}, {kernel.environment})"
        for kernel in kernels
    )
    count = "1 running kernel ends" if len(kernels) == 1 else f"{len(kernels)} running kernels end"
    return f" {count} with it: {names}."


def _kernels_may_end(session: Session, chosen: argparse.Namespace, verb: str) -> tuple[str, bool]:
    """The TPU's reference, and whether kernels there may end: asked if there are any."""
    tpu = session.call(session.fleet.tpu(chosen.name))
    kernels = _kernels(session, tpu)
    if kernels and not chosen.yes:
        confirm(
            f"{verb} {tpu.name}?" + _that_end(tpu, kernels),
            "Add --yes to end them without being asked.",
        )
    return f"{tpu.zone}~{tpu.name}", bool(kernels) or chosen.yes


# ---- what is said ------------------------------------------------------------------------------


def stream_of(chosen: argparse.Namespace) -> TextIO:
    """Where progress goes: with --json stdout is the program's, and stderr is for a person."""
    if not chosen.json:
        return sys.stdout
    return sys.stderr if is_terminal(sys.stderr) else io.StringIO()


def _no_wait(session: Session, operation: Operation, chosen: argparse.Namespace) -> bool:
    """Ends a command that shall not wait, by printing its operation."""
    if chosen.wait or (session.server is None and operation.kind == "disconnect"):
        return False  # disconnecting takes no time worth leaving
    leave(session, operation)
    if chosen.json:
        print_json(operation)
    else:
        print(f"{left_running(session, operation)} (operation {operation.id})")
    return True


def _needs_server_to_leave(session: Session, chosen: argparse.Namespace) -> None:
    if not chosen.wait and session.server is None:
        raise TPUError(
            "Without a running Jupyter server nobody goes on connecting when this command ends.",
            Reason.CONFLICT,
            "Leave --no-wait out, or start `jupyter lab` first.",
        )


def _end(session: Session, operation: Operation, chosen: argparse.Namespace, words: str) -> None:
    if _no_wait(session, operation, chosen):
        return
    finish(session, operation, stream_of(chosen))
    tpu = session.call(session.fleet.tpu(chosen.name))
    if chosen.json:
        print_json(tpu)
    else:
        print(f"{tpu.name} {words}.")


def _say_what(session: Session, type: str) -> None:
    """What a type's name means, before it is paid for."""
    catalog = session.call(session.fleet.catalog())
    meaning = {each.name: each.meaning for each in catalog.types}.get(type)
    if meaning:
        print(f"{type} = {meaning}" + (" (emulated)" if catalog.emulated else ""), flush=True)


def _say_kernels(tpu: TPU, environment: str | None = None) -> None:
    for each in tpu.environments:
        if each.state == "ready" and environment in (None, each.name):
            devices = f"{each.devices} devices ({each.platform})" if each.devices else ""
            versions = ", ".join(filter(None, (f"JAX {each.jax}" if each.jax else "", devices)))
            print(f'The kernel "{each.display_name}" is in every kernel picker: {versions}.')


def _what(tpu: TPU) -> str:
    words = f"{tpu.type} = {tpu.meaning}" if tpu.meaning else tpu.type
    return words + (" (emulated)" if tpu.emulated else "")


def _warm(kernel: WarmKernel) -> str:
    """What the warm kernel of an environment costs, or what keeps it from being there."""
    if kernel.state == "ready":
        return f"{kernel.memory / 1e6:.0f} MB"
    return kernel.problem or ("" if kernel.state == "off" else kernel.state)
