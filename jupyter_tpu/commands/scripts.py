"""Local Python files that run on hosts, and the TPU that is meant if none is named."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InvalidInput, Reason, TPUError

if TYPE_CHECKING:
    from .session import Session


def only_tpu(session: Session) -> str:
    """The one TPU that is READY; raises INVALID if there are several, NOT_FOUND if none is."""
    found = [each for each in session.call(session.fleet.tpus()).tpus if each.state == "READY"]
    if len(found) == 1:
        return f"{found[0].zone}~{found[0].name}"
    if found:
        names = ", ".join(each.name for each in found)
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
            "Move it to a folder of its own: all of its folder is copied to the hosts.",
        )
    return script.parent


def script_command(script: Path, words: Sequence[str]) -> tuple[str, list[str]]:
    """The folder on the hosts in which a script of a synced project runs, and the command.

    words: the script's arguments.
    """
    project = project_of(script)
    path = script.expanduser().resolve().relative_to(project)
    return project.name, ["python3", "-u", path.as_posix(), *words]
