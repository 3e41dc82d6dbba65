"""``jupyter tpu kernel``: what Jupyter's kernel pickers show of TPUs."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from ..commands.session import open_session
from ..commands.tables import table
from ..errors import Reason, TPUError
from .console import print_json
from .waiting import finish

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..fleet.models import Kernel
    from ..kernels.specs import KernelSpec


def list_(chosen: argparse.Namespace) -> None:
    """Reads this user's kernelspecs, which asks no cloud; of a TPU: the kernels that run there."""
    from ..kernels import KernelSpecs

    if chosen.name is not None:
        _list_running(chosen)
        return
    specs = KernelSpecs().list()
    if chosen.json:
        print_json(specs)
    elif not specs:
        print("No TPU has a kernel here. Make one: jupyter tpu connect NAME")
    else:
        rows = [
            (
                spec.display_name,
                spec.config["tpu"],
                spec.config["zone"],
                spec.config["environment"],
                spec.name,
            )
            for spec in specs
        ]
        print(table(("KERNEL", "TPU", "ZONE", "ENVIRONMENT", "KERNELSPEC"), rows))


def _list_running(chosen: argparse.Namespace) -> None:
    with open_session() as session:
        kernels = session.call(session.fleet.kernels(chosen.name))
        chips = session.call(session.fleet.chips(chosen.name)) if kernels else []
    if chosen.json:
        print_json(kernels)
        return
    if not kernels:
        print(f"No kernel runs on {chosen.name}.")
        return
    rows = [
        (
            kernel.id,
            kernel.notebook or "-",
            kernel.state,
            _held_by(kernel),
            "yes" if kernel.chips else "",
        )
        for kernel in kernels
    ]
    print(table(("KERNEL", "NOTEBOOK", "STATE", "HELD BY", "CHIPS"), rows))
    for holder in chips:
        if not holder.kernel:
            print(f"The chips are held by process {holder.pid} of {holder.user}: {holder.command}")


def _held_by(kernel: Kernel) -> str:
    if kernel.attached:
        return kernel.holder
    return f"nobody (was {kernel.holder})" if kernel.holder else "nobody"


def end(chosen: argparse.Namespace) -> None:
    """Ends a kernel that runs on a TPU, whoever has it."""
    with open_session() as session:
        kernels = session.call(session.fleet.kernels(chosen.name))
        kernel = _one_of(kernels, chosen.kernel, chosen.name)
        session.call(session.fleet.end_kernel(chosen.name, kernel.id))
    named = f" of {kernel.notebook}" if kernel.notebook else ""
    print(f"The kernel {kernel.id}{named} has ended.")


def take(chosen: argparse.Namespace) -> None:
    """Has the running Jupyter server take a kernel over, whoever has it."""
    with open_session() as session:
        kernels = session.call(session.fleet.kernels(chosen.name))
        kernel = _one_of(kernels, chosen.kernel, chosen.name)
        session.call(session.fleet.take_over_kernel(chosen.name, kernel.id))
    named = f" of {kernel.notebook}" if kernel.notebook else ""
    print(f"Your Jupyter server has the kernel {kernel.id}{named} now.")


def _one_of(kernels: Sequence[Kernel], id: str, tpu: str) -> Kernel:
    """The kernel whose id is, or begins with, *id*; raises NOT_FOUND, or CONFLICT for several."""
    found = [kernel for kernel in kernels if kernel.id == id]
    found = found or [kernel for kernel in kernels if kernel.id.startswith(id)]
    if len(found) == 1:
        return found[0]
    hint = f"`jupyter tpu kernel list {tpu}` shows those that run there."
    if found:
        raise TPUError(f"Several kernels on {tpu} begin with {id}.", Reason.CONFLICT, hint)
    raise TPUError(f"There is no kernel {id} on {tpu}.", Reason.NOT_FOUND, hint)


def add(chosen: argparse.Namespace) -> None:
    """Registers the kernel of an environment that is on the TPU; makes none."""
    from ..fleet.models import ConnectTPU

    with open_session() as session:
        there = session.call(session.fleet.environments(chosen.name))
        found = [each for each in there if each.name == chosen.env and each.state == "ready"]
        if not found:
            names = ", ".join(each.name for each in there if each.state == "ready") or "none"
            raise TPUError(
                f"{chosen.name} has no environment {chosen.env}; it has {names}.",
                Reason.NOT_FOUND,
                f"Make it: jupyter tpu connect {chosen.name} --env {chosen.env}",
            )
        # Connecting again checks what is there and registers it; with the packages that it has.
        wanted = ConnectTPU(environment=chosen.env, packages=found[0].packages)
        finish(session, session.call(session.fleet.connect(chosen.name, wanted)), sys.stdout)
        for each in session.call(session.fleet.environments(chosen.name)):
            if each.name == chosen.env:
                print(f'The kernel "{each.display_name}" is in every kernel picker.')


def remove(chosen: argparse.Namespace) -> None:
    from ..kernels import KernelSpecs

    specs = KernelSpecs()
    found = [spec for spec in specs.list() if _is_of(spec, chosen.name, chosen.env)]
    if not found:
        raise TPUError(
            f"{chosen.name} has no kernel of an environment {chosen.env} here.",
            Reason.NOT_FOUND,
            "`jupyter tpu kernel list` shows those there are.",
        )
    if len(found) > 1:
        where = ", ".join(f"{spec.config['zone']}/{spec.config['tpu']}" for spec in found)
        raise TPUError(
            f"Several TPUs have that name: {where}.", Reason.CONFLICT, "Give the zone, too."
        )
    config = found[0].config
    specs.unregister(
        project=config["project"],
        zone=config["zone"],
        tpu=config["tpu"],
        environment=config["environment"],
    )
    print(
        f'The kernel "{found[0].display_name}" is in no kernel picker any more; its environment '
        f"stays on {config['tpu']}, and connecting brings it back."
    )


def warm(chosen: argparse.Namespace) -> None:
    """Decides it; the server that keeps the TPU connected sees to it."""
    from ..fleet.models import KeepWarm

    wanted = {"on": True, "off": False, "default": None}[chosen.what]
    how = KeepWarm(wanted=wanted, imports=chosen.imports)
    with open_session() as session:
        environment = session.call(session.fleet.keep_warm(chosen.name, chosen.env, how))
    if chosen.json:
        print_json(environment)
        return
    words = {
        "on": "has a warm kernel",
        "off": "has no warm kernel",
        "default": "has a warm kernel where c.JupyterTPU.warm_kernels says so",
    }[chosen.what]
    print(
        f"{chosen.env} on {chosen.name} {words} while a Jupyter server keeps it connected; "
        f"`jupyter tpu describe {chosen.name}` shows what it costs."
    )


def _is_of(spec: KernelSpec, ref: str, environment: str) -> bool:
    config = spec.config
    names = (config["tpu"], f"{config['zone']}~{config['tpu']}")
    return ref.replace("/", "~", 1) in names and config["environment"] == environment
