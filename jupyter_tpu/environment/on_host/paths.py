"""Where things are on a host, and who may work on them: one at a time."""

import contextlib
import os
import time

from .protocol import HostError, emit

HOME = os.path.expanduser("~")
ROOT = os.path.join(HOME, ".jupyter-tpu")
LOCK_LIMIT = 3600  # seconds to wait for another connect to the same environment


def environment_dir(name):
    return os.path.join(ROOT, "environments", name)


def private_dir(name):
    """A folder of ours, 0700."""
    path = os.path.join(ROOT, name)
    os.makedirs(ROOT, mode=0o700, exist_ok=True)
    os.makedirs(path, mode=0o700, exist_ok=True)
    return path


@contextlib.contextmanager
def exclusive_lock(name):
    """One at a time on this host, of all who connect to it."""
    import fcntl

    with open(os.path.join(private_dir("environments"), ".%s.lock" % name), "w") as file:
        until, told = time.time() + LOCK_LIMIT, False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                pass
            if not told:
                emit(log="Waiting: somebody else is working on it, too")
                told = True
            if time.time() > until:
                raise HostError("TIMEOUT", "Somebody else works on this environment for an hour.")
            time.sleep(0.2)
        yield
