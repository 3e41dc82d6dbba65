"""The kernel as a process: starting it, signalling it, and ending everything that it started.

The keeper makes itself the *subreaper* of the kernel's descendants (Linux): whatever they do to get
away (``setsid``, double forks), they become children of the keeper when their parent ends, and are
ended with the kernel. On other systems only the process group is ended.

Only light modules are imported here, so that a keeper can start its kernel before anything else.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from typing import Any, Dict, List, Optional, Union

from ..protocol.processes import signal_process, start_time

#: Bytes of the kernel's own stdout and stderr that are kept, to show why it died.
TAIL = 16 * 1024
#: A variable that marks a kernel's processes, in case that its keeper is killed.
_MARK = "JUPYTER_TPU_KERNEL_FOLDER"
#: A file with the process id and start time of a kernel that was started before it had a folder.
_WARM_PID = "warm-pid"
_PR_SET_CHILD_SUBREAPER = 36


class KernelProcess:
    """One kernel, from its start to its last descendant.

    Parameters
    ----------
    spec: from the daemon: ``folder``, ``python``, ``key``, ``env``, ``cwd``. With
        ``warm`` (modules to import) instead of folder and key, the kernel waits for
        :meth:`assign`.
    """

    def __init__(self, spec: Dict[str, Any]) -> None:
        self.folder = ""
        self.connection: Dict[str, Any] = {}
        # ipykernel ends when this process does.
        environment = {**os.environ, **spec["env"], "JPY_PARENT_PID": str(os.getpid())}
        self._line: Optional[socket.socket] = None  # to a warm kernel
        stdin: Union[int, socket.socket] = subprocess.DEVNULL
        if "warm" in spec:
            arguments = ["--warm", *spec["warm"]]
            self._line, stdin = socket.socketpair()
        else:
            arguments = ["-f", self._use_folder(spec)]
            environment[_MARK] = self.folder
        launcher = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ipython_kernel.py")
        self.output, output = os.pipe()
        os.set_blocking(self.output, False)
        try:
            self._popen = subprocess.Popen(
                [spec["python"], launcher, *arguments],
                stdin=stdin,  # type: ignore[arg-type]  # a socket works, too
                stdout=output,
                stderr=output,
                cwd=spec["cwd"],
                env=environment,
                start_new_session=True,
            )
        finally:
            os.close(output)
            if isinstance(stdin, socket.socket):
                stdin.close()
        self.pid = self._popen.pid
        self.code: Optional[int] = None  # the exit code, negative for a signal, once it has one
        self.paused = False
        self._tail = bytearray()

    def _use_folder(self, spec: Dict[str, Any]) -> str:
        """Sets the kernel's folder; returns the path of its connection file."""
        self.folder = spec["folder"]
        self.connection = _write_connection_file(self.folder, spec["key"])
        return os.path.join(self.folder, "connection.json")

    def wait_until_warm(self) -> Dict[str, Any]:
        """Waits until a warm kernel has imported everything; returns its report, {} if it ended."""
        assert self._line is not None
        with self._line.makefile("r", encoding="utf-8") as lines:
            line = lines.readline()
        report: Dict[str, Any] = json.loads(line) if line else {}
        return report

    def assign(self, spec: Dict[str, Any]) -> None:
        """Makes a warm kernel the one of *spec*; raises OSError if it has ended."""
        assert self._line is not None
        connection_file = self._use_folder(spec)
        with open(os.path.join(self.folder, _WARM_PID), "w") as file:
            # Its environment cannot be marked any more.
            file.write("%d %s" % (self.pid, start_time(self.pid)))
        assignment = {
            "file": connection_file,
            "cwd": spec["cwd"],
            "env": {**spec["env"], _MARK: self.folder},
        }
        self._line.sendall(json.dumps(assignment).encode() + b"\n")
        self._line.close()

    def read_output(self) -> bool:
        """Reads the process's own output (not that of cells); False at its end."""
        try:
            data = os.read(self.output, 65536)
        except BlockingIOError:
            return True
        self._tail += data
        del self._tail[:-TAIL]
        return bool(data)

    @property
    def tail(self) -> str:
        """The end of the process's own output."""
        return self._tail.decode(errors="replace")

    def reap(self) -> bool:
        """Reaps ended children; True if the kernel is one of them."""
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

    def signal(self, number: int) -> None:
        """Sends a signal to the kernel's process group; a paused kernel is resumed."""
        if self.code is not None:
            return
        try:
            os.killpg(self.pid, number)
            if self.paused:
                self.resume()
        except ProcessLookupError:
            pass  # it is gone; its SIGCHLD is on the way

    def pause(self) -> None:
        """Suspends the kernel, because its journal is full."""
        if self.code is None and not self.paused:
            os.killpg(self.pid, signal.SIGSTOP)
            self.paused = True

    def resume(self) -> None:
        if self.paused:
            self.paused = False
            os.killpg(self.pid, signal.SIGCONT)

    def terminate_descendants(self, patience: float = 0.5, limit: float = 5.0) -> None:
        """Ends the processes that the kernel left: with SIGTERM, after *patience* with SIGKILL.

        Returns when none is left, or after *limit* seconds (a process in a system call that hangs
        cannot be killed).
        """
        begun = time.monotonic()
        terminated = set()  # with SIGTERM
        while time.monotonic() < begun + limit:
            self.reap()
            rest = descendants(os.getpid())
            if not rest:
                return
            impatient = time.monotonic() > begun + patience
            for pid in rest:
                if impatient or pid not in terminated:
                    terminated.add(pid)
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL if impatient else signal.SIGTERM)
            time.sleep(0.01)


def become_subreaper() -> None:
    """Makes orphaned descendants children of this process, if the system supports it."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(pid: int) -> List[int]:
    """The live descendants of *pid*, parents first; [] if there is no /proc."""
    children: Dict[int, List[int]] = {}
    try:
        names = os.listdir("/proc")
    except FileNotFoundError:
        return []
    for name in names:
        if name.isdigit():
            try:
                with open("/proc/%s/stat" % name, "rb") as file:
                    state, parent = file.read().rpartition(b")")[2].split()[:2]
            except (FileNotFoundError, ProcessLookupError):
                continue
            if state != b"Z":
                children.setdefault(int(parent), []).append(int(name))
    found: List[int] = []
    queue = [pid]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


def kill_leftovers(folder: str) -> None:
    """Kills what is left of the kernel of *folder* if it has no keeper."""
    mark = ("%s=%s" % (_MARK, folder)).encode()
    with contextlib.suppress(OSError, ValueError), open(os.path.join(folder, _WARM_PID)) as file:
        pid, _, started = file.read().partition(" ")
        signal_process(int(pid), started, signal.SIGKILL)
    for name in filter(str.isdigit, os.listdir("/proc") if os.path.isdir("/proc") else ()):
        with contextlib.suppress(OSError):
            with open("/proc/%s/environ" % name, "rb") as environ:
                marked = mark in environ.read().split(b"\0")
            if marked:
                os.kill(int(name), signal.SIGKILL)


def _write_connection_file(folder: str, key: str) -> Dict[str, Any]:
    connection = {
        "transport": "ipc",
        "ip": os.path.join(folder, "ipc"),  # ipykernel's sockets are ipc-1, ipc-2, …
        "shell_port": 1,
        "control_port": 2,
        "stdin_port": 3,
        "iopub_port": 4,
        "hb_port": 5,
        "key": key,
        "signature_scheme": "hmac-sha256",
        "kernel_name": "",
    }
    path = os.path.join(folder, "connection.json")
    with open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
        json.dump(connection, file)
    return connection
