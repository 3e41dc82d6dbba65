"""What both ends of a copy need: messages, their checks, failures, paths."""

import contextlib
import errno
import hashlib
import json
import os
import stat
import time
from typing import Any, NamedTuple

CHUNK = 256 << 10
#: How many names a message has at most.
NAMED = 100
#: How the name begins under which a file is written until it is whole.
PART = b".copy-"
#: Seconds between two reports of progress.
PACE = 0.2
#: What is told of a failure.
FIELDS = {"code": str, "path": str, "message": str, "names": list, "count": int, "of_sender": bool}
#: Bytes of a message, and those that it may have more for each file that it is about.
LONGEST, PER_FILE = 4 << 20, 40


class CopyFailure(Exception):
    """It ends a copy. code: errno's name (ENOTDIR: its folder does not exist), or EXISTS,
    IN_THE_WAY, SAME_NAME, BUSY, LOST, PROTOCOL.
    """

    def __init__(self, code, path="", message="", names=(), count=0, of_sender=False):
        super().__init__(code, path, message)
        self.code = code
        self.path = path
        self.message = message
        self.names = list(names)
        self.count = count
        self.of_sender = of_sender


class CopyEntry(NamedTuple):
    """A file, folder or symbolic link: ``path`` below its root, "" for the root itself."""

    root: int
    path: str
    kind: str  # "file", "dir" or "link"
    mode: int
    mtime: int  # nanoseconds
    size: int
    link: str


class Peer:
    """The other end: two binary files."""

    def __init__(self, reader, writer):
        self._reader = reader
        self._writer = writer

    def send(self, content=b"", **message):
        try:
            self._writer.write(json.dumps(message).encode() + b"\n" + content)
        except (OSError, ValueError):
            self._lost()

    def flush(self):
        try:
            self._writer.flush()
        except (OSError, ValueError):
            self._lost()

    def receive(self, files=0) -> "dict[str, Any]":
        """The next message. files: about how many it may be."""
        self.flush()
        return self._next_message(LONGEST + PER_FILE * files)

    def _next_message(self, limit=LONGEST):
        try:
            line = self._reader.readline(limit + 1)
        except (OSError, ValueError):
            raise CopyFailure("LOST") from None
        if len(line) > limit:
            raise CopyFailure("PROTOCOL", message="a message of more than %d MB" % (limit / 1e6))
        return message_of(line)

    def read(self, size):
        if not 0 < size <= CHUNK:
            raise CopyFailure("PROTOCOL", message="a part of a file that no sender makes")
        data = self._reader.read(size)
        if len(data) < size:
            raise CopyFailure("LOST")
        return data

    def _lost(self):
        """It reads no more: it has said why, or the line is cut."""
        while True:
            self._next_message()


def message_of(line) -> "dict[str, Any]":
    """Raises the failure that it tells."""
    if not line.endswith(b"\n"):
        raise CopyFailure("LOST")
    try:
        message = json.loads(line)
        error = message.get("error")
        if error:
            told = {name: error[name] for name in FIELDS if name in error}
            names = all(isinstance(text, str) for text in told.get("names", ()))
            if not names or any(type(value) is not FIELDS[name] for name, value in told.items()):
                raise ValueError("a failure that is none")
    except (ValueError, AttributeError, TypeError, RecursionError):
        raise CopyFailure("PROTOCOL") from None
    if error:
        raise CopyFailure(**told)
    return message


def encoded(path):
    return path.encode("utf-8", "surrogateescape")


def decoded(path):
    return path.decode("utf-8", "surrogateescape")


def kind_of(mode):
    """ "" for a device, a pipe or a socket."""
    if stat.S_ISDIR(mode):
        return "dir"
    return "file" if stat.S_ISREG(mode) else "link" if stat.S_ISLNK(mode) else ""


def from_home(path):
    """Paths are bytes, whatever the host's locale is."""
    path = encoded(path)
    if path == b"~" or path.startswith(b"~/"):
        path = path[2:]
    return os.path.join(os.path.expanduser(b"~"), path)


def problem(error, path):
    path = path if isinstance(path, bytes) else encoded(path)
    folder, name = os.path.split(path)
    if name.startswith(PART):  # a name of ours says nothing to anybody
        path = folder
    code = errno.errorcode.get(error.errno or 0, "")
    return [decoded(path), "EXISTS" if code == "EEXIST" else code, error.strerror or ""]


def failure(error, path):
    shown, code, message = problem(error, path)
    return CopyFailure(code, shown, message)


class Reports:
    """Tells the number of bytes that were copied, not too often."""

    def __init__(self, report):
        self._report = report
        self._done = 0
        self._total = 0
        self._next = 0.0

    def __call__(self, size, total=None):
        """size: of what was copied; with *total*, of what was there from before."""
        if total is not None:
            self._done, self._total, self._next = 0, total, 0.0
        self._done += size
        now = time.monotonic()
        if now >= self._next or self._done >= self._total:
            self._next = now + PACE
            self._report(self._done, self._total)


#: The types of what an entry has.
TYPES = [int, str, str, int, int, int, str]


def check_entries(entries, names):
    """The entries of a sender: what is none, or could lead out of the destination."""
    seen, folders = set(), set()
    foreign = {"\0", "\\", ":"} if os.sep != "/" else {"\0"}
    for entry in entries:
        if [*map(type, entry)] != TYPES:
            raise CopyFailure("PROTOCOL", message="what is not a file")
        parts = entry.path.split("/") if entry.path else []
        key = (entry.root, entry.path)
        if (
            not 0 <= entry.root < len(names)
            or {"", ".", ".."} & set(parts)
            or foreign & set(entry.path)
            or key in seen
            # Each folder is compared with what is there, so it is none that a link leads to.
            or (parts and (entry.root, "/".join(parts[:-1])) not in folders)
            # A link that is named is followed by who sends it.
            or entry.kind not in (("file", "dir", "link") if parts else ("file", "dir"))
            or not (0 <= entry.size < 1 << 62 and -1 << 62 < entry.mtime < 1 << 62)
            or not 0 <= entry.mode <= 0o777
            or "\0" in entry.link
        ):
            raise CopyFailure("PROTOCOL", message="a file with a path or rights that can't be")
        seen.add(key)
        if entry.kind == "dir":
            folders.add(key)
    for name in names:
        if name in (".", "..") or ({"/"} | foreign) & set(name):
            raise CopyFailure("PROTOCOL", message="a name that is none")


def check_names(names, asked):
    """The names of the roots: those that were *asked* for, of which None is any."""
    hidden = any(name.startswith(".") for name, known in zip(names, asked) if known is None)
    same = all(name == known for name, known in zip(names, asked) if known is not None)
    if hidden or not same or len(names) != len(asked):
        raise CopyFailure("PROTOCOL", message="other files than those that were asked for")


def checked_problem(told):
    """Why a file is not sent: its path, a code and a message."""
    path, code, message = told
    if not all(isinstance(text, str) for text in told):
        raise CopyFailure("PROTOCOL")
    return [path, code, message[:1000]]


def checked_numbers(needed, entries):
    """The numbers of the files that a receiver asks for, each with where it begins."""
    for number, offset in needed:
        if type(number) is not int or not 0 <= number < len(entries):
            raise CopyFailure("PROTOCOL", message="it asks for what was not offered")
        if entries[number].kind != "file" or not 0 <= offset <= entries[number].size:
            raise CopyFailure("PROTOCOL", message="it asks for what was not offered")
    if len({number for number, _ in needed}) < len(needed):
        raise CopyFailure("PROTOCOL", message="it asks for the same file twice")
    return needed


def same(entry, info, path):
    """Whether what is there is the entry, by its size and time, as rsync compares."""
    if entry.kind == "link":
        return stat.S_ISLNK(info.st_mode) and os.readlink(path) == encoded(entry.link)
    coarse = info.st_mtime_ns % 10**9 == 0  # some file systems keep whole seconds
    unit = 10**9 if coarse else 1
    return (
        stat.S_ISREG(info.st_mode)
        and info.st_size == entry.size
        and info.st_mtime_ns // unit == entry.mtime // unit
    )


def is_file(path, info):
    try:
        return os.path.samestat(os.lstat(path), info)
    except FileNotFoundError:
        return False


def remove(path):
    with contextlib.suppress(FileNotFoundError):  # another copy was quicker
        os.unlink(path)


def part_name(path, what):
    """The name under which a file is written, the same for each copy of the same file."""
    folder, name = os.path.split(path)
    key = hashlib.sha256(name + b"\0" + encoded(what)).hexdigest()[:16]
    return os.path.join(folder, PART + key.encode())


def move_new(part, path):
    """Renames *part*, unless *path* exists."""
    try:
        os.link(part, path, follow_symlinks=False)
        os.unlink(part)
    except FileExistsError:
        os.unlink(part)
        raise
    except (OSError, NotImplementedError):  # a file system without hard links
        if os.path.lexists(path):
            raise OSError(errno.EEXIST, "exists") from None
        os.rename(part, path)
