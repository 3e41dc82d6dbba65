"""Which folder a notebook's project is, and where the notebook is in it."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from ...errors import InvalidInput
from .ignore import is_left_out

#: A folder that has one of these is a project.
MARKERS = (".git", "pyproject.toml")
#: Folders of a home folder in which everything lies.
_COLLECTIONS = ("Desktop", "Documents", "Downloads")
_HINT = "Move the notebook into a project's folder, and restart its kernel."


class ProjectLocation(Struct, frozen=True):
    """A project *folder* on this machine, and the notebook's folder *below* it, "" for itself."""

    folder: Path
    below: str = ""


def find_project(notebook_folder: Path) -> ProjectLocation:
    """The project of the notebooks in a folder: the nearest folder upward that has one of MARKERS,
    else the folder itself. The folder of a job of jupyter-scheduler, in Jupyter's data folder, is
    one.

    Raises INVALID for a folder that is not copied unless someone names it.
    """
    home = Path.home().resolve()
    start = notebook_folder.resolve()
    if start.is_relative_to(scheduled := _scheduled_jobs()) and start != scheduled:
        return project_at(scheduled / start.relative_to(scheduled).parts[0], start)
    above = [home, *home.parents]
    candidates = [path for path in (start, *start.parents) if path not in above]
    if not candidates:
        raise too_high(start, _HINT)
    marked = (
        candidate
        for candidate in candidates
        if any((candidate / name).exists() for name in MARKERS)
    )
    return project_at(next(marked, start), start, home)


def too_high(start: Path, hint: str, field: str = "") -> InvalidInput:
    """The error for a folder that has more than projects."""
    return InvalidInput(f"{start} is your home folder, or a folder above it.", hint, field=field)


def _scheduled_jobs() -> Path:
    """Where jupyter-scheduler has a folder for each job, with the job's files."""
    from jupyter_core.paths import jupyter_data_dir

    return Path(jupyter_data_dir(), "scheduler_staging_area").resolve()


def project_at(folder: Path, notebook_folder: Path, home: Path | None = None) -> ProjectLocation:
    """The project *folder*, for a notebook in it or elsewhere.

    home: the home folder, if *folder* was found and not named by someone. Raises INVALID.
    """
    below = ""
    if notebook_folder.is_relative_to(folder):
        below = notebook_folder.relative_to(folder).as_posix().removeprefix(".")
    try:
        folder.name.encode()
    except UnicodeError:
        raise InvalidInput("The name of the project's folder is not UTF-8.", _HINT) from None
    if home is not None:
        inside = folder.relative_to(home).parts if folder.is_relative_to(home) else folder.parts[1:]
        if any(part[:1] == "." for part in inside):
            raise InvalidInput(f"{folder} is in a hidden folder.", _HINT)
        if folder.parent == Path(folder.anchor) or (
            folder.parent == home and folder.name in _COLLECTIONS
        ):
            raise InvalidInput(f"{folder} is not the folder of one project.", _HINT)
    if is_left_out(folder, f"{below}/notebook" if below else "notebook"):
        raise InvalidInput(f"{notebook_folder} is left out by .gitignore.", _HINT)
    return ProjectLocation(folder, below)
