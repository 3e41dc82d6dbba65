"""Runs on a host: looks at its files and folders, and changes them, as a file browser does.

Standard library only, Python 3.8. The request is JSON: its argument, or a line of its input, which
may have the content of a file after it. Its output is a line of JSON, ``{"model": …, "size": n}``
or ``{"error": …, "message": …}`` with errno's name, and n bytes: a file's content, or a folder's
models as JSON.
"""

import contextlib
import errno
import hashlib
import json
import os
import shutil
import signal
import stat
import sys
import tempfile
import time
from urllib.parse import quote

from .part_file import is_own_file, part_name

CHUNK_BYTES = 256 << 10
#: The most that is listed of a folder.
MOST_ENTRIES = 5000
#: The largest file that is opened; bytes.
LARGEST_FILE_BYTES = 100 << 20


def get(path, content=False, digest=False):
    model = describe(path)
    if not content:
        data = b""
    elif model["kind"] == "directory":
        models, model["left_out"] = entries(path)
        data = json.dumps(models).encode()
    else:
        with open(path, "rb") as file:
            if model["size"] > LARGEST_FILE_BYTES:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
            data = file.read()
    if digest and model["kind"] == "file":
        model["hash"] = sha256(path)
    return model, data


def entries(path):
    """The models of what is in a folder, and how many are left out."""
    models: list = []
    left_out = 0
    for name in sorted(os.listdir(path)):
        if len(models) >= MOST_ENTRIES:
            left_out += 1
            continue
        try:
            name.decode()
            models.append(describe(os.path.join(path, name)))
        except (OSError, UnicodeDecodeError):
            left_out += 1  # a link to nothing, a socket, a name that has no characters
    return models, left_out


def describe(path):
    stat_result = os.stat(path)
    if not (stat.S_ISDIR(stat_result.st_mode) or stat.S_ISREG(stat_result.st_mode)):
        raise OSError(errno.EINVAL, "not a file or folder")
    return {
        "path": path.decode().strip("/"),
        "kind": "directory" if stat.S_ISDIR(stat_result.st_mode) else "file",
        "size": stat_result.st_size,
        "created": stat_result.st_ctime,
        "modified": stat_result.st_mtime,
        "writable": os.access(path, os.W_OK),
    }


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while True:
            data = file.read(CHUNK_BYTES)
            if not data:
                return digest.hexdigest()
            digest.update(data)


def report_size(path):
    """Answers the size of a file."""
    emit(size=size_of(os.stat(path)))


def send(path):
    """Answers the file's size, then so many bytes of it; fewer if it has become shorter."""
    # Opening a pipe would wait for its writer.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb", 0) as file:
        left = size_of(os.fstat(file.fileno()))
        emit(size=left)
        while left:
            data = file.read(min(CHUNK_BYTES, left))
            if not data:
                return
            sys.stdout.buffer.write(data)
            left -= len(data)


def receive(path, size, overwrite):
    """Answers that it is ready, reads the file, and answers its size when it is there, whole."""
    if overwrite:
        path = os.path.realpath(path)
    elif os.path.lexists(path) and not os.path.isdir(path):
        raise OSError(errno.EEXIST, "exists")
    handle, part = tempfile.mkstemp(prefix=b".upload-", dir=folder_for(path, size))
    fill(handle, part, size, path, os.replace if overwrite else move_new, ready=True)
    emit(size=size)


def save(path, size, chunk=None):
    """Writes a file from the input: whole, or as numbered parts, of which the last is -1."""
    path = os.path.realpath(path)
    folder, name = folder_for(path, size), os.path.basename(path)
    if chunk is None:
        handle, part = tempfile.mkstemp(prefix=b".upload-", dir=folder)
    else:
        part = os.path.join(folder, part_name(name, "upload"))
        handle = open_part(part, begin=chunk == 1)
    whole = chunk in (None, -1)
    fill(handle, part, size, path if whole else None)
    return describe(path if whole else part), b""


def open_part(part, begin):
    """Opens the file of an upload in parts, whose folder may be one that others write to."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW
    if begin:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part)
        flags |= os.O_CREAT | os.O_EXCL
    handle = os.open(part, flags, 0o600)
    if is_own_file(os.fstat(handle)):
        return handle
    os.close(handle)
    raise OSError(errno.EBUSY, "somebody else has replaced it")


def folder_for(path, size):
    """The folder of a file that can be written."""
    if os.path.exists(path):
        size_of(os.stat(path))
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise OSError(errno.ENOTDIR, "no folder")
    disk = os.statvfs(folder)
    if disk.f_blocks and size > disk.f_bavail * disk.f_frsize:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return folder


def fill(handle, part, size, path, place=os.replace, ready=False):
    """Writes the input to *part*, and names it *path*, if there is one. What fails leaves none."""
    try:
        with os.fdopen(handle, "wb") as file:
            if ready:
                emit(ready=True)
            while size:
                data = sys.stdin.buffer.read(min(CHUNK_BYTES, size))
                if not data:
                    sys.exit(1)  # no one is there to be answered
                file.write(data)
                size -= len(data)
            if path is not None:
                os.fchmod(file.fileno(), mode_of(path))
        if path is not None:
            place(part, path)
    except BaseException:
        if os.path.lexists(part):
            os.unlink(part)
        raise


def move_new(part, path):
    """Renames *part*, unless *path* exists."""
    try:
        os.link(part, path)
        os.unlink(part)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if os.path.lexists(path):
            raise OSError(errno.EEXIST, "exists") from None
        os.rename(part, path)


def size_of(info):
    if stat.S_ISDIR(info.st_mode):
        raise OSError(errno.EISDIR, "a folder")
    if not stat.S_ISREG(info.st_mode):
        raise OSError(errno.EINVAL, "not a file")
    return info.st_size


def mode_of(path):
    """That of the file that is replaced, or of a new one."""
    if os.path.exists(path):
        return stat.S_IMODE(os.stat(path).st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def create(path, kind, extension=""):
    """A new file or folder with a name that is not in use."""
    stem = {"directory": "Untitled Folder", "notebook": "Untitled"}.get(kind, "untitled")
    extension = ".ipynb" if kind == "notebook" else extension
    for new in free_names(path, stem.encode(), extension.encode()):
        try:
            if kind == "directory":
                os.mkdir(new)
            else:
                with open(new, "xb") as file:
                    file.write(EMPTY if kind == "notebook" else b"")
            return describe(new), b""
        except FileExistsError:
            pass
    raise AssertionError


#: A notebook without cells.
EMPTY = b'{\n "cells": [],\n "metadata": {},\n "nbformat": 4,\n "nbformat_minor": 5\n}\n'


def make_folder(path):
    if not os.path.isdir(path):
        os.mkdir(path)
    return describe(path), b""


def duplicate(path, source):
    """Copies a file into a folder."""
    if os.path.isdir(source):
        raise OSError(errno.EISDIR, "a folder")
    stem, extension = os.path.splitext(os.path.basename(source))
    for new in free_names(path, stem + b"-Copy", extension, 1):
        try:
            with open(source, "rb") as old, open(new, "xb") as file:
                shutil.copyfileobj(old, file, CHUNK_BYTES)
        except FileExistsError:
            continue
        except BaseException:
            if os.path.lexists(new):
                os.unlink(new)
            raise
        shutil.copymode(source, new)
        return describe(new), b""
    raise AssertionError


def free_names(folder, stem, extension, number=0):
    while True:
        yield os.path.join(folder, stem + (b"%d" % number if number else b"") + extension)
        number += 1


def move(path, to):
    if os.path.lexists(to):
        raise OSError(errno.EEXIST, "exists")
    if not os.path.isdir(os.path.dirname(to)):
        raise OSError(errno.ENOTDIR, "no folder")
    os.rename(path, to)
    return describe(to), b""


def delete(path, trash=False):
    """A folder must be empty, unless it goes to the trash."""
    if trash:
        move_to_trash(path)
    elif os.path.isdir(path) and not os.path.islink(path):
        os.rmdir(path)
    else:
        os.unlink(path)
    return None, b""


def move_to_trash(path):
    """As desktops do: https://specifications.freedesktop.org/trash-spec."""
    os.lstat(path)  # it is there
    home = os.environb.get(b"XDG_DATA_HOME") or os.path.expanduser(b"~/.local/share")
    folders = [os.path.join(home, b"Trash", name) for name in (b"files", b"info")]
    for folder in folders:
        os.makedirs(folder, 0o700, exist_ok=True)
    stem, extension = os.path.splitext(os.path.basename(path))
    when = time.strftime("%Y-%m-%dT%H:%M:%S")
    text = "[Trash Info]\nPath=%s\nDeletionDate=%s\n" % (quote(path), when)
    for new in free_names(folders[0], stem, extension):
        note = os.path.join(folders[1], os.path.basename(new) + b".trashinfo")
        try:
            with open(note, "x") as file:
                file.write(text)
        except FileExistsError:
            continue
        try:
            shutil.move(path, new)
        except BaseException:
            os.unlink(note)
            raise
        return


def emit(data=b"", **answer):
    sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n" + data)
    sys.stdout.buffer.flush()


#: What answers by itself; its paths are relative to the home folder, or absolute.
TRANSFERS: dict = {"size": report_size, "send": send, "receive": receive}
CALLS: dict = {
    "get": get,
    "save": save,
    "create": create,
    "make_folder": make_folder,
    "duplicate": duplicate,
    "move": move,
    "delete": delete,
}


def main():
    for end in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(end, lambda *_: sys.exit(1))
    request = json.loads(sys.argv[1] if len(sys.argv) > 1 else sys.stdin.buffer.readline())
    call = request.pop("call")
    root = os.path.expanduser(b"~") if call in TRANSFERS else b"/"
    for name in ("path", "to", "source"):
        if name in request:
            # As bytes, whatever the host's locale is.
            request[name] = os.path.join(root, request[name].encode())
    try:
        try:
            if call in TRANSFERS:
                TRANSFERS[call](**request)
            else:
                model, data = CALLS[call](**request)
                emit(data, model=model, size=len(data), home=os.path.expanduser("~").strip("/"))
        except BrokenPipeError:
            raise
        except OSError as error:
            emit(error=errno.errorcode.get(error.errno or 0, ""), message=error.strerror)
    except BrokenPipeError:
        os._exit(1)  # no one reads, so Python's own flush would fail, too
