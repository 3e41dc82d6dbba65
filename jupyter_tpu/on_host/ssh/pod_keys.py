"""Runs on a host of a pod: makes its key, and lets the other hosts log in.

People and other programs write the user's SSH files too. Of ours one does so at a time. A line is
appended to authorized_keys, and one that does not count any more becomes a comment where it stands,
so that a line which somebody else appends meanwhile is kept. Files that are links stay links.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile

FOLDER = ".ssh"
KEY = FOLDER + "/jupyter_tpu_pod"
LOCK = KEY + ".lock"
MARK = "jupyter-tpu-pod"
#: Seconds for all of it, with the wait for others.
ALL_SECONDS = 50
#: How often it begins again because somebody else has replaced a file meanwhile.
MOST_ATTEMPTS = 5


def main():
    import fcntl  # not on Windows, where `pod_ssh` imports this module

    signal.alarm(ALL_SECONDS)
    os.umask(0o077)
    os.chdir(os.path.expanduser("~"))
    os.makedirs(FOLDER, exist_ok=True)
    request = json.loads(sys.stdin.buffer.read())
    with open(LOCK, "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        print(public_key())
        for path, text in request.get("files", {}).items():
            write(os.path.join(FOLDER, path), text.encode())
        if "authorized" in request:
            authorize(request["authorized"], request["mark"])
            include(request["include"])


def public_key():
    """The public half of this host's key, which is made if it is missing."""
    if not os.path.exists(KEY):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", MARK, "-f", KEY]
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
    if not os.path.exists(KEY + ".pub"):  # whoever made the key was ended before
        command = ["ssh-keygen", "-y", "-f", KEY]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True)
        write(KEY + ".pub", done.stdout)
    with open(KEY + ".pub") as file:
        return file.read().strip()


def authorize(lines, mark):
    """Makes *lines*, which end with *mark*, the only ones in authorized_keys that do."""
    path = os.path.join(FOLDER, "authorized_keys")
    for _ in range(MOST_ATTEMPTS):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "rb+", buffering=0) as file:
            text = file.read()
            missing, at = [line.encode() for line in lines], 0
            for line in text.splitlines(True):
                bare = line.strip()
                if bare in missing:
                    missing.remove(bare)
                elif bare.endswith(b" " + mark.encode()) and not bare.startswith(b"#"):
                    comment_out(path, at, line)
                at += len(line)
            if missing:
                begin = b"" if text.endswith(b"\n") or not text else b"\n"
                file.write(begin + b"\n".join(missing) + b"\n")
            if same_file(path, os.fstat(file.fileno())):
                return
    raise OSError("~/.ssh/authorized_keys is replaced again and again")


def comment_out(path, at, line):
    """Makes the *line* that begins *at* a comment: without O_APPEND, which decides where Linux
    writes.
    """
    descriptor = os.open(path, os.O_RDWR)
    try:
        if os.pread(descriptor, len(line), at) == line:
            os.pwrite(descriptor, b"#", at)
    finally:
        os.close(descriptor)


def include(line):
    """Makes *line* the first one of the SSH configuration, if it has no such line."""
    path = os.path.join(FOLDER, "config")
    for _ in range(MOST_ATTEMPTS):
        try:
            with open(path, "rb") as file:
                before, text = os.fstat(file.fileno()), file.read()
        except FileNotFoundError:
            before, text = None, b""
        if line.encode() in (each.strip() for each in text.splitlines()):
            return
        if write(path, line.encode() + b"\n" + text, before):
            return
    raise OSError("~/.ssh/config is changed again and again")


def write(path, data, before=None):
    """Replaces a file, or what it is a link to, in one step. With *before*, what it was, only if it
    is that still. Returns whether it did.
    """
    path = os.path.realpath(path)
    descriptor, new = tempfile.mkstemp(dir=os.path.dirname(path))
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            if before is not None:
                os.fchmod(file.fileno(), before.st_mode & 0o777)
        if before is not None and not same_file(path, before, unchanged=True):
            return False
        os.replace(new, path)
        return True
    finally:
        if os.path.exists(new):
            os.unlink(new)


def same_file(path, status, unchanged=False):
    """Whether *path* is that file still, and *unchanged* if that is wanted."""
    try:
        now = os.stat(path)
    except FileNotFoundError:
        return False
    same = (now.st_dev, now.st_ino) == (status.st_dev, status.st_ino)
    return same and (
        not unchanged or (now.st_size, now.st_mtime_ns) == (status.st_size, status.st_mtime_ns)
    )
