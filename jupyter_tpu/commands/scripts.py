"""Local Python files that run on hosts, and the TPU that is meant if none is named."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import InvalidInput, Reason, TPUError

if TYPE_CHECKING:
    from ..fleet.models import Operation
    from ..terminal.session import FleetSession


#: What names the TPU where SCRIPT.py stands in its place.
tpu_of_script_option = click.option(
    "--tpu", metavar="NAME", help="The TPU for SCRIPT.py.  [default: the only READY one]"
)

pass_env_option = click.option(
    "--pass-env", "passed", multiple=True, metavar="VARIABLE...",
    help="Environment variables of this machine that the job gets, too.",
)  # fmt: skip


def script_of(name: str, command: Sequence[str], tpu: str | None) -> Path | None:
    """The script that stands in place of a TPU's name; None if it is the name, and there is a
    *command*.

    tpu: what --tpu says. Raises click.UsageError.
    """
    if name.endswith(".py"):
        return Path(name)
    if not command:
        raise click.UsageError("Missing command. Write it after NAME: -- CMD...")
    if tpu:
        raise click.UsageError("--tpu is for SCRIPT.py; a command needs the TPU's NAME.")
    return None


def as_text(command: Sequence[str]) -> list[str]:
    """*command* for a request, which has text only: a shell there makes words that are none."""
    words = [word.encode("utf-8", "surrogateescape") for word in command]
    try:
        return [word.decode() for word in words]
    except UnicodeDecodeError:
        pass
    # The dot keeps newlines at a word's end.
    made = ["".join(f"\\{byte:03o}" for byte in word) + "." for word in words]
    script = ["set --", *(f'w=$(printf \'{word}\'); set -- "$@" "${{w%.}}"' for word in made)]
    return ["sh", "-c", "; ".join([*script, 'exec "$@"'])]


def only_tpu(session: FleetSession) -> str:
    """The one TPU that is READY; raises INVALID if there are several, NOT_FOUND if none is."""
    tpus = [tpu for tpu in session.tpus().tpus if tpu.state == "READY"]
    if len(tpus) == 1:
        return f"{tpus[0].zone}~{tpus[0].name}"
    if tpus:
        names = ", ".join(tpu.name for tpu in tpus)
        raise InvalidInput(f"Several TPUs are READY: {names}.", "Choose one with --tpu NAME.")
    raise TPUError("No TPU is READY.", Reason.NOT_FOUND, "Create or start one.")


def project_of(script: Path) -> Path:
    """The folder of a script's project: the nearest one with .git or pyproject.toml, or its own.

    Raises INVALID for a script that is not in a project but in the home folder, which is not for
    sending, or that does not exist.
    """
    script = script.expanduser().resolve()
    if not script.is_file():
        raise InvalidInput(f"The file {script} does not exist.")
    home = Path.home().resolve()
    for folder in script.parents:
        if folder in (home, *home.parents):
            break
        if any((folder / mark).exists() for mark in (".git", "pyproject.toml")):
            return folder
    if script.parent in (home, *home.parents):
        raise InvalidInput(
            f"{script.name} is in your home folder.",
            "Move it to a folder of its own: its whole folder is copied to the hosts.",
        )
    return script.parent


def script_command(script: Path, args: Sequence[str]) -> list[str]:
    """The command that runs a script in the folder of its project. args: its own."""
    path = script.expanduser().resolve().relative_to(project_of(script))
    return ["python3", "-u", path.as_posix(), *args]


def send_project(
    session: FleetSession, name: str, script: Path, wait: Callable[[Operation], object]
) -> str:
    """Copies a script's project to all hosts of a TPU, and returns its folder there.

    wait: waits for an operation's end, and raises what it failed with. Raises CONFLICT, after a
    list of them, if files have changed there, too.
    """
    from ..fleet.models import SyncProject
    from .sync import details, raise_conflicts, result_of

    request = SyncProject(folder=str(project_of(script)))
    sending = session.call(session.fleet.sync.start(name, request))
    wait(sending)
    result = result_of(session.call(session.fleet.operations.get(sending.id)))
    assert result is not None  # it has ended well
    if result.conflicts:
        print(details(result), file=sys.stderr)
        raise_conflicts(result)
    return result.remote
