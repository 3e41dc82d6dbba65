"""Changes of files as a stream of bytes: written on one machine, carried out on another.

A change has ``path``, ``state`` (the new one; null: it is deleted), ``size``, and ``expected`` (the
old state, which is checked right before; null: nothing is there). Who sends to a host announces
each change in a line of JSON. A host that sends only has the content: which files it is for, the
receiver knows, because it asked for them. A file's content comes in parts: ``D`` and data, ``C``
and a range of the old file to copy, ``E`` at its end.
"""

import contextlib
import errno
import hashlib
import json
import os
import secrets
import stat
import struct

from .tree import CHUNK, is_inside, is_safe, state_of

#: From this size on only the changed parts of a file are sent.
DELTA_FROM = 1 << 20
#: Bytes of which a signature has one hash.
BLOCK = 64 << 10
_DATA, _COPY = struct.Struct(">I"), struct.Struct(">QQ")
_PREFIX = ".jupyter-tpu-"


class Changed(Exception):
    """The file is not what was expected; or another one, while it was sent."""


# ---- writing it ----------------------------------------------------------------------------------


def pack(root, changes):
    """Yields the stream of *changes*: dicts of path, state, size, expected, and signature (or
    none).
    """
    for change in changes:
        line = {key: change[key] for key in ("path", "state", "size", "expected")}
        yield json.dumps(line).encode() + b"\n"
        yield from contents(root, [change])


def contents(root, changes):
    """As :func:`pack`, without saying what they are for."""
    for change in changes:
        if has_content(change["state"]):
            path = os.path.join(root, change["path"])
            yield from _content(path, change["size"], change.get("signature"))
            yield b"E"


def has_content(state):
    return state is not None and state.startswith(("file ", "program "))


def _content(path, size, signature):
    """What is read may not be what was announced, or less: the receiver checks the hash."""
    try:
        file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW), "rb")
    except OSError:
        return
    with file:
        size = min(size, os.fstat(file.fileno()).st_size)
        start, end = 0, size
        if signature:
            shift = signature["size"] - size
            while end - BLOCK >= 0 and _same(file, end - BLOCK, signature["tail"], size - end):
                end -= BLOCK
            while start + BLOCK <= end and _same(file, start, signature["head"], start):
                start += BLOCK
            if start:
                yield b"C" + _COPY.pack(0, start)
        while start < end:
            if signature and _same(file, start, signature["head"], start):
                length = min(BLOCK, end - start)
                yield b"C" + _COPY.pack(start, length)
                start += length
                continue
            file.seek(start)
            data = file.read(min(BLOCK if signature else CHUNK, end - start))
            if not data:
                return
            yield b"D" + _DATA.pack(len(data)) + data
            start += len(data)
        if end < size:
            yield b"C" + _COPY.pack(end + shift, size - end)


def _same(file, offset, hashes, index):
    """Whether the block at *offset* is the old one with that distance from the beginning or end."""
    number = index // BLOCK
    if index % BLOCK or number >= len(hashes):
        return False
    file.seek(offset)
    return _hash(file.read(BLOCK)) == hashes[number]


def signature(root, path):
    """The hashes of an old file's blocks, counted from its beginning and from its end.

    None where the file is small or not there.
    """
    try:
        with open(os.path.join(root, path), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size < DELTA_FROM:
                return None
            head = [_hash(file.read(BLOCK)) for _ in range(size // BLOCK)]
            tail = []
            for end in range(size, BLOCK - 1, -BLOCK):
                file.seek(end - BLOCK)
                tail.append(_hash(file.read(BLOCK)))
        return {"size": size, "head": head, "tail": tail}
    except OSError:
        return None


def _hash(data):
    return hashlib.blake2b(data, digest_size=16).hexdigest()


# ---- carrying it out -----------------------------------------------------------------------------


def announced(reader, count):
    """The next *count* changes, as a sender's lines have them."""
    for _ in range(count):
        yield json.loads(reader.line())


def receive(root, reader, changes):
    """Carries out *changes*; yields for each why it was not, or None.

    reader: has ``exactly(size)``, which raises EOFError when the stream ends early.
    Raises OSError when the disk is full, ValueError for what is not a stream; nothing is left of
    the file whose content was not whole.
    """
    for change in changes:
        try:
            _carry_out(root, reader, change)
            yield None
        except Changed as changed:
            yield str(changed)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise
            yield error.strerror or str(error)


def _carry_out(root, reader, change):
    path, state, expected = change["path"], change["state"], change["expected"]
    parts = _parts(reader, change["size"]) if has_content(state) else iter(())
    target = state[5:] if state and state.startswith("link ") else None
    try:
        if not is_safe(path) or (target is not None and not is_inside(path, target)):
            raise Changed("it is not below the folder")
        folder, name = os.path.split(path)
        if state is None:
            if _delete(root, folder, name, expected):
                _remove_empty(root, folder)
            return
        with _opened(root, folder, make=True) as opened:
            _write(opened, name, parts, state, target, expected)
    finally:
        for _ in parts:  # to their end, whatever has failed
            pass


def _delete(root, folder, name, expected):
    """Whether there was something to delete."""
    try:
        with _opened(root, folder) as opened:
            _check(opened, name, expected)
            if expected is not None:
                os.unlink(name, dir_fd=opened)
    except FileNotFoundError:
        if expected is not None:
            raise Changed("it has changed in the meantime") from None
    return expected is not None


def _write(folder, name, parts, state, target, expected):
    """Gives what has a *name* in the open *folder* a new *state*, in one step."""
    part = _PREFIX + secrets.token_hex(8)
    try:
        if target is not None:
            os.symlink(target, part, dir_fd=folder)
        else:
            old = _mode_of(folder, name)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            handle = os.open(part, flags, 0o666 if old is None else 0o600, dir_fd=folder)
            with os.fdopen(handle, "wb") as file:
                _fill(file, parts, folder, name, state)
                _set_mode(handle, old, state)
        _check(folder, name, expected)
        os.replace(part, name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part, dir_fd=folder)


def _check(folder, name, expected):
    if state_of(folder, name) != expected:
        raise Changed("it has changed in the meantime")


def _fill(file, parts, folder, name, state):
    digest = hashlib.blake2b(digest_size=16)
    for new, offset, length in parts:
        for data in (new,) if length is None else _read_old(folder, name, offset, length):
            digest.update(data)
            file.write(data)
    file.flush()
    if digest.hexdigest() != state.split(" ")[1]:
        raise Changed("it was changed while it was sent")


def _parts(reader, size):
    """(data, None, None) or (None, offset, length) for each part of a file of *size* bytes."""
    while True:
        kind = reader.exactly(1)
        if kind == b"E":
            return
        if kind == b"D":
            offset, length = None, _DATA.unpack(reader.exactly(_DATA.size))[0]
        elif kind == b"C":
            offset, length = _COPY.unpack(reader.exactly(_COPY.size))
        else:
            raise ValueError("it has a part that is not known")
        size -= length
        if not length or size < 0 or (offset is None and length > CHUNK):
            raise ValueError("it has more than was asked for")
        if offset is None:
            yield reader.exactly(length), None, None
        else:
            yield None, offset, length


def _read_old(folder, name, offset, length):
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW
    with os.fdopen(os.open(name, flags, dir_fd=folder), "rb") as file:
        file.seek(offset)
        while length > 0:
            data = file.read(min(CHUNK, length))
            if not data:
                return  # it has become shorter, which the hash will show
            yield data
            length -= len(data)


def _mode_of(folder, name):
    """The rights of the regular file that has the name, if there is one."""
    with contextlib.suppress(FileNotFoundError):
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        return mode & 0o777 if stat.S_ISREG(mode) else None


def _set_mode(handle, old, state):
    """The mode that the old file has, or a new one gets; executable as *state* says."""
    mode = os.fstat(handle).st_mode & 0o777 if old is None else old
    if state.startswith("program "):
        mode |= (mode & 0o444) >> 2
    else:
        mode &= ~0o111
    os.fchmod(handle, mode)


@contextlib.contextmanager
def _opened(root, folder, make=False):
    """*folder* below *root*, open, so that nobody can replace a part of it by a link meanwhile.

    make: makes what is missing of it. Raises OSError where a part of it is a link.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY
    handle = os.open(root, flags)
    try:
        for name in folder.split("/") if folder else ():
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, dir_fd=handle)
            try:
                below = os.open(name, flags | os.O_NOFOLLOW, dir_fd=handle)
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.ENOTDIR):
                    raise OSError(error.errno, "its folder is a link or a file there") from None
                raise
            os.close(handle)
            handle = below
        yield handle
    finally:
        os.close(handle)


def _remove_empty(root, folder):
    while folder:
        try:
            os.rmdir(os.path.join(root, folder))
        except OSError:
            return
        folder = os.path.dirname(folder)
