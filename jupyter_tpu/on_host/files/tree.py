"""What is in a project folder: its files and links, each with its state. Runs here and on hosts.

A *state* is text that is equal where a file is the same: ``file HASH``, ``program HASH`` (its owner
may execute it), ``link TARGET``, or ``other …`` for what is never copied. A missing file has none.
"""

import fnmatch
import math
import os
import re
import stat
import time
import unicodedata

from ..agent.protocol.credentials import CREDENTIALS
from .contents import open_file
from .messages import CHUNK_BYTES
from .part_file import new_digest

#: Seconds: a file that was changed since may be changed again in the same tick of the clock.
_SETTLED_SECONDS = 2.0
#: Bytes of a path, and of a name in it, that file systems take.
_LONGEST_PATH_BYTES, _LONGEST_NAME = 4096, 255


class TooLarge(Exception):
    """There is more in the folder than may be synced: (files, bytes, {top folder: bytes})."""


class TreeEntry:
    """A file or a link; *time* is when it was last changed, in seconds since 1970."""

    __slots__ = ("size", "state", "time")

    def __init__(self, state, size, time):
        self.state, self.size, self.time = state, size, time


class Rules:
    """Which paths are left out, as lists that another machine understands.

    A rule is [prefix, before, regex, ignored]: it is for paths below *prefix*, which *before*
    replaces. The last rule that matches decides.
    """

    def __init__(self, rules):
        self.rules = list(rules)
        self._compiled = []

    def ignore(self, path):
        """*path* of a folder ends in "/"."""
        if is_git(path.rstrip("/").rpartition("/")[2]):
            return True
        for rule in self.rules[len(self._compiled) :]:
            self._compiled.append((rule[0], rule[1], re.compile(rule[2]), rule[3]))
        for prefix, before, pattern, ignored in reversed(self._compiled):
            if path.startswith(prefix) and pattern.search(before + path[len(prefix) :]):
                return ignored
        return False


class HashCache:
    """The hashes of files that have not changed since: {path: [signature, hash]}."""

    def __init__(self, known):
        self._known = known
        self.fresh = {}
        self._now = time.time()

    def state(self, root, path, info):
        full = os.path.join(root, path)
        signature = [info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino]
        known = self._known.get(path)
        if not known or known[0] != signature:
            known = [signature, hash_file(full, info.st_size)]
        if info.st_mtime < self._now - _SETTLED_SECONDS:
            self.fresh[path] = known
        return ("program " if info.st_mode & stat.S_IXUSR else "file ") + known[1]


def walk(root, rules, limits, read_ignore_file=None):
    """({path: lstat}, [[path, size, why it is skipped]]); raises TooLarge, OSError for the folder.

    limits: the sizes of one file and of all, and the number of files. read_ignore_file(folder):
    adds the rules of a .gitignore.
    """
    files, skipped, total = {}, [], 0
    pending = [""]
    while pending:
        folder = pending.pop()
        try:
            names = sorted(os.listdir(os.path.join(root, folder)))
        except OSError as error:
            if not folder:
                raise
            skipped.append([folder, 0, error.strerror])
            continue
        if read_ignore_file and ".gitignore" in names:
            read_ignore_file(folder)
        if folder and "pyvenv.cfg" in names:
            skipped.append([folder, 0, "a virtual environment"])
            continue
        for name in names:
            path = folder + name
            try:
                path.encode()
                info = os.lstat(os.path.join(root, path))
            except UnicodeError:
                skipped.append([os.fsencode(path).decode("utf-8", "replace"), 0, "not UTF-8"])
                continue
            except FileNotFoundError:
                continue
            if stat.S_ISDIR(info.st_mode):
                if not rules.ignore(path + "/"):
                    pending.append(path + "/")
            elif rules.ignore(path):
                pass
            elif stat.S_ISLNK(info.st_mode):
                if is_inside(path, link_target(root, path)):
                    files[path] = info
                else:
                    skipped.append([path, 0, "a link out of the folder"])
            elif not stat.S_ISREG(info.st_mode):
                skipped.append([path, 0, "not a file"])
            elif info.st_size > limits[0]:
                skipped.append([path, info.st_size, "larger than the limit"])
            else:
                files[path] = info
                total += info.st_size
        if len(files) > limits[2] or total > limits[1]:
            raise TooLarge(*_shares(files))
    return files, skipped


def _shares(files):
    shares: dict = {}
    for path, info in files.items():
        top = path.partition("/")[0] if "/" in path else "."
        shares[top] = shares.get(top, 0) + info.st_size
    return len(files), sum(shares.values()), shares


def link_target(root, path):
    return _of_project(root, path, os.readlink(os.path.join(root, path)))


def _of_project(root, path, target):
    """The *target* of a link; relative if it is below the root, which is elsewhere on other
    machines.

    One with ``..`` in it is left as it is: after a name, which may be a link, it may lead anywhere.
    """
    target = os.fsencode(target).decode("utf-8", "replace")
    if os.path.isabs(target) and ".." not in target.split("/"):
        for top in (root, os.path.realpath(root)):
            if os.path.join(target, "").startswith(os.path.join(top, "")):
                return os.path.relpath(target, os.path.join(top, os.path.dirname(path)))
    return target


def is_inside(path, target):
    """Whether a link at *path*, relative to the root, leads to something below the root.

    ``..`` counts at its beginning only: after a name, which may be a link, it may lead anywhere.
    """
    parts = [part for part in target.split("/") if part not in ("", ".")]
    up = next((number for number, part in enumerate(parts) if part != ".."), len(parts))
    return not os.path.isabs(target) and up <= path.count("/") and ".." not in parts[up:]


def entries(root, files, cache, skipped):
    """{path: Entry} of what :func:`walk` has found."""
    tree = {}
    for path, info in files.items():
        try:
            if stat.S_ISLNK(info.st_mode):
                state = "link " + link_target(root, path)
            else:
                state = cache.state(root, path, info)
        except FileNotFoundError:
            continue
        except OSError as error:
            skipped.append([path, info.st_size, error.strerror])
            continue
        tree[path] = TreeEntry(state, info.st_size, info.st_mtime)
    return tree


def look_up(root, paths, cache):
    """{path: Entry} of those of *paths* that exist; links are not followed, inside paths either."""
    tree: dict = {}
    folders: dict = {}
    for path in paths:
        folder = os.path.dirname(path)
        if not _is_real(root, folder, folders):
            if os.path.lexists(os.path.join(root, path)):
                tree[path] = TreeEntry("other behind a link", 0, 0.0)
            continue
        try:
            info = os.lstat(os.path.join(root, path))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            tree[path] = TreeEntry("other %s" % error.strerror, 0, 0.0)
            continue
        if stat.S_ISREG(info.st_mode):
            try:
                state = cache.state(root, path, info)
            except FileNotFoundError:
                continue
            except OSError as error:
                state = "other %s" % error.strerror
        elif stat.S_ISLNK(info.st_mode):
            state = "link " + link_target(root, path)
        else:
            state = "other than a file"
        tree[path] = TreeEntry(state, info.st_size, info.st_mtime)
    return tree


def state_of(top, folder, name):
    """The state now of what has a *name* in a `Folder` below *top*; None if it does not exist."""
    try:
        info = folder.info(name)
        if stat.S_ISREG(info.st_mode):
            kind = "program " if info.st_mode & stat.S_IXUSR else "file "
            with os.fdopen(folder.open(name, os.O_RDONLY), "rb", 0) as file:
                return kind + _hash(file)
        if stat.S_ISLNK(info.st_mode):
            path = os.path.relpath(os.path.join(folder.path, name), top.path)
            target = folder.link_target(name)
            return "link " + _of_project(os.fsdecode(top.path), os.fsdecode(path), target)
    except FileNotFoundError:
        return None
    return "other than a file"


def _is_real(root, folder, known):
    """Whether no part of *folder* is a link."""
    path = ""
    for name in folder.split("/") if folder else ():
        path = os.path.join(path, name)
        if path not in known:
            known[path] = not os.path.islink(os.path.join(root, path))
        if not known[path]:
            return False
    return True


def is_safe(path):
    """Whether *path*, which another machine named, is below the root, and not in a Git folder."""
    try:
        data = path.encode()
    except UnicodeError:
        return False
    parts = path.split("/")
    foreign = {"\0", "\\", ":"} if os.sep != "/" else {"\0"}
    return (
        len(data) <= _LONGEST_PATH_BYTES
        and not foreign & set(path)
        and all(part and len(part.encode()) <= _LONGEST_NAME for part in parts)
        and not {".", ".."} & set(parts)
        and not any(map(is_git, parts))
    )


def is_git(name):
    """Whether a file system may take *name* for ``.git``: some ignore case, and what is not seen,
    and Windows has a short name for it. As Git itself protects it.
    """
    seen = name
    if not name.isascii():
        seen = "".join(character for character in name if unicodedata.category(character) != "Cf")
    return seen.partition(":")[0].rstrip(". ").lower() in (".git", "git~1")


def is_private(path):
    """Whether *path* below a folder is closed to coding agents: it is hidden, has credentials, or
    is in a folder of that kind.
    """
    return any(
        part.startswith(".")
        or is_git(part)
        or any(fnmatch.fnmatchcase(part.lower(), pattern) for pattern in CREDENTIALS)
        for part in path.strip("/").split("/")
    )


def hash_file(path, size=math.inf):
    """The hash of a regular file's content; of its first *size* bytes if it has grown."""
    with open_file(path) as file:
        return _hash(file, size)


def _hash(file, size=math.inf):
    digest = new_digest()
    while data := file.read(min(CHUNK_BYTES, size)):
        digest.update(data)
        size -= len(data)
    return digest.hexdigest()
