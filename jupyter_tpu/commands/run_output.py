"""Follows a run: its output as it comes, folded where hosts print the same; its input, its end."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import TPUError
from ..fleet.core.host_numbers import host_ranges

if TYPE_CHECKING:
    from ..fleet.models import HostRun, Run, RunOutput, StartRun
    from ..terminal.session import FleetSession


#: Seconds that a line waits for the same line of other hosts.
HOLD_SECONDS = 0.5
#: How many lines of a host are looked at for one that others have written, too.
LINES_AHEAD = 20
#: A longer line is cut, so that what has no lines is not collected for ever; bytes.
LONGEST_LINE_BYTES = 64 << 10


class FoldedLines:
    """Puts the hosts' numbers before their lines; equal lines of several hosts become one.

    The lines of each host keep their order. What a carriage return has overwritten is left out.

    Parameters
    ----------
    write: called with "stdout" or "stderr" and a line.
    """

    def __init__(self, hosts: Sequence[int], write: Callable[[str, bytes], None]) -> None:
        self._write = write
        self._begun: dict[tuple[int, str], bytearray] = {}  # lines without their end
        self._lines: dict[int, deque[tuple[str, bytes, float]]] = {host: deque() for host in hosts}

    @property
    def holds(self) -> bool:
        """Whether lines wait for those of other hosts: call `flush` again within `HOLD_SECONDS`."""
        return any(self._lines.values())

    def add(self, host: int, stream: str, data: bytes, now: float) -> None:
        """Something that *host* has written; *now*: seconds of any clock."""
        begun = self._begun.setdefault((host, stream), bytearray())
        begun += data
        *lines, rest = begun.split(b"\n")
        if len(rest) > LONGEST_LINE_BYTES:
            lines.append(rest)
            rest = bytearray()
        self._begun[host, stream] = rest
        self._lines[host].extend((stream, _visible(line), now) for line in lines)

    def flush(self, running: Collection[int], now: float) -> None:
        """Writes what need not wait for the *running* hosts any more."""
        while True:
            heads = {host: lines[0] for host, lines in self._lines.items() if lines}
            if not heads:
                return
            if any(host not in heads for host in running):
                oldest = min(heads, key=lambda host: heads[host][2])
                if now - heads[oldest][2] < HOLD_SECONDS:
                    return
                first = heads[oldest][:2]
            else:
                first = self._first(heads)
            same = [host for host in sorted(heads) if heads[host][:2] == first]
            for host in same:
                self._lines[host].popleft()
            stream, line = first
            self._write(stream, b"[%s] %s\n" % (host_ranges(same).encode(), line))

    def _first(self, heads: dict[int, tuple[str, bytes, float]]) -> tuple[str, bytes]:
        """The line to write: one that no host has further behind, so that these meet."""
        lines = list(dict.fromkeys(heads[host][:2] for host in sorted(heads)))
        for line in lines if len(lines) > 1 else ():
            others = (self._lines[host] for host in heads if heads[host][:2] != line)
            behind = (entry[:2] for queue in others for entry in islice(queue, 1, LINES_AHEAD))
            if line not in behind:
                return line
        return lines[0]

    def end(self, now: float) -> None:
        """Writes all that is left."""
        for (host, stream), rest in self._begun.items():
            if rest:
                self._lines[host].append((stream, _visible(rest), now))
        self._begun.clear()
        self.flush((), now)


def _visible(line: bytes | bytearray) -> bytes:
    """What a terminal shows of a line in the end."""
    return bytes(line.rstrip(b"\r").rpartition(b"\r")[2])


#: Seconds after which a server stops a run that a command no longer asks about; and between two
#: questions while the command can't print.
UNWATCHED_SECONDS = 60.0
ASK_SECONDS = 15.0
#: Seconds for which a stop waits until it is said.
SAY_STOP_SECONDS = 1.0

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
        running = [host.host for host in answer.run.hosts if host.code is None]
        self._lines.flush(running, now)
        if answer.ended:
            self._lines.end(now)


def output_to(write: Write, run: Run) -> Sink:
    """Raw for one host, folded for several."""
    hosts = [host.host for host in run.hosts]
    return RawOutput(write) if len(hosts) == 1 else FoldedOutput(hosts, write)


def execute(
    session: FleetSession,
    ref: str,
    request: StartRun,
    begun: Callable[[Run], Sink],
    interrupted: Callable[[Run], None] = lambda run: None,
) -> Run:
    """Runs a command, shows its output until its end, and returns how it ended.

    It ends if this process does, whoever runs it. An interrupt (Ctrl-C) stops it on all hosts,
    after a call of *interrupted* in another thread; a second one is raised. begun(run) says where
    its output goes.
    """
    runs, offset = session.fleet.runs, 0
    request.stop_unwatched = UNWATCHED_SECONDS
    with _Interrupts(session, interrupted) as interrupts:
        run = session.call(runs.start(ref, request))
        interrupts.started(run)
        sink, ref = begun(run), _ref(run)
        with _asked_about(session, ref, run.id):
            while True:
                wait = str(HOLD_SECONDS) if sink.holds else None
                answer = session.call(runs.output(ref, run.id, str(offset), wait))
                sink.show(answer)
                offset = answer.next
                if answer.ended:
                    return answer.run
                interrupts.check()


class _Interrupts:
    """Stops a run at the first Ctrl-C, also while no one reads what this process prints.

    That one is counted instead of raised: an exception may come between any two lines, for example
    when the run has been started and is not known here yet.
    """

    def __init__(self, session: FleetSession, interrupted: Callable[[Run], None]) -> None:
        from ..links import core_thread

        self._session = session
        self._interrupted = interrupted
        self._count = 0
        self._run: Run | None = None
        self._due = asyncio.Event()
        self._loop = core_thread().loop
        self._stopping: concurrent.futures.Future[None] = core_thread().submit(self._stop())

    def __enter__(self) -> _Interrupts:
        self._before: Any = None
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
        self._stopping.cancel()

    def started(self, run: Run) -> None:
        """This one is to be stopped."""
        self._run = run
        self._update()

    def check(self) -> None:
        """Raises why the run could not be stopped."""
        if self._stopping.done():
            self._stopping.result()

    def _on_signal(self, *_: object) -> None:
        self._count += 1
        if self._count > 1:
            raise KeyboardInterrupt
        self._update()

    def _update(self) -> None:
        if self._run is not None and self._count:
            self._loop.call_soon_threadsafe(self._due.set)

    async def _stop(self) -> None:
        await self._due.wait()
        assert self._run is not None
        said = asyncio.ensure_future(asyncio.to_thread(self._interrupted, self._run))
        await asyncio.wait({said}, timeout=SAY_STOP_SECONDS)  # longer if no one reads what we print
        await self._session.fleet.runs.stop(_ref(self._run), self._run.id)
        await said


def _ref(run: Run) -> str:
    return f"{run.zone}~{run.tpu}"


@contextlib.contextmanager
def _asked_about(session: FleetSession, ref: str, id: str) -> Iterator[None]:
    """Asks about a run from time to time, also while what we print is not read."""
    from ..links import core_thread

    async def ask() -> None:
        while True:
            await asyncio.sleep(ASK_SECONDS)
            with contextlib.suppress(TPUError):
                await session.fleet.runs.get(ref, id)

    asking: concurrent.futures.Future[Any] = core_thread().submit(ask())
    try:
        yield
    finally:
        asking.cancel()


def send_input(session: FleetSession, run: Run, file: int) -> None:
    """Sends what comes from the file descriptor *file* to the run, in the background."""
    from ..fleet.models import RunInput

    def send() -> None:
        ref = _ref(run)
        with contextlib.suppress(TPUError, OSError, concurrent.futures.CancelledError):
            data = b"-"
            while data and run.state == "running":
                data = os.read(file, 64 << 10)
                request = RunInput(data=data, end=not data)
                now = session.call(session.fleet.runs.write(ref, run.id, request))
                if now.state == "done":
                    return

    threading.Thread(target=send, name="input of a run", daemon=True).start()


def outcome(host_run: HostRun) -> str:
    """How a run ended on a host: "exit code 1", "killed by SIGKILL"."""
    if host_run.problem is not None and host_run.state != "exited":
        words = {"not-started": "not started", "unknown": "not known"}
        state, problem = words.get(host_run.state, host_run.state), host_run.problem
        return f"{state}: {problem.message} {problem.hint}"
    if host_run.cause == "timeout":
        return "stopped at the time limit"
    if host_run.cause == "abandoned":
        return "stopped, because the connection was lost for too long"
    text = f"killed by {host_run.signal}" if host_run.signal else f"exit code {host_run.code}"
    if host_run.cause == "stopped":
        text = f"stopped ({text})"
    return f"{text}: {host_run.problem.message}" if host_run.problem is not None else text


def summary(run: Run) -> list[str]:
    """A line for each way in which the run ended: "[0-2] exit code 0 (1.1-1.3 s)"."""
    groups: dict[str, list[HostRun]] = {}
    for host in run.hosts:
        groups.setdefault(outcome(host).strip(), []).append(host)
    return [
        f"[{host_ranges([host_run.host for host_run in group])}] {text}{_times(group)}"
        for text, group in groups.items()
    ]


def _times(group: Sequence[HostRun]) -> str:
    seconds = [host_run.seconds for host_run in group if host_run.seconds is not None]
    if not seconds:
        return ""
    low, high = f"{min(seconds):.1f}", f"{max(seconds):.1f}"
    return f" ({low} s)" if low == high else f" ({low}-{high} s)"
