"""Waits for an operation in front of the user: a bar on a terminal, lines elsewhere, and Ctrl-C.

Ctrl-C never leaves the user guessing: it says what goes on and asks; a second one cancels.
"""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from typing import TYPE_CHECKING, TextIO

from ..commands.operations import (
    DOING,
    left_running,
    progress_line,
    raise_failure,
    status_command,
    subject,
)
from ..commands.tables import is_terminal
from ..errors import Reason, TPUError
from .console import ask, can_ask, note

if TYPE_CHECKING:
    from ..commands.session import Session
    from ..fleet.models import Operation

_BAR = 20  # cells of the bar

#: States of a TPU in which Google has not begun yet.
_BEFORE = {
    "start": ("STOPPED",),
    "stop": ("READY",),
    "delete": ("READY", "STOPPED", "PREEMPTED", "TERMINATED"),
}


class Progress:
    """Shows an operation's states on *stream*; may be told from any thread."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._terminal = is_terminal(stream)
        self._lock = threading.Lock()  # the core's thread shows, this one pauses
        self._paused = False
        self._said = ""
        self._began = time.monotonic()

    def show(self, operation: Operation) -> None:
        line = progress_line(operation)
        with self._lock:
            if self._terminal:
                if not self._paused:
                    width = shutil.get_terminal_size().columns - 1
                    bar = _bar(operation.progress, line, time.monotonic() - self._began)
                    self._stream.write("\r" + bar[:width] + "\x1b[K")
            elif line and line != self._said:
                self._said = line
                self._stream.write(line + "\n")
            self._stream.flush()

    def pause(self, paused: bool) -> None:
        """Keeps the line free, for a question, and what was shown in sight."""
        with self._lock:
            if paused and self._terminal:
                self._stream.write("\n")
                self._stream.flush()
            self._paused = paused

    def end(self) -> None:
        """Leaves an empty line's start behind."""
        self._paused = True
        if self._terminal:
            with self._lock:
                self._stream.write("\r\x1b[K")
                self._stream.flush()


def _bar(part: float | None, line: str, seconds: float) -> str:
    if part is None:
        filled = "·" * _BAR
        share = "    "
    else:
        done = round(part * _BAR)
        filled = "█" * done + "·" * (_BAR - done)
        share = f"{part:4.0%}"
    minutes, rest = divmod(int(seconds), 60)
    return f"[{filled}] {share} {minutes}:{rest:02} {line}"


def finish(session: Session, operation: Operation, stream: TextIO) -> Operation:
    """Waits until *operation* has ended and returns its end; raises what it failed with.

    *stream* is where progress goes: one that is no terminal gets a line per change.
    """
    from ..fleet.client import wait_for_end
    from ..links import core_thread

    progress = Progress(stream)
    future: Future[Operation] | None = None
    asked = interrupted = False
    try:
        while True:
            # All of it in here, so that there is no moment in which Ctrl-C is not answered.
            try:
                if interrupted:
                    interrupted, certain = False, asked
                    asked = not can_ask()
                    if certain or _asks_to_cancel(session, operation, progress):
                        ended = _cancel(session, operation, progress)
                        break
                future = future or core_thread().submit(
                    wait_for_end(session.fleet, operation, progress.show)
                )
                ended = _result(future)
                break
            except KeyboardInterrupt:
                interrupted = True
    finally:
        if future is not None:
            future.cancel()
        progress.end()
    raise_failure(ended)
    return ended


def finish_all(session: Session, operation: Operation, stream: TextIO) -> Operation:
    """As :func:`finish`; after a create that asks for it, the connecting, too."""
    ended = finish(session, operation, stream)
    if operation.kind != "create":
        return ended
    for other in session.call(session.fleet.operations()):
        if (
            other.kind == "connect"
            and (other.tpu, other.zone) == (operation.tpu, operation.zone)
            and other.created >= operation.created
        ):
            try:
                finish(session, other, stream)
            except TPUError as error:
                raise TPUError(
                    f"{operation.tpu} is created, but not connected: {error.message}",
                    error.reason,
                    error.hint,
                ) from None
            break
    return ended


def _cancel(session: Session, operation: Operation, progress: Progress) -> Operation:
    """Cancels and waits until that is done; another Ctrl-C stops the waiting."""
    from ..fleet.client import wait_for_end

    async def cancel() -> Operation:
        return await wait_for_end(session.fleet, await session.fleet.cancel(operation.id))

    progress.end()
    note(f"Cancelling; waiting until {subject(operation)} is tidied up …")
    try:
        return session.call(cancel())
    except KeyboardInterrupt:
        raise TPUError(
            f"This did not wait until {subject(operation)} was tidied up.",
            Reason.INTERRUPTED,
            f"{status_command(operation)} shows what there is.",
        ) from None


def _result(future: Future[Operation]) -> Operation:
    """The future's result, waited for in short pieces: on Windows a wait can't be interrupted."""
    while True:
        try:
            return future.result(timeout=0.5)
        except NotYet:
            if future.done():
                raise


def _asks_to_cancel(session: Session, operation: Operation, progress: Progress) -> bool:
    """After a Ctrl-C: whether to cancel. Raises CANCELLED to leave the operation to itself."""
    doing = f"{subject(operation)} is still being {DOING[operation.kind]}"
    if not can_ask():
        note(f"{doing}. Another Ctrl-C cancels that; {status_command(operation)} shows it.")
        return False
    progress.pause(True)
    leaving = "l leaves it to the server" if session.server else "l leaves it to Google"
    try:
        answer = ask(f"{doing}. Enter waits on, {leaving}, c (or Ctrl-C) cancels: ")
    except KeyboardInterrupt:
        return True
    finally:
        progress.pause(False)
    choice = answer.strip().lower()[:1]
    if choice == "l":
        leave(session, operation)
        raise TPUError(left_running(session, operation), Reason.CANCELLED)
    return choice == "c"


def leave(session: Session, operation: Operation) -> None:
    """Returns when *operation* goes on without this process: a server has it anyway, and what
    Google has begun it ends by itself. Raises what it failed with before.
    """
    from ..fleet.client import follow

    ref = f"{operation.zone}~{operation.tpu}"

    async def has_begun() -> bool:
        try:
            tpu = await session.fleet.tpu(ref)
        except TPUError as error:
            if error.reason is not Reason.NOT_FOUND:
                raise
            return operation.kind == "delete"
        if not tpu.id:
            return False  # Google has not told of it yet
        return tpu.state not in _BEFORE.get(operation.kind, ())

    async def begun() -> Operation:
        async with contextlib.aclosing(follow(session.fleet, operation, every=0.5)) as states:
            async for latest in states:
                if latest.state != "running" or await has_begun():
                    return latest
        return operation

    if session.server is None:
        raise_failure(session.call(begun()))
