"""The emulator that starts with the server: ``c.JupyterTPU.emulator = True``."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import json
import os
import signal
import time
from pathlib import Path

from ..errors import Reason, TPUError
from ..on_host.agent.protocol.processes import signal_process, start_time
from ..paths import data_dir
from ..python_command import module_command

#: Seconds until it must be ready. Preparing hosts takes some seconds the first time.
START_TIMEOUT = 90.0
#: Seconds in which it must end its hosts.
STOP_TIMEOUT = 15.0
#: The file in the emulator's folder with the pid of an emulator that a server started.
_PID_FILE = "started-with-server"


class LocalEmulator:
    """An emulator process, found or started on first use. Runs on the core thread's loop."""

    def __init__(self, state_dir: Path | None = None) -> None:
        self._state_dir = state_dir
        self._starting: asyncio.Task[str] | None = None
        self._pid, self._started = 0, ""

    async def state_file(self) -> str:
        """The state file of the running emulator. Raises UNAVAILABLE if it does not start."""
        starting = self._starting
        if starting is None or (starting.done() and (starting.cancelled() or starting.exception())):
            starting = self._starting = asyncio.create_task(self._start())
        return await asyncio.shield(starting)

    async def _start(self) -> str:
        folder = self._state_dir or data_dir() / "emulator"
        process = await asyncio.create_subprocess_exec(
            *module_command("jupyter_tpu.cli", "emulator", "--state", str(folder)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            # Ctrl-C must reach only the server, which decides when the emulator stops.
            start_new_session=True,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        self._pid, self._started = process.pid, start_time(process.pid)
        atexit.register(self.end)
        try:
            async with asyncio.timeout(START_TIMEOUT):
                async for line in process.stdout:
                    key, _, value = line.decode().strip().partition(": ")
                    if key == "state file":
                        self._drain(process)
                        (folder / _PID_FILE).write_text(str(process.pid))
                        return value
            async with asyncio.timeout(STOP_TIMEOUT):
                problem = (await process.stderr.read()).decode().strip()
            await process.wait()
        except TimeoutError:
            process.terminate()
            problem = f"it was not ready within {START_TIMEOUT:.0f} s"
        self._pid = 0
        state_file = folder / "emulator.json"
        if state_file.is_file():
            # Another emulator is running. A killed server left it, and we end it, or the user
            # started it, and we don't.
            pid = json.loads(state_file.read_text())["pid"]
            with contextlib.suppress(FileNotFoundError):
                self._pid = pid if (folder / _PID_FILE).read_text() == str(pid) else 0
                self._started = start_time(pid)
            return str(state_file)
        raise TPUError(
            f"The emulator did not start: {(problem.splitlines() or ['no reason given'])[-1]}",
            Reason.UNAVAILABLE,
            "Try `jupyter tpu emulator` in a terminal to see why.",
        )

    def _drain(self, process: asyncio.subprocess.Process) -> None:
        """Reads its further output, so that it never blocks."""

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
        """Ends the emulator that was started here and waits for it, when this process exits.

        Not earlier, because kernels are shut down after extensions and need their hosts.
        """
        pid, self._pid = self._pid, 0
        if not pid:
            return
        if signal_process(pid, self._started, signal.SIGTERM):
            _wait_for_end(pid, self._started)


def _wait_for_end(pid: int, started: str) -> None:
    until = time.monotonic() + STOP_TIMEOUT
    while time.monotonic() < until:
        with contextlib.suppress(ChildProcessError):  # already waited for, or not a child
            os.waitpid(pid, os.WNOHANG)
        if start_time(pid) != started:
            return
        time.sleep(0.05)
