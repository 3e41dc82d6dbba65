"""What holds this host's chips: the processes, and how they are ended; libtpu's lock file; and what
else decides whether JAX can use them.
"""

import contextlib
import fcntl
import json
import os
import re
import signal
import stat
import subprocess
import sys
import time

from ..agent.protocol.chips import (
    LOCK,
    chip_devices,
    chips,
    holders,
    lock_holders,
    user_name,
)
from ..agent.protocol.processes import origin, signal_process, start_time


def lock_file(root="/"):
    """libtpu's lock file: its ``owner``, whether it is ``held``, and whom it ``blocks`` while it is
    not: this user, and root; {} if it does not exist.
    """
    path = root.rstrip("/") + LOCK
    try:
        file, folder = os.stat(path), os.stat(os.path.dirname(path))
    except OSError:
        return {}
    protected = _protects(root, folder.st_mode)

    def blocks(user):
        # libtpu opens it to create it. Source: the kernel's may_create_in_sticky.
        if protected and file.st_uid not in (user, folder.st_uid):
            return True
        return user not in (0, file.st_uid) and file.st_mode & 0o006 != 0o006

    return {
        "owner": user_name(file.st_uid),
        "held": bool(lock_holders(root)),
        "blocks_user": blocks(os.getuid()),
        "blocks_root": blocks(0),
    }


def _protects(root, mode):
    """Whether the system opens an existing file in a folder with this mode only for its owner, even
    to root, where it could be created: fs.protected_regular.
    """
    try:
        with open(os.path.join(root, "proc/sys/fs/protected_regular")) as file:
            level = int(file.read())
    except (OSError, ValueError):
        return False
    writable = mode & 0o002 or (level > 1 and mode & 0o020)
    return bool(level and mode & stat.S_ISVTX and writable)


def delete_left_over():
    """Deletes the file while no one holds its lock, and says how that went.

    "deleted", "gone" (it does not exist), "held" (a process holds it), or "refused" (it is another
    user's).
    """
    try:
        # It is never created here: so the system lets root open it.
        file = os.open(LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return "gone"
    except OSError:
        return "refused"
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # With the lock, so that no process can get it meanwhile.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file), os.lstat(LOCK)):
                os.unlink(LOCK)
        return "deleted"
    except BlockingIOError:
        return "held"
    except PermissionError:
        return "refused"
    finally:
        os.close(file)


#: Seconds for root to answer in addition to what it is asked for, and for a killed process to be
#: gone.
ROOT_SECONDS, KILLED_SECONDS = 20, 10
#: What a Jupyter server gives to its kernels: the notebook's path.
NOTEBOOK = b"JPY_SESSION_NAME="


def visible_holders(root="/"):
    """What `chips.holders` gives, with what `origin` gives, and two things more.

    ``start``: when the process was started, in the system's ticks since its boot; with the pid, it
    means one process for ever. ``notebook``: from which it was started by any Jupyter server, "" if
    that is not known.
    """
    chip_holders = holders(root)
    for holder in chip_holders:
        pid = holder["pid"]
        holder.update(origin(pid, root), start=start_time(pid), notebook=_notebook(root, pid))
    return chip_holders


def all_holders(root="/"):
    """The ``devices``, their ``holders``, and whether these are ``complete``: those of other users
    and of containers are seen only by root, if sudo asks for no password.
    ``lock``: as `lock_file` has it.
    """
    devices = chip_devices(root)
    visible = None
    if devices and os.getuid():
        visible = as_root("visible_holders", ROOT_SECONDS, root=root)
    complete = visible is not None or not devices or os.getuid() == 0
    if visible is None:
        visible = visible_holders(root)
    lock = lock_file(root)
    return {"devices": devices, "holders": visible, "complete": complete, "lock": lock}


def delete_lock_file():
    """What `delete_left_over` says, as root where that is needed."""
    outcome = delete_left_over()
    if outcome == "refused" and os.getuid():
        outcome = as_root("delete_lock_file", ROOT_SECONDS) or outcome
    return outcome


def end_holders(processes, patience):
    """Ends those of *processes* (pairs of a pid and its start) that still hold a chip: SIGTERM,
    after *patience* seconds SIGKILL.

    Answers for each, in their order, "ended", "killed", "gone" (it held none any more), "held" (it
    still does), or "refused" (it is another user's, and sudo asks for a password).
    """
    others = [process for process in processes if not _may_signal(process[0])]
    outcomes = {}
    if others:
        seconds = ROOT_SECONDS + patience + KILLED_SECONDS
        answer = as_root("end_holders", seconds, processes=others, patience=patience)
        for index, (pid, start) in enumerate(others):
            lives = start_time(pid) == start
            outcomes[pid] = answer[index] if answer else "refused" if lives else "gone"
    outcomes.update(_end([process for process in processes if process not in others], patience))
    return [outcomes[pid] for pid, _ in processes]


def _end(processes, patience):
    """What became of each, by its pid."""
    starts = dict(map(tuple, processes))
    waiting = _holding(starts)
    outcomes = {pid: "held" if pid in waiting else "gone" for pid in starts}
    for number, seconds, outcome in (
        (signal.SIGTERM, patience, "ended"),
        (signal.SIGKILL, KILLED_SECONDS, "killed"),
    ):
        for pid in waiting:
            if signal_process(pid, starts[pid], number):
                signal_process(pid, starts[pid], signal.SIGCONT)  # one that was stopped, too
        deadline = time.monotonic() + seconds
        while waiting and time.monotonic() < deadline:
            time.sleep(0.1)
            left = _holding(starts) & waiting
            outcomes.update(dict.fromkeys(waiting - left, outcome))
            waiting = left
    return outcomes


def _holding(starts):
    """Those of {pid: start} that hold a chip now."""
    if not starts:
        return set()
    held = {holder["pid"] for holder in holders()}
    return {pid for pid in held & set(starts) if start_time(pid) == starts[pid]}


def _may_signal(pid):
    if os.getuid() == 0:
        return True
    try:
        return os.stat("/proc/%d" % pid).st_uid == os.getuid()
    except OSError:
        return True  # it has ended


def as_root(call, timeout, **arguments):
    """The result of one of our calls that root makes; None if sudo asks for a password.

    Root gets the same program as we did, in the same way.
    """
    program = getattr(sys.modules["__main__"], "program", None)
    if program is None:
        return None
    request = json.dumps({"call": call, **arguments})
    try:
        with open("/proc/self/cmdline") as file:
            boot = file.read().split("\0")[3]  # python -I -c BOOT
        answer = subprocess.run(
            ["sudo", "-n", sys.executable, "-I", "-c", boot],
            input=program + request.encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=timeout,
        )
        return json.loads(answer.stdout)["result"]
    except (OSError, ValueError, KeyError, IndexError, subprocess.TimeoutExpired):
        return None


def _notebook(root, pid):
    path = os.path.join(root, "proc", str(pid), "environ")
    with contextlib.suppress(OSError), open(path, "rb") as file:
        for variable in file.read().split(b"\0"):
            if variable.startswith(NOTEBOOK):
                return os.path.basename(variable[len(NOTEBOOK) :].decode("utf-8", "replace"))
    return ""


CALLS = {
    function.__name__: function
    for function in (all_holders, delete_lock_file, end_holders, visible_holders)
}


#: Variables of a login that change how JAX and libtpu start.
_PREFIXES = ("JAX_", "TPU_", "LIBTPU_", "XLA_", "MEGASCALE_", "ALLOW_MULTIPLE_LIBTPU_LOAD")
_NAMES = ("LD_PRELOAD", "CLOUD_TPU_TASK_ID")


def hardware(root="/"):
    """Facts about the chips below the folder *root*, and what stands between them and JAX."""
    held = all_holders(root)
    return {
        "chips": chips(root),
        "device_files": held["devices"],
        "holders": held["holders"],
        "complete": held["complete"],
        "lock": held["lock"],
        "variables": {
            name: value
            for name, value in sorted(os.environ.items())
            if name.startswith(_PREFIXES) or name in _NAMES
        },
        "no_library": _missing([os.environ.get("TPU_LIBRARY_PATH", "")]),
        "no_preload": _missing(
            path
            for path in re.split("[: ]+", os.environ.get("LD_PRELOAD", ""))
            if path.startswith("/") and "$" not in path
        ),
        "emulated": os.environ.get("JUPYTER_TPU_EMULATED") == "1",
    }


def _missing(paths):
    return next((path for path in paths if path and not os.path.exists(path)), "")
