"""A process that starts the keepers of commands (`keeper.run_keeper`) by copying itself.

The daemon has one from its start on, which is a copy of the daemon itself before that has loaded
anything: so it takes no time, and shares its memory with the daemon. If it is killed, the next
command starts another.
"""

from __future__ import annotations

import array
import contextlib
import os
import socket
import sys

from ..protocol import umask
from ..protocol.paths import BARE, agent_folder

#: It also loads nothing that its keepers do not need.
PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv[1]); from {} import run_keeper; "
    "run_keeper.fork_keepers()"
)
_KEEPER = __name__.rpartition(".daemon.")[0] + ".keeper"


class KeeperStarter:
    """Made by :func:`forked` and :func:`executed`; it ends when this is closed.

    line: to the process. pid: its id, which is a child of this process.
    """

    def __init__(self, line: socket.socket, pid: int) -> None:
        self._line = line
        self._pid = pid

    def start(self) -> socket.socket:
        """A connection to a new keeper. Raises OSError if the process was killed."""
        ours, theirs = socket.socketpair()
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [theirs.fileno()]))]
        with theirs:
            try:
                self._line.sendmsg([b"."], rights)
            except OSError:
                ours.close()
                raise
        return ours

    def close(self) -> None:
        """No more are started; the others continue."""
        self._line.close()
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, os.WNOHANG)


def forked() -> KeeperStarter:
    """A copy of this process, which must have one thread, and no files that it does not need."""
    from ..keeper import run_keeper

    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid:
        theirs.close()
        return KeeperStarter(ours, pid)
    try:
        os.setsid()
        umask.restore()
        with contextlib.suppress(OSError, IndexError, ValueError):
            _rename(b"daemon\0", b"forker\0")
        ours.close()
        null = os.open(os.devnull, os.O_WRONLY)
        for number, target in ((0, theirs.fileno()), (1, null), (2, null)):
            os.dup2(target, number)
        theirs.close()
        os.close(null)
        run_keeper.fork_keepers()
    finally:
        os._exit(1)


def _rename(before: bytes, after: bytes) -> None:
    """Changes the last argument of this process in lists of processes: the daemon has it, too.

    Source: proc_pid_stat(5), arg_end.
    """
    with open("/proc/self/stat", "rb") as file:
        end = int(file.read().rpartition(b")")[2].split()[46])
    memory = os.open("/proc/self/mem", os.O_RDWR)
    try:
        if os.pread(memory, len(before), end - len(before)) == before:
            os.pwrite(memory, after, end - len(before))
    finally:
        os.close(memory)


def executed() -> KeeperStarter:
    """A process of its own."""
    import subprocess

    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, *BARE, "-c", PROGRAM.format(_KEEPER), agent_folder()],
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            **umask.of_login(),
        )
    process.returncode = 0  # `close` waits for it
    return KeeperStarter(ours, process.pid)
