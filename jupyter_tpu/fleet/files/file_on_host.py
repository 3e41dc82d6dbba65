"""Runs on a host, as an argument of its Python: one file is described, sent or received.

Standard library only, Python 3.8. Called with one argument, a JSON list: what to do, the file's
path (relative to the home folder, or absolute) and more. Its output begins with a line of JSON, an
object: ``{"size": …}``, ``{"ready": true}``, or ``{"error": …, "message": …}`` with errno's name.
"""

import errno
import json
import os
import signal
import stat
import sys
import tempfile

CHUNK = 256 << 10


def describe(path):
    """Answers the file's size."""
    emit(size=size_of(os.stat(path)))


def send(path):
    """Answers the file's size, then so many bytes of it; fewer if it has become shorter."""
    # Opening a pipe would wait for its writer.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb", 0) as file:
        left = size_of(os.fstat(file.fileno()))
        emit(size=left)
        while left:
            data = file.read(min(CHUNK, left))
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
    mask = os.umask(0)
    os.umask(mask)
    mode = 0o666 & ~mask
    if os.path.exists(path):
        found = os.stat(path)
        size_of(found)
        mode = stat.S_IMODE(found.st_mode)
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise OSError(errno.ENOTDIR, "no folder")
    disk = os.statvfs(folder)
    if disk.f_blocks and size > disk.f_bavail * disk.f_frsize:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    handle, part = tempfile.mkstemp(prefix=b".upload-", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            emit(ready=True)
            copy_input(file, size)
            os.fchmod(file.fileno(), mode)
        if overwrite:
            os.replace(part, path)
        else:
            move_new(part, path)
    finally:
        if os.path.lexists(part):
            os.unlink(part)
    emit(size=size)


def copy_input(file, size):
    while size:
        data = os.read(0, min(CHUNK, size))
        if not data:
            sys.exit(1)  # no one is there to be answered
        file.write(data)
        size -= len(data)


def move_new(part, path):
    """Renames *part*, unless *path* exists."""
    try:
        os.link(part, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if os.path.lexists(path):
            raise OSError(errno.EEXIST, "exists") from None
        os.rename(part, path)


def size_of(found):
    if stat.S_ISDIR(found.st_mode):
        raise OSError(errno.EISDIR, "a folder")
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "not a file")
    return found.st_size


def emit(**answer):
    sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
    sys.stdout.buffer.flush()


def main():
    for end in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(end, lambda *_: sys.exit(1))
    call, path, *more = json.loads(sys.argv[1])
    # As bytes, whatever the host's locale is.
    path = os.path.join(os.path.expanduser(b"~"), path.encode())
    calls: dict = {"describe": describe, "send": send, "receive": receive}
    try:
        calls[call](path, *more)
    except BrokenPipeError:
        os._exit(1)  # no one reads, so Python's own flush would fail, too
    except OSError as error:
        emit(error=errno.errorcode.get(error.errno or 0, ""), message=error.strerror)


if __name__ == "__main__":
    main()
