"""A process that a keeper owns, with everything that it started: a kernel, or a job's command.

The keeper makes itself the *subreaper* of its descendants (Linux): whatever they do to get away
(``setsid``, double forks), they become children of the keeper when their parent ends, and are ended
with the process. On other systems only the process group is ended.

Only light modules are imported here, so that a keeper can start its process before anything else.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from typing import Any, Dict, Optional, Set, Tuple

from ..protocol import umask
from ..protocol.process_tree import descendants, send_signal
from ..protocol.processes import signal_process

#: A variable that marks an owned process and its descendants, in case that the keeper is killed.
MARK = "JUPYTER_TPU_KERNEL_FOLDER"
#: A file with the process id and start time of a kernel that was started before it had a folder.
WARM_PID = "warm-pid"
_PR_SET_CHILD_SUBREAPER = 36


class OwnedProcess:
    """From its start to its last descendant. *popen* leads a process group of its own."""

    def __init__(self, popen: "subprocess.Popen[Any]") -> None:
        self._popen = popen
        self.pid = popen.pid
        self.code: Optional[int] = None  # the exit code, negative for a signal, once it has one
        self.paused = False

    def reap(self) -> bool:
        """Reaps ended children; True if the process is one of them."""
        ended = False
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if pid == self.pid and self.code is None:
                signalled = os.WIFSIGNALED(status)
                self.code = -os.WTERMSIG(status) if signalled else os.WEXITSTATUS(status)
                self._popen.returncode = self.code  # or Popen would wait for it again
                ended = True
        return ended

    def signal(self, number: int) -> bool:
        """Sends a signal to the process group; a paused one is resumed.

        False: it belongs to another user, and did not get it.
        """
        if self.code is not None:
            return True
        received = send_signal([-self.pid], number)
        self.resume()
        return received

    def pause(self) -> None:
        """Suspends the process group, because there is no space for its output."""
        if self.code is None and not self.paused:
            self.paused = send_signal([-self.pid], signal.SIGSTOP)

    def resume(self) -> None:
        if self.paused:
            self.paused = not send_signal([-self.pid], signal.SIGCONT)

    def terminate_descendants(self, patience: float = 0.5, limit: float = 5.0) -> None:
        """Ends the processes that it left: with SIGTERM, after *patience* with SIGKILL.

        Returns when none is left, or after *limit* seconds (a process in a system call that hangs
        cannot be killed, nor one of another user if sudo asks for a password).
        """
        begun = time.monotonic()
        signaled: Set[Tuple[int, int]] = set()
        while time.monotonic() < begun + limit:
            self.reap()
            rest = descendants(os.getpid())
            if not rest:
                return
            impatient = time.monotonic() > begun + patience
            number = signal.SIGKILL if impatient else signal.SIGTERM
            new = {(pid, number) for pid in rest} - signaled
            signaled |= new
            send_signal((pid for pid, _ in new), number)
            time.sleep(0.01)


def become_subreaper() -> None:
    """Makes orphaned descendants children of this process, if the system supports it."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def kill_leftovers(folder: str) -> None:
    """Kills what is left of the kernel or job of *folder* if it has no keeper."""
    mark = ("%s=%s" % (MARK, folder)).encode()
    with contextlib.suppress(OSError, ValueError), open(os.path.join(folder, WARM_PID)) as file:
        pid, _, started = file.read().partition(" ")
        signal_process(int(pid), started, signal.SIGKILL)
    for name in filter(str.isdigit, os.listdir("/proc") if os.path.isdir("/proc") else ()):
        with contextlib.suppress(OSError):
            with open("/proc/%s/environ" % name, "rb") as environ:
                marked = mark in environ.read().split(b"\0")
            if marked:
                os.kill(int(name), signal.SIGKILL)


class JobProcess(OwnedProcess):
    """The command of a job, from its start to its last descendant.

    Parameters
    ----------
    spec: from the daemon: ``folder``, ``argv``, ``env`` (all variables), ``cwd``.

    Raises OSError if the command can't be started.
    """

    def __init__(self, spec: Dict[str, Any]) -> None:
        #: Where its stdout and stderr can be read; they don't block.
        self.pipes = {}
        ends = []
        try:
            for name in ("out", "err"):
                self.pipes[name], end = os.pipe()
                ends.append(end)
                os.set_blocking(self.pipes[name], False)
            popen = subprocess.Popen(
                spec["argv"],
                stdin=subprocess.DEVNULL,
                stdout=ends[0],
                stderr=ends[1],
                cwd=spec["cwd"],
                env={**spec["env"], MARK: spec["folder"]},
                start_new_session=True,
                **umask.of_login(),
            )
        except BaseException:
            for pipe in self.pipes.values():
                os.close(pipe)
            raise
        finally:
            for end in ends:
                os.close(end)
        super().__init__(popen)
