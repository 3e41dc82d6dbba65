"""The kernel as a process: starting it, signalling it, and leaving nothing of it behind.

The keeper makes itself the *subreaper* of what the kernel starts (Linux): whatever a kernel's
children do to get away (``setsid``, double forks), they become the keeper's when their parent
ends, and are ended with the kernel. Where there is no such thing the process group has to do.

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

#: Bytes of the kernel's own stdout and stderr that are kept, to say why it died.
TAIL = 16 * 1024
#: A variable that marks what belongs to a kernel, for the case that its keeper was killed.
_MARK = "JUPYTER_TPU_KERNEL_FOLDER"
#: A file with the process id of a kernel that was started before it had a folder.
_BORN = "warm-pid"
_PR_SET_CHILD_SUBREAPER = 36


class KernelProcess:
    """One kernel, from its start to its last descendant.

    Parameters
    ----------
    order: what the daemon asked for: ``folder``, ``python``, ``key``, ``env``, ``cwd``. With
        ``warm`` (modules to import) instead of folder and key, the kernel waits for
        :meth:`assign`.
    """

    def __init__(self, order: Dict[str, Any]) -> None:
        self.folder = ""
        self.connection: Dict[str, Any] = {}
        # ipykernel ends when this process does.
        environment = {**os.environ, **order["env"], "JPY_PARENT_PID": str(os.getpid())}
        self._line: Optional[socket.socket] = None  # to one that waits
        stdin: Union[int, socket.socket] = subprocess.DEVNULL
        if "warm" in order:
            words = ["--warm", *order["warm"]]
            self._line, stdin = socket.socketpair()
        else:
            words = ["-f", self._settle(order)]
            environment[_MARK] = self.folder
        launcher = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ipython_kernel.py")
        self.output, output = os.pipe()
        os.set_blocking(self.output, False)
        try:
            self._popen = subprocess.Popen(
                [order["python"], launcher, *words],
                stdin=stdin,  # type: ignore[arg-type]  # a socket is as good as a file
                stdout=output,
                stderr=output,
                cwd=order["cwd"],
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

    def _settle(self, order: Dict[str, Any]) -> str:
        """Takes the folder that the kernel has from now on; returns its connection file."""
        self.folder = order["folder"]
        self.connection = _write_connection_file(self.folder, order["key"])
        return os.path.join(self.folder, "connection.json")

    def wait_until_warm(self) -> Dict[str, Any]:
        """Waits until a warm kernel has imported everything; what it says then; {}: it ended."""
        assert self._line is not None
        with self._line.makefile("r", encoding="utf-8") as lines:
            line = lines.readline()
        said: Dict[str, Any] = json.loads(line) if line else {}
        return said

    def assign(self, order: Dict[str, Any]) -> None:
        """Makes a warm kernel the one of *order*; raises OSError if it has ended."""
        assert self._line is not None
        file = self._settle(order)
        with open(os.path.join(self.folder, _BORN), "w") as born:
            born.write(str(self.pid))  # whose environment cannot be marked any more
        said = {"file": file, "cwd": order["cwd"], "env": {**order["env"], _MARK: self.folder}}
        self._line.sendall(json.dumps(said).encode() + b"\n")
        self._line.close()

    def read_output(self) -> bool:
        """Takes what the process itself wrote (not what cells print); False: its end is reached."""
        try:
            data = os.read(self.output, 65536)
        except BlockingIOError:
            return True
        self._tail += data
        del self._tail[:-TAIL]
        return bool(data)

    @property
    def tail(self) -> str:
        """The last of what the process wrote outside of cells."""
        return self._tail.decode(errors="replace")

    def reap(self) -> bool:
        """Collects children that ended; True if the kernel is one of them."""
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
        """Sends a signal to the kernel's process group; a paused kernel is woken for it."""
        if self.code is not None:
            return
        try:
            os.killpg(self.pid, number)
            if self.paused:
                self.resume()
        except ProcessLookupError:
            pass  # it is gone; its SIGCHLD is on the way

    def pause(self) -> None:
        """Stops the kernel in its tracks, because its journal has no more room."""
        if self.code is None and not self.paused:
            os.killpg(self.pid, signal.SIGSTOP)
            self.paused = True

    def resume(self) -> None:
        if self.paused:
            self.paused = False
            os.killpg(self.pid, signal.SIGCONT)

    def end_rest(self, patience: float = 0.5, limit: float = 5.0) -> None:
        """Ends what the kernel left behind: politely, and after *patience* seconds not so.

        Returns when nothing is left, or after *limit* seconds (a process in the middle of a
        system call that hangs cannot be ended by anybody).
        """
        begun = time.monotonic()
        asked = set()  # who was asked politely
        while time.monotonic() < begun + limit:
            self.reap()
            rest = descendants(os.getpid())
            if not rest:
                return
            impatient = time.monotonic() > begun + patience
            for pid in rest:
                if impatient or pid not in asked:
                    asked.add(pid)
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL if impatient else signal.SIGTERM)
            time.sleep(0.01)


def become_subreaper() -> None:
    """Makes orphans below this process its own children, where the system can."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(pid: int) -> List[int]:
    """The live processes below *pid*, children after their parents; [] where there is no /proc."""
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


def sweep(folder: str) -> None:
    """Ends what is left of the kernel of *folder* when no keeper is there to do it."""
    mark = ("%s=%s" % (_MARK, folder)).encode()
    with contextlib.suppress(OSError, ValueError), open(os.path.join(folder, _BORN)) as born:
        kernel = int(born.read())
        with open("/proc/%d/cmdline" % kernel, "rb") as words:
            if b"--warm" in words.read().split(b"\0"):
                os.kill(kernel, signal.SIGKILL)
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
