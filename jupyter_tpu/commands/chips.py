"""``jupyter tpu chips`` and ``%tpu chips``: what holds the chips of a TPU, in words, and how they
are freed after a question, or split.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from ..errors import Reason, TPUError
from ..on_host.agent.protocol.chosen_chips import named, numbers
from ..terminal.field_options import options_of
from ..terminal.grammar import Group, command, examples
from ..terminal.parameters import environment_option, hosts_option, tpu_argument
from ..terminal.printing import (
    json_option,
    list_options,
    note,
    print_json,
    print_list,
    print_result,
)
from ..terminal.questions import confirm, yes_option
from ..terminal.session import fleet_call, open_session
from ..terminal.tables import table
from ..wording import container_text, phrase
from .doctor import numbered

if TYPE_CHECKING:
    from ..fleet.models import (
        ChipBooking,
        ChipHolder,
        ChipKernels,
        ChipUse,
        FreedChips,
        HostChips,
        Problem,
    )
    from ..terminal.session import FleetSession

_HEADS = "HOST", "USED BY", "PROCESS", "USER", "SINCE", "COMMAND"
_LOCKS = {
    "deleted": "libtpu's lock file was deleted.",
    "gone": "libtpu's lock file was already deleted.",
    "held": "libtpu's lock file was not deleted, because a process holds the lock now.",
    "refused": "libtpu's lock file belongs to another user, and sudo asks for a password there.",
    "unknown": "libtpu's lock file may still be there.",
}


def use_table(use: ChipUse) -> str:
    """The holders of all hosts, the hosts without any, and what could not be seen."""
    rows = [
        (
            str(holder.host),
            _owner(holder) or _other(holder),
            str(holder.pid),
            holder.user + (f" in {container_text(holder.container)}" if holder.container else ""),
            _local(holder.since),
            holder.command,
        )
        for holder in holders_of(use)
    ]
    lines = [table(_HEADS, rows)] if rows else []
    many = len(use.hosts) > 1
    for lock in left_over_locks(use):
        owner = lock.lock_owner
        line = f"A lock file of libtpu, left over from {owner}, blocks your programs."
        lines.append(_on_host(lock.host, line, many))
    lines += [_booked(host.host, booking, many) for host in use.hosts for booking in host.bookings]
    if free := [host.host for host in use.hosts if not host.holders and host.problem is None]:
        where = numbered(free)
        lines.append(
            f"The chips of {where} are not in use." if many else "The chips are not in use."
        )
    return "\n".join([*lines, *containers(use), *unseen(use)])


def containers(use: ChipUse) -> list[str]:
    """A line for each container with a holder: how it is stopped."""
    from ..environment import Report

    lines = [
        f"This stops {container_text(holder.container)}: "
        f"{Report(holder.host, use.tpu).ssh(holder.stop)}"
        for holder in holders_of(use)
        if holder.stop
    ]
    return [*dict.fromkeys(lines)]


def left_over_locks(use: ChipUse) -> list[HostChips]:
    """The hosts with a lock file of libtpu that is in the way, though no process holds it."""
    return [host for host in use.hosts if host.lock_owner]


def _on_host(host: int, line: str, many: bool) -> str:
    return f"Host {host}: {line}" if many else line


def _booked(host: int, booking: ChipBooking, many: bool) -> str:
    name, notebook = _first(named(booking.chips)), booking.notebook
    if len(booking.chips) == 1:
        line = f"{name} belongs to the kernel {booking.kernel}."
        if notebook:
            line = f"{name} belongs to the kernel of {notebook}."
    else:
        line = f"{name} belong to the kernel {booking.kernel}."
        if notebook:
            line = f"{name} belong to the kernel of {notebook}."
    return _on_host(host, line, many)


def unseen(use: ChipUse) -> list[str]:
    """A line for each host of which something is not known."""
    lines = [
        f"Host {host.host} did not answer: {host.problem.message} {host.problem.hint}".rstrip()
        for host in use.hosts
        if host.problem is not None
    ]
    if blind := [host.host for host in use.hosts if not host.complete]:
        lines.append(
            f"On {numbered(blind)}, programs of other users and of containers can't be seen: "
            "sudo asks for a password there."
        )
    return lines


def holders_of(use: ChipUse) -> list[ChipHolder]:
    return [holder for host in use.hosts for holder in host.holders]


def free_chips(
    session: FleetSession,
    ref: str,
    hosts: str,
    confirm: Callable[[str], None],
    note: Callable[[str], None],
    patience: float = 10.0,
) -> FreedChips | None:
    """Ends what uses the chips of *hosts*, and deletes lock files of libtpu that are in the way;
    None if there is nothing of both.

    confirm(what will be ended) returns if the user agrees, else raises; note(line) gets the rest.
    Raises CHIPS_HELD if something still uses them, or may.
    """
    from ..fleet.models import FreeChips, HolderToEnd

    chips = session.fleet.chips
    use = session.call(chips.list(ref, hosts))
    holders, locks, many = holders_of(use), left_over_locks(use), len(use.hosts) > 1
    name = use.tpu
    if not holders and not locks:
        for line in unseen(use):
            note(line)
        if any(host.problem for host in use.hosts):
            raise TPUError(f"Some hosts of {name} did not answer.", Reason.UNREACHABLE)
        note(f"The chips of {name} are not in use.")
        return None
    confirm(_question(holders, locks, many))
    request = FreeChips(
        holders=[
            HolderToEnd(host=holder.host, pid=holder.pid, start=holder.start) for holder in holders
        ],
        # What ends may leave one.
        locks=sorted({holder.host for holder in holders} | {lock.host for lock in locks}),
        patience=patience,
    )
    freed = session.call(chips.free(ref, request))
    names = {(holder.host, holder.pid): _name(holder, many) for holder in holders}
    for holder in freed.ended:
        who = names[holder.host, holder.pid]
        note(_with_problem(_outcome(who, holder.outcome), holder.problem))
    for lock in freed.locks:
        if lock.outcome in ("gone", "unknown") and lock.host not in {lock.host for lock in locks}:
            continue  # no one knows that there was one
        note(_on_host(lock.host, _with_problem(_LOCKS[lock.outcome], lock.problem), many))
    for line in [*containers(freed.use), *unseen(freed.use)]:
        note(line)
    if not freed.free:
        left = [_name(holder, many) for holder in holders_of(freed.use)]
        left += [
            _on_host(lock.host, phrase(f"a lock file of libtpu from {lock.lock_owner}"), many)
            for lock in left_over_locks(freed.use)
        ]
        raise TPUError(
            f"The chips of {name} are in use by: {' · '.join(left)}."
            if left
            else f"The chips of {name} may still be in use.",
            Reason.CHIPS_HELD,
            f"`jupyter tpu chips list {name}` shows what uses them.",
        )
    note(f"The chips of {name} are free.")
    return freed


def _question(holders: Sequence[ChipHolder], locks: Sequence[HostChips], many: bool) -> str:
    lines = ["This ends:"] if holders else []
    lines += [f"  {_name(holder, many)}: {holder.command}" for holder in holders]
    if any(holder.kernel for holder in holders):
        lines.append("The variables of the kernels will be lost.")
    for lock in locks:
        owner = lock.lock_owner
        line = f"A lock file of libtpu from {owner} is deleted if no process holds it."
        lines.append(_on_host(lock.host, line, many))
    return "\n".join([*lines, "Continue?"])


def _outcome(who: str, outcome: str) -> str:
    return {
        "ended": f"{who} ended.",
        "killed": f"{who} did not end in time, and was killed.",
        "gone": f"{who} no longer used them.",
        "held": f"{who} still uses them.",
        "refused": f"{who} belongs to another user, and sudo asks for a password on the host.",
        "unknown": f"{who} may still use them.",
    }[outcome]


def _with_problem(sentence: str, problem: Problem | None) -> str:
    return f"{sentence} {problem.message} {problem.hint}".rstrip() if problem else sentence


def _name(holder: ChipHolder, many: bool) -> str:
    """ "Host 1: the job 1a2b (process 77 of root, since 2026-11-22 14:02)"."""
    parts = [phrase(f"process {holder.pid} of {holder.user}")]
    if holder.container:
        parts.append(container_text(holder.container))
    if holder.since:
        parts.append(phrase(f"since {_local(holder.since)}"))
    process, owner = " · ".join(parts), _owner(holder)
    text = f"{owner} ({process})" if owner else process
    return f"Host {holder.host}: {text}" if many else _first(text)


def _owner(holder: ChipHolder) -> str:
    """The kernel, job or command that it belongs to; "" for none of ours."""
    if holder.kernel and holder.notebook:
        return phrase(f"kernel of {holder.notebook}")
    if holder.kernel:
        return phrase(f"kernel {holder.kernel}")
    if holder.job:
        return phrase(f"job {holder.job}")
    return phrase("command of `jupyter tpu run`") if holder.run else ""


def _other(holder: ChipHolder) -> str:
    """A process that is none of ours."""
    if holder.notebook:
        return phrase(f"another Jupyter: {holder.notebook}")
    return phrase("another program")


def _first(text: str) -> str:
    """The beginning of a sentence."""
    return text[:1].upper() + text[1:]


def _local(time: str) -> str:
    """A time of REST in this computer's time zone."""
    return f"{datetime.fromisoformat(time).astimezone():%Y-%m-%d %H:%M}" if time else ""


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
    kernels = fleet_call(lambda fleet: fleet.chip_kernels.split(name, request))
    print_result(kernels, kernels_table(kernels), as_json)


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
    use = fleet_call(lambda fleet: fleet.chips.list(name, hosts))
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
