"""The parts of this machine that emulated hosts may see: system folders, Pythons, named files.

Everything else, the real user's home above all, stays hidden.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

# The folders of the machine's root that hosts see; all others are hidden or replaced.
SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "etc", "var", "opt")
# Replaced by the host's own, so nothing of the machine's shows through.
REPLACED = ("/dev", "/proc", "/sys", "/run", "/tmp", "/var/tmp", "/home", "/root")
# Variables of package clients that may name files and folders.
_NAMING = re.compile(
    r"(PIP|UV|CONDA|SSL|CURL|REQUESTS|NIX_SSL|GIT_SSL|NODE_EXTRA|AWS|GRPC|HTTPLIB2)_\w+"
)
_MINOR = re.compile(r"python3\.\d+")


def real_homes() -> tuple[Path, ...]:
    """The home folders of the user who runs this process."""
    homes = {Path(os.path.realpath(os.path.expanduser("~")))}
    with contextlib.suppress(KeyError):  # a uid without an entry has only $HOME
        homes.add(Path(os.path.realpath(pwd.getpwuid(os.getuid()).pw_dir)))
    return tuple(sorted(home for home in homes if home != Path("/")))


def hidden_folders(extra: Iterable[Path] = ()) -> tuple[Path, ...]:
    """Folders of the machine's root that a host must find empty, outermost first."""
    paths = [
        Path(entry.path)
        for entry in os.scandir("/")
        if entry.is_dir(follow_symlinks=False)
        and entry.name not in SYSTEM
        and entry.path not in REPLACED
    ]
    for folder in (*real_homes(), *extra):
        if not folder.is_dir() or str(folder) in ("/usr", "/etc", "/var", "/opt"):
            continue
        if not is_hidden(folder, paths):
            paths.append(folder)
    return tuple(sorted(paths))


def is_hidden(path: Path, hidden: Iterable[Path]) -> bool:
    """Whether *path* of the machine can't be seen in a host unless it is bound in."""
    covers = [*map(Path, REPLACED), *hidden]
    return any(path == cover or cover in path.parents for cover in covers)


def open_to_others(path: Path) -> bool:
    """Whether the mode of *path* lets any user read it (and enter it, if it is a folder)."""
    mode = path.stat().st_mode
    return bool(mode & 0o004) and (not path.is_dir() or bool(mode & 0o001))


def reachable(path: Path) -> bool:
    """Whether this process itself may read *path*."""
    return os.access(path, os.R_OK | (os.X_OK if path.is_dir() else 0))


class Pythons:
    """The Python interpreters outside the system's own folders.

    Attributes
    ----------
    commands: command (``python3.12``) → the interpreter's real path.
    folders: where those interpreters are installed; to be bound in where they are hidden.
    """

    def __init__(self, commands: dict[str, Path], folders: tuple[Path, ...]) -> None:
        self.commands = commands
        self.folders = folders


@cache
def pythons() -> Pythons:
    """The machine's interpreters of pyenv, uv, conda and the one running this.

    Of several patch releases of a minor one the newest is taken.
    """
    home = Path(os.path.expanduser("~"))
    data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local/share")
    collections = [
        Path(os.environ.get("PYENV_ROOT") or home / ".pyenv") / "versions",
        Path(os.environ.get("UV_PYTHON_INSTALL_DIR") or data / "uv/python"),
    ]
    singles = [Path(sys.base_prefix)]
    for name in ("miniconda3", "miniforge3", "mambaforge", "anaconda3"):
        singles.append(home / name)
    commands: dict[str, tuple[tuple[int, ...], Path]] = {}
    folders: set[Path] = set()
    for prefix, folder in [
        *((prefix, collection) for collection in collections for prefix in _inside(collection)),
        *((single, single) for single in singles),
    ]:
        for program in _inside(prefix / "bin"):
            if not _MINOR.fullmatch(program.name) or not _usable(prefix, folder, program):
                continue
            patch = tuple(int(number) for number in re.findall(r"\d+", prefix.name)[:3])
            if program.name not in commands or commands[program.name][0] < patch:
                commands[program.name] = (patch, program)
            folders.add(folder)
    outermost = tuple(
        folder for folder in sorted(folders) if not any(up in folders for up in folder.parents)
    )
    return Pythons({name: path for name, (_, path) in commands.items()}, outermost)


def _inside(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:  # not there, or not ours to read
        return []


def _usable(prefix: Path, folder: Path, program: Path) -> bool:
    if str(prefix) in ("/usr", "/usr/local"):  # the system's own: visible anyway
        return False
    try:
        return all(open_to_others(path) for path in (folder, prefix, prefix / "bin", program))
    except OSError:
        return False


def named_paths(environment: Mapping[str, str]) -> tuple[Path, ...]:
    """Files and folders that a package client's variables name, e.g. ``PIP_CERT``, and that exist.

    What this user may not see does not.
    """
    paths: set[Path] = set()
    for name, value in environment.items():
        if not _NAMING.fullmatch(name):
            continue
        for word in re.split(r"\s+|:(?=/[^/])", value):
            path = Path(unquote(urlsplit(word).path) if word.startswith("file:") else word)
            if path.is_absolute() and os.path.exists(path) and not _holds_a_home(path):
                paths.add(path)
    return tuple(sorted(paths))


def _holds_a_home(path: Path) -> bool:
    return any(path == home or path in home.parents for home in real_homes())
