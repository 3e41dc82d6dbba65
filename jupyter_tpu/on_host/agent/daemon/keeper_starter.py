"""A process that starts keepers, of commands, jobs and kernels, by copying itself.

The daemon has one from its start on, which is a copy of the daemon itself once that has loaded its
modules. So what they need in memory is there once, for the daemon, this process and all of its
keepers. If it is killed, the next keeper starts another. After the first kernel it loads what
keepers of kernels need: the next ones share it, and begin at once.
"""

from __future__ import annotations

import array
import contextlib
import gc
import os
import select
import signal
import socket
import subprocess
import sys
import traceback
from typing import Callable, Optional, Tuple

from ..keeper import run_keeper, start
from ..keeper.job_keeper import run_job_keeper
from ..protocol import umask
from ..protocol.paths import BARE, agent_folder
from ..protocol.processes import rename_process

#: What it is asked for: the keeper of a command, of a job, or of a kernel.
RUN, JOB, KERNEL = b"r", b"j", b"k"
#: Seconds from the first kernel's start until what all keepers of kernels need is loaded.
LOAD_SECONDS = 3.0
PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv[1]); from %s import keeper_starter; "
    "keeper_starter.fork_keepers()" % __package__
)


class KeeperStarter:
    """Starts keepers, by the process that :func:`forked` made, or by one of its own.

    line: to the process. pid: its id, which is a child of this process. It ends when this is
    closed.
    """

    def __init__(self, line: Optional[socket.socket] = None, pid: int = 0) -> None:
        self._line = line
        self._pid = pid

    def start(self, kind: bytes = RUN, *files: int) -> socket.socket:
        """A connection to a new keeper of this *kind*, which gets the *files*, too."""
        if self._line is not None:
            try:
                return _ask(self._line, kind, *files)
            except OSError:
                self.close()  # it was killed
        self._line, self._pid = _executed()
        return _ask(self._line, kind, *files)

    def close(self) -> None:
        """No more are started; the others continue."""
        if self._line is not None:
            self._line.close()
            self._line = None
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._pid, os.WNOHANG)


def _ask(line: socket.socket, kind: bytes, *files: int) -> socket.socket:
    ours, theirs = socket.socketpair()
    numbers = array.array("i", [theirs.fileno(), *files])
    with theirs:
        try:
            line.sendmsg([kind], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, numbers)])
        except OSError:
            ours.close()
            raise
    return ours


def forked() -> KeeperStarter:
    """A copy of this process, which must have one thread, and no files that it does not need."""
    gc.freeze()  # else a collection in one process would copy the memory that both have
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
        fork_keepers()
    finally:
        os._exit(1)


def fork_keepers() -> None:
    """A keeper for each connection that comes by the socket on the standard input: to copy this
    process takes an eighth of the time that starting Python takes.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    parent = socket.socket(fileno=0)
    kernels = loaded = False
    while True:
        if kernels and not loaded and not select.select([parent], [], [], LOAD_SECONDS)[0]:
            start.load()
            loaded = True
        kind, ancillary, _, _ = parent.recvmsg(1, socket.CMSG_SPACE(8))
        if not kind:
            os._exit(0)
        kernels |= kind == KERNEL
        files = memoryview(ancillary[0][2]).cast("i").tolist()
        try:
            pid = os.fork()
        except OSError:  # too many processes, or no memory: who asked sees the connection end
            pid = -1
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setsid()
            for number, file in enumerate((files[0], *files)):
                os.dup2(file, number)
            for file in files:
                os.close(file)
            if kind == RUN:
                run_keeper.main()
            _keep(run_job_keeper if kind == JOB else start.run_keeper)
        for file in files:
            os.close(file)


def _keep(run: Callable[[], int]) -> None:
    """A keeper of a job or a kernel; never returns.

    Its standard input and output are a line to the daemon. That stays open as long as this process
    lives. The first thing on it is the process id.
    """
    code = 1
    try:
        umask.make_private()
        os.chdir("/")
        with contextlib.suppress(OSError, IndexError, ValueError):
            rename_process(b"forker\0", b"keeper\0")
        os.dup(0)
        sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w")
        print(os.getpid(), flush=True)
        code = run()
    except BaseException:  # to its log
        sys.stderr = os.fdopen(2, "w")
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _executed() -> Tuple[socket.socket, int]:
    """A process of its own: the line to it, and its id."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, *BARE, "-c", PROGRAM, agent_folder()],
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            **umask.of_login(),
        )
    process.returncode = 0  # `KeeperStarter.close` waits for it
    return ours, process.pid
