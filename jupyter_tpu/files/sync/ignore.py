"""Which files of a project are left out: .gitignore, and what no one wants on another machine."""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ...local_files import decode_text
from ...on_host.files.tree import Rules, is_private

#: Left out everywhere, before the rules of .gitignore; ``.git`` is, whatever these say.
ALWAYS = (
    ".hg/", ".svn/", ".jj/", "__pycache__/", ".ipynb_checkpoints/", ".venv/",
    "node_modules/", ".mypy_cache/", ".pytest_cache/", ".ruff_cache/", ".virtual_documents/",
    ".DS_Store", ".jupyter-tpu/", ".jupyter-tpu-*",
)  # fmt: skip


class ProjectRules(Rules):
    """The rules for the folder *root*; those of nested .gitignore files are added while walking.

    for_agent: what a coding agent may not copy is left out, too, whatever .gitignore says.
    """

    def __init__(self, root: Path, *, for_agent: bool = False) -> None:
        super().__init__(_rules("", "", ALWAYS))
        self._root = root
        self._for_agent = for_agent
        if not (root / ".git").exists():
            self._add_outer()

    def ignore(self, path: str) -> bool:
        return (self._for_agent and is_private(path)) or bool(super().ignore(path))

    def read(self, folder: str) -> None:
        """Adds the .gitignore of *folder*, which is "" or ends in "/"."""
        self.rules += _rules(folder, "", _lines(self._root / folder))

    def leaves_out(self, path: str) -> bool:
        """Whether a rule is for the file *path*, or for a folder that it is in."""
        parts = path.split("/")
        folders = ("/".join(parts[:count]) + "/" for count in range(1, len(parts)))
        return any(map(self.ignore, (*folders, path)))

    def _add_outer(self) -> None:
        """The rules of the folders above, up to the one that is the repository. If one of them
        leaves out the project, all of it is.
        """
        above: list[tuple[Path, list[list]]] = []
        for parent in self._root.parents:
            above.append((parent, _rules("", "", _lines(parent))))
            if (parent / ".git").exists():
                break
        else:
            return

        def rules_for(folder: Path) -> list[list]:
            return [
                ["", f"{folder.relative_to(parent).as_posix()}/", regex, ignored]
                for parent, rules in reversed(above)
                if parent in folder.parents
                for _, _, regex, ignored in rules
            ]

        self.rules += rules_for(self._root)
        folders = (self._root, *(parent for parent, _ in above[:-1]))
        if any(Rules(rules_for(folder)).ignore("") for folder in folders):
            self.rules.append(["", "", "", True])


def is_left_out(folder: Path, path: str) -> bool:
    """Whether the file *path* of the project *folder* is left out."""
    rules = ProjectRules(folder)
    above = path.split("/")[:-1]
    for count in range(len(above) + 1):
        rules.read("".join(f"{part}/" for part in above[:count]))
    return rules.leaves_out(path)


def is_notebook(path: str) -> bool:
    """A notebook is saved again and again, and its kernel has its cells already. So it goes to the
    host only next to other files.
    """
    return path.endswith(".ipynb")


def _lines(folder: Path) -> list[str]:
    """The lines of its .gitignore, as git has them: they end in a newline, and nothing else."""
    with contextlib.suppress(OSError):
        text = decode_text((folder / ".gitignore").read_bytes(), "replace")
        return [line.removesuffix("\r") for line in text.split("\n")]
    return []


def _rules(prefix: str, before: str, lines: Iterable[str]) -> list[list]:
    """As `Rules` takes them; a line that is not a pattern is left out, as git does."""
    from pathspec import lookup_pattern

    make = lookup_pattern("gitignore")
    rules = []
    for line in lines:
        # pathspec would strip them; to git they are a part of the name.
        line = re.sub(r"[^\S ]", r"[\g<0>]", line)
        with contextlib.suppress(ValueError), warnings.catch_warnings():
            pattern: Any = make(line)
            if pattern.include is not None and line.strip() != "/":  # which means nothing to git
                regex = _of_itself(pattern.regex.pattern, line.rstrip())
                rules.append([prefix, before, regex, pattern.include])
    return rules


def _of_itself(regex: str, line: str) -> str:
    """pathspec's regex of a *line* is also for what is in a folder. To git the line is for the
    folder itself: if another one brings that back, what is in it is there, too.
    """
    if line.endswith("/**"):
        return f"(?:{regex})."
    return f"(?:{regex}).+/\\Z" if line.endswith("/**/") else f"(?:{regex})\\Z"
