"""Profiles in words, and their options: what was traced, and what fills the devices' memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from ..terminal.field_options import options_of
from ..terminal.grammar import parameters
from ..terminal.tables import problem_text, size, table
from .doctor import numbered

if TYPE_CHECKING:
    from ..fleet.models import MemoryLine, MemoryProfile, MemoryProfiles, Profile

#: Lines of a memory profile that are shown, and the smallest part of all that one has.
_LINES, _SMALLEST = 60, 0.005
_EMULATED = "emulated: JAX on the CPU of this computer"


#: --seconds, --worker, --port as *fields* of ProfileTPU, and --memory.
profile_options = parameters(
    options_of("ProfileTPU", "seconds", "hosts", "port"),
    click.option(
        "--memory",
        is_flag=True,
        help="Show what fills the memory of the devices instead, by the lines of the programs.",
    ),
)


def traced_line(profile: Profile) -> str:
    """What was traced: "Traced my-pod for …: host 0 (train.ipynb), host 1"."""
    done = [trace for trace in profile.traces if trace.state == "done"]
    names = ", ".join(
        f"host {trace.host}" + (f" ({trace.notebook})" if trace.notebook else "") for trace in done
    )
    line = f"Traced {names} of {profile.tpu}, {size(sum(trace.bytes for trace in done))}."
    return f"{line} ({_EMULATED})" if profile.emulated else line


def untraced_lines(profile: Profile) -> list[str]:
    """ "Not traced: hosts 1-3. No kernel runs on this host. …", and where no cell ran."""
    idle = sorted({trace.host for trace in profile.traces if trace.kernel_idle})
    return [
        *(
            f"Not traced: {numbered(hosts)}. {problem_text(problem)}"
            for hosts, problem in profile.not_traced()
        ),
        *(
            f"The kernel on host {host} was idle, so nothing ran. Trace while a cell runs."
            for host in idle
        ),
    ]


def memory_text(profiles: MemoryProfiles) -> str:
    """A tree of the programs' lines for each kernel; then hosts without one."""
    texts = [_profile_text(profile, profiles) for profile in profiles.profiles if profile.kernel]
    hosts: dict[str, list[int]] = {}
    for memory_profile in profiles.profiles:
        if not memory_profile.kernel:
            hosts.setdefault(problem_text(memory_profile.problem), []).append(memory_profile.host)
    return "\n\n".join(
        [*texts, *(f"{numbered(same).capitalize()}: {why}" for why, same in hosts.items())]
    )


def _profile_text(profile: MemoryProfile, profiles: MemoryProfiles) -> str:
    title = f"{profile.notebook or f'Kernel {profile.kernel}'}, {profiles.tpu} host {profile.host}"
    if profiles.emulated and profile.problem is None:
        title += f" ({_EMULATED})"
    return f"{title}\n{profile_text(profile)}"


def profile_text(profile: MemoryProfile) -> str:
    """One profile: its lines, each with what it called below it, and the devices."""
    if profile.problem is not None:
        return problem_text(profile.problem)
    if not profile.bytes:
        return "Nothing is in the memory of the devices."
    lines = list(_lines(profile.lines, 0, profile.bytes * _SMALLEST))
    rows = [
        (size(line.bytes), f"{line.bytes / profile.bytes:.0%}", str(line.count),
         "  " * depth + line.line, line.function)
        for depth, line in lines[:_LINES]
    ]  # fmt: skip
    parts = [table(("SIZE", "PART", "COUNT", "LINE", "FUNCTION"), rows)]
    if len(lines) > _LINES:
        parts.append(f"… and {len(lines) - _LINES} smaller ones: --json has them.")
    sums = [*profile.devices.items(), *profile.others.items()]
    parts.append(", ".join(f"{name or 'arrays'}: {size(sum)}" for name, sum in sums if sum))
    return "\n".join(parts)


def _lines(
    lines: Sequence[MemoryLine], depth: int, least: float
) -> Iterator[tuple[int, MemoryLine]]:
    for line in lines:
        if line.bytes >= least:
            yield depth, line
            yield from _lines(line.calls, depth + 1, least)
