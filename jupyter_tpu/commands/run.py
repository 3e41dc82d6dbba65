"""``jupyter tpu run``: a command on one, some or all hosts of a TPU."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import InvalidInput
from ..terminal.field_options import options_of
from ..terminal.grammar import WrappingCommand, examples, section
from ..terminal.parameters import command_argument, complete_type, tpu_argument
from ..terminal.printing import complain, json_option, note
from ..terminal.questions import yes_option
from ..terminal.session import open_session
from ..terminal.streams import write_plain
from .chips import asking
from .scripts import (
    as_text,
    only_tpu,
    script_command,
    script_of,
    send_project,
    tpu_of_script_option,
)

if TYPE_CHECKING:
    from ..fleet.models import Run, RunOutput
    from .run_output import Sink

#: Bytes of output that --json keeps of a host's stream: the last ones.
_KEPT_BYTES = 1 << 20


@click.command(
    "run",
    cls=WrappingCommand,
    context_settings={"allow_interspersed_args": False},
    epilog=examples(
        "jupyter tpu run my-tpu -- hostname",
        "jupyter tpu run my-tpu --worker 0,2-5 -- sh -c 'df -h / | tail -1'",
        "jupyter tpu run my-tpu -c -- python train.py",
        "jupyter tpu run my-tpu --cwd project --timeout 600 -- python train.py",
        "tar c data | jupyter tpu run my-tpu -- tar x",
        "jupyter tpu run train.py -- --epochs 3",
        "jupyter tpu run --once --type v5litepod-8 --max-cost 5 --timeout 2h train.py --epochs 3",
    ),
)
@tpu_argument()
@command_argument
@tpu_of_script_option
@options_of("StartRun", "hosts", "cwd")
@click.option(
    "-w",
    "same_folder",
    is_flag=True,
    help="Use the folder with the same path as the current one, such as ~/project for ~/project.",
)
@options_of("StartRun", "timeout", "environment")
@click.option(
    "--stdin/--no-stdin",
    "stdin",
    default=None,
    show_default=False,
    help="Send the standard input to all hosts.  [default: if it is not a terminal]",
)
@click.option("-i", "all_hosts", is_flag=True, hidden=True)  # podrun's; it is the default here
@click.option(
    "-c",
    "free",
    is_flag=True,
    help="First stop the programs that use the chips of these hosts; asks before. See `jupyter "
    "tpu chips free`.",
)
@yes_option("With -c: do not ask. With --once: create the TPU without asking.")
@json_option
@section(
    "A TPU for this script only",
    click.option(
        "--once",
        is_flag=True,
        is_eager=True,  # before NAME
        help="Create a TPU, run SCRIPT on all its hosts, and delete the TPU, whatever happens.",
    ),
    click.option(
        "--type",
        "accelerator_type",
        metavar="TYPE",
        shell_complete=complete_type,
        help="With --once: the accelerator type. --zone can list several zones, or - for all that "
        "offer the type.",
    ),
    click.option("--spot", is_flag=True, help="With --once: cheaper; Google may preempt it."),
    click.option(
        "--max-cost",
        type=click.FloatRange(min=0, min_open=True),
        metavar="USD",
        help="With --once: the most that the TPU may cost, without a question.",
    ),
    click.option(
        "--max-price",
        type=click.FloatRange(min=0),
        metavar="USD",
        help="With --once: the most that an hour may cost.",
    ),
    click.option(
        "--output",
        metavar="DIR",
        help="With --once: the folder of the project that is copied back.",
    ),
    click.option(
        "--keep",
        metavar="TIME",
        help="With --once: keep the TPU this long for the next --once of the same type and zone. "
        "For example 30m.",
    ),
    click.option(
        "--retries",
        type=click.IntRange(0, 100),
        default=0,
        metavar="N",
        help="With --once: begin again so often if Google preempts the TPU.",
    ),
)
@click.pass_context
def run(
    ctx: click.Context,
    name: str,
    command: tuple[str, ...],
    tpu: str | None,
    fields: dict[str, Any],
    same_folder: bool,
    stdin: bool | None,
    all_hosts: bool,
    free: bool,
    yes: bool,
    as_json: bool,
    once: bool,
    accelerator_type: str | None,
    spot: bool,
    max_cost: float | None,
    max_price: float | None,
    output: str | None,
    keep: str | None,
    retries: int,
) -> None:
    """Run a command on the hosts of a TPU, by default on all of them at once.

    A local SCRIPT.py in place of NAME is run with the environment's Python. Its project is
    first copied to all hosts, as by `jupyter tpu sync`. The project is the nearest folder with .git
    or pyproject.toml, or the script's own folder.

    Lines begin with the number of the host, unless there is only one; equal lines of several hosts
    are shown once. Ctrl-C stops the command on all hosts.

    The exit code is the highest of all hosts: 124 if the time limit was reached, 127 if the
    program does not exist, 128 + N if signal N ended it, and 255 for a host that could not be
    reached.
    """
    from ..fleet.models import StartRun
    from ..terminal.waiting import finish
    from . import run_output as runs
    from .chips import free_chips

    command = command[1:] if command[:1] == ("--",) else command
    request = StartRun(command=as_text(list(command) or [name]), **fields)
    if not once and (accelerator_type or output or keep or max_cost or max_price or retries):
        raise click.UsageError("--type and the options of a TPU for one script need --once.")
    if once:
        zone = ctx.meta.get("zone") or ""
        script: Path | None = Path(name)
        if not accelerator_type:
            raise click.UsageError("--once needs --type.")
        if tpu or free or same_folder or request.cwd:
            raise click.UsageError("--once makes a TPU of its own: omit --tpu, -c, -w and --cwd.")
    else:
        script = script_of(name, command, tpu)
    if script is not None and (request.cwd or same_folder):
        raise click.UsageError("SCRIPT.py runs in its project's folder, without --cwd or -w.")
    if same_folder:
        if request.cwd:
            raise click.UsageError("Use -w or --cwd, not both.")
        request.cwd = _same_folder()
    if stdin is None:
        stdin = sys.stdin is not None and not sys.stdin.isatty()
    request.input = stdin
    if script is not None:
        request.command = as_text(script_command(script, command))
    collected = _JSONOutput() if as_json else None

    def begun(started: Run) -> Sink:
        if stdin:
            runs.send_input(session, started, sys.stdin.fileno())
        return collected or runs.output_to(_write, started)

    if once:
        from ..terminal.times import seconds
        from .once_tpu import OnceTPU
        from .run_once import run_once

        assert script is not None
        requested_tpu = OnceTPU(
            type=accelerator_type or "",
            zone=zone,
            spot=spot,
            max_cost=max_cost,
            max_price=max_price,
            timeout=request.timeout,
            keep=seconds(keep) if keep else 0.0,
            title=script.stem,
        )
        request.input = False
        ended = run_once(
            script,
            command,
            requested_tpu,
            request,
            lambda _, started: collected or runs.output_to(_write, started),
            output=output,
            retries=retries,
            yes=yes,
        )
        if collected is not None:
            collected.print(ended)
        else:
            _report(ended)
        raise click.exceptions.Exit(ended.code or 0)
    with open_session() as session:
        if script is not None:
            name = tpu or only_tpu(session)
        if free:
            free_chips(session, name, request.hosts, asking(yes), note)
        if script is not None:
            request.cwd = send_project(
                session, name, script, lambda sending: finish(session, sending, sys.stderr)
            )
        ended = runs.execute(
            session, name, request, begun, lambda started: note(_stopping(started))
        )
    if collected is not None:
        collected.print(ended)
    else:
        _report(ended)
    raise click.exceptions.Exit(ended.code or 0)


def _same_folder() -> str:
    """The current folder, relative to the home folder. Raises INVALID if it is not in that."""
    here, home = os.path.realpath(os.getcwd()), os.path.realpath(os.path.expanduser("~"))
    if os.path.commonpath([here, home]) != home:
        raise InvalidInput(
            f"{here} is not in your home folder, so -w can't find it on the hosts.",
            "Use --cwd DIR.",
        )
    return os.path.relpath(here, home)


def _write(stream: str, data: bytes) -> None:
    write_plain(sys.stdout if stream == "stdout" else sys.stderr, data)


def _stopping(started: Run) -> str:
    where = "" if len(started.hosts) == 1 else f" on {len(started.hosts)} hosts"
    return f"Stopping the command{where}."


def _report(ended: Run) -> None:
    """How it ended, where the exit code does not say it."""
    from .run_output import outcome, summary

    if len(ended.hosts) > 1:
        for line in summary(ended):
            note(line)
        return
    (only,) = ended.hosts
    if only.problem is not None or only.cause or only.signal:
        complain(f"On {ended.tpu}: {outcome(only)}")


class _JSONOutput:
    """Collects the output for a program."""

    holds = False

    def __init__(self) -> None:
        self._texts: dict[tuple[int, str], bytearray] = {}
        self._sizes: dict[tuple[int, str], int] = {}

    def show(self, answer: RunOutput) -> None:
        for part in answer.output:
            key = part.host, part.stream
            text = self._texts.setdefault(key, bytearray())
            text += part.data
            del text[:-_KEPT_BYTES]
            self._sizes[key] = self._sizes.get(key, 0) + len(part.data)

    def print(self, ended: Run) -> None:
        import msgspec

        from ..terminal.printing import print_json

        answer: dict[str, Any] = msgspec.to_builtins(ended)
        for host in answer["hosts"]:
            for stream in ("stdout", "stderr"):
                key = host["host"], stream
                text = self._texts.get(key, b"")
                host[stream] = text.decode("utf-8", "replace")
                host[f"{stream}_cut"] = self._sizes.get(key, 0) - len(text)
        print_json(answer)
