"""News for the user of a mirrored project. Each item is shown once."""

from __future__ import annotations

import contextlib
import shlex

from ...errors import TPUError
from ...wording import size_text
from .bases import Bases, Stored
from .ignore import is_left_out
from .mirror import Mirror

#: Paths that a line names.
_NAMED_PATHS = 3
#: How the file of a module ends.
_MODULES = (".py", "/__init__.py")


class ShownLines(Stored):
    """Lines that need not be repeated for the next kernel."""

    file_name = "shown"
    lines: tuple[str, ...] = ()


class MirrorNews:
    """Lines about a mirror for the output of cells."""

    def __init__(self, mirror: Mirror, bases: Bases) -> None:
        self._mirror = mirror
        self._shown: set[str] = set()
        self._conflicts: set[str] = set()
        self._history = LineHistory(bases, mirror.host.host_id, str(mirror.folder))

    @property
    def waiting(self) -> str:
        """For a cell that waits for the project."""
        return f"{self._still_copied} The cell is waiting. To cancel it, interrupt the kernel."

    @property
    def _still_copied(self) -> str:
        mirror = self._mirror
        done = f" ({mirror.copied:.0%} done)" if mirror.copied else ""
        return f"{mirror.folder.name} is still being copied to {mirror.host.host}{done}."

    def lines(self, current: bool) -> list[str]:
        """What was not shown yet. *current*: whether the host has what is here."""
        mirror, tpu = self._mirror, str(self._mirror.host.host)
        if not current:
            return [f"{self._still_copied} This cell started without the newest files."]
        lines = []
        if mirror.problem is not None:
            line = f"The project {mirror.folder} is not up to date on {tpu}: {mirror.problem}"
            lines += [line] if line not in self._shown else []
            self._shown = {line}
        else:
            self._shown = set()
        if mirror.outcome is None:
            return lines
        outcome = mirror.outcome.hosts[0]
        conflicts = {conflict.path for conflict, *_ in outcome.conflicts}
        if new := sorted(conflicts - self._conflicts):
            lines.append(self._conflict_line(new, tpu))
        self._conflicts = conflicts
        left_out = [
            f"{path} ({size_text(size)}, {why})" if size else f"{path} ({why})"
            for path, size, why in mirror.outcome.skipped
        ]
        left_out += [f"{path} ({why})" for path, why in outcome.refused]
        if left_out:
            line = f"Not copied to {tpu}: {_some(left_out)}."
            lines += [line] if self._history.is_new(line) else []
        return lines

    def missing_module(self, module: str, below: str) -> str:
        """Why the host has no *module* that is here; "" if it is not, or was copied.

        below: the notebook's folder in the project.
        """
        mirror = self._mirror
        name = module.replace(".", "/")
        tops = ("", "src", below, f"{below}/src")
        for path in (f"{top}/{name}{end}".lstrip("/") for top in tops for end in _MODULES):
            if (mirror.folder / path).is_file() and is_left_out(mirror.folder, path):
                return (
                    f"{path} is not on {mirror.host.host}: .gitignore leaves it out. Change "
                    ".gitignore, or make the file there."
                )
        return ""

    def _conflict_line(self, paths: list[str], tpu: str) -> str:
        mirror = self._mirror
        remote = mirror.remote.removeprefix("~/")
        command = shlex.join(
            ["jupyter", "tpu", "sync", str(mirror.folder), f"{mirror.host.host.node.node}:{remote}",
             "--overwrite", *(word for path in paths[:_NAMED_PATHS] for word in ("--only", path))]
        )  # fmt: skip
        names = _some(paths)
        return (
            f"{names} was changed here and on {tpu}, and was not copied."
            if len(paths) == 1
            else f"{names} were changed here and on {tpu}, and were not copied."
        ) + f" Decide in the TPU panel. To use what is here: {command}"


class LineHistory:
    """The lines about one folder and host that were shown before, by whatever process."""

    def __init__(self, bases: Bases, *key: str) -> None:
        self._bases = bases
        self._key = key

    def is_new(self, line: str) -> bool:
        """False if it was shown before; from now on it was."""
        shown = self._bases.load(ShownLines, *self._key)
        if line in shown.lines:
            return False
        with contextlib.suppress(TPUError):  # then it is shown again
            self._bases.save(ShownLines((*shown.lines[-20:], line)), *self._key)
        return True


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED_PATHS} more" if len(names) > _NAMED_PATHS else ""
    return ", ".join(names[:_NAMED_PATHS]) + more
