"""The end that has the files, and the lists of what copies brought here, for the next host."""

import json
import os
import stat
import time

from .. import contents
from ..messages import (
    MOST_NAMES,
    decoded,
    encoded,
    failure,
    problem,
)
from .entries import CopyEntry, checked_numbers, kind_of

#: Entries in a message, and the characters of their names.
BATCH_ENTRIES, BATCH_CHARACTERS = 1000, 256 << 10
#: Bytes per second below which a line is slow, bytes by which that is measured, and those before
#: that may only have filled buffers on the way.
SLOW_BYTES_PER_SECOND, MEASURED_BYTES, BUFFERED_BYTES = 2_500_000, 2 << 20, 4 << 20


class Listing:
    """What is to be copied. ``tops``: where its roots are.

    leaves_out(root, path, is_folder): whether that is not listed; *path* is below a root.
    """

    def __init__(self, tops, leaves_out=lambda root, path, is_folder: False):
        self.tops = tops
        self._leaves_out = leaves_out
        self.entries = []
        self.problems = []

    def walk(self):
        """Lists what is there. A named link is followed, the links in a folder are copied."""
        for root, top in enumerate(self.tops):
            try:
                self._add(root, top, os.path.basename(os.path.abspath(top)), b"", os.stat(top))
            except OSError as error:
                copy_problem = failure(error, top)
                copy_problem.of_sender = True
                raise copy_problem from None
        return self

    def path_of(self, entry):
        top = self.tops[entry.root]
        return os.path.join(top, encoded(entry.path)) if entry.path else top

    def _add(self, root, source, name, path, info):
        kind = kind_of(info.st_mode)
        if not kind:
            self.problems.append([decoded(path or name), "SPECIAL", ""])
            return
        link = decoded(os.readlink(source)) if kind == "link" else ""
        self.entries.append(
            CopyEntry(
                root,
                decoded(path),
                kind,
                stat.S_IMODE(info.st_mode) & 0o777,
                info.st_mtime_ns,
                info.st_size if kind == "file" else 0,
                link,
            )
        )
        if kind != "dir":
            return
        try:
            names = sorted(os.listdir(source))
        except OSError as error:
            self.problems.append(problem(error, path or name))
            return
        for entry in names:
            below, inside = os.path.join(source, entry), os.path.join(path, entry)
            try:
                info = os.lstat(below)
                if not self._leaves_out(root, decoded(inside), stat.S_ISDIR(info.st_mode)):
                    self._add(root, below, entry, inside, info)
            except OSError as error:
                self.problems.append(problem(error, inside))


def send(peer, listing, report):
    """Sends what *listing* has; returns the receiver's result."""
    entries = listing.entries
    names = [decoded(os.path.basename(os.path.abspath(top))) for top in listing.tops]
    for batch in batches(entries):
        peer.send(entries=batch)
    problems = listing.problems
    peer.send(
        listed=len(entries),
        names=names,
        problems=problems[:MOST_NAMES],
        problem_count=len(problems),
    )
    plan = peer.receive(files=len(entries))["plan"]
    needed = checked_numbers(plan["needed"], entries)
    old = {int(number): contents.checked_signature(told) for number, told in plan["old"].items()}
    report(sum(offset for _, offset in needed), sum(entries[number].size for number, _ in needed))
    if needed:
        _send_files(peer, listing, needed, _Pace(peer, report), old)
        again = peer.receive(files=len(entries))["again"]
        if again:  # what the receiver had of it was wrong
            needed = checked_numbers([[number, 0] for number in again], entries)
            _send_files(peer, listing, needed, report, {})
    return peer.receive()["result"]


def _send_files(peer, listing, needed, report, old):
    for number, offset in needed:
        send_file(peer, listing, number, offset, report, old.get(number))
    peer.send_end()


class _Pace:
    """Compresses what is sent over a line that is slow. On a fast one it costs more than it saves.

    report: is called with all bytes, too.
    """

    def __init__(self, peer, report):
        self._peer = peer
        self._report = report
        self._bytes = 0
        self._begin = None

    def __call__(self, size):
        self._report(size)
        self._bytes += size
        if self._bytes < BUFFERED_BYTES:
            return
        now = time.monotonic()
        if self._begin is None:
            self._begin = now, self._bytes
        begun, before = self._begin
        measured = self._bytes - before
        if measured >= MEASURED_BYTES:
            if measured < SLOW_BYTES_PER_SECOND * (now - begun):
                self._peer.compress()
            self._begin = None


def batches(entries):
    batch, size = [], 0
    for entry in entries:
        batch.append(entry)
        size += len(entry.path) + len(entry.link)
        if len(batch) == BATCH_ENTRIES or size > BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def send_file(peer, listing, number, offset, report, old=None):
    """old: the signature of the file that the receiver has."""
    entry = listing.entries[number]
    contents.send_file(
        peer,
        number,
        listing.path_of(entry),
        entry.size,
        report,
        offset,
        old,
        mtime=entry.mtime,
        name=entry.path,
        follow=not entry.path,
    )


FOLDER = b".cache/jupyter-tpu/copies"
#: Seconds for which a list is kept.
KEPT_LIST_SECONDS = 86400


def list_path(list_id):
    return os.path.join(os.path.expanduser(b"~"), FOLDER, os.path.basename(encoded(list_id)))


def save_list(list_id, tops, entries):
    path = list_path(list_id)
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(json.dumps([[decoded(top) for top in tops], entries]).encode())


def load_list(list_id):
    with open(list_path(list_id), "rb") as file:
        tops, entries = json.loads(file.read())
    listing = Listing([encoded(top) for top in tops])
    listing.entries = [CopyEntry(*entry) for entry in entries]
    return listing


def forget(list_id):
    """Deletes the list of a copy, and those that were left."""
    folder = os.path.dirname(list_path(list_id))
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        path = os.path.join(folder, name)
        try:
            if (
                path == list_path(list_id)
                or os.stat(path).st_mtime < time.time() - KEPT_LIST_SECONDS
            ):
                os.unlink(path)
        except FileNotFoundError:
            pass
