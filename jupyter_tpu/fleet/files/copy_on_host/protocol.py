"""What both ends of a copy need: messages, failures, paths."""

import errno
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
