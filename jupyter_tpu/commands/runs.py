"""Follows a run: its output as it comes, its input, its end."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import TPUError
from ..fleet.hosts.numbers import host_ranges
from .folding import HOLD, FoldedLines

if TYPE_CHECKING:
    from ..fleet.models import HostRun, Run, RunOutput, StartRun
    from .session import Session

#: Seconds after which a server stops a run that a command no longer asks about; and between two
#: questions while the command can't print.
UNWATCHED = 60.0
ASK = 15.0

Write = Callable[[str, bytes], None]


class Sink(Protocol):
    """Where output goes."""

    def show(self, answer: RunOutput) -> None: ...

    @property
    def holds(self) -> bool:
        """Whether it wants to be called again soon."""
        ...


class RawOutput:
    """The output of one host, as it is."""

    holds = False

    def __init__(self, write: Write) -> None:
        self._write = write

    def show(self, answer: RunOutput) -> None:
        for part in answer.output:
            self._write(part.stream, part.data)


class FoldedOutput:
    """The output of several hosts: see :class:`FoldedLines`."""

    def __init__(self, hosts: Sequence[int], write: Write) -> None:
        self._lines = FoldedLines(hosts, write)

    @property
    def holds(self) -> bool:
        return self._lines.holds

    def show(self, answer: RunOutput) -> None:
        now = time.monotonic()
        for part in answer.output:
            self._lines.add(part.host, part.stream, part.data, now)
        running = [each.host for each in answer.run.hosts if each.code is None]
        self._lines.flush(running, now)
        if answer.ended:
            self._lines.end(now)


def output_to(write: Write, run: Run) -> Sink:
    """Raw for one host, folded for several."""
    hosts = [each.host for each in run.hosts]
    return RawOutput(write) if len(hosts) == 1 else FoldedOutput(hosts, write)


def start(session: Session, ref: str, request: StartRun) -> Run:
    """Starts a run that ends if this process does, whoever runs it."""
    request.stop_unwatched = UNWATCHED
    return session.call(session.fleet.runs.start(ref, request))


def follow(
    session: Session, run: Run, sink: Sink, interrupted: Callable[[], None] = lambda: None
) -> Run:
    """Shows the output of a run until its end, and returns how it ended.

    An interrupt (Ctrl-C) stops it on all hosts, after a call of *interrupted*; a second one is
    raised.
    """
    ref, runs = f"{run.zone}~{run.tpu}", session.fleet.runs
    offset, stopping = 0, False
    with _asked_about(session, ref, run.id):
        while True:
            try:
                wait = str(HOLD) if sink.holds else None
                answer = session.call(runs.output(ref, run.id, str(offset), wait))
                sink.show(answer)
                offset = answer.next
                if answer.ended:
                    return answer.run
            except KeyboardInterrupt:
                if stopping:
                    raise
                stopping = True
                interrupted()
                session.call(runs.stop(ref, run.id))


@contextlib.contextmanager
def _asked_about(session: Session, ref: str, id: str) -> Iterator[None]:
    """Asks about a run from time to time, also while what we print is not read."""
    from ..links import core_thread

    async def ask() -> None:
        while True:
            await asyncio.sleep(ASK)
            with contextlib.suppress(TPUError):
                await session.fleet.runs.get(ref, id)

    asking: concurrent.futures.Future[Any] = core_thread().submit(ask())
    try:
        yield
    finally:
        asking.cancel()


def send_input(session: Session, run: Run, file: int) -> None:
    """Sends what comes from the file descriptor *file* to the run, in the background."""
    from ..fleet.models import RunInput

    def send() -> None:
        ref = f"{run.zone}~{run.tpu}"
        with contextlib.suppress(TPUError, OSError, concurrent.futures.CancelledError):
            data = b"-"
            while data and run.state == "running":
                data = os.read(file, 64 << 10)
                request = RunInput(data=data, end=not data)
                now = session.call(session.fleet.runs.write(ref, run.id, request))
                if now.state == "done":
                    return

    threading.Thread(target=send, name="input of a run", daemon=True).start()


def outcome(each: HostRun) -> str:
    """How a run ended on a host: "exit code 1", "killed by SIGKILL"."""
    if each.problem is not None and each.state != "exited":
        words = {"not-started": "not started", "unknown": "not known"}
        return f"{words.get(each.state, each.state)}: {each.problem.message} {each.problem.hint}"
    if each.cause == "timeout":
        return "stopped at the time limit"
    if each.cause == "abandoned":
        return "stopped, because the connection was lost for too long"
    text = f"killed by {each.signal}" if each.signal else f"exit code {each.code}"
    if each.cause == "stopped":
        text = f"stopped ({text})"
    return f"{text}: {each.problem.message}" if each.problem is not None else text


def summary(run: Run) -> list[str]:
    """A line for each way in which the run ended: "[0-2] exit code 0 (1.1-1.3 s)"."""
    groups: dict[str, list[HostRun]] = {}
    for each in run.hosts:
        groups.setdefault(outcome(each).strip(), []).append(each)
    return [
        f"[{host_ranges([each.host for each in group])}] {text}{_times(group)}"
        for text, group in groups.items()
    ]


def _times(group: Sequence[HostRun]) -> str:
    seconds = [each.seconds for each in group if each.seconds is not None]
    if not seconds:
        return ""
    low, high = f"{min(seconds):.1f}", f"{max(seconds):.1f}"
    return f" ({low} s)" if low == high else f" ({low}-{high} s)"
