"""A project folder of this host, as a peer that a sync talks to over standard input and output.

Each request is a line of JSON; each answer is a line ``{"size": N}`` and N bytes of JSON that is
compressed with zlib, or ``{"error": [reason, message, hint]}``, after which the program ends.
"""

import contextlib
import errno
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
import zlib

from jupyter_tpu.agent.protocol.login_shell import skip_greeting

from .paths import HOME, private_dir, write_file
from .protocol import HostError, disk_full
from .stream import announced, contents, receive, signature
from .tree import CHUNK, HashCache, Rules, TooLarge, entries, look_up, walk

#: Seconds to wait for another sync of the same folder.
_LOCK_TIMEOUT = 60


class ProjectReader:
    """What is in a compressed stream; *read(size)* gives the next bytes of it, or b"".

    No more is held than was read at once, and what that is unpacked to, up to `CHUNK` bytes.
    Raises ValueError for what is not such a stream.
    """

    def __init__(self, read):
        self._read = read
        self._inflate = zlib.decompressobj()
        self._ready = bytearray()
        self._more = False  # what was read is not all unpacked

    def exactly(self, size):
        while len(self._ready) < size:
            self._fill()
        data = bytes(self._ready[:size])
        del self._ready[:size]
        return data

    def line(self):
        while b"\n" not in self._ready:
            if len(self._ready) > CHUNK:
                raise ValueError("a line of it is too long")
            self._fill()
        return self.exactly(self._ready.index(b"\n") + 1)

    def finish(self):
        """Reads the stream's end, so that what follows it is the next request."""
        while not self._inflate.eof:
            self._fill()
            if self._ready:
                raise ValueError("it has more than was asked for")

    def _fill(self):
        if self._inflate.eof:
            raise EOFError("the stream is shorter than announced")
        data = self._inflate.unconsumed_tail if self._more else self._read(CHUNK)
        if not (data or self._more):
            raise EOFError("the connection was closed")
        try:
            unpacked = self._inflate.decompress(data, CHUNK)
        except zlib.error as error:
            raise ValueError(str(error)) from None
        self._ready += unpacked
        self._more = len(unpacked) == CHUNK


def framed(stream, copy=None):
    """A *read(size)* for a stream that comes in frames of 4 bytes of length and data.

    copy: a file that gets the data, too.
    """

    def read(size):
        length = int.from_bytes(stream.read(4), "big")
        data = stream.read(length)
        if copy is not None:
            copy.write(data)
        return data

    return read


class Project:
    """The folder *root*, and what we remember of it."""

    def __init__(self, root):
        self.root = os.path.normpath(os.path.join(HOME, root[2:] if root[:2] == "~/" else root))
        if root == "~":
            self.root = HOME
        name = hashlib.blake2b(os.path.realpath(self.root).encode(), digest_size=16).hexdigest()
        self.ended = False
        self._memory = os.path.join(private_dir("sync"), name)
        self._stream = self._memory + ".stream"
        self.known: dict = {"hashes": {}, "paths": []}
        with contextlib.suppress(OSError, ValueError), open(self._memory + ".json") as file:
            self.known.update(json.load(file))

    @contextlib.contextmanager
    def lock(self):
        """Keeps others from the folder. At its end a stream that was kept or fetched is deleted."""
        import fcntl

        with open(self._memory + ".lock", "w") as file:
            deadline = time.time() + _LOCK_TIMEOUT
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.time() > deadline:
                        raise HostError(
                            "CONFLICT",
                            "Another sync of %s has not ended." % self.root,
                            "Wait for it, or end it.",
                        ) from None
                time.sleep(0.05)
            try:
                yield
            finally:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self._stream)

    def look_up(self, digest, paths=None):
        """The entries of *paths*; without them of those of the last time, if that is *digest*."""
        if paths is None:
            if digest_of(self.known["paths"]) != digest:
                return {"unknown": True}
            paths = self.known["paths"]
        cache = HashCache(self.known["hashes"])
        tree = look_up(self.root, paths, cache)
        self._remember(paths=paths, hashes=cache.fresh)
        return {"root": self.root, "tree": plain(tree)}

    def walk(self, rules, limits):
        """All entries that no rule leaves out."""
        if not os.path.isdir(self.root):
            raise HostError(
                "NO_FOLDER", "The folder %s does not exist." % self.root, "Check its path."
            )
        try:
            files, skipped = walk(self.root, Rules(rules), limits)
        except TooLarge as large:
            return {"too_large": list(large.args)}
        cache = HashCache(self.known["hashes"])
        tree = entries(self.root, files, cache, skipped)
        self._remember(hashes=dict(self.known["hashes"], **cache.fresh))
        return {"root": self.root, "tree": plain(tree), "skipped": skipped}

    def signatures(self, paths):
        return {path: signature(self.root, path) for path in paths}

    def receive(self, count, keep=False, fetched=False):
        """Carries out the changes that follow, or were fetched: why each was not, or None, and why
        it ended early. With *keep* also the file that has their stream.
        """
        os.makedirs(self.root, exist_ok=True)
        results = []
        try:
            with contextlib.ExitStack() as files:
                if fetched:
                    stream = files.enter_context(open(self._stream, "rb"))
                    skip_greeting(stream)
                    reader = ProjectReader(stream.read)
                else:
                    copy = files.enter_context(open(self._stream, "wb")) if keep else None
                    reader = ProjectReader(framed(sys.stdin.buffer, copy))
                for result in receive(self.root, reader, announced(reader, count)):
                    results.append(result)
                reader.finish()
        except EOFError:
            sys.exit(1)  # no one is there to be answered
        except OSError as error:
            self.ended = True  # what is left of the stream is not read
            return {"results": results, "problem": _explain(error).payload}
        return {"results": results, "kept": self._stream if keep else ""}

    def fetch(self, command, size):
        """Whether the output of *command* is all of a stream that another host keeps."""
        with contextlib.suppress(OSError):
            with open(self._stream, "wb") as file:
                quiet = subprocess.DEVNULL
                subprocess.run(command, stdin=quiet, stdout=file, stderr=quiet)
            with open(self._stream, "rb") as file:
                return skip_greeting(file) and os.path.getsize(self._stream) - file.tell() == size
        return False

    def send(self, changes):
        """Writes the contents for *changes*; its own answer."""
        deflate = zlib.compressobj(6)
        for data in contents(self.root, changes):
            write_out(deflate.compress(data))
        write_out(deflate.flush())

    def _remember(self, **news):
        self.known.update(news)
        with contextlib.suppress(OSError):  # it is only quicker with it
            write_file(self._memory + ".json", json.dumps(self.known), mode=0o600)


def plain(tree):
    return {path: [entry.state, entry.size, entry.time] for path, entry in tree.items()}


def digest_of(paths):
    return hashlib.blake2b("\0".join(paths).encode(), digest_size=16).hexdigest()


def write_out(data):
    sys.stdout.buffer.write(data)


def answer(value):
    data = zlib.compress(json.dumps(value).encode())
    write_out(json.dumps({"size": len(data)}).encode() + b"\n" + data)
    sys.stdout.buffer.flush()


def _explain(error):
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return disk_full(error.strerror)
    reason = "PERMISSION" if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS) else "INVALID"
    name = error.filename or ""
    return HostError(reason, "%s%s." % ("%s: " % name if name else "", error.strerror))


def main():
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
    requests = iter(sys.stdin.buffer.readline, b"")
    try:
        project = Project(json.loads(next(requests))["root"])
        with project.lock():
            for line in requests:
                request = json.loads(line)
                call = request.pop("call")
                value = getattr(project, call)(**request)
                if call == "send":
                    sys.stdout.buffer.flush()
                else:
                    answer(value)
                if project.ended:
                    return
    except BrokenPipeError:
        os._exit(1)  # no one reads, so Python's own flush would fail, too
    except HostError as error:
        write_out(json.dumps({"error": error.payload}).encode() + b"\n")
    except OSError as error:
        write_out(json.dumps({"error": _explain(error).payload}).encode() + b"\n")
