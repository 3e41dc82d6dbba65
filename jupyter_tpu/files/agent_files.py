"""Which files of this computer a coding agent may copy: those of one folder, by the rules of sync,
and none of its hidden files and credentials.
"""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import InvalidInput, Reason, TPUError
from ..on_host.files.tree import is_private
from .sync.ignore import ProjectRules
from .sync.location import too_high


def check_folder(folder: Path) -> Path:
    """*folder*, resolved; raises INVALID for one that has more than projects."""
    root, home = folder.expanduser().resolve(), Path.home().resolve()
    if not root.is_dir():
        raise InvalidInput(f"{root} is not a folder.", field="folder")
    if home.is_relative_to(root):
        raise too_high(root, "Choose the folder of a project.", field="folder")
    if is_private(root.relative_to(home).as_posix() if root.is_relative_to(home) else root.name):
        raise InvalidInput(
            f"{root} is a hidden folder, or one for credentials.",
            "Choose the folder of a project.",
            field="folder",
        )
    return root


def open_path(root: Path, path: str) -> str:
    """*path* without links, as an agent may name it; raises PERMISSION for any other."""
    full = Path(path or "~").expanduser()
    here = str(full.resolve())
    if not is_open(str(root), here) or AgentSource(str(root), here).is_left_out():
        raise TPUError(
            f"A coding agent may not copy {full}.",
            Reason.PERMISSION,
            f"Agents copy files of {root}, but no hidden files, no credentials, and nothing that "
            ".gitignore leaves out. Ask a person to copy it.",
        )
    return here


def open_destination(root: Path, path: str) -> str:
    """As `open_path`, for where files of a TPU go. A / at its end means a folder."""
    full = Path(path or "~").expanduser()
    here = str(full.resolve())
    if not is_open(str(root), here):
        raise TPUError(
            f"A coding agent may not write {full}.",
            Reason.PERMISSION,
            f"Agents copy files to {root}, but no hidden files, and no credentials.",
        )
    return here + ("/" if path.endswith("/") else "")


def is_open(root: str, path: str) -> bool:
    """Whether what *path* leads to is in the folder *root*, and neither hidden nor credentials."""
    here = Path(path).resolve()
    if not here.is_relative_to(root):
        return False
    below = here.relative_to(root).as_posix()
    return below == "." or not is_private(below)


class AgentSource:
    """What is left out of a file or folder of *folder* that an agent copies to a TPU."""

    def __init__(self, folder: str, source: str) -> None:
        self._rules = ProjectRules(Path(folder), for_agent=True)
        below = os.path.relpath(source, folder)
        self._below = "" if below == "." else below
        parts = Path(self._below).parts
        above = ["".join(f"{part}/" for part in parts[:count]) for count in range(len(parts))]
        own = [os.path.join(self._below, "")] if os.path.isdir(source) else []
        for path in (*above, *own):
            self._rules.read(path)

    def is_left_out(self) -> bool:
        """Whether all of it is."""
        below = self._below
        return bool(below) and (self._rules.leaves_out(below) or self._rules.ignore(f"{below}/"))

    def leaves_out(self, path: str, is_folder: bool) -> bool:
        """*path*: below the source. A folder that is not left out is walked next."""
        full = os.path.join(self._below, path) + ("/" if is_folder else "")
        if self._rules.ignore(full):
            return True
        if is_folder:
            self._rules.read(full)
        return False
