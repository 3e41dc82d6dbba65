"""What of the home folder is saved: the chosen folders, without what is secret or not the user's.

A link is kept as a link if it leads to something in the home folder. No link is followed.
"""

from __future__ import annotations

import fnmatch
import os
import stat
from typing import Dict, Iterator, List, Sequence, Tuple

from ..protocol.credentials import CREDENTIALS
from ..protocol.digests import sha256

#: Only these of ``~/.ssh``.
_OF_SSH = ("config", "known_hosts")
#: Folders and files with keys or tokens, or of programs that ask for them again; from the home.
SECRET_PLACES = (
    ".aws", ".azure", ".boto", ".config/gcloud", ".config/gh", ".config/rclone", ".docker",
    ".git-credentials", ".gnupg", ".gsutil", ".huggingface/token", ".kaggle", ".kube", ".netrc",
    ".pgpass", ".pypirc", ".s3cfg", ".vault-token",
)  # fmt: skip
#: What is made again, or is jupyter-tpu's own.
NOT_KEPT = (".cache", ".jupyter-tpu")
#: How the files are called that a restore writes before they are whole.
PART_PREFIX = ".jupyter-tpu-home-"
#: The first bytes of a file that show a private key.
_KEY_START, _KEY_BYTES = b"-----BEGIN ", 64
#: Bytes of the largest file that is looked at for that.
_LARGEST_KEY = 64 << 10
#: More files are not saved.
MOST_FILES = 100_000


class TooManyFiles(Exception):
    """There are more than `MOST_FILES`."""


class Chosen:
    """What was found, by paths from the home folder; *left_out* with the reasons."""

    def __init__(self) -> None:
        self.files: Dict[str, os.stat_result] = {}
        self.links: Dict[str, str] = {}
        self.folders: Dict[str, int] = {}
        self.left_out: List[Tuple[str, str]] = []

    def digest(self) -> str:
        """Another one when something has changed: names, sizes, times and modes."""
        text = repr(
            (
                sorted(
                    (path, i.st_size, i.st_mtime_ns, i.st_mode) for path, i in self.files.items()
                ),
                sorted(self.links.items()),
                sorted(self.folders.items()),
            )
        )
        return sha256(os.fsencode(text))


def chosen_files(home: str, folders: Sequence[str]) -> Chosen:
    """What is in these *folders* and files, as it is now. Raises TooManyFiles."""
    found = Chosen()
    own = os.stat(home).st_dev
    for folder in folders:
        try:
            info = os.lstat(os.path.join(home, folder))
            parents = {path: os.lstat(os.path.join(home, path)) for path in _parents(folder)}
        except OSError:
            continue  # it may come
        links = [path for path, parent in parents.items() if stat.S_ISLNK(parent.st_mode)]
        if links:
            found.left_out.append((folder, "%s is a link" % links[0]))
            continue
        found.folders.update((path, stat.S_IMODE(one.st_mode)) for path, one in parents.items())
        _add(found, home, folder, info, own)
    return found


def _add(found: Chosen, home: str, path: str, info: os.stat_result, own: int) -> None:
    pending = [(path, info)]
    while pending:
        path, info = pending.pop()
        name = os.path.basename(path)
        if name.startswith(PART_PREFIX) or _is_below(path, NOT_KEPT):
            continue
        why = _why_secret(path)
        try:
            path.encode()
        except UnicodeError:
            path, why = os.fsencode(path).decode("utf-8", "replace"), "its name is not UTF-8"
        if not why and info.st_dev != own:
            why = "it is on another disk"
        if why:
            found.left_out.append((path, why))
        elif stat.S_ISDIR(info.st_mode):
            entries, why = _entries(home, path)
            if why:
                found.left_out.append((path, why))
            elif "pyvenv.cfg" in [name for name, _ in entries]:
                found.left_out.append((path, "a virtual environment"))
            else:
                found.folders[path] = stat.S_IMODE(info.st_mode)
                pending += [("%s/%s" % (path, name), entry) for name, entry in entries]
        elif stat.S_ISLNK(info.st_mode):
            _add_link(found, home, path)
        elif not stat.S_ISREG(info.st_mode):
            found.left_out.append((path, "not a file"))
        else:
            found.files[path] = info
            if len(found.files) > MOST_FILES:
                raise TooManyFiles


def _entries(home: str, folder: str) -> "Tuple[List[Tuple[str, os.stat_result]], str]":
    """What is in a folder, or why that can't be said."""
    found = []
    try:
        with os.scandir(os.path.join(home, folder)) as entries:
            for entry in entries:
                try:
                    found.append((entry.name, entry.stat(follow_symlinks=False)))
                except FileNotFoundError:
                    continue
    except OSError as error:
        return [], error.strerror or "it can't be read"
    return sorted(found, key=lambda one: one[0]), ""


def _add_link(found: Chosen, home: str, path: str) -> None:
    full = os.path.join(home, path)
    try:
        target = os.readlink(full)
        target.encode()
    except (OSError, UnicodeError):
        found.left_out.append((path, "a link that can't be read"))
        return
    top = os.path.realpath(home)
    leads = os.path.realpath(full)
    if leads == top or leads.startswith(top + os.sep):
        if os.path.isabs(target):  # the next home may have another name
            target = os.path.relpath(leads, os.path.realpath(os.path.dirname(full)))
        found.links[path] = target
    else:
        found.left_out.append((path, "a link out of the home folder"))


def _why_secret(path: str) -> str:
    parts = path.split("/")
    if parts[0] == ".ssh" and len(parts) > 1:
        return "" if path[len(".ssh/") :] in _OF_SSH else "keys are not saved"
    if _is_below(path, SECRET_PLACES):
        return "it may have passwords or tokens"
    name = parts[-1].lower()
    if any(fnmatch.fnmatchcase(name, pattern) for pattern in CREDENTIALS):
        return "by its name it may have passwords or tokens"
    return ""


def is_private_key(data: bytes, size: int) -> bool:
    """Whether the first bytes of a file of this *size* are those of a private key."""
    start = data[:_KEY_BYTES]
    return size <= _LARGEST_KEY and start.startswith(_KEY_START) and b"PRIVATE KEY" in start


def _is_below(path: str, places: Sequence[str]) -> bool:
    return any(path == place or path.startswith(place + "/") for place in places)


def _parents(path: str) -> Iterator[str]:
    """The folders in which it is, the highest first."""
    parts = path.split("/")[:-1]
    for number in range(len(parts)):
        yield "/".join(parts[: number + 1])


def is_plain(path: object) -> bool:
    """Whether a stored path is one below the home folder, and may be written."""
    return (
        isinstance(path, str)
        and bool(path)
        and "\0" not in path
        and not {"", ".", ".."} & set(path.split("/"))
        and not _is_below(path, NOT_KEPT)
    )
