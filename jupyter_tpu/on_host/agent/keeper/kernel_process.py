"""The kernel as a process: starting it, or turning a warm kernel into the requested one.

Only light modules are imported here, so that a keeper can start its kernel before anything else.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
from typing import Any, Dict, Optional, Union

from ..protocol import umask
from ..protocol.paths import agent_folder
from ..protocol.processes import start_time
from .owned_process import MARK, WARM_PID, OwnedProcess

#: Bytes of the kernel's own stdout and stderr that are kept, to show why it died.
TAIL_BYTES = 16 * 1024
#: Seconds in which a warm kernel answers that it becomes the kernel that is wanted.
ASSIGN_LIMIT = 10.0
#: Where a pod kernel says what its hosts do, in its folder.
HOSTS = "hosts.json"


class KernelProcess(OwnedProcess):
    """One kernel, from its start to its last descendant.

    Parameters
    ----------
    spec: from the daemon: ``folder``, ``python``, ``key``, ``env``, ``cwd``. With
        ``warm`` (modules to import) the folder and key are not used, and the kernel waits for
        :meth:`assign`. With ``pod``, which the conductor reads, it is a pod kernel.
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
            environment[MARK] = self.folder
        here = os.path.dirname(os.path.abspath(__file__))
        launcher = [os.path.join(here, "ipython_kernel.py")]
        if spec.get("pod"):
            launcher = [agent_folder(), "conductor"]
            if self._line is None:
                _write_private(os.path.join(self.folder, "pod.json"), spec["pod"])
            else:
                arguments = arguments[:1]
                self._line.sendall(
                    json.dumps({**spec["pod"], "warm": spec["warm"]}).encode() + b"\n"
                )
        self.output, output = os.pipe()
        os.set_blocking(self.output, False)
        try:
            popen = subprocess.Popen(
                [spec["python"], *launcher, *arguments],
                stdin=stdin,  # type: ignore[arg-type]  # a socket works, too
                stdout=output,
                stderr=output,
                cwd=spec["cwd"],
                env=environment,
                start_new_session=True,
                **umask.of_login(),
            )
        finally:
            os.close(output)
            if isinstance(stdin, socket.socket):
                stdin.close()
        super().__init__(popen)
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
        """Makes a warm kernel the one of *spec*; raises OSError if it has ended or does not answer.

        A process that was just killed can look alive: only its answer shows that it is.
        """
        assert self._line is not None
        connection_file = self._use_folder(spec)
        with open(os.path.join(self.folder, WARM_PID), "w") as file:
            # Its environment cannot be marked any more.
            file.write("%d %s" % (self.pid, start_time(self.pid)))
        assignment = {
            "file": connection_file,
            "cwd": spec["cwd"],
            "env": {**spec["env"], MARK: self.folder},
            "pod": spec.get("pod"),
        }
        with self._line:
            self._line.sendall(json.dumps(assignment).encode() + b"\n")
            self._line.settimeout(ASSIGN_LIMIT)
            if not self._line.recv(1):
                raise OSError("it ended before it answered")

    def read_output(self) -> bool:
        """Reads the process's own output (not that of cells); False at its end."""
        try:
            data = os.read(self.output, 65536)
        except BlockingIOError:
            return True
        self._tail += data
        del self._tail[:-TAIL_BYTES]
        return bool(data)

    @property
    def tail(self) -> str:
        """The end of the process's own output."""
        return self._tail.decode(errors="replace")


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
    _write_private(os.path.join(folder, "connection.json"), connection)
    return connection


def _write_private(path: str, content: Dict[str, Any]) -> None:
    with open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
        json.dump(content, file)
