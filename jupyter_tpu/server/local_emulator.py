"""The emulator that is started with the server: ``c.JupyterTPU.emulator = True``."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import json
import os
import signal
import sys
import time
from pathlib import Path

from ..errors import Reason, TPUError
from ..paths import data_dir

#: How long it may take until it is ready: preparing hosts takes some seconds the first time.
READY = 90.0
#: How long it may take to end its hosts; seconds.
END = 15.0
#: The file with the pid of an emulator that was started by a server, in the emulator's folder.
_OURS = "started-with-server"


class LocalEmulator:
    """A child process, found or started when first asked for. On the core thread's loop."""

    def __init__(self, state_dir: Path | None = None) -> None:
        self._state_dir = state_dir
        self._starting: asyncio.Task[str] | None = None
        self._pid = 0

    async def state_file(self) -> str:
        """The state file of the running emulator; raises UNAVAILABLE if it does not start."""
        starting = self._starting
        if starting is None or (starting.done() and (starting.cancelled() or starting.exception())):
            starting = self._starting = asyncio.create_task(self._start())
        return await asyncio.shield(starting)

    async def _start(self) -> str:
        folder = self._state_dir or data_dir() / "emulator"
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "jupyter_tpu.cli", "emulator", "--state", str(folder)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            # Ctrl-C is for the server, which decides when the hosts may end.
            start_new_session=True,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        self._pid = process.pid
        atexit.register(self.end)
        try:
            while line := await asyncio.wait_for(process.stdout.readline(), READY):
                key, _, value = line.decode().strip().partition(": ")
                if key == "state file":
                    self._drain(process)
                    (folder / _OURS).write_text(str(process.pid))
                    return value
            said = (await asyncio.wait_for(process.stderr.read(), END)).decode().strip()
            await process.wait()
        except TimeoutError:
            process.terminate()
            said = f"it was not ready within {READY:.0f} s"
        self._pid = 0
        left = folder / "emulator.json"
        if left.is_file():
            # A server that was killed left it running, with its TPUs; or somebody else's, which
            # is not ours to end.
            pid = json.loads(left.read_text())["pid"]
            with contextlib.suppress(FileNotFoundError):
                self._pid = pid if (folder / _OURS).read_text() == str(pid) else 0
            return str(left)
        raise TPUError(
            f"The emulator did not start: {said.splitlines()[-1] if said else 'no reason given'}",
            Reason.UNAVAILABLE,
            "Try `jupyter tpu emulator` in a terminal to see why.",
        )

    def _drain(self, process: asyncio.subprocess.Process) -> None:
        """Reads what else it says, so that it never waits for us."""

        async def drain(stream: asyncio.StreamReader, out: int) -> None:
            while chunk := await stream.read(65536):
                os.write(out, chunk) if out else None

        assert process.stdout is not None
        assert process.stderr is not None
        self._readers = [
            asyncio.create_task(drain(process.stdout, 0)),
            asyncio.create_task(drain(process.stderr, 2)),
        ]

    def end(self) -> None:
        """Ends the emulator that was started here and waits for it; at the process's end.

        Not earlier: kernels are shut down after extensions are stopped, and need their hosts.
        """
        pid, self._pid = self._pid, 0
        if not pid:
            return
        try:
            os.kill(pid, signal.SIGTERM)
        except ProcessLookupError:
            return
        _wait_for_end(pid)


def _wait_for_end(pid: int) -> None:
    until = time.monotonic() + END
    while time.monotonic() < until:
        with contextlib.suppress(ChildProcessError):  # the child watcher was first, or no child
            os.waitpid(pid, os.WNOHANG)
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
