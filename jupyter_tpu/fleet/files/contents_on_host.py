"""Runs on a host: looks at its files and folders, and changes them, as a file browser does.

Standard library only, Python 3.8. Its input is a line of JSON, the request, and for ``save`` the
content. Its output is a line of JSON, ``{"model": …, "size": n}`` or ``{"error": …, "message": …}``
with errno's name, and n bytes: a file's content, or a folder's models as JSON.
"""

import errno
import hashlib
import json
import os
import shutil
import stat
import sys
import tempfile
import time
from urllib.parse import quote

CHUNK = 256 << 10
#: The most that is listed of a folder.
LISTED = 5000
#: The largest file that is opened; bytes.
OPENED = 100 << 20


def get(path, content=False, digest=False):
    model = describe(path)
    if not content:
        data = b""
    elif model["kind"] == "directory":
        models, model["left_out"] = entries(path)
        data = json.dumps(models).encode()
    else:
        with open(path, "rb") as file:
            if model["size"] > OPENED:
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
        if len(models) >= LISTED:
            left_out += 1
            continue
        try:
            name.decode()
            models.append(describe(os.path.join(path, name)))
        except (OSError, UnicodeDecodeError):
            left_out += 1  # a link to nothing, a socket, a name that has no characters
    return models, left_out


def describe(path):
    found = os.stat(path)
    if not (stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode)):
        raise OSError(errno.EINVAL, "not a file or folder")
    return {
        "path": path.decode().strip("/"),
        "kind": "directory" if stat.S_ISDIR(found.st_mode) else "file",
        "size": found.st_size,
        "created": found.st_ctime,
        "modified": found.st_mtime,
        "writable": os.access(path, os.W_OK),
    }


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while True:
            data = file.read(CHUNK)
            if not data:
                return digest.hexdigest()
            digest.update(data)


def save(path, size, chunk=None):
    """Writes a file from the input: whole, or as numbered parts, of which the last is -1."""
    path = os.path.realpath(path)
    folder, name = os.path.split(path)
    if os.path.isdir(path):
        raise OSError(errno.EISDIR, "a folder")
    if not os.path.isdir(folder):
        raise OSError(errno.ENOTDIR, "no folder")
    key = hashlib.sha256(name).hexdigest()[:16].encode()
    part = os.path.join(folder, b".upload-" + key)
    if chunk is None:
        handle, part = tempfile.mkstemp(prefix=b".upload-", dir=folder)
    else:
        begin = os.O_TRUNC if chunk == 1 else 0
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_APPEND | begin, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            left = size
            while left:
                data = sys.stdin.buffer.read(min(CHUNK, left))
                if not data:
                    sys.exit(1)  # no one is there to be answered
                file.write(data)
                left -= len(data)
        if chunk in (None, -1):
            os.chmod(part, mode_of(path))
            os.replace(part, path)
    except BaseException:
        os.unlink(part)
        raise
    return describe(path if chunk in (None, -1) else part), b""


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
                shutil.copyfileobj(old, file, CHUNK)
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


def main():
    request = json.loads(sys.stdin.buffer.readline())
    for name in ("path", "to", "source"):
        if name in request:
            # As bytes, whatever the host's locale is.
            request[name] = b"/" + request[name].encode()
    calls: dict = {
        "get": get,
        "save": save,
        "create": create,
        "make_folder": make_folder,
        "duplicate": duplicate,
        "move": move,
        "delete": delete,
    }
    try:
        model, data = calls[request.pop("call")](**request)
        answer = {"model": model, "size": len(data), "home": os.path.expanduser("~").strip("/")}
    except OSError as error:
        code = errno.errorcode.get(error.errno or 0, "")
        answer, data = {"error": code, "message": error.strerror}, b""
    try:
        sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n" + data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        os._exit(1)  # no one reads, so Python's own flush would fail, too
