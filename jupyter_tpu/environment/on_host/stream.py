"""Changes of files as a stream of bytes: written on one machine, carried out on another.

For each change a line of JSON: ``path``, ``state`` (the new one; null: it is deleted) and
``expected`` (the old one, which is checked right before; null: nothing is there). A file's content
follows in parts: ``D`` and data, ``C`` and a range of the old file to copy, ``E`` at its end.
"""

import errno
import hashlib
import json
import os
import stat
import struct
import tempfile

from .tree import CHUNK, is_inside, is_safe, state_of

#: From this size on only the changed parts of a file are sent.
DELTA_FROM = 1 << 20
_BLOCK = 64 << 10
_DATA, _COPY = struct.Struct(">I"), struct.Struct(">QQ")
_PREFIX = ".jupyter-tpu-"


class Changed(Exception):
    """The file is not what was expected; or another one, while it was sent."""


# ---- writing it ----------------------------------------------------------------------------------


def pack(root, changes):
    """Yields the stream of *changes*: dicts of path, state, expected, and signature (or none)."""
    for change in changes:
        line = {key: change[key] for key in ("path", "state", "expected")}
        yield json.dumps(line).encode() + b"\n"
        if has_content(change["state"]):
            yield from _content(os.path.join(root, change["path"]), change.get("signature"))
            yield b"E"


def has_content(state):
    return state is not None and state.startswith(("file ", "program "))


def _content(path, signature):
    """What is read may not be what was announced, or less: the receiver checks the hash."""
    try:
        file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW), "rb")
    except OSError:
        return
    with file:
        size = os.fstat(file.fileno()).st_size
        start, end = 0, size
        if signature:
            shift = signature["size"] - size
            while end - _BLOCK >= 0 and _same(file, end - _BLOCK, signature["tail"], size - end):
                end -= _BLOCK
            while start + _BLOCK <= end and _same(file, start, signature["head"], start):
                start += _BLOCK
            if start:
                yield b"C" + _COPY.pack(0, start)
        while start < end:
            if signature and _same(file, start, signature["head"], start):
                length = min(_BLOCK, end - start)
                yield b"C" + _COPY.pack(start, length)
                start += length
                continue
            file.seek(start)
            data = file.read(min(_BLOCK if signature else CHUNK, end - start))
            if not data:
                return
            yield b"D" + _DATA.pack(len(data)) + data
            start += len(data)
        if end < size:
            yield b"C" + _COPY.pack(end + shift, size - end)


def _same(file, offset, hashes, index):
    """Whether the block at *offset* is the old one with that distance from the beginning or end."""
    number = index // _BLOCK
    if index % _BLOCK or number >= len(hashes):
        return False
    file.seek(offset)
    return _hash(file.read(_BLOCK)) == hashes[number]


def signature(root, path):
    """The hashes of an old file's blocks, counted from its beginning and from its end.

    None where the file is small or not there.
    """
    try:
        with open(os.path.join(root, path), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size < DELTA_FROM:
                return None
            head = [_hash(file.read(_BLOCK)) for _ in range(size // _BLOCK)]
            tail = []
            for end in range(size, _BLOCK - 1, -_BLOCK):
                file.seek(end - _BLOCK)
                tail.append(_hash(file.read(_BLOCK)))
        return {"size": size, "head": head, "tail": tail}
    except OSError:
        return None


def _hash(data):
    return hashlib.blake2b(data, digest_size=16).hexdigest()


# ---- carrying it out -----------------------------------------------------------------------------


def receive(root, reader, count):
    """Carries out *count* changes; yields [path, error or None] for each.

    reader: has ``line()`` and ``exactly(size)``, which raise EOFError when the stream ends early.
    Raises OSError when the disk is full; nothing is left of the file that did not fit.
    """
    for _ in range(count):
        change = json.loads(reader.line())
        path = change["path"]
        try:
            _carry_out(root, reader, change)
            yield [path, None]
        except Changed as changed:
            yield [path, str(changed)]
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise
            yield [path, error.strerror or str(error)]


def _carry_out(root, reader, change):
    path, state, expected = change["path"], change["state"], change["expected"]
    full = os.path.join(root, path)
    content = has_content(state)
    target = state[5:] if state and state.startswith("link ") else None
    if not is_safe(path) or (target is not None and not is_inside(path, target)):
        if content:
            _drain(reader)
        raise Changed("it is not below the folder")
    if state is None:
        _check(root, path, expected)
        if expected is not None:
            os.unlink(full)
            _remove_empty(root, os.path.dirname(path))
        return
    part = ""
    try:
        try:
            folder = _make_folders(root, os.path.dirname(path))
            handle, part = tempfile.mkstemp(prefix=_PREFIX, dir=folder)
        except OSError:
            if content:
                _drain(reader)
            raise
        with os.fdopen(handle, "wb") as file:
            if content:
                _write(reader, file, full, state)
                _set_mode(file.fileno(), full, state)
        if target is not None:
            os.unlink(part)
            os.symlink(target, part)
        _check(root, path, expected)
        os.replace(part, full)
    finally:
        if part and os.path.lexists(part):
            os.unlink(part)


def _check(root, path, expected):
    if state_of(root, path) != expected:
        raise Changed("it has changed in the meantime")


def _write(reader, file, old_path, state):
    """Reads a file's parts to their end, whatever fails before."""
    digest = hashlib.blake2b(digest_size=16)
    parts = _parts(reader)
    try:
        for new, offset, length in parts:
            for data in (new,) if length is None else _read_old(old_path, offset, length):
                digest.update(data)
                file.write(data)
        file.flush()
    finally:
        for _ in parts:
            pass
    if digest.hexdigest() != state.split(" ")[1]:
        raise Changed("it was changed while it was sent")


def _parts(reader):
    """(data, None, None) or (None, offset, length) for each part of a file."""
    while True:
        kind = reader.exactly(1)
        if kind == b"E":
            return
        if kind == b"D":
            yield reader.exactly(_DATA.unpack(reader.exactly(_DATA.size))[0]), None, None
        else:
            yield (None, *_COPY.unpack(reader.exactly(_COPY.size)))


def _read_old(path, offset, length):
    with open(path, "rb") as file:
        file.seek(offset)
        while length > 0:
            data = file.read(min(CHUNK, length))
            if not data:
                return  # it has become shorter, which the hash will show
            yield data
            length -= len(data)


def _drain(reader):
    for _ in _parts(reader):
        pass


def _set_mode(handle, path, state):
    """The mode that the old file has, or a new one gets; executable as *state* says."""
    try:
        mode = stat.S_IMODE(os.lstat(path).st_mode) if not os.path.islink(path) else None
    except OSError:
        mode = None
    if mode is None:
        mask = os.umask(0)
        os.umask(mask)
        mode = 0o666 & ~mask
    if state.startswith("program "):
        mode |= (mode & 0o444) >> 2
    else:
        mode &= ~0o111
    os.fchmod(handle, mode)


def _make_folders(root, folder):
    """Makes *folder* below *root*; raises OSError where a part of it is a link."""
    path = root
    for name in folder.split("/") if folder else ():
        path = os.path.join(path, name)
        if os.path.islink(path):
            raise OSError(errno.ELOOP, "its folder is a link there")
        if not os.path.isdir(path):
            os.mkdir(path)
    return path


def _remove_empty(root, folder):
    while folder:
        try:
            os.rmdir(os.path.join(root, folder))
        except OSError:
            return
        folder = os.path.dirname(folder)
