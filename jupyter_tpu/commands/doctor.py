"""``jupyter tpu doctor`` and ``%tpu doctor``: what is wrong with a TPU, as text."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import InvalidInput
from ..local_files import write_atomically
from ..terminal.field_options import options_of
from ..terminal.grammar import command, examples, section
from ..terminal.parameters import tpu_argument
from ..terminal.printing import json_option, note, print_result
from ..terminal.questions import confirm, yes_option
from ..terminal.session import open_session

if TYPE_CHECKING:
    from ..fleet.models import Diagnosis, Finding

_MARKS = {"ok": "ok", "warning": "WARNING", "problem": "PROBLEM", "unknown": "unknown"}
_WIDTH = max(map(len, _MARKS.values()))


def describe(diagnosis: Diagnosis) -> str:
    """A line per finding; what is the same on several hosts is one line, with their numbers."""
    many = any(finding.host for finding in diagnosis.findings)
    hosts: dict[tuple[str, str, str, str], list[int | None]] = {}
    for finding in diagnosis.findings:
        hosts.setdefault((finding.check, finding.state, finding.message, finding.hint), []).append(
            finding.host
        )
    lines = []
    for (_, state, message, hint), numbers in hosts.items():
        known = [number for number in numbers if number is not None]
        where = f"{numbered(known)}: " if many and known else ""
        lines.append(f"{_MARKS[state]:{_WIDTH}}  {where}{message}")
        if hint:
            lines.append(" " * (_WIDTH + 2) + hint)
    return "\n".join([*lines, "", summary(diagnosis)])


def summary(diagnosis: Diagnosis) -> str:
    """The last line: how many problems there are, and what no one knows."""
    problems, unknown = _count(diagnosis.findings, "problem"), _count(diagnosis.findings, "unknown")
    what = diagnosis.tpu or "Before a TPU is created"
    if problems:
        return f"{what}: {problems} {'problem' if problems == 1 else 'problems'} found."
    if unknown:
        return f"{what}: no problem found, but {unknown} of the checks could not be made."
    return f"{what}: no problem found."


def numbered(hosts: list[int]) -> str:
    """ "host 0", "hosts 0-2, 5"."""
    runs: list[list[int]] = []
    for host in sorted(hosts):
        if runs and host == runs[-1][1] + 1:
            runs[-1][1] = host
        else:
            runs.append([host, host])
    text = ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
    return f"host{'s' if len(hosts) > 1 else ''} {text}"


def _count(findings: list[Finding], state: str) -> int:
    return sum(finding.state == state for finding in findings)


def write_report(text: str, *, yes: bool) -> None:
    """Shows it, and writes it into the current folder if the user agrees."""
    path = Path(time.strftime("jupyter-tpu-report-%Y%m%d-%H%M%S.txt"))
    print(text, flush=True)
    if not yes:
        question = f"Nothing of this is sent anywhere. Write it to {path}?"
        confirm(question, "Add --yes to write it without asking.")
    try:
        write_atomically(path, text)
    except OSError as error:
        raise InvalidInput(f"Can't write {path}: {error.strerror}.") from None
    note(f"Wrote {path}. Read it before you attach it to a bug report.")


@command(
    "doctor",
    epilog=examples(
        "jupyter tpu doctor",
        "jupyter tpu doctor --type v5litepod-8 --zone us-west4-a --spot",
        "jupyter tpu doctor my-tpu",
        "jupyter tpu doctor my-tpu --report",
    ),
)
@tpu_argument(required=False, zone_alone=True)
@section(
    "Without NAME",
    options_of("CheckSetup", "type", "version", "network"),
    click.option("--spot", is_flag=True, help="With --type: as a spot TPU."),
)
@click.option(
    "--report",
    is_flag=True,
    help="Write a text to attach to a bug report, without names, addresses and secrets. It is "
    "shown before.",
)
@yes_option("With --report: write it without asking.")
@json_option
@click.pass_context
def doctor(
    ctx: click.Context,
    name: str | None,
    fields: dict[str, Any],
    spot: bool,
    report: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Check what keeps JAX from the chips of a TPU, or a TPU from being created.

    With NAME, checks all hosts at once: chips and the processes that use them, libtpu and JAX in
    each environment, logins, disks, clocks, and the ports between hosts. Without NAME, checks what
    can be checked before a TPU exists: login, API, permissions, your SSH key and the firewall; with
    --type also the zone, the runtime version and the quota. Changes nothing. The exit code is 1 if
    there is a problem.
    """
    if name is not None and (spot or fields):
        raise InvalidInput("Options of a new TPU, such as --type, are for a check without NAME.")
    note(f"Checking {f'the hosts of {name}' if name else 'the project'}. This can take a minute.")
    with open_session() as session:
        if name is not None:
            diagnosis = session.call(session.fleet.doctor.check(name))
        else:
            from ..fleet.models import CheckSetup

            check_setup = CheckSetup(
                zone=ctx.meta.get("zone"), tier="spot" if spot else "on-demand", **fields
            )
            diagnosis = session.call(session.fleet.doctor.preflight(check_setup))
        if report:
            from .bug_report import bug_report

            write_report(bug_report(session, describe(diagnosis)), yes=yes)
            return
    print_result(diagnosis, describe(diagnosis), as_json)
    if not diagnosis.healthy:
        raise click.exceptions.Exit(1)
