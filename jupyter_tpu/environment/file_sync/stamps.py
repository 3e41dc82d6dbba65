"""Notices a change in a project folder before the system has reported it."""

from __future__ import annotations

import contextlib
import os
from collections import defaultdict
from itertools import filterfalse, islice

from .ignore import is_notebook
from .local import LocalProject

#: Files that were changed last, and folders, that are looked at.
_FILES, _FOLDERS = 50, 50


class Stamps:
    """What a project had when it was read. Methods block for less than a millisecond if nothing has
    changed: they look at some 100 files and folders.
    """

    def __init__(self, project: LocalProject) -> None:
        tree = project.tree
        self._root = str(project.path)
        self._rules = project.rules
        latest = sorted(tree, key=lambda path: -tree[path].time)
        self._files = {
            path: (tree[path].time, tree[path].size)
            for path in islice(filterfalse(is_notebook, latest), _FILES)
        }
        names: defaultdict[str, set[str]] = defaultdict(set)
        for path in latest:
            while path:
                path, _, name = path.rpartition("/")
                names[path].add(name)
        for path, *_ in project.skipped:
            folder, _, name = path.rstrip("/").rpartition("/")
            names[folder].add(name)
        self._names = {folder: names[folder] for folder in ("", *islice(names, _FOLDERS))}
        self._times: dict[str, float] = {}

    def differ(self) -> bool:
        """Whether there is something new, or gone, or changed."""
        return any(self._stamp(path) != known for path, known in self._files.items()) or any(
            self._has_others(folder) for folder in self._names
        )

    def _stamp(self, path: str) -> tuple[float, int] | None:
        with contextlib.suppress(OSError):
            info = os.lstat(os.path.join(self._root, path))
            return info.st_mtime, info.st_size
        return None

    def _has_others(self, folder: str) -> bool:
        stamp = self._stamp(folder)
        if stamp is None or self._times.get(folder) == stamp[0]:
            return False  # what is gone with it was in another folder, too
        try:
            names = set(os.listdir(os.path.join(self._root, folder)))
        except OSError:
            return False
        self._times[folder] = stamp[0]
        before = f"{folder}/" if folder else ""
        return any(
            not is_notebook(name)
            and not self._rules.ignore(before + name)
            and not self._rules.ignore(f"{before}{name}/")
            for name in names ^ self._names[folder]
        )
