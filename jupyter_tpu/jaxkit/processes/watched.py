"""A process that answers requests, with limits of time and memory.

The limits are checked from outside: compilers allocate in native code and end the process where
Python would raise. It blocks: coroutines ask it in a thread and set *stop*.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Self

from ...errors import InvalidInput, Reason, TPUError
from ...python_command import module_command
from .frames import FrameTooLarge, read_frame, write_frame

_TAIL_BYTES = 64 << 10  # of stderr
_LINE_BYTES = 500  # bytes of a line that are reported
_ANSWER_BYTES = 64 << 20
_CHECK_SECONDS = 0.05  # between two checks of the process


class ProcessDied(TPUError):
    """The process ended without an answer."""


class WatchedProcess:
    """``python -m MODULE OUR_PID``, which answers one request after the other.

    *environment*: added to `clean_environment`, given `folder`, which lives as long as the process.
    As a context manager it ends the process, and all that this started, on leaving.
    """

    def __init__(self, module: str, environment: Callable[[Path], Mapping[str, str]]) -> None:
        # Not a TemporaryDirectory, which a fork of this process would remove.
        self.folder = Path(tempfile.mkdtemp(prefix="jupyter-tpu-"))
        self._started: list[subprocess.Popen[bytes]] = []
        self._printed: _Printed | None = None
        self._answer: _Answer | None = None

        def start() -> None:
            self._started.append(
                subprocess.Popen(
                    module_command(module, str(os.getpid())),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env={**clean_environment(), **environment(self.folder)},
                    start_new_session=True,
                )
            )

        try:
            # On a thread, where no interrupt can come between the start and the note of it.
            with ThreadPoolExecutor(1) as thread:
                thread.submit(start).result()
            self._printed = _Printed(self._process)
        except BaseException:
            self.end()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def _process(self) -> subprocess.Popen[bytes]:
        return self._started[0]

    @property
    def resident_bytes(self) -> int:
        """As `resident_bytes`."""
        return resident_bytes(self._process.pid)

    def ask(
        self,
        head: bytes,
        body: bytes,
        *,
        what: str,
        seconds: float,
        memory_bytes: int,
        stop: threading.Event | None = None,
        on_step: Callable[[str], None] | None = None,
        on_line: Callable[[str], None] | None = None,
    ) -> bytes:
        """The head of the answer. After an error the process is of no use: end it.

        *what*: begins the messages ("Compiling for v6e-8"). *on_step* is called with each step that
        the process reports, *on_line* with each line that it prints (cut after 500 bytes), both on
        threads of their own. Raises `InvalidInput` beyond *memory_bytes* of resident memory,
        `TPUError` with TIMEOUT after *seconds* and with CANCELLED when *stop* is set, and
        `ProcessDied`.
        """
        assert self._printed is not None
        self._printed.on_line = on_line or _ignore
        answer = self._answer = _Answer(self._process, head, body, on_step or _ignore)
        _watch(self._process, answer, what, seconds, memory_bytes, stop)
        if answer.head is None:
            self.end()
            raise _died(what, self._process.returncode, self._printed.tail())
        return answer.head

    def end(self) -> None:
        """Kills the process, waits for it and removes its folder; may be called again."""
        for process in self._started:
            end(process)
        if self._printed is not None:
            self._printed.join()
        if self._answer is not None:
            self._answer.join()
        for process in self._started:
            for pipe in filter(None, (process.stdin, process.stdout)):
                with suppress(OSError):  # it ended before it read all
                    pipe.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def clean_environment() -> dict[str, str]:
    """This process's environment without the variables for jax, libtpu and the loader."""
    dropped = ("JAX_", "TPU_", "XLA_", "LIBTPU_LOG", "MEGASCALE_", "CLOUD_TPU", "LD_PRELOAD")
    return {name: value for name, value in os.environ.items() if not name.startswith(dropped)}


def resident_bytes(pid: int) -> int:
    """Resident memory of a process; 0 where that cannot be read (not Linux, or it is gone)."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def end_with(parent: int) -> None:
    """Called in the process: it and all that it started end when process *parent* has ended."""

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os.killpg(0, signal.SIGKILL)

    if hasattr(os, "killpg"):
        threading.Thread(target=look, daemon=True).start()


def end(process: subprocess.Popen[bytes]) -> None:
    """Kills the process's whole session and waits for it."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError, AttributeError):
        process.kill()
    process.wait(timeout=30)


def _watch(
    process: subprocess.Popen[bytes],
    answer: _Answer,
    what: str,
    seconds: float,
    memory_bytes: int,
    stop: threading.Event | None,
) -> None:
    deadline = time.monotonic() + seconds
    while not _ended(process, answer):
        if stop is not None and stop.is_set():
            raise TPUError(f"{what} was cancelled.", Reason.CANCELLED)
        if time.monotonic() > deadline:
            raise TPUError(
                f"{what} took longer than {seconds:g} s and was stopped.",
                Reason.TIMEOUT,
                "Increase limits.seconds, or make the program smaller.",
            )
        if resident_bytes(process.pid) > memory_bytes:
            raise InvalidInput(
                f"{what} took more than {memory_bytes / 2**30:.1f} GiB of this machine's memory "
                "and was stopped.",
                "Increase limits.memory_bytes if the machine has more.",
            )


def _ended(process: subprocess.Popen[bytes], answer: _Answer) -> bool:
    """Waits a moment; whether there is an answer, or the process has ended without one."""
    if not answer.done.wait(_CHECK_SECONDS):
        return False
    if answer.head is None:
        try:
            process.wait(_CHECK_SECONDS)  # not killed on its way: its status says why it ended
        except subprocess.TimeoutExpired:
            return False
    return True


class _Answer:
    """A request and its answer, each on a thread, so that a full pipe can't block the other."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        head: bytes,
        body: bytes,
        on_step: Callable[[str], None],
    ) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.head: bytes | None = None
        self.done = threading.Event()
        self._on_step = on_step
        self._threads = (
            _thread(self._write, process.stdin, head, body),
            _thread(self._read, process.stdout),
        )

    def join(self) -> None:
        for thread in self._threads:
            thread.join(timeout=10)

    def _write(self, stream: BinaryIO, head: bytes, body: bytes) -> None:
        with suppress(OSError):  # it ended before it read all: see its exit status
            write_frame(stream, head, body)

    def _read(self, stream: BinaryIO) -> None:
        try:
            while self.head is None:
                head, body = read_frame(stream, _ANSWER_BYTES)
                if head:
                    self.head = head
                else:
                    self._on_step(body.decode(errors="replace"))
        except (EOFError, FrameTooLarge, OSError):
            pass  # no answer: see its exit status
        finally:
            self.done.set()


class _Printed:
    """What the process prints to stderr, read on a thread as long as it lives."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stderr is not None
        self.on_line: Callable[[str], None] = _ignore
        self._tail = bytearray()
        self._thread = _thread(self._drain, process.stderr)

    def tail(self) -> str:
        """The last lines."""
        return self._tail.decode(errors="replace")

    def join(self) -> None:
        self._thread.join(timeout=10)

    def _drain(self, stream: BinaryIO) -> None:
        line = b""
        with stream:
            while chunk := stream.read1(1 << 16):  # type: ignore[attr-defined]
                self._tail += chunk
                del self._tail[:-_TAIL_BYTES]
                *whole, line = (line + chunk).split(b"\n")
                for one in whole:
                    self.on_line(one[:_LINE_BYTES].decode(errors="replace"))
                line = line[: 2 * _LINE_BYTES]  # of an endless line, the beginning is reported
        if line:
            self.on_line(line[:_LINE_BYTES].decode(errors="replace"))


def _thread(work: Callable[..., None], *arguments: Any) -> threading.Thread:
    thread = threading.Thread(target=work, args=arguments, daemon=True)
    thread.start()
    return thread


def _ignore(_: str) -> None:
    pass


def _died(what: str, status: int, tail: str) -> ProcessDied:
    how = f"signal {-status}" if status < 0 else f"status {status}"
    cause = _cause([line for line in tail.splitlines() if line.strip()])
    return ProcessDied(
        f"{what} failed: the process ended with {how}.",
        Reason.INTERNAL,
        f"Its message: {cause[:300]}" if cause else "",
    )


def _cause(lines: list[str]) -> str:
    """The line that says why, of what a process printed before it ended."""
    for line in lines:  # native code: of severity F
        if line[:1] == "F" and line[1:5].isdigit():
            return line.strip()
    error = ""
    for line in lines:  # Python: after the last traceback, and before notes on the error
        if line.startswith("Traceback (most recent call last):"):
            error = "in a traceback"
        elif error == "in a traceback" and not line[:1].isspace():
            error = line
    return (error or (lines or [""])[-1]).strip()
