"""``jupyter tpu chips`` and ``%tpu chips``: who uses chips; to free and split them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from ..agent.protocol.chosen_chips import numbers
from .chips import free_chips, use_table
from .field_options import options_of
from .grammar import Group, command, examples
from .parameters import environment_option, hosts_option, tpu_argument
from .printing import json_option, list_options, note, print_json, print_list
from .questions import confirm, yes_option
from .session import open_session
from .tables import table

if TYPE_CHECKING:
    from ..fleet.models import ChipKernels


@command(
    "split",
    epilog=examples(
        "jupyter tpu chips split my-tpu",
        "jupyter tpu chips split my-tpu --each 2",
        "jupyter tpu chips split my-tpu --each 0",
    ),
)
@tpu_argument()
@options_of("SplitChips", "each")
@environment_option
@json_option
def split(name: str, fields: dict[str, Any], environment: str, as_json: bool) -> None:
    """Offer kernels that each get some of the chips of host 0, for several notebooks.

    They are in the kernel pickers next to the kernel for all chips. A chip has one such kernel at a
    time, until that kernel is shut down. While one runs, the kernel for all chips does not start.
    While the kernel for all chips runs, none of them starts.
    """
    from ..fleet.models import SplitChips

    request = SplitChips(environment=environment, **fields)
    with open_session() as session:
        kernels = session.call(session.fleet.chip_kernels.split(name, request))
    if as_json:
        print_json(kernels)
    else:
        print(kernels_table(kernels))


def kernels_table(split: ChipKernels) -> str:
    """The kernels that get some of the chips, and how far that is known to work."""
    if not split.kernels:
        return (
            f"Only the kernel for all chips of {split.tpu} is in the kernel pickers now. Running "
            "kernels keep their chips."
        )
    rows = [
        (numbers(kernel.chips), kernel.display_name, kernel.kernelspec) for kernel in split.kernels
    ]
    return f"{table(('CHIPS', 'KERNEL', 'KERNELSPEC'), rows)}\n{split.note}"


@click.group("chips", cls=Group, aliases={"holders": "list", "release": "free"})
def chips() -> None:
    """See what uses the chips of a TPU, free them, or split them between kernels."""


@chips.command("list", epilog=examples("jupyter tpu chips list my-tpu"))
@tpu_argument()
@hosts_option
@list_options
def list_chips(name: str, hosts: str) -> None:
    """List the processes that use the chips of a TPU, on all hosts.

    They are named by the device files that they have open and by libtpu's lock; those of other
    users and of containers, too, where sudo asks for no password.
    """
    with open_session() as session:
        use = session.call(session.fleet.chips.list(name, hosts))
    print_list(use, use_table, "hosts")


@chips.command(
    "free",
    epilog=examples("jupyter tpu chips free my-tpu", "jupyter tpu chips free my-tpu --worker 0"),
)
@tpu_argument()
@hosts_option
@options_of("FreeChips", "patience")
@yes_option("Do not ask.")
@json_option
def free(name: str, hosts: str, fields: dict[str, Any], yes: bool, as_json: bool) -> None:
    """End what uses the chips of a TPU, and check that they are free.

    Shows what will be ended, and asks. Kernels are shut down, jobs and commands are stopped on all
    their hosts. Other processes get SIGTERM, and SIGKILL if they don't end. A lock file of libtpu
    that is left over is deleted if no process holds the lock. The exit code is 1 if something still
    uses the chips.
    """
    with open_session() as session:
        say = note if as_json else _print
        freed = free_chips(session, name, hosts, asking(yes), say, **fields)
    if as_json:
        print_json(freed)


chips.add_command(split)


def asking(yes: bool) -> Callable[[str], None]:
    """What `free_chips` asks with: nothing if *yes*."""

    def ask(question: str) -> None:
        if not yes:
            confirm(question, "Add --yes to end them without asking.")

    return ask


def _print(line: str) -> None:
    print(line, file=sys.stdout, flush=True)
