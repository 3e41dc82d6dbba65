"""One end of a copy of files and folders: the sender or the receiver. It runs on hosts, as an
argument of their Python, and in this process.

Standard library only, Python 3.8. The two ends exchange lines of JSON, and after ``{"data": n}``
n bytes of a file:

    sender    {"entries": [...]} …, {"listed": number}
    receiver  {"plan": …}: which files it needs, and from which byte on
    sender    {"file": number, "offset": n}, {"data": n} …, {"sha256": …} for each, {"sent": true}
    receiver  {"again": [...]}: files whose kept beginning was wrong, which are sent again
    receiver  {"result": …}

Each end may send {"error": …} instead, and ends. Nothing in the destination changes before the
plan. A file is written under another name (``.copy-…``), and renamed when it is whole and its hash
is right. What a broken copy leaves under that name is where the next copy of the same file goes on.
A folder that is new is written under such a name, too.

A receiver trusts nothing that the sender says: no path leads out of the destination, and no
symbolic link in it is followed.
"""

import errno
import hashlib
import json
import os
import stat
import subprocess
import sys
import tempfile
import time
from typing import Any, NamedTuple

CHUNK = 256 << 10
BATCH = 1000
#: How many names a message has at most.
NAMED = 100
#: Seconds between two reports of progress.
PACE = 0.2
#: Seconds for which the list of a copy is kept on a host.
KEPT = 86400
#: What is told of a failure.
FIELDS = ("code", "path", "message", "names", "count", "of_sender")
LISTS = b".cache/jupyter-tpu/copies"
#: A Python that gets this as an argument reads a program and its request from its input.
BOOT = (
    "import sys; i = sys.stdin.buffer; s = i.read(int(i.readline())); "
    "exec(compile(s, 'transfer', 'exec'), {'__name__': 'transfer', 'SOURCE': s})"
)
#: The program as text, for the next host. Set where it was read from the input.
SOURCE = globals().get("SOURCE", b"")


class Failure(Exception):
    """It ends a copy. code: errno's name (ENOTDIR: its folder does not exist), or EXISTS,
    IN_THE_WAY, SAME_NAME, LOST, PROTOCOL.
    """

    def __init__(self, code, path="", message="", names=(), count=0, of_sender=False):
        super().__init__(code, path, message)
        self.code = code
        self.path = path
        self.message = message
        self.names = list(names)
        self.count = count
        self.of_sender = of_sender


class Entry(NamedTuple):
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

    def tell(self, content=b"", **message):
        try:
            self._writer.write(json.dumps(message).encode() + b"\n" + content)
        except (OSError, ValueError):
            self._lost()

    def flush(self):
        try:
            self._writer.flush()
        except (OSError, ValueError):
            self._lost()

    def hear(self) -> "dict[str, Any]":
        self.flush()
        return self._next_message()

    def _next_message(self):
        try:
            line = self._reader.readline()
        except (OSError, ValueError):
            raise Failure("LOST") from None
        return message_of(line)

    def read(self, size):
        data = self._reader.read(size)
        if len(data) < size:
            raise Failure("LOST")
        return data

    def _lost(self):
        """It reads no more: it has said why, or the line is cut."""
        while True:
            self._next_message()


def message_of(line) -> "dict[str, Any]":
    """Raises the failure that it tells."""
    if not line.endswith(b"\n"):
        raise Failure("LOST")
    try:
        message = json.loads(line)
        error = message.get("error")
    except (ValueError, AttributeError):
        raise Failure("PROTOCOL") from None
    if error:
        raise Failure(**{name: error[name] for name in FIELDS if name in error})
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


# ---- the sender ----------------------------------------------------------------------------------


class Listing:
    """What is to be copied. ``tops``: where its roots are."""

    def __init__(self, tops):
        self.tops = tops
        self.entries = []
        self.problems = []

    def walk(self):
        """Lists what is there. A named link is followed, the links in a folder are copied."""
        for root, top in enumerate(self.tops):
            try:
                self._add(root, top, os.path.basename(os.path.abspath(top)), b"", os.stat(top))
            except OSError as error:
                found = failure(error, top)
                found.of_sender = True
                raise found from None
        return self

    def place(self, entry):
        top = self.tops[entry.root]
        return os.path.join(top, encoded(entry.path)) if entry.path else top

    def _add(self, root, place, name, path, found):
        kind = kind_of(found.st_mode)
        if not kind:
            self.problems.append([decoded(path or name), "SPECIAL", ""])
            return
        link = decoded(os.readlink(place)) if kind == "link" else ""
        self.entries.append(
            Entry(
                root,
                decoded(path),
                kind,
                stat.S_IMODE(found.st_mode) & 0o777,
                found.st_mtime_ns,
                found.st_size if kind == "file" else 0,
                link,
            )
        )
        if kind != "dir":
            return
        try:
            names = sorted(os.listdir(place))
        except OSError as error:
            self.problems.append(problem(error, path or name))
            return
        for each in names:
            below, inside = os.path.join(place, each), os.path.join(path, each)
            try:
                self._add(root, below, each, inside, os.lstat(below))
            except OSError as error:
                self.problems.append(problem(error, inside))


def send(peer, listing, report):
    """Sends what *listing* has; returns the receiver's result."""
    entries = listing.entries
    names = [decoded(os.path.basename(os.path.abspath(top))) for top in listing.tops]
    for start in range(0, len(entries), BATCH):
        peer.tell(entries=entries[start : start + BATCH])
    peer.tell(listed=len(entries), names=names, problems=listing.problems)
    plan = peer.hear()["plan"]
    report(plan["resumed"], plan["bytes"])
    needed = plan["needed"]
    while needed:
        for number, offset in needed:
            send_file(peer, listing, number, offset, report)
        peer.tell(sent=True)
        needed = [[number, 0] for number in peer.hear()["again"]]
    return peer.hear()["result"]


def send_file(peer, listing, number, offset, report):
    entry = listing.entries[number]
    peer.tell(file=number, offset=offset)
    digest = hashlib.sha256()
    at = 0
    try:
        # Opening a pipe would wait for its writer.
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        with os.fdopen(os.open(listing.place(entry), flags), "rb", 0) as file:
            while at < entry.size:
                stop = offset if at < offset else entry.size
                data = file.read(min(CHUNK, stop - at))
                if not data:
                    break
                digest.update(data)
                if at >= offset:
                    peer.tell(data, data=len(data))
                    report(len(data))
                at += len(data)
            now = os.fstat(file.fileno())
    except OSError as error:
        peer.tell(failed=problem(error, encoded(entry.path)))
        return
    # What has only grown is copied as it was.
    if at < entry.size or (now.st_size == entry.size and now.st_mtime_ns != entry.mtime):
        peer.tell(failed=[entry.path, "CHANGED", ""])
    else:
        peer.tell(sha256=digest.hexdigest())


# ---- the receiver --------------------------------------------------------------------------------


class Receiver:
    """Writes what the peer sends.

    destination: a path; or a list: where exactly each root has to be.
    list_id: under what name the list of what was copied is kept, for :func:`forward`; "" for none.
    """

    def __init__(self, peer, destination, overwrite, report, list_id=""):
        self._peer = peer
        self._destination = destination
        self._overwrite = overwrite
        self._report = report
        self._list_id = list_id
        self._entries = []
        self._names = []
        self._problems = []
        self._written = 0
        self._bytes = 0

    def receive(self):
        while "listed" not in (message := self._peer.hear()):
            self._entries += [Entry(*each) for each in message["entries"]]
        self._names, self._problems = message["names"], message["problems"]
        check(self._entries, self._names)
        self._targets = self._resolve()
        self._bases = [self._base(root) for root in range(len(self._targets))]
        self._remove_strangers()
        needed, unchanged, links = self._compare()
        self._make_folders()
        offsets = [[number, self._offset(self._entries[number])] for number in needed]
        resumed = sum(offset for _, offset in offsets)
        wanted = sum(self._entries[number].size for number in needed)
        self._check_space(wanted - resumed)
        self._peer.tell(
            plan={"needed": offsets, "bytes": wanted, "resumed": resumed, "unchanged": unchanged}
        )
        self._report(resumed, wanted)
        wrong: "list[int]" = []
        while needed:
            twice, wrong = wrong, self._receive_files(needed)
            needed = [each for each in wrong if each not in twice]
            self._problems += [
                [self._shown(self._entries[each]), "BROKEN", ""] for each in wrong if each in twice
            ]
            self._peer.tell(again=needed)
        for entry in links:
            self._make_link(entry)
        self._finish_folders()
        if self._list_id:
            save_list(self._list_id, self._targets, self._entries)
        result = {
            "files": self._written,
            "bytes": self._bytes,
            "unchanged": unchanged,
            "problems": self._problems[:NAMED],
            "problem_count": len(self._problems),
            "targets": [decoded(target) for target in self._targets],
        }
        self._peer.tell(result=result)
        self._peer.flush()
        return result

    # ---- where

    def _resolve(self):
        if isinstance(self._destination, list):
            targets = [from_home(path) for path in self._destination]
            for target in targets:
                self._check_parent(target)
            return targets
        destination = from_home(self._destination)
        if os.path.isdir(destination):
            if len(set(self._names)) < len(self._names) or not all(self._names):
                raise Failure("SAME_NAME", names=self._names)
            return [os.path.join(destination, encoded(name)) for name in self._names]
        if len(self._names) > 1 or self._destination.endswith("/"):
            raise Failure("ENOTDIR", self._destination.rstrip("/") + "/")
        self._check_parent(os.path.realpath(destination))
        return [os.path.realpath(destination)]

    def _check_parent(self, target):
        if not os.path.isdir(os.path.dirname(target)):
            raise Failure("ENOTDIR", decoded(target))

    def _base(self, root):
        """Where a root is written: at its target, unless it is a new folder."""
        target = self._targets[root]
        kind = next((e.kind for e in self._entries if e.root == root and not e.path), "")
        if kind == "dir" and not os.path.lexists(target):
            return part_name(target, self._names[root])
        if os.path.isdir(target) != (kind == "dir"):
            code = "EISDIR" if kind == "file" else "IN_THE_WAY"
            raise Failure(code, decoded(target))
        # The one that is named may be a link: what it leads to is written.
        return os.path.realpath(target)

    def _is_new(self, root):
        """Whether it is a folder that gets its name at the end: all in it is ours."""
        return self._bases[root] != os.path.realpath(self._targets[root])

    def _remove_strangers(self):
        """Deletes what an earlier copy left in a new folder, and this one does not have."""
        known = {}
        for entry in self._entries:
            known[self._place(entry)] = entry.kind
            known[self._part(entry)] = "file"
        for root, base in enumerate(self._bases):
            for folder, folders, files in os.walk(base, False) if self._is_new(root) else ():
                for name in folders + files:
                    path = os.path.join(folder, name)
                    kind = kind_of(os.lstat(path).st_mode)
                    if known.get(path) == kind:
                        continue
                    (os.rmdir if kind == "dir" else os.unlink)(path)

    def _place(self, entry):
        base = self._bases[entry.root]
        return os.path.join(base, encoded(entry.path)) if entry.path else base

    def _part(self, entry):
        return part_name(self._place(entry), f"{entry.size} {entry.mtime}")

    def _offset(self, entry):
        try:
            found = os.lstat(self._part(entry))
        except OSError:
            return 0
        return found.st_size if stat.S_ISREG(found.st_mode) and found.st_size <= entry.size else 0

    # ---- what is there

    def _compare(self):
        needed, links, conflicts = [], [], []
        unchanged = 0
        for number, entry in enumerate(self._entries):
            place = self._place(entry)
            try:
                found = os.lstat(place)
            except FileNotFoundError:
                found = None
            except OSError as error:
                raise failure(error, place) from None
            is_folder = found is not None and stat.S_ISDIR(found.st_mode)
            if found is not None and is_folder != (entry.kind == "dir"):
                raise Failure("EISDIR" if is_folder else "IN_THE_WAY", decoded(place))
            if entry.kind == "dir":
                continue
            if found is not None and same(entry, found, place):
                unchanged += 1
                continue
            if found is not None and not self._is_new(entry.root):
                conflicts.append(self._shown(entry))
            if entry.kind == "file":
                needed.append(number)
            else:
                links.append(entry)
        if conflicts and not self._overwrite:
            raise Failure("EXISTS", names=conflicts[:NAMED], count=len(conflicts))
        return needed, unchanged, links

    def _shown(self, entry):
        """A name for a person."""
        target = decoded(self._targets[entry.root])
        return f"{target}/{entry.path}" if entry.path else target

    def _check_space(self, size):
        for base in self._bases:
            if not hasattr(os, "statvfs"):
                return
            disk = os.statvfs(os.path.dirname(base))
            if disk.f_blocks and size > disk.f_bavail * disk.f_frsize:
                raise Failure("ENOSPC", decoded(base))

    # ---- writing

    def _make_folders(self):
        for entry in self._entries:
            if entry.kind == "dir":
                place = self._place(entry)
                try:
                    if not os.path.lexists(place):
                        os.mkdir(place, 0o700)
                except OSError as error:
                    raise failure(error, place) from None

    def _receive_files(self, needed):
        """Receives files; returns those whose kept beginning was wrong."""
        again = []
        expected = set(needed)
        while "sent" not in (message := self._peer.hear()):
            number = message["file"]
            if number not in expected:
                raise Failure("PROTOCOL")
            expected.discard(number)
            if not self._receive_file(self._entries[number], message["offset"]):
                again.append(number)
        return again

    def _receive_file(self, entry, offset):
        """False: its hash is wrong."""
        part = self._part(entry)
        file, why = None, None
        digest = hashlib.sha256()
        try:
            flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
            if not offset and os.path.lexists(part):
                os.unlink(part)
            handle = os.open(part, flags | getattr(os, "O_BINARY", 0), 0o600)
            file = os.fdopen(handle, "r+b", 0)
            left = offset
            while left:
                data = file.read(min(CHUNK, left))
                if not data:
                    break
                digest.update(data)
                left -= len(data)
        except OSError as error:
            why = problem(error, encoded(self._shown(entry)))
        try:
            size = offset
            while "data" in (message := self._peer.hear()):
                data = self._peer.read(message["data"])
                size += len(data)
                if size > entry.size:
                    raise Failure("PROTOCOL")
                if file is None or why:
                    continue
                self._report(len(data))
                digest.update(data)
                self._write(file, data, part)
        finally:
            if file is not None:
                file.close()
        if why or "failed" in message:
            self._problems.append(why or [self._shown(entry), *message["failed"][1:]])
            if file is not None:
                os.unlink(part)
            return True
        if message["sha256"] != digest.hexdigest():
            os.unlink(part)
            return False
        try:
            self._put_in_place(part, entry)
        except OSError as error:
            self._problems.append(problem(error, encoded(self._shown(entry))))
        else:
            self._written += 1
            self._bytes += entry.size
        return True

    def _write(self, file, data, part):
        try:
            view = memoryview(data)
            while view:
                view = view[file.write(view) :]
        except OSError as error:
            if error.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", None)):
                os.unlink(part)  # it would keep the disk full
            raise failure(error, part) from None

    def _put_in_place(self, part, entry):
        os.chmod(part, entry.mode)
        os.utime(part, ns=(entry.mtime, entry.mtime))
        self._rename(part, entry)

    def _rename(self, part, entry):
        if self._overwrite or self._is_new(entry.root):
            os.replace(part, self._place(entry))
        else:
            move_new(part, self._place(entry))

    def _make_link(self, entry):
        part = self._part(entry)
        try:
            if os.path.lexists(part):
                os.unlink(part)
            os.symlink(encoded(entry.link), part)
            self._rename(part, entry)
        except OSError as error:
            self._problems.append(problem(error, encoded(self._shown(entry))))

    def _finish_folders(self):
        """Their modes and times, from below, and the names of those that are new."""
        for entry in reversed(self._entries):
            if entry.kind != "dir":
                continue
            place = self._place(entry)
            try:
                os.chmod(place, entry.mode)
                os.utime(place, ns=(entry.mtime, entry.mtime))
            except OSError as error:
                self._problems.append(problem(error, encoded(self._shown(entry))))
        for root, base in enumerate(self._bases):
            if self._is_new(root):
                os.rename(base, self._targets[root])


def check(entries, names):
    """Raises PROTOCOL for what could lead out of the destination."""
    seen, folders = set(), set()
    foreign = {"\0", "\\", ":"} if os.sep != "/" else {"\0"}
    for entry in entries:
        parts = entry.path.split("/") if entry.path else []
        place = (entry.root, entry.path)
        if (
            not 0 <= entry.root < len(names)
            or {"", ".", ".."} & set(parts)
            or foreign & set(entry.path)
            or place in seen
            # Each folder is compared with what is there, so it is none that a link leads to.
            or (parts and (entry.root, "/".join(parts[:-1])) not in folders)
        ):
            raise Failure("PROTOCOL")
        seen.add(place)
        if entry.kind == "dir":
            folders.add(place)
    for name in names:
        if name in (".", "..") or ({"/"} | foreign) & set(name):
            raise Failure("PROTOCOL")


def same(entry, found, place):
    """Whether what is there is the entry, by its size and time, as rsync compares."""
    if entry.kind == "link":
        return stat.S_ISLNK(found.st_mode) and os.readlink(place) == encoded(entry.link)
    coarse = found.st_mtime_ns % 10**9 == 0  # some file systems keep whole seconds
    unit = 10**9 if coarse else 1
    return (
        stat.S_ISREG(found.st_mode)
        and found.st_size == entry.size
        and found.st_mtime_ns // unit == entry.mtime // unit
    )


def part_name(place, what):
    """The name under which a file is written, the same for each copy of the same file."""
    folder, name = os.path.split(place)
    key = hashlib.sha256(name + b"\0" + encoded(what)).hexdigest()[:16]
    return os.path.join(folder, b".copy-" + key.encode())


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


def problem(error, path):
    path = path if isinstance(path, bytes) else encoded(path)
    code = errno.errorcode.get(error.errno or 0, "")
    return [decoded(path), "EXISTS" if code == "EEXIST" else code, error.strerror or ""]


def failure(error, path):
    shown, code, message = problem(error, path)
    return Failure(code, shown, message)


# ---- from host to host ---------------------------------------------------------------------------


def list_path(list_id):
    return os.path.join(os.path.expanduser(b"~"), LISTS, os.path.basename(encoded(list_id)))


def save_list(list_id, tops, entries):
    path = list_path(list_id)
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(json.dumps([[decoded(top) for top in tops], entries]).encode())


def load_list(list_id):
    with open(list_path(list_id), "rb") as file:
        tops, entries = json.loads(file.read())
    listing = Listing([encoded(top) for top in tops])
    listing.entries = [Entry(*each) for each in entries]
    return listing


def forget(list_id):
    """Deletes the list of a copy, and those that were left."""
    folder = os.path.dirname(list_path(list_id))
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        path = os.path.join(folder, name)
        try:
            if path == list_path(list_id) or os.stat(path).st_mtime < time.time() - KEPT:
                os.unlink(path)
        except FileNotFoundError:
            pass


def forward(list_id, targets, command, overwrite, report):
    """Sends what a list has to another host, whose Python *command* starts."""
    listing = load_list(list_id)
    request = {
        "call": "receive",
        "destination": targets,
        "overwrite": overwrite,
        "list_id": list_id,
    }
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
        )
        try:
            assert process.stdin is not None
            try:
                process.stdin.write(start(SOURCE, request))
            except OSError:
                raise Failure("LOST") from None
            return send(Peer(process.stdout, process.stdin), listing, report)
        except Failure as error:
            if error.code == "LOST":
                process.wait()
                errors.seek(0)
                lines = errors.read().decode("utf-8", "replace").strip().splitlines()
                error.message = lines[-1] if lines else ""
            raise
        finally:
            process.kill()
            process.wait()


def start(source, request):
    """What a Python that runs BOOT reads."""
    return b"%d\n%s%s\n" % (len(source), source, json.dumps(request).encode())


class Reports:
    """Tells the number of bytes that were copied, not too often."""

    def __init__(self, tell):
        self._tell = tell
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
            self._tell(self._done, self._total)


def main():
    reader, writer = sys.stdin.buffer, sys.stdout.buffer
    request = json.loads(reader.readline())
    call = request.pop("call")
    peer = Peer(reader, writer)
    try:
        if call == "receive":
            Receiver(peer, report=lambda *_: None, **request).receive()
        elif call == "send":
            listing = Listing([from_home(path) for path in request["sources"]]).walk()
            send(peer, listing, lambda *_: None)
        elif call == "list":
            listing = Listing([from_home(path) for path in request["sources"]]).walk()
            save_list(request["list_id"], listing.tops, listing.entries)
            peer.tell(result={"targets": [decoded(top) for top in listing.tops]})
        elif call == "forward":

            def tell(done, total):
                peer.tell(done=done, total=total)
                peer.flush()

            peer.tell(result=forward(report=Reports(tell), **request))
        elif call == "forget":
            forget(request["list_id"])
            peer.tell(result={})
        peer.flush()
    except (Failure, OSError) as error:
        found = error if isinstance(error, Failure) else failure(error, error.filename or b"")
        try:
            peer.tell(error=vars(found))
            peer.flush()
        except Failure:
            os._exit(1)  # nobody reads, so Python's own flush would fail, too


if __name__ == "transfer":
    main()
