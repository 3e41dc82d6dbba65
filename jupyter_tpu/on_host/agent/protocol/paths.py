"""Where the agent keeps its files on a host: everything is in one private folder.

::

    ~/.jupyter-tpu/agent/HASH/         the agent's own sources, one folder per version
    ~/.jupyter-tpu/run/HASH.sock       the daemon of that version (.lock: held while it runs, and
                                       says which process that is; .log)
    ~/.jupyter-tpu/run/chips           which kernel has which chips: see keeper/booking.py
    ~/.jupyter-tpu/run/k-…/            one kernel: keeper.sock, its ipc sockets, its journal
    ~/.jupyter-tpu/run/j-….sock        the socket of a running job's keeper
    ~/.jupyter-tpu/run/run-….sock      the socket of the keeper of a run
    ~/.jupyter-tpu/jobs/j-…/           one job: its state and its output, until it is removed

~/.jupyter-tpu may be a link of the user's to a folder on another disk.

A unix socket's path is limited to 107 bytes. If the home folder's is too long, ``run`` is in /tmp,
under a name that depends on the user. So it is where the home folder is not on a disk of this host:
another host may have it, too. There ``jobs`` and ``guard`` have the host's name in theirs.
"""

from __future__ import annotations

import os
import stat

from .digests import sha256
from .mounts import is_local

#: Longest path of a unix socket on Linux, bytes without the final zero.
LONGEST_SOCKET = 107
#: The options of Python for the agent's own processes, which use the standard library alone: it
#: begins sooner, and needs less memory, without what a site adds.
BARE = ("-I", "-S")
_LONGEST_NAME = len("/k-0123456789abcdef/keeper.sock")


def base_folder() -> str:
    """``~/.jupyter-tpu``, made with mode 0700 if it is missing."""
    return private_folder(os.path.join(os.path.expanduser("~"), ".jupyter-tpu"))


def run_folder() -> str:
    """Where the sockets are; made with mode 0700 if it is missing."""
    folder = os.path.join(base_folder(), "run")
    is_long = len(os.fsencode(folder)) + _LONGEST_NAME > LONGEST_SOCKET
    if is_long or not is_local(base_folder()):
        name = sha256(os.fsencode(folder))[:16]
        folder = "/tmp/jupyter-tpu-%d-%s" % (os.getuid(), name)
    return private_folder(folder)


def host_folder(name: str) -> str:
    """A folder of this host alone in `base_folder`, which may be missing."""
    base = base_folder()
    return os.path.join(base, name if is_local(base) else "%s-%s" % (name, os.uname().nodename))


def boot() -> str:
    """A text that changes with each boot of this machine, or of the container."""
    parts = []
    for path in ("/proc/sys/kernel/random/boot_id", "/proc/1/stat"):
        try:
            with open(path, "rb") as file:
                # The 22nd field of /proc/1/stat: when the first process was started.
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            fields = []
        parts.append(fields[19 if len(fields) > 19 else 0].decode() if fields else "")
    return " ".join(parts).strip()


def kernel_folder(run: str, kernel_id: str) -> str:
    """The folder of one kernel; its id may be any text. Not created here."""
    return run + "/k-" + sha256(kernel_id.encode())[:16]


def chip_book(run: str) -> str:
    """The file in which kernels book chips."""
    return os.path.join(run, "chips")


def keeper_socket(run: str, kernel_id: str) -> str:
    """The unix socket on which the kernel's keeper listens."""
    return kernel_folder(run, kernel_id) + "/keeper.sock"


def jobs_folder() -> str:
    """Where jobs are, also after the host was started again; made if it is missing."""
    return private_folder(host_folder("jobs"))


def job_folder(job_id: str) -> str:
    """The folder of one job; its id may be any text. Not created here."""
    name = "j-" + sha256(job_id.encode())[:16]
    return os.path.join(jobs_folder(), name)


def run_socket(run: str, run_id: str) -> str:
    """The unix socket on which the keeper of a run listens."""
    return "%s/run-%s.sock" % (run, run_id)


def job_socket(folder: str) -> str:
    """The unix socket on which the keeper of the job in *folder* listens."""
    return os.path.join(run_folder(), os.path.basename(folder) + ".sock")


def private_folder(path: str) -> str:
    """Makes *path* with mode 0700. It may be a link of this user.

    Raises OSError, which says why, if it can't be this user's alone.
    """
    try:
        os.mkdir(path, 0o700)
        return path
    except FileExistsError:
        info = os.lstat(path)
    shown = path
    if stat.S_ISLNK(info.st_mode) and info.st_uid == os.getuid():
        target = os.path.join(os.path.dirname(path), os.readlink(path))
        shown = "%s, to which %s leads," % (target, path)
        try:
            info = os.stat(path)
        except FileNotFoundError:
            raise FileNotFoundError(
                "%s does not exist. Mount its disk, or make it." % shown
            ) from None
        if stat.S_ISDIR(info.st_mode) and stat.S_IMODE(info.st_mode) & 0o077 and os.listdir(path):
            raise PermissionError("%s can be read by others. chmod 700 it." % shown)
    if not stat.S_ISDIR(info.st_mode):
        raise NotADirectoryError("%s is not a folder" % shown)
    if info.st_uid != os.getuid():
        raise PermissionError("%s belongs to another user" % shown)
    if stat.S_IMODE(info.st_mode) & 0o077:
        os.chmod(path, 0o700)
    return path


def agent_folder() -> str:
    """The folder that Python runs as this agent: in it is the package of this module."""
    folder = os.path.abspath(__file__)
    for _ in range(len(__name__.split("."))):
        folder = os.path.dirname(folder)
    return folder
