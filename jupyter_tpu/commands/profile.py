"""``jupyter tpu profile``: what programs do with the devices of a TPU, and with their memory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import InvalidInput
from ..terminal.console import json_option, note, print_json, print_result
from ..terminal.field_options import options_of
from ..terminal.grammar import argument, command, examples
from ..terminal.parameters import tpu_argument
from ..terminal.session import Session, open_session
from ..terminal.waiting import finish, progress_stream
from .app import browser_option, opened_app, show_app
from .kernel import find_kernel
from .profile_text import memory_text, profile_options, profile_text, traced_line, untraced_lines

if TYPE_CHECKING:
    from ..fleet.models import ProfileTPU


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
    session: Session, name: str, request: ProfileTPU, no_browser: bool, as_json: bool
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
