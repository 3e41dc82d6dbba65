"""``jupyter tpu kernel``: the kernels of TPUs, in Jupyter's kernel pickers and running."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from ..errors import Reason, TPUError
from ..on_host.agent.protocol.chosen_chips import numbers
from ..terminal.field_options import options_of
from ..terminal.grammar import Group, argument, examples
from ..terminal.parameters import environment_option, tpu_argument
from ..terminal.printing import current_format, json_option, list_options, print_json, print_list
from ..terminal.questions import confirm, yes_option
from ..terminal.session import chosen_project, fleet_call, open_session, tpu_ref
from ..terminal.tables import table
from ..terminal.waiting import finish
from ..wording import count
from .losses import kernels_now

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..fleet.models import Kernel
    from ..kernels.specs import KernelSpec

_kernel_argument = argument("kernel", metavar="KERNEL", help="Kernel ID, or its unique prefix.")


@click.group("kernel", cls=Group, aliases={"end": "stop", "shutdown": "stop"})
def kernel() -> None:
    """Manage the kernels of TPUs."""


@kernel.command("list", epilog=examples("jupyter tpu kernel list my-tpu"))
@tpu_argument(required=False)
@list_options
def list_kernels(name: str | None) -> None:
    """List the TPU kernels in Jupyter's kernel pickers, or the kernels running on a TPU."""
    if name is None:
        from ..kernels import KernelSpecs

        # From this user's files, without a call to Google.
        specs = KernelSpecs().list()
        print_list(specs, _kernelspec_table)
        if not specs and current_format().name == "text":
            _name_servers_kernels()
        return
    with open_session() as session:
        kernels = kernels_now(session, name)
    print_list(kernels, lambda kernels: _running_table(name, kernels))


def _name_servers_kernels() -> None:
    """A running server may have another data folder; `list` counts the kernels of its TPUs."""
    from ..fleet.models import ListQuery

    with open_session() as session:
        if session.server is None:
            return
        tpus = session.call(session.fleet.tpus(ListQuery())).tpus
    for tpu in tpus:
        if tpu.kernels:
            print(
                f"{count(tpu.kernels, 'kernel')} of your Jupyter server: "
                f"jupyter tpu kernel list {tpu_ref(tpu)}"
            )


def _kernelspec_table(specs: Sequence[KernelSpec]) -> str:
    if not specs:
        return "Your kernel pickers have no TPU yet. Add one: jupyter tpu connect NAME"
    rows = [
        (
            spec.display_name,
            spec.place.tpu,
            spec.place.zone,
            spec.place.environment,
            spec.name,
        )
        for spec in specs
    ]
    return table(("KERNEL", "TPU", "ZONE", "ENVIRONMENT", "KERNELSPEC"), rows)


def _running_table(name: str, kernels: Sequence[Kernel]) -> str:
    if not kernels:
        return f"No kernel runs on {name}."
    rows = [
        (
            kernel.id,
            f"all {len(kernel.hosts)}" if kernel.hosts else str(kernel.host),
            kernel.notebook or "-",
            kernel.state,
            _user_of(kernel),
            _chips_of(kernel),
        )
        for kernel in kernels
    ]
    return table(("KERNEL", "HOST", "NOTEBOOK", "STATE", "USED BY", "CHIPS"), rows)


def _chips_of(kernel: Kernel) -> str:
    if kernel.booked:
        return numbers(kernel.booked)
    return "yes" if kernel.chips else ""


def _user_of(kernel: Kernel) -> str:
    if kernel.attached:
        return kernel.holder
    return f"not in use (last used by {kernel.holder})" if kernel.holder else "not in use"


@kernel.command("stop", epilog=examples("jupyter tpu kernel stop my-tpu 1b671a64"))
@tpu_argument()
@_kernel_argument
@yes_option("Shut it down without asking.")
def stop_kernel(name: str, kernel: str, yes: bool) -> None:
    """Shut down a kernel that runs on a TPU, even if others use it. Its variables are lost."""
    with open_session() as session:
        target = find_kernel(kernels_now(session, name), kernel, name)
        if not yes:
            confirm(
                f"Shut down {_title(target)} ({target.state}{_other_user(target)})? Its variables "
                "will be lost.",
                "Add --yes to shut it down without asking.",
            )
        session.call(session.fleet.kernels.shut_down(name, target.id))
    print(f"Shut down {_title(target)}.")


@kernel.command("take", epilog=examples("jupyter tpu kernel take my-tpu 1b671a64"))
@tpu_argument()
@_kernel_argument
@yes_option("Take it without asking, even if somebody uses it.")
def take_kernel(name: str, kernel: str, yes: bool) -> None:
    """Move a running kernel, with its notebook, to your Jupyter server.

    Its current user, if any, loses the kernel and is notified. Running cells continue.
    """
    with open_session() as session:
        target = find_kernel(kernels_now(session, name), kernel, name)
        if target.attached and not yes:
            confirm(
                f"Take {_title(target)}{_other_user(target)}? "
                "They lose the kernel and are notified.",
                "Add --yes to take it without asking.",
            )
        session.call(session.fleet.kernels.take_over(name, target.id))
    print(f"Your Jupyter server now has {_title(target)}.")


def _other_user(kernel: Kernel) -> str:
    return f", used by {kernel.holder}" if kernel.attached and kernel.holder else ""


def _title(kernel: Kernel) -> str:
    return f"kernel {kernel.id}" + (f" of {kernel.notebook}" if kernel.notebook else "")


def find_kernel(kernels: Sequence[Kernel], id: str, tpu: str) -> Kernel:
    """The kernel whose ID is *id* or begins with it; raises NOT_FOUND, or CONFLICT for several."""
    matching = [kernel for kernel in kernels if kernel.id == id]
    matching = matching or [kernel for kernel in kernels if kernel.id.startswith(id)]
    if len(matching) == 1:
        return matching[0]
    hint = f"`jupyter tpu kernel list {tpu}` shows the running kernels."
    if matching:
        raise TPUError(f"Several kernels on {tpu} begin with {id}.", Reason.CONFLICT, hint)
    raise TPUError(f"The kernel {id} does not exist on {tpu}.", Reason.NOT_FOUND, hint)


@kernel.command(
    "add",
    epilog=examples("jupyter tpu kernel add my-tpu", "jupyter tpu kernel add job-0 --slices job-1"),
)
@tpu_argument()
@environment_option
@click.option(
    "--slices",
    metavar="TPU[,TPU]|queued",
    help="Add one kernel that runs on all hosts of this TPU and of these, as slices of one job. "
    'They are connected, in the same zone, and have an environment of this name. "queued": the '
    "other TPUs of its queued resource.",
)
def add_kernel(name: str, environment: str, slices: str | None) -> None:
    """Add the kernel of an existing environment to the kernel pickers."""
    from ..fleet.models import AddSlicesKernel, ConnectTPU

    with open_session() as session:
        if slices:
            several = AddSlicesKernel(slices=slices.split(","), environment=environment)
            added = session.call(session.fleet.slice_kernels.add(name, several))
            print(f'The kernel "{added.display_name}" is in every kernel picker.')
            return
        environments = session.call(session.fleet.environments.list(name))
        ready = {
            environment.name: environment
            for environment in environments
            if environment.state == "ready"
        }
        if environment not in ready:
            names = ", ".join(ready) or "none"
            raise TPUError(
                f"{name} has no environment {environment}. Its environments: {names}.",
                Reason.NOT_FOUND,
                f"Create it: jupyter tpu connect {name} --env {environment}",
            )
        # Connecting again checks the environment, with the packages it has, and registers it.
        request = ConnectTPU(environment=environment, packages=ready[environment].packages)
        finish(session, session.call(session.fleet.connect(name, request)), sys.stdout)
        for candidate in session.call(session.fleet.environments.list(name)):
            if candidate.name == environment:
                print(f'The kernel "{candidate.display_name}" is in every kernel picker.')


@kernel.command("remove", epilog=examples("jupyter tpu kernel remove my-tpu"))
@tpu_argument()
@environment_option
def remove_kernel(name: str, environment: str) -> None:
    """Remove a kernel from the kernel pickers; its environment stays on the TPU."""
    from ..kernels import KernelSpecs

    specs = KernelSpecs()
    matching = [s for s in specs.list() if s.place.is_default and _is_of(s, name, environment)]
    if not matching:
        raise TPUError(
            f"{name} has no kernel of an environment {environment} here.",
            Reason.NOT_FOUND,
            "`jupyter tpu kernel list` shows the kernels.",
        )
    if len(matching) > 1:
        names = ", ".join(f"{spec.place.zone}/{spec.place.tpu}" for spec in matching)
        raise TPUError(
            f"Several TPUs have this name: {names}.", Reason.CONFLICT, "Give the zone, too."
        )
    place = matching[0].place
    specs.unregister(place.node, place.environment)
    print(
        f'Removed the kernel "{matching[0].display_name}" from the kernel pickers. Its environment '
        f"stays on {place.tpu}; `jupyter tpu kernel add` adds the kernel again."
    )


def _is_of(spec: KernelSpec, ref: str, environment: str) -> bool:
    place = spec.place
    names = (place.tpu, f"{place.zone}~{place.tpu}")
    return (
        ref.replace("/", "~", 1) in names
        and place.environment == environment
        and chosen_project() in (None, place.project)
    )


@kernel.command("warm", epilog=examples("jupyter tpu kernel warm my-tpu on --import numpy pandas"))
@tpu_argument()
@argument(
    "setting",
    metavar="on|off|default",
    type=click.Choice(["on", "off", "default"]),
    help="default: as c.JupyterTPU.warm_kernels says.",
)
@environment_option
@options_of("KeepWarm", "imports")
@json_option
def warm_kernel(
    name: str, setting: str, environment: str, fields: dict[str, Any], as_json: bool
) -> None:
    """Keep a started kernel ready on a TPU, so that the next notebook starts faster.

    The Jupyter server that keeps the TPU connected does it.
    """
    from ..fleet.models import KeepWarm

    keep_warm = {"on": True, "off": False, "default": None}[setting]
    request = KeepWarm(wanted=keep_warm, **fields)
    changed = fleet_call(lambda fleet: fleet.environments.keep_warm(name, environment, request))
    if as_json:
        print_json(changed)
        return
    if_set = " if c.JupyterTPU.warm_kernels says so" if setting == "default" else ""
    print(
        f"{environment} on {name} keeps {'no' if setting == 'off' else 'a'} warm kernel{if_set} "
        "while a Jupyter server is connected to it. "
        f"`jupyter tpu describe {name}` shows the memory it uses."
    )
