"""Shows the progress of an operation in the notebook."""

from __future__ import annotations

import html
import queue
from typing import TYPE_CHECKING, Any

from ..fleet.models import Operation
from .failures import MagicError

if TYPE_CHECKING:
    from ..terminal.session import FleetSession


class ProgressDisplay:
    """What takes a while, as one display that is updated."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._shown: tuple[str, float | None] | None = None

    def show(self, line: str, progress: float | None, *, running: bool) -> None:
        """*progress*: from 0 to 1, None: not known."""
        if self._shown == (line, progress):
            return
        from ..terminal.language import in_language

        self._shown = (line, progress)
        line = in_language(line)
        bundle = {"text/plain": _plain(line, progress), "text/html": _html(line, progress, running)}
        if self._handle is None:
            from IPython.display import display

            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)


def _plain(line: str, progress: float | None) -> str:
    return line if progress is None else f"[{progress:4.0%}] {line}"


def _html(line: str, progress: float | None, running: bool) -> str:
    escaped = html.escape(line)
    value = "" if progress is None else f' value="{progress:.3f}"'
    bar = f'<progress max="1"{value} aria-label="{escaped}"></progress> '
    return (bar if running else "") + f"<span>{escaped}</span>"


def _line_of(operation: Operation) -> tuple[Operation, str]:
    """What is shown of it: its step, and in the end only how it ended."""
    from msgspec import structs

    from ..terminal.operations import activity, progress_line

    if operation.state == "running":
        return operation, progress_line(operation)
    line = f"{activity(operation)}: {operation.state}"
    return structs.replace(operation, progress=None), line[:1].upper() + line[1:]


def wait_for(session: FleetSession, operation: Operation) -> None:
    """Waits for an operation, shown as one display that is updated; prints the log of a hunt.
    Raises what it failed with.
    """
    from ..fleet.client import wait_for_end
    from ..links import core_thread
    from ..terminal.operations import LogReader, left_running, raise_failure

    states: queue.SimpleQueue[tuple[Operation, str] | None] = queue.SimpleQueue()

    async def watch() -> Operation:
        try:
            return await wait_for_end(
                session.fleet, operation, lambda now: states.put(_line_of(now))
            )
        finally:
            states.put(None)

    display, log = ProgressDisplay(), LogReader()
    future = core_thread().submit(watch())
    try:
        while (state := states.get()) is not None:
            now, line = state
            if now.kind == "hunt":
                for new_line in log.new_lines(now):
                    print(new_line)
            display.show(line, now.progress, running=now.state == "running")
        raise_failure(future.result())
    except KeyboardInterrupt:
        raise MagicError(left_running(session, operation)) from None
    finally:
        future.cancel()
