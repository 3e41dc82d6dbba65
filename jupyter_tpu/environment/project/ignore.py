"""Which files of a project are left out: .gitignore, and what no one wants on another machine."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..on_host.tree import Rules

#: Left out everywhere, before the rules of .gitignore; ``.git`` is, whatever these say.
ALWAYS = (
    ".hg/", ".svn/", ".jj/", "__pycache__/", ".ipynb_checkpoints/", ".venv/",
    "node_modules/", ".mypy_cache/", ".pytest_cache/", ".ruff_cache/", ".virtual_documents/",
    ".DS_Store", ".jupyter-tpu/", ".jupyter-tpu-*",
)  # fmt: skip


class ProjectRules(Rules):
    """The rules for the folder *root*; those of nested .gitignore files are added while walking."""

    def __init__(self, root: Path) -> None:
        super().__init__(_rules("", "", ALWAYS))
        self._root = root
        if not (root / ".git").exists():
            self._add_outer()

    def read(self, folder: str) -> None:
        """Adds the .gitignore of *folder*, which is "" or ends in "/"."""
        self.rules += _rules(folder, "", _lines(self._root / folder))

    def leaves_out(self, path: str) -> bool:
        """Whether a rule is for the file *path*, or for a folder that it is in."""
        parts = path.split("/")
        folders = ("/".join(parts[:count]) + "/" for count in range(1, len(parts)))
        return any(map(self.ignore, (*folders, path)))

    def _add_outer(self) -> None:
        """The rules of the folders above, up to the one that is the repository."""
        found = []
        for parent in self._root.parents:
            before = f"{self._root.relative_to(parent).as_posix()}/"
            found.append(_rules("", before, _lines(parent)))
            if (parent / ".git").exists():
                self.rules += [rule for rules in reversed(found) for rule in rules]
                return


def is_notebook(path: str) -> bool:
    """A notebook is saved again and again, and its kernel has its cells already. So it goes to the
    host only next to other files.
    """
    return path.endswith(".ipynb")


def _lines(folder: Path) -> list[str]:
    with contextlib.suppress(OSError):
        return (folder / ".gitignore").read_text("utf-8", "replace").splitlines()
    return []


def _rules(prefix: str, before: str, lines: Iterable[str]) -> list[list]:
    """As `Rules` takes them; a line that is not a pattern is left out, as git does."""
    from pathspec import lookup_pattern

    make = lookup_pattern("gitignore")
    found = []
    for line in lines:
        with contextlib.suppress(ValueError), warnings.catch_warnings():
            pattern: Any = make(line)
            if pattern.include is not None and line.strip() != "/":  # which means nothing to git
                found.append([prefix, before, pattern.regex.pattern, pattern.include])
    return found
