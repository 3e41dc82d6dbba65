"""``jupyter tpu profile`` and ``%tpu profile``: what programs do with devices and their memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import InvalidInput
from ..terminal.field_options import options_of
from ..terminal.grammar import argument, command, examples, parameters
from ..terminal.parameters import tpu_argument
from ..terminal.printing import json_option, note, print_json, print_result
from ..terminal.session import FleetSession, open_session
from ..terminal.tables import problem_text, size, table
from ..terminal.waiting import finish, progress_stream
from .app import browser_option, opened_app, show_app
from .doctor import numbered
from .kernel import find_kernel

if TYPE_CHECKING:
    from ..fleet.models import MemoryLine, MemoryProfile, MemoryProfiles, Profile, ProfileTPU


#: Lines of a memory profile that are shown, and the smallest part of all that one has.
_PROFILE_LINES, _SMALLEST_PART = 60, 0.005


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


@command(
    "profile",
    epilog=examples(
        "jupyter tpu profile my-tpu --seconds 5",
        "jupyter tpu profile my-pod --port 9999     with jax.profiler.start_server(9999)",
        "jupyter tpu profile my-tpu --memory",
        "jupyter tpu profile --file memory.prof",
    ),
)
@tpu_argument(required=False)
@argument(
    "kernel",
    metavar="[KERNEL]",
    required=False,
    help="Kernel ID, or its unique prefix.  [default: all kernels that use JAX]",
)
@profile_options
@options_of("ProfileTPU", "logdir")
@click.option(
    "--file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Without NAME: show a memory profile (pprof) that "
    "jax.profiler.save_device_memory_profile has written to this file.",
)
@browser_option
@json_option
def profile(
    name: str | None,
    kernel: str | None,
    fields: dict[str, Any],
    memory: bool,
    file: Path | None,
    no_browser: bool,
    as_json: bool,
) -> None:
    """Trace the programs of a TPU on all hosts at once, and show the trace in TensorBoard (xprof).

    A program is traced while it runs: start it first. The exit code is 1 if a host failed; what was
    traced is still shown.
    """
    if (name is None) == (file is None):
        raise InvalidInput("Choose what to profile: the TPU's NAME, or a --file.")
    if file is not None:
        _show_file(file, as_json)
        return
    assert name is not None
    from ..fleet.models import MemoryQuery, ProfileTPU

    with open_session() as session:
        if kernel is not None:
            kernel = find_kernel(session.call(session.fleet.kernels.list(name)), kernel, name).id
        request = ProfileTPU(kernels=[kernel] if kernel else [], **fields)
        if memory:
            query = MemoryQuery(hosts=request.hosts, kernel=kernel)
            profiles = session.call(session.fleet.profiles.memory(name, query))
            print_result(profiles, memory_text(profiles), as_json)
            return
        _trace(session, name, request, no_browser, as_json)


def _trace(
    session: FleetSession, name: str, request: ProfileTPU, no_browser: bool, as_json: bool
) -> None:
    import msgspec

    from ..fleet.models import Profile

    operation = session.call(session.fleet.profiles.start(name, request))
    ended = finish(session, operation, progress_stream(as_json))
    profile = msgspec.convert(ended.result, Profile)
    if as_json:
        print_json(profile)
    else:
        print(traced_line(profile), flush=True)
    for line in untraced_lines(profile):
        note(line)
    if not (as_json and no_browser):
        opened = opened_app(session, ended)
        show_app(session, opened, no_browser=no_browser, quiet=as_json)
    if any(trace.state == "failed" for trace in profile.traces):
        raise click.exceptions.Exit(1)


def _show_file(file: Path, as_json: bool) -> None:
    from ..fleet.jobs.pprof import read_memory_profile

    try:
        data = file.read_bytes()
    except OSError as error:
        raise InvalidInput(f"{file} can't be read: {error.strerror}.") from None
    memory_profile = read_memory_profile(data)
    print_result(memory_profile, profile_text(memory_profile), as_json)


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
    lines = list(_lines(profile.lines, 0, profile.bytes * _SMALLEST_PART))
    rows = [
        (size(line.bytes), f"{line.bytes / profile.bytes:.0%}", str(line.count),
         "  " * depth + line.line, line.function)
        for depth, line in lines[:_PROFILE_LINES]
    ]  # fmt: skip
    parts = [table(("SIZE", "PART", "COUNT", "LINE", "FUNCTION"), rows)]
    if len(lines) > _PROFILE_LINES:
        parts.append(f"… and {len(lines) - _PROFILE_LINES} smaller ones: --json has them.")
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
