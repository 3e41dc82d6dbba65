"""Waits for an operation in front of the user: a bar on a terminal, lines elsewhere, and Ctrl-C.

Ctrl-C asks the user what to do with the operation; a second Ctrl-C cancels it. The question
ends with the operation.
"""

from __future__ import annotations

import contextlib
import io
import queue
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click

from ..errors import Reason, TPUError
from .language import in_language
from .operations import (
    LogReader,
    activity,
    left_running,
    progress_line,
    raise_failure,
    status_command,
)
from .printing import note, print_result
from .questions import ask, can_ask
from .streams import clean_console
from .tables import is_terminal

if TYPE_CHECKING:
    from ..fleet.models import Operation
    from .session import FleetSession

F = TypeVar("F", bound=Callable[..., Any])


def no_wait_option(function: F) -> F:
    """--no-wait, or gcloud's --async, as the parameter *no_wait*."""
    return click.option(
        "--no-wait",
        "--async",
        "no_wait",
        is_flag=True,
        help="Return immediately; the operation continues.",
    )(function)


def verbose_option(function: F) -> F:
    """--verbose: operations that are waited for print their log; see :func:`is_verbose`."""
    return click.option(
        "--verbose",
        "-v",
        is_flag=True,
        expose_value=False,
        callback=lambda ctx, _, value: ctx.meta.__setitem__("verbose", value),
        help="Print each line of the log, such as those of pip and of a setup script.",
    )(function)


def is_verbose() -> bool:
    """Whether the command has --verbose."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get("verbose"))


class Interrupts:
    """Counts Ctrl-C while it is entered: nothing raises KeyboardInterrupt. On the main thread."""

    def __init__(self) -> None:
        self._count = 0
        # Its put() may interrupt its get().
        self._news: queue.SimpleQueue[None] = queue.SimpleQueue()

    def __enter__(self) -> Interrupts:
        self._before = signal.signal(signal.SIGINT, self._interrupted)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _interrupted(self, *_: object) -> None:
        self._count += 1
        self._news.put(None)

    @property
    def pending(self) -> bool:
        """Whether Ctrl-C came, and no one has taken it yet."""
        return self._count > 0

    def consume(self) -> bool:
        """Whether Ctrl-C came; each is told once."""
        if not self._count:
            return False
        self._count -= 1
        return True

    def wait(self, future: Future[Any]) -> bool:
        """Returns False when *future* is done, and True at a Ctrl-C before."""
        future.add_done_callback(lambda _: self._news.put(None))
        while not future.done():
            if self.consume():
                return True
            with contextlib.suppress(queue.Empty):
                self._news.get(timeout=0.5)  # a signal just before it waits does not interrupt it
        return False


#: What follows on a create or hunt.
_FOLLOWING = ("guard", "connect")
#: States of a TPU in which Google has not begun yet.
_BEFORE = {
    "start": ("STOPPED",),
    "stop": ("READY",),
    "delete": ("READY", "STOPPED", "PREEMPTED", "TERMINATED"),
}


def progress_stream(as_json: bool) -> TextIO:
    """Where progress goes: with --json stdout is for the program, and stderr for a person."""
    if not as_json:
        return sys.stdout
    return sys.stderr if is_terminal(sys.stderr) else io.StringIO()


class ProgressPrinter:
    """Shows an operation's states on *stream*, and its log if it is a hunt, or with *verbose*; may
    be called from any thread.
    """

    def __init__(self, stream: TextIO, *, verbose: bool = False) -> None:
        self._stream = stream
        self._verbose = verbose
        self._log = LogReader()
        self._lock = threading.Lock()  # the core's thread shows, this one pauses
        self._line = ""
        self._bar: Any = _bar(stream) if is_terminal(stream) else None
        self._task = self._bar.add_task("", total=None) if self._bar is not None else None

    def show(self, operation: Operation) -> None:
        line = progress_line(operation)
        with self._lock:
            with_log = self._verbose or operation.kind == "hunt"
            if with_log:
                self._print(self._log.new_lines(operation))
            if self._bar is not None:
                part = operation.progress
                self._bar.update(
                    self._task,
                    description=in_language(line),
                    total=None if part is None else 1.0,  # None: the bar moves to and fro
                    completed=part or 0.0,
                )
            elif line and line != self._line:
                self._line = line
                if with_log and any(text.endswith(operation.message) for text in operation.log):
                    return  # said already
                self._stream.write(line + "\n")
                self._stream.flush()

    def _print(self, lines: list[str]) -> None:
        for line in lines:
            if self._bar is not None:
                self._bar.console.out(in_language(line), highlight=False)
            else:
                self._stream.write(line + "\n")
        self._stream.flush()

    def resume(self) -> None:
        if self._bar is not None:
            self._bar.start()

    def pause(self) -> None:
        """Removes the bar, and keeps its line free."""
        if self._bar is not None:
            self._bar.stop()


def _bar(stream: TextIO) -> Any:
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar
    from rich.table import Column

    line = Column(no_wrap=True, overflow="ellipsis", ratio=1)
    return Bar(
        BarColumn(bar_width=20),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False, table_column=line),
        expand=True,
        console=clean_console(stream, force_jupyter=False),
        transient=True,
        refresh_per_second=4,
    )


def finish(session: FleetSession, operation: Operation, stream: TextIO) -> Operation:
    """Waits until *operation* has ended and returns its end; raises what it failed with.

    *stream* is where progress goes: one that is no terminal gets a line per change.
    """
    from ..fleet.client import wait_for_end
    from ..links import core_thread

    progress = ProgressPrinter(stream, verbose=is_verbose())
    choice = ""
    noted = False  # Ctrl-C came once, and no one could be asked
    with Interrupts() as interrupts:
        following = ended = core_thread().submit(
            wait_for_end(session.fleet, operation, progress.show)
        )
        try:
            progress.resume()
            while interrupts.wait(ended):
                progress.pause()
                choice = "c" if noted else _choice(operation, ended.done, interrupts)
                if choice == "c":
                    ended = _cancel(session, operation, interrupts)
                if choice in ("c", "s"):
                    break
                noted = not can_ask()
                progress.resume()
        finally:
            following.cancel()
            progress.pause()
    if choice == "s":
        leave(session, operation)
        raise TPUError(left_running(session, operation), Reason.CANCELLED)
    raise_failure(ended.result())
    return ended.result()


def finish_all(session: FleetSession, operation: Operation, stream: TextIO) -> Operation:
    """As :func:`finish`; after a create or hunt, waits for what follows on it, too."""
    ended = finish(session, operation, stream)
    if operation.kind not in ("create", "hunt"):
        return ended
    for other in session.call(session.fleet.operations.list()):
        if (
            other.kind in _FOLLOWING
            and (other.tpu, other.zone) == (ended.tpu, ended.zone)
            and other.created >= operation.created
        ):
            try:
                finish(session, other, stream)
            except TPUError as error:
                raise TPUError(
                    f"Created {operation.tpu}, but could not set its guard: {error.message}"
                    if other.kind == "guard"
                    else f"Created {operation.tpu}, but could not connect it: {error.message}",
                    error.reason,
                    error.hint,
                    retry_after=error.retry_after,
                    scope=error.scope,
                ) from None
    return ended


def _cancel(
    session: FleetSession, operation: Operation, interrupts: Interrupts
) -> Future[Operation]:
    """Cancels and waits until that is done; another Ctrl-C stops waiting."""
    from ..fleet.client import wait_for_end
    from ..links import core_thread

    async def cancel() -> Operation:
        return await wait_for_end(
            session.fleet, await session.fleet.operations.cancel(operation.id)
        )

    note(f"Cancelling {activity(operation)}, and cleaning up …")
    future = core_thread().submit(cancel())
    if interrupts.wait(future):
        who = "The Jupyter server" if session.server else "The next `jupyter tpu` or Jupyter server"
        raise TPUError(
            f"Cancelling {activity(operation)} has not ended.",
            Reason.INTERRUPTED,
            f"{who} continues it; {status_command(operation)} shows its state.",
        )
    return future


def _choice(operation: Operation, has_ended: Callable[[], bool], interrupts: Interrupts) -> str:
    """After a Ctrl-C: "c" to cancel, "s" to stop waiting, else to wait on. While a question is
    open, another Ctrl-C is the last choice; the question ends with the operation.
    """
    doing = f"Still {activity(operation)}."
    cancellable = operation.cancellable
    if not can_ask():
        if not cancellable:
            return "s"
        note(f"{doing} Press Ctrl-C again to cancel; {status_command(operation)} shows its state.")
        return ""
    question = (
        f"{doing} Enter: keep waiting, s: stop waiting, c or Ctrl-C: cancel? "
        if cancellable
        else f"{doing} It can't be cancelled. Enter: keep waiting, s or Ctrl-C: stop waiting? "
    )
    answer = ask(question, lambda: has_ended() or interrupts.pending).strip().lower()[:1]
    if interrupts.consume():
        return "c" if cancellable else "s"
    return answer if cancellable or answer == "s" else ""


def require_server(session: FleetSession) -> None:
    """Raises CONFLICT if nothing would continue after this command."""
    if session.server is None:
        raise TPUError(
            "--no-wait needs a running Jupyter server, which continues what comes next.",
            Reason.CONFLICT,
            "Omit --no-wait, or start `jupyter lab` first.",
        )


def left_line(session: FleetSession, operation: Operation) -> str:
    """What a command that does not wait prints at its end."""
    return f"{left_running(session, operation)} (operation {operation.id})"


def leave_and_print(session: FleetSession, operation: Operation, as_json: bool) -> None:
    """Ends a command that does not wait for *operation*."""
    leave(session, operation)
    print_result(operation, left_line(session, operation), as_json)


def leave(session: FleetSession, operation: Operation) -> None:
    """Returns when *operation* continues without this process: at once if a server runs it, or for
    a hunt, which the next server continues; else when Google has begun it. Raises what it failed
    with before.
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
            return False  # Google does not know it yet
        return tpu.state not in _BEFORE.get(operation.kind, ())

    async def begun() -> Operation:
        async with contextlib.aclosing(follow(session.fleet, operation, every=0.5)) as states:
            async for latest in states:
                if latest.state != "running" or await has_begun():
                    return latest
        return operation

    if session.server is None and operation.kind != "hunt":
        raise_failure(session.call(begun()))
