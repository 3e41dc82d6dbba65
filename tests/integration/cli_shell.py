"""``jupyter tpu`` in processes of its own: in a shell, in a terminal, beside a server."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import secrets
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bare_server import BARE
from forked import forks
from ports import free_port, listens
from waiting import until

COMMAND = [sys.executable, "-m", "jupyter_tpu.cli"]
LIMIT = 120.0  # seconds for anything
#: Makes standard input the controlling terminal, then becomes the command. A `preexec_fn` would run
#: Python in a fork of this process, whose gRPC threads may hold locks.
TAKE_TERMINAL = """
import fcntl, os, signal, sys, termios
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup's children ignore it
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


class Shell:
    """Runs commands in an environment of its own."""

    def __init__(self, folder: Path, **variables: str) -> None:
        self.folder = folder
        self.environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120", **variables}
        for name in ("JUPYTER_TPU_DATA_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
            self.environment[name] = str(folder / name.lower())
        self.environment.pop("NO_COLOR", None)

    def run(
        self, *words: str, input: str | None = None, limit: float = LIMIT
    ) -> subprocess.CompletedProcess[str]:
        return forks().run(
            "jupyter_tpu.cli",
            [*map(str, words)],
            env=self.environment,
            cwd=self.folder,
            input=input,
            timeout=limit,
        )

    def out(self, *words: str, input: str | None = None, limit: float = LIMIT) -> str:
        """What a command that succeeds says."""
        done = self.run(*words, input=input, limit=limit)
        assert done.returncode == 0, done.stderr
        assert done.stderr == "", done.stderr
        return done.stdout

    def json(self, *words: str, input: str | None = None) -> Any:
        return json.loads(self.out(*words, input=input))

    def complaint(self, *words: str) -> str:
        """The one line that a command that fails says."""
        done = self.run(*words)
        assert done.returncode in (1, 2), done.stdout  # 2: a wrong command line
        assert done.stderr.startswith("jupyter tpu: ")
        assert done.stderr.count("\n") == 1, done.stderr
        return done.stderr


class Terminal:
    """A command in a terminal of its own, and what stands there."""

    def __init__(self, shell: Shell, *words: str) -> None:
        self._end, end = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-S", "-c", TAKE_TERMINAL, *COMMAND, *words],
            env=shell.environment,
            stdin=end,
            stdout=end,
            stderr=end,
            start_new_session=True,
        )
        os.close(end)
        self.text = ""
        self._seen = 0  # up to where it was expected

    def expect(self, pattern: str) -> None:
        """Reads until *pattern* stands there, behind what was expected before."""
        end = time.monotonic() + LIMIT
        while (match := re.compile(pattern).search(self.text, self._seen)) is None:
            left = end - time.monotonic()
            if left < 0 or not select.select([self._end], [], [], left)[0]:
                raise AssertionError(f"{pattern!r} did not come:\n{self.text}")
            try:
                self.text += os.read(self._end, 65536).decode(errors="replace")
            except OSError:  # how Linux says that the other end was closed
                raise AssertionError(f"it ended without {pattern!r}:\n{self.text}") from None
        self._seen = match.end()

    def type(self, text: str) -> None:
        os.write(self._end, text.encode())

    def end(self) -> int:
        """Waits for its end; the exit code."""
        with contextlib.suppress(OSError):
            while select.select([self._end], [], [], LIMIT)[0] and (
                more := os.read(self._end, 65536)
            ):
                self.text += more.decode(errors="replace")
        code = self.process.wait(LIMIT)
        os.close(self._end)
        return code


@contextlib.contextmanager
def running_server(shell: Shell, *more: str, extension: bool = True) -> Iterator[str]:
    """A Jupyter server of this user, with *more* options; gives its base URL."""
    root = shell.folder / "root"
    root.mkdir(exist_ok=True)
    port = free_port()
    options = [f"--ServerApp.port={port}", "--ServerApp.port_retries=0", "--allow-root"]
    options += ["--ServerApp.open_browser=False", f"--ServerApp.root_dir={root}"]
    options += [*BARE, *more, f"--ServerApp.jpserver_extensions=jupyter_tpu={extension}"]
    environment = {**shell.environment, "JUPYTER_TOKEN": secrets.token_hex(16)}
    log = shell.folder / f"server-{port}.log"
    with log.open("wb") as out:
        process = forks().start("jupyter_server", options, env=environment, log=out.fileno())
    try:

        def runs() -> bool:
            assert process.poll() is None, log.read_text()
            return listens(port)

        until(runs, LIMIT, log.read_text)
        yield f"http://127.0.0.1:{port}/"
    finally:
        process.terminate()
        process.wait(LIMIT)


def nodes(emulator: Any) -> list[dict[str, Any]]:
    project = emulator.state.project
    return emulator.request("GET", f"/v2/projects/{project}/locations/-/nodes").get("nodes", [])


def state_of(emulator: Any, name: str) -> str:
    """The TPU's state at the emulator; "" if there is none."""
    return next((n["state"] for n in nodes(emulator) if n["name"].endswith(f"/{name}")), "")
