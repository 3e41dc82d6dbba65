"""A process that starts keepers, of commands (`keeper.run_keeper`) and kernels (`keeper.start`), by
copying itself.

The daemon has one from its start on, which is a copy of the daemon itself before that has loaded
anything: so it takes no time, and shares its memory with the daemon. If it is killed, the next
command or kernel starts another. After the first kernel it loads what keepers of kernels need: they
share it, and begin at once.
"""

from __future__ import annotations

import array
import contextlib
import os
import socket
import sys
from typing import Optional, Tuple

from ..keeper.run_keeper import COMMAND
from ..protocol import umask
from ..protocol.paths import BARE, agent_folder
from ..protocol.processes import rename_process

#: It also loads nothing that its keepers do not need.
PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv[1]); from {} import run_keeper; "
    "run_keeper.fork_keepers()"
)
_KEEPER = __name__.rpartition(".daemon.")[0] + ".keeper"


class KeeperStarter:
    """The process, which ends when this is closed.

    line: to the one that :func:`forked` has made; None: it is started when it is needed. pid: its
        id, which is a child of this process.
    """

    def __init__(self, line: Optional[socket.socket] = None, pid: int = 0) -> None:
        self._line = line
        self._pid = pid

    def start(self, kind: bytes = COMMAND) -> socket.socket:
        """A connection to a new keeper; *kind*: see `keeper.run_keeper.fork_keepers`."""
        if self._line is not None:
            with contextlib.suppress(OSError):
                return self._connect(self._line, kind)
            self.close()  # it was killed
        self._line, self._pid = _execute()
        return self._connect(self._line, kind)

    def _connect(self, line: socket.socket, kind: bytes) -> socket.socket:
        """Raises OSError if the process was killed."""
        ours, theirs = socket.socketpair()
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [theirs.fileno()]))]
        with theirs:
            try:
                line.sendmsg([kind], rights)
            except OSError:
                ours.close()
                raise
        return ours

    def close(self) -> None:
        """No more are started; the others continue."""
        if self._line is None:
            return
        self._line.close()
        self._line = None
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
            rename_process(b"daemon\0", b"forker\0")
        ours.close()
        null = os.open(os.devnull, os.O_WRONLY)
        for number, target in ((0, theirs.fileno()), (1, null), (2, null)):
            os.dup2(target, number)
        theirs.close()
        os.close(null)
        run_keeper.fork_keepers()
    finally:
        os._exit(1)


def _execute() -> Tuple[socket.socket, int]:
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
    return ours, process.pid
