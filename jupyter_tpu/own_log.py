"""What happened, a line each, in files that a person can read and attach to a bug report.

Links, operations, claims, hunts, guards and leases call `happened` at the one place where their
state changes. What jupyter-tpu logs as a warning or an error is here, too. Every process of this
user writes to the same file, `log/jupyter-tpu.jsonl` in the data folder: a server, commands,
kernels. A line is written by one call at the end of the file, so that lines of several processes
don't mix; a thread does it, so that nothing waits for the disk. Lines have no secrets: what looks
like one, and the tokens that TPUs get, are left out.

On the disk are at most (KEPT_FILES + 1) * FILE_BYTES, and BATCH_BYTES of each process.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import queue
import re
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Literal

import msgspec
from msgspec import Struct

from .errors import Reason, TPUError
from .per_process import per_process

#: Bytes of a file, and how many older ones are kept.
FILE_BYTES, KEPT_FILES = 1 << 20, 3
#: Bytes that are written at once, and lines that wait for it; more are lost if the disk stands.
BATCH_BYTES, QUEUED_LINES = 64 << 10, 2000
#: Characters of a line.
LONGEST_TEXT = 4000
#: Seconds that the end of a process waits for its last lines.
END_SECONDS = 1.0
#: Seconds between two looks at a file that is followed.
FOLLOW_SECONDS = 0.3

log = logging.getLogger(__name__)

#: What a token looks like, whoever made it.
_SECRETS = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|\bya29\.[-\w.]+|\b1//[-\w]{20,}|\bAIza[-\w]{30,}|\bGOCSPX-[-\w]+"
    r"|\beyJ[-\w]{10,}\.[-\w]+\.?[-\w]*|\bhf_\w{16,}|\b(gh[pousr]|github_pat|glpat)[_-]\w{16,}"
    r"|\bsk-[-\w]{16,}|\bxox[abps]-[-\w]+|\bAKIA[A-Z0-9]{16}\b"
    r"|(?<=://)[^/@\s]*:[^/@\s]*(?=@)"
    r"|(?i:(?<=bearer )|(?<=basic )|(?<=token ))(?=\S*\d)[-\w.~+/=]{8,}"
    r"|(?i:(?<=token[=:])|(?<=password[=:])|(?<=secret[=:])|(?<=api_key[=:])|(?<=key[=:]))"
    r"[^\s&\"',;]{4,}",
    re.DOTALL,
)
HIDDEN = "[secret]"

Level = Literal["debug", "info", "warning", "error"]
_LEVELS: tuple[tuple[int, Level], ...] = (
    (logging.ERROR, "error"),
    (logging.WARNING, "warning"),
    (logging.INFO, "info"),
    (0, "debug"),
)


class LogLine(Struct, kw_only=True):
    """One thing that happened."""

    #: UTC, with milliseconds.
    time: str
    level: Level
    #: The program and its process ID: "jupyter-lab 4711".
    process: str
    text: str
    #: The name of the TPU that it is about; "" for none.
    tpu: str = ""
    #: The ID of the operation that it is about; "" for none.
    operation: str = ""

    def __str__(self) -> str:
        about = " ".join(filter(None, (self.tpu, self.operation)))
        about = f"[{about}] " if about else ""
        return f"{self.time} {self.level:7} {self.process}: {about}{self.text}"


def happened(text: str, *, tpu: str = "", operation: str = "", costs: bool = False) -> None:
    """Notes a change of state.

    Parameters
    ----------
    text: what changed, and why: "up → waiting: the connection was lost". No secret is in it.
    tpu: the name of the TPU.
    operation: the operation's ID.
    costs: whether it begins or ends what costs money.
    """
    level = logging.INFO if costs else logging.DEBUG
    _writer().put(_line("info" if costs else "debug", text, tpu, operation))
    if log.isEnabledFor(level):  # for who has asked for it: `jupyter lab --debug`
        about = " ".join(filter(None, (tpu, operation)))
        log.log(level, "%s: %s", about, text, extra={"is_written": True})


def without_secrets(text: str, values: dict[str, str] | None = None) -> str:
    """*text* with HIDDEN for what looks like a secret. values: known ones, with their names."""
    for value, name in (values or {}).items():
        text = text.replace(value, f"[{name}]")
    return _SECRETS.sub(HIDDEN, text)


def log_file() -> Path:
    """Where it is written now; its folder is made if needed."""
    from .paths import data_dir, private_dir

    return private_dir(data_dir() / "log") / "jupyter-tpu.jsonl"


def read() -> tuple[list[LogLine], Iterator[LogLine]]:
    """All lines that are kept, the oldest first; and those that come from then on, for which the
    iterator waits without an end. Raises TPUError if there can be none.
    """
    try:
        path = log_file()
    except OSError as error:
        hint = "Check the folder, or set JUPYTER_TPU_DATA_DIR to another one."
        raise TPUError(f"There is no log: {error}", Reason.UNAVAILABLE, hint) from error
    kept: list[LogLine] = []
    for older in reversed(_older(path)):
        with contextlib.suppress(OSError):
            kept += _parsed(older.read_bytes())
    file = _opened(path)
    data = file.read() if file is not None else b""
    whole, _, rest = data.rpartition(b"\n")
    return kept + _parsed(whole), _following(path, file, rest)


def chosen(lines: list[LogLine], search: str = "", tail: int = 0) -> list[LogLine]:
    """Those with a text, in any case; the last *tail* of them, or all (0)."""
    return [line for line in lines if search.lower() in str(line).lower()][-tail:]


def _following(path: Path, file: BinaryIO | None, rest: bytes) -> Iterator[LogLine]:
    while True:
        data = file.read() if file is not None else b""
        *whole, rest = (rest + data).split(b"\n")
        yield from _parsed(b"\n".join(whole))
        if data:
            continue
        with contextlib.suppress(OSError):
            if file is None:
                file = _opened(path)
            elif not os.path.samestat(os.fstat(file.fileno()), path.stat()):
                file.close()
                file = _opened(path)  # it was rotated: this is the next one
        time.sleep(FOLLOW_SECONDS)


def _opened(path: Path) -> BinaryIO | None:
    try:
        return path.open("rb")
    except OSError:
        return None


def flush(seconds: float = END_SECONDS) -> None:
    """Returns when the lines of this process are written, or after *seconds*."""
    _writer().flush(seconds)


# ---- writing -------------------------------------------------------------------------------------


def _line(level: Level, text: str, tpu: str, operation: str) -> LogLine:
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return LogLine(
        time=now,
        level=level,
        process=f"{_program()} {os.getpid()}",
        text=text[:LONGEST_TEXT],
        tpu=tpu,
        operation=operation,
    )


def _program() -> str:
    """What runs here: "jupyter-lab", or "cli" for ``python -m jupyter_tpu.cli``."""
    path = Path(sys.argv[0] if sys.argv and sys.argv[0] else "python")
    return path.parent.name if path.stem == "__main__" else path.stem


class _Writer(threading.Thread):
    """Writes lines to the file, as far as that is possible."""

    def __init__(self) -> None:
        super().__init__(name="jupyter-tpu-log", daemon=True)
        self._queue: queue.SimpleQueue[LogLine | threading.Event] = queue.SimpleQueue()
        self.start()
        atexit.register(self.flush)

    def put(self, line: LogLine) -> None:
        if self._queue.qsize() < QUEUED_LINES:
            self._queue.put(line)

    def flush(self, seconds: float = END_SECONDS) -> None:
        if self.is_alive():  # not in a fork
            done = threading.Event()
            self._queue.put(done)
            done.wait(seconds)

    def run(self) -> None:
        while True:
            batch = [self._queue.get()]
            with contextlib.suppress(queue.Empty):
                while len(batch) < BATCH_BYTES // LONGEST_TEXT:
                    batch.append(self._queue.get_nowait())
            written = [entry for entry in batch if isinstance(entry, LogLine)]
            with contextlib.suppress(OSError):
                if written:
                    _append(log_file(), _encoded(written))
            for entry in batch:
                if isinstance(entry, threading.Event):
                    entry.set()


def _encoded(batch: list[LogLine]) -> bytes:
    values: dict[str, str] = {}
    with contextlib.suppress(Exception):  # Windows has no fcntl, a .netrc may be broken
        from .tokens import known_secrets

        values = known_secrets()
    for line in batch:
        line.text = without_secrets(line.text, values)
    return b"".join(msgspec.json.encode(line) + b"\n" for line in batch)


def _append(path: Path, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    file = os.open(path, flags, 0o600)
    try:
        os.write(file, data)
        full = os.fstat(file).st_size >= FILE_BYTES
    finally:
        os.close(file)
    if full:
        _rotate(path)


def _rotate(path: Path) -> None:
    """Gives the files the next numbers, unless another process does it."""
    lock = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        with contextlib.suppress(ImportError):  # Windows
            from .local_files import try_lock

            if not try_lock(lock):
                return
        if path.stat().st_size < FILE_BYTES:
            return
        newer = [path, *_older(path)]
        for older, file in zip(reversed(newer), list(reversed(newer))[1:], strict=False):
            with contextlib.suppress(FileNotFoundError):
                os.replace(file, older)
    finally:
        os.close(lock)


def _older(path: Path) -> list[Path]:
    return [path.with_suffix(f".{number}.jsonl") for number in range(1, KEPT_FILES + 1)]


def _parsed(data: bytes) -> list[LogLine]:
    """The lines of a file; what is none is left out."""
    found = []
    for line in data.splitlines():
        with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
            found.append(msgspec.json.decode(line, type=LogLine))
    return found


class _Handler(logging.Handler):
    """What jupyter-tpu's modules log otherwise."""

    def emit(self, record: logging.LogRecord) -> None:
        if not getattr(record, "is_written", False):
            level = next(name for least, name in _LEVELS if record.levelno >= least)
            _writer().put(_line(level, f"{record.name}: {self.format(record)}", "", ""))
        # Python prints a warning itself only where there is no handler.
        last = logging.lastResort
        if last is not None and not logging.root.handlers and record.levelno >= last.level:
            last.handle(record)


@per_process
def _writer() -> _Writer:
    logger = logging.getLogger(__package__)
    if not any(isinstance(handler, _Handler) for handler in logger.handlers):
        logger.addHandler(_Handler())
    return _Writer()
