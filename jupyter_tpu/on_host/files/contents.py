"""The content of a file: sent by one end, received by the other.

    {"file": number, "offset": n}    which file, and from which byte on
    {"data": n}                      n bytes of it follow
    {"old": [offset, n]}             n bytes of the file that the receiver has there now
    {"hash": …}                      the end; SHA-256, or "" if the receiver knows the hash
    {"failed": [path, code, message]}    the end of what could not be read as it was listed

Of a large file only the changed parts are sent, if the receiver has told its `signature`.
"""

import contextlib
import hashlib
import os

from .messages import (
    CHUNK_BYTES,
    TransferFailure,
    checked_problem,
    encoded,
    problem,
    protocol_error,
)
from .part_file import FULL, PartFile, is_own_file, new_digest, part_name

#: From this size on only the changed parts of a file are sent, and a part of it is kept.
DELTA_FROM = 1 << 20
#: Bytes of which a signature has one hash, and how many it has at most: then they are larger.
_BLOCK_BYTES, _MOST_BLOCKS = 64 << 10, 4096
#: Blocks in a row that are other; from then on one in so many is compared.
_MOST_MISSES = 16
#: About how many blocks a message has the hashes of; two for each.
_SIGNED_BLOCKS = 20_000


class NotReceived(Exception):
    """One file, others continue. code: an errno's name, CHANGED (while it was read) or WRONG (its
    hash). of_sender: who said so.
    """

    def __init__(self, problem, of_sender=False):
        super().__init__(problem)
        _, self.code, self.message = problem
        self.of_sender = of_sender


# ---- signatures


def block_size(size):
    """Bytes of a block in the signature of a file of *size* bytes."""
    block = _BLOCK_BYTES
    while size // block > _MOST_BLOCKS:
        block *= 2
    return block


def signature(path, new_size=None):
    """The hashes of a file's blocks, counted from its beginning and, unless its new size is the
    same, from its end; None where it is small or can't be read.
    """
    try:
        with open_file(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size < DELTA_FROM:
                return None
            block = block_size(size)
            ends = range(size, block - 1, -block) if size != new_size else ()
            return {
                "size": size,
                "head": [_hash(file, at, block) for at in range(0, size - block + 1, block)],
                "tail": [_hash(file, end - block, block) for end in ends],
            }
    except OSError:
        return None


def signatures(files):
    """{key: signature} of large files for {key: (path, new size)}, as far as a message has room."""
    signed: dict = {}
    blocks = 0
    for key, (path, size) in files.items():
        old = signature(path, size) if blocks < _SIGNED_BLOCKS else None
        if old is not None:
            blocks += len(old["head"])
            signed[key] = old
    return signed


def checked_signature(old):
    """A signature that another machine has told. Raises PROTOCOL."""
    try:
        size, head, tail = old["size"], old["head"], old["tail"]
        good = type(size) is int and 0 <= size < 1 << 62
        good = good and len(head) == size // block_size(size) and len(tail) in (0, len(head))
        good = good and all(isinstance(text, str) for text in [*head, *tail])
    except (LookupError, TypeError):
        good = False
    if not good:
        raise protocol_error("a signature with other blocks than its file")
    return {"size": size, "head": head, "tail": tail}


def _hash(file, offset, length):
    digest = new_digest()
    file.seek(offset)
    digest.update(file.read(length))
    return digest.hexdigest()


def _changes(file, size, old):
    """The parts of a file: (offset, length, where they are in the *old* one, or None)."""
    block = block_size(old["size"])
    shift = old["size"] - size

    def is_same(offset, hashes, distance):
        """Whether the block at *offset* is the old one at that distance from its end."""
        number, rest = divmod(distance, block)
        if rest or number >= len(hashes):
            return False
        return _hash(file, offset, block) == hashes[number]

    start, end = 0, size
    while end >= block and is_same(end - block, old["tail"], size - end):
        end -= block
    while start + block <= end and is_same(start, old["head"], start):
        start += block
    if start:
        yield 0, start, 0
    misses = 0
    while start < end:
        length = min(block, end - start)
        # Where all is other, few blocks are compared.
        compares = misses < _MOST_MISSES or start // block % _MOST_MISSES == 0
        misses = 0 if compares and is_same(start, old["head"], start) else misses + 1
        yield start, length, None if misses else start
        start += length
    if end < size:
        yield end, size - end, end + shift


# ---- sending


def open_file(path, follow=False):
    """A regular file, or what has replaced it, for reading."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    if not follow:
        flags |= getattr(os, "O_NOFOLLOW", 0)
    return os.fdopen(os.open(path, flags), "rb", 0)


def send_file(
    peer, number, path, size, report, offset=0, old=None, mtime=None, name="", follow=False
):
    """Sends *size* bytes of a file from *offset* on; or what is other than in the signature *old*.

    mtime: when it was changed, in nanoseconds; None: the receiver knows its hash. name: for a
    person. follow: whether it may be a symbolic link. report(n): called for n bytes.
    """
    peer.send(file=number, offset=offset)
    digest = None if mtime is None else hashlib.sha256()
    at = 0
    try:
        with open_file(path, follow) as file:
            if digest is not None:
                # What is not sent is a part of the hash, too.
                for data in _read(file, 0, size if old else offset):
                    digest.update(data)
            if old:
                at = _send_changes(peer, file, size, old, report)
            else:
                at = offset
                for data in _read(file, offset, size):
                    if digest is not None:
                        digest.update(data)
                    peer.send(data, data=len(data))
                    report(len(data))
                    at += len(data)
            now = os.fstat(file.fileno())
    except OSError as error:
        peer.send(failed=problem(error, encoded(name)))
        return
    # What has only grown is sent as it was.
    changed = digest is not None and now.st_size == size and now.st_mtime_ns != mtime
    if changed or at < size:
        peer.send(failed=[name, "CHANGED", ""])
    else:
        peer.send(hash=digest.hexdigest() if digest else "")


def _read(file, start, end):
    file.seek(start)
    while start < end:
        data = file.read(min(CHUNK_BYTES, end - start))
        if not data:
            return
        start += len(data)
        yield data


def _send_changes(peer, file, size, old, report):
    """Returns where it has ended."""
    at = 0
    for offset, length, where in _changes(file, min(size, os.fstat(file.fileno()).st_size), old):
        if where is not None:
            peer.send(old=[where, length])
            report(length)
        else:
            for data in _read(file, offset, offset + length):
                peer.send(data, data=len(data))
                report(len(data))
        at += length
    return at


# ---- receiving


def kept_size(folder, name, what, size):
    """How many bytes of a file an earlier transfer has left in *folder*."""
    try:
        info = os.lstat(os.path.join(folder, part_name(name, what)))
    except OSError:
        return 0
    return info.st_size if is_own_file(info) and info.st_size <= size else 0


@contextlib.contextmanager
def received(peer, top, path, what, size, report, offset=0, known="", make=False, mode=0o600):
    """Receives a file that goes to *path* below the `Folder` *top*: (folder, name, `PartFile`) when
    it is whole. What is within places it; else it is discarded.

    Parameters
    ----------
    what: names this content of it, for a transfer that continues.
    known: its hash; "": the sender tells it.
    make: makes the folders above it that are missing.
    mode: its rights while it is written, if there is no such file yet.

    Raises `NotReceived` when all of it was read, and OSError for a full disk. What is kept when the
    connection is lost is for `kept_size`, if it is large.
    """
    below, name = os.path.split(path)
    with contextlib.ExitStack() as stack:
        file = why = None
        try:
            folder = stack.enter_context(top.below(below, make))
            private = folder.mode_of(name) is not None
            digest = new_digest() if known else hashlib.sha256()
            part = part_name(name, what)
            file = PartFile(folder, part, digest, offset, 0o600 if private else mode)
        except OSError as error:
            why = error
        keep = False
        try:
            end, unwritten = _receive_parts(peer, size, offset, report, file, name)
            why = why or unwritten
            if file is None or why is not None:
                raise NotReceived(problem(why, b""))
            if "failed" in end:
                raise NotReceived(checked_problem(end["failed"]), of_sender=True)
            if file.digest.hexdigest() != (known or end["hash"]):
                raise NotReceived(["", "WRONG", ""])
            yield folder, name, file
        except (TransferFailure, SystemExit) as error:
            lost = isinstance(error, SystemExit) or error.code == "LOST"
            keep = lost and size >= DELTA_FROM
            raise
        finally:
            if file is not None and keep:
                file.close()
            elif file is not None:
                file.discard()


def skip_file(peer, size, offset, report):
    """Reads what comes of a file, for nothing."""
    _receive_parts(peer, size, offset, report)


def _receive_parts(peer, size, offset, report, file=None, name=b""):
    """Fills *file*, if it is one. Returns the end's message, and why it could not be written.

    Raises OSError for a full disk.
    """
    why = None
    while True:
        message = peer.receive()
        old = message.get("old")
        if "data" in message:
            data = peer.read(message["data"])
            length = len(data)
        elif old is not None:
            at, length = old
            if not (type(at) is type(length) is int and at >= 0 and length > 0):
                raise protocol_error("a part of a file that no sender makes")
        else:
            return message, why
        offset += length
        if offset > size:
            raise protocol_error("it has more than was asked for")
        report(length)
        if file is None or why is not None:
            continue
        try:
            if old is None:
                file.write(data)
            else:
                file.write_old(name, at, length)
        except OSError as error:
            if error.errno in FULL:
                raise
            why = error
