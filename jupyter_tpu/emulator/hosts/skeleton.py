"""What lets an unprivileged user's hosts have a system of their own: directories that user owns.

In a user namespace the machine's files belong to nobody, and an overlay can't change what nobody
owns. So under each host's own layer and over the machine's folders lies a skeleton: the machine's
directories once more, owned by the user, with copies of the few files that are edited in place.
It is made once per state folder and shared, read-only in effect, by all hosts.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

SKELETON = "skeleton"
OPAQUE = "user.overlay.opaque"
_MOST_LEVELS = 6  # deeper directories are thousands, and packages seldom add to them
_TREES = ("usr", "opt", "var", "lib", "lib32", "lib64", "libx32", "bin", "sbin")
# Below /var these are edited in place (locks, logs) or must not be the machine's.
_COPIED = ("lib/dpkg", "lib/apt", "cache/debconf", "lib/ucf", "lib/pam")
_NOT_COPIED = ("lib/dpkg/info", "lib/apt/lists")  # replaced file by file, so directories do
_EMPTY = (
    "log",
    "cache/apt",
    "cache/man",
    "cache/app-info",
    "lib/apt/lists",
)  # no files of the machine


def ensure_skeleton(state: Path) -> Path:
    """The skeleton of *state*, made if it is missing; takes some seconds then."""
    final = state / SKELETON
    if final.is_dir():
        return final
    new = Path(tempfile.mkdtemp(prefix="skeleton-", dir=state))
    try:
        new.chmod(0o755)
        for name in _TREES:
            if os.path.isdir(f"/{name}") and not os.path.islink(f"/{name}"):
                _directories(Path("/", name), new / name)
        for name in _COPIED:
            _files(Path("/var", name), new / "var" / name, empty=True)
        for name in _EMPTY:
            if (new / "var" / name).is_dir():
                os.setxattr(new / "var" / name, OPAQUE, b"y")
        _directories(Path("/etc"), new / "etc")
        _files(Path("/etc"), new / "etc", empty=False)
        # apt gives its downloads to a user whom a single-uid host does not have
        conf = new / "etc/apt/apt.conf.d"
        if conf.is_dir():
            (conf / "99-emulated-host").write_text('APT::Sandbox::User "root";\n')
        if os.path.exists("/usr/bin/su"):  # a setuid file works if the host's root owns it
            shutil.copy("/usr/bin/su", new / "usr/bin/su")
            os.chmod(new / "usr/bin/su", 0o4755)
        try:
            new.rename(final)
        except OSError:  # another emulator on the same folder was faster
            if not final.is_dir():
                raise
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return final


def _directories(source: Path, target: Path) -> None:
    """Makes *target* a tree of the directories of *source*, on its own file system."""
    target.mkdir(exist_ok=True)
    pending = [(str(source), str(target), 1)]
    device = os.stat(source).st_dev
    while pending:
        outer, inner, depth = pending.pop()
        try:
            entries = list(os.scandir(outer))
        except PermissionError:  # can't be listed in a host either; there it is simply empty
            os.setxattr(inner, OPAQUE, b"y")
            continue
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                continue
            facts = entry.stat(follow_symlinks=False)
            path = os.path.join(inner, entry.name)
            os.makedirs(path, exist_ok=True)
            os.chmod(path, stat.S_IMODE(facts.st_mode) & 0o1777 | 0o700)
            if facts.st_dev == device and depth < _MOST_LEVELS:
                pending.append((entry.path, path, depth + 1))


def _files(source: Path, target: Path, *, empty: bool) -> None:
    """Copies the files and links below *source* into *target*'s directories.

    Of those that can't be read, locks for the most part, there is an *empty* file or none.
    """
    for outer, inner in _walk(source, target):
        for entry in os.scandir(outer):
            path = os.path.join(inner, entry.name)
            if entry.is_symlink():
                os.symlink(os.readlink(entry.path), path)
            elif not entry.is_file():
                continue
            elif not os.access(entry.path, os.R_OK):
                if empty:
                    Path(path).touch(mode=0o600)
            else:
                shutil.copy2(entry.path, path)
                os.chmod(path, stat.S_IMODE(os.stat(path).st_mode) & 0o777 | 0o600)


def _walk(source: Path, target: Path) -> Iterator[tuple[str, str]]:
    skipped = {f"/var/{name}" for name in _NOT_COPIED}
    for outer, names, _ in os.walk(source):
        if outer in skipped:
            names.clear()
            continue
        inner = os.path.join(target, os.path.relpath(outer, source))
        os.makedirs(inner, exist_ok=True)
        yield outer, inner
