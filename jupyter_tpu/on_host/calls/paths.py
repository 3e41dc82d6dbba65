"""Our folders and files on a host, and a lock on each environment."""

import contextlib
import os
import time

from .protocol import HostError, emit

HOME = os.path.expanduser("~")
ROOT = os.path.join(HOME, ".jupyter-tpu")
MARKER = "jupyter-tpu.json"  # in an environment; there once it is verified
LOCK_TIMEOUT = 3600  # seconds to wait for another connection that works on the same environment


def environment_dir(name):
    return os.path.join(ROOT, "environments", name)


def private_dir(name):
    """A folder of ours, 0700."""
    path = os.path.join(ROOT, name)
    os.makedirs(ROOT, mode=0o700, exist_ok=True)
    os.makedirs(path, mode=0o700, exist_ok=True)
    return path


@contextlib.contextmanager
def whole_file(path, mode=0o644, kind="w"):
    """A file to write to; it has its name when all is written, or is not there at all."""
    part = "%s.%s" % (path, os.urandom(8).hex())  # the folder may be one that others write to
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), kind) as file:
            yield file
            os.chmod(file.fileno() if os.chmod in os.supports_fd else part, mode)
        os.replace(part, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(part)
        raise


def write_file(path, text, mode=0o644):
    """Writes a file whole or not at all."""
    with whole_file(path, mode) as file:
        file.write(text)


@contextlib.contextmanager
def exclusive_lock(name):
    """One caller at a time on this host."""
    import fcntl

    with open(os.path.join(private_dir("environments"), ".%s.lock" % name), "w") as file:
        deadline, reported = time.time() + LOCK_TIMEOUT, False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                pass
            if not reported:
                emit(log="Waiting for another connection that is working on it")
                reported = True
            if time.time() > deadline:
                raise HostError(
                    "TIMEOUT",
                    "Another connection has been working on this environment for an hour.",
                )
            time.sleep(0.2)
        yield
