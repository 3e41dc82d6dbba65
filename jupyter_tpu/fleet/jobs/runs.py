"""Runs: commands on hosts of a TPU, whose output is kept within limits until it is read.

They end with this process. When all that is kept was not read yet, the commands wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from typing import Literal

from ...cloud import Node
from ...errors import InvalidInput, Reason, TPUError
from ...files.sync import default_mirrors
from ...links import HostName
from ...tokens import passed_variables
from ..core.connections import HostConnections
from ..core.core import Core
from ..core.host_numbers import host_numbers
from ..models import AGENT, OutputPart, Run, RunInput, RunOutput, StartRun
from ..models.core import timestamp, validated
from .host_run import FollowedRun

#: Bytes of output that are kept of a run, and that one answer carries about at most.
KEPT_OUTPUT = 4 << 20
ANSWER_BYTES = 1 << 20
#: Seconds that a request waits for output, and for more of it once there is some.
OUTPUT_SECONDS = 20.0
GATHER_SECONDS = 0.02
#: Runs that have ended and are still known.
KEPT_RUNS = 10
#: Bytes of input that are on their way at once.
INPUT_BYTES = 64 << 10

_DEFAULT = "default"
_STREAMS: dict[int, Literal["stdout", "stderr"]] = {1: "stdout", 2: "stderr"}


class RunService:
    """The runs of one fleet, as a :class:`~jupyter_tpu.fleet.api.RunsAPI`. On the core loop."""

    def __init__(self, core: Core) -> None:
        self._connected = core.connected
        self._finder = core.finder
        self._desired = core.desired
        self._connections = core.connections
        self._changed = core.changes.marker("run")
        self._runs: dict[str, _ActiveRun] = {}
        core.changes.register("run", self.find)
        core.ending.push_async_callback(self.shut_down)

    async def list(self, ref: str) -> Sequence[Run]:
        name = await self._finder.find(ref)
        runs = [run.run for run in self._runs.values()]
        return [run for run in runs if (run.tpu, run.zone) == (name.node, name.zone)]

    def find(self, id: str) -> Run | None:
        """For the feed of changes."""
        run = self._runs.get(id)
        return run.run if run is not None else None

    async def start(self, ref: str, request: StartRun) -> Run:
        request = validated(request)
        if not request.command[0]:
            raise InvalidInput("The command must begin with a program.")
        if any("\0" in word for word in request.command):
            raise InvalidInput("A command can't have NUL characters.")
        node = await self._finder.find_ready(ref)
        hosts = host_numbers(request.hosts, len(node.endpoints), node.name.node)
        python = self._python(node, request.environment)
        for_agent = request.who == AGENT or self._connected.is_of_agent(node.name)
        tokens = await asyncio.to_thread(passed_variables, agents=for_agent)
        await default_mirrors().catch_up(self._connections.link(HostName(node.name, 0)).host_id)
        ended = [id for id, active_run in self._runs.items() if active_run.done]
        for id in ended[: max(0, len(ended) + 1 - KEPT_RUNS)]:
            del self._runs[id]
            self._changed(id)
        id = uuid.uuid4().hex[:8]
        self._runs[id] = active = _ActiveRun(
            self._connections, node, id, request, hosts, python, tokens, lambda: self._changed(id)
        )
        self._changed(id)
        return active.run

    async def get(self, ref: str, id: str) -> Run:
        active = await self._get(ref, id)
        active.watched()
        return active.run

    async def output(
        self, ref: str, id: str, start: str | None = None, wait: str | None = None
    ) -> RunOutput:
        active = await self._get(ref, id)
        seconds = OUTPUT_SECONDS if wait is None else min(OUTPUT_SECONDS, _number("wait", wait))
        return await active.read(int(_number("from", start or "0")), seconds)

    async def write(self, ref: str, id: str, request: RunInput) -> Run:
        active = await self._get(ref, id)
        await active.write(request)
        return active.run

    async def stop(self, ref: str, id: str) -> Run:
        active = await self._get(ref, id)
        await active.stop()
        return active.run

    async def shut_down(self) -> None:
        """Stops all runs: they end with this process."""
        await asyncio.gather(*(run.stop() for run in self._runs.values()))

    async def _get(self, ref: str, id: str) -> _ActiveRun:
        run = self._runs.get(id)
        name = await self._finder.find(ref)
        if run is None or (run.run.tpu, run.run.zone) != (name.node, name.zone):
            raise TPUError(f"The run {id} does not exist on {name.node}.", Reason.NOT_FOUND)
        return run

    def _python(self, node: Node, environment: str | None) -> str:
        """The interpreter of an environment on the hosts; "" for none."""
        record = self._desired.environments(node.name).get(environment or _DEFAULT)
        if record is not None and (record.environment.path or record.environment.python_path):
            return record.host_python
        if environment is None:
            return ""
        raise TPUError(
            f"The environment {environment} does not exist on {node.name.node}.",
            Reason.NOT_FOUND,
            f"`jupyter tpu env list {node.name.node}` shows those that do.",
        )


def _number(name: str, text: str) -> float:
    """A number of the query."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < 1e15:
        raise InvalidInput(f"{name} must be a number from 0 on, not {text!r}.")
    return number


class _ActiveRun:
    """One run, and what it has written."""

    def __init__(
        self,
        connections: HostConnections,
        node: Node,
        id: str,
        request: StartRun,
        hosts: Sequence[int],
        python: str,
        variables: dict[str, str],
        changed: Callable[[], None],
    ) -> None:
        self._changed = changed
        self._parts: deque[OutputPart] = deque()
        self._start = 0  # the offset of the first part
        self._size = 0
        self._read = 0  # the offset up to which someone has asked for all
        self._stopping = False
        self._news = asyncio.Event()  # replaced when there is more
        self._not_full = asyncio.Event()
        self._readers = 0
        self._stop_unwatched = request.stop_unwatched
        self._timer: asyncio.TimerHandle | None = None
        self._writing = asyncio.Lock()
        self._written = 0  # bytes of input
        order = {
            "command": request.command,
            "cwd": request.cwd,
            "limit": request.timeout,
            "input": request.input,
            "python": python,
            "env": variables,
        }
        self._hosts = [
            FollowedRun(
                connections,
                HostName(node.name, number),
                id,
                order,
                lambda stream, data, host=number: self._received(host, stream, data),  # type: ignore[misc]
                self._host_changed,
            )
            for number in hosts
        ]
        self.run = Run(
            id=id,
            tpu=node.name.node,
            zone=node.name.zone,
            command=request.command,
            created=timestamp(),
            hosts=[host.state for host in self._hosts],
        )
        self._end = asyncio.ensure_future(self._finish())
        self.watched()

    @property
    def done(self) -> bool:
        return self.run.state == "done"

    async def read(self, start: int, wait: float) -> RunOutput:
        """Waits up to *wait* seconds for output from *start* on, news of a host, or the end."""
        if start > self._start + self._size:
            raise InvalidInput(f"The run has no output from {start} on.")
        self._read = max(self._read, start)
        self._not_full.set()
        self._readers += 1
        try:
            if start == self._start + self._size and not self.done:
                news = self._news
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await news.wait()
            if not self.done:
                await asyncio.wait({self._end}, timeout=GATHER_SECONDS)
        finally:
            self._readers -= 1
            self.watched()
        offset = self._start
        output: list[OutputPart] = []
        first, size = None, 0
        for part in self._parts:
            if offset >= start and size < ANSWER_BYTES:
                first = offset if first is None else first
                output.append(part)
                size += len(part.data)
            offset += len(part.data)
        first = max(start, self._start) if first is None else first
        return RunOutput(
            run=self.run,
            start=first,
            next=first + size,
            output=output,
            ended=self.done and first + size == self._start + self._size,
        )

    async def write(self, request: RunInput) -> None:
        """Writes to the input of all hosts, as fast as the slowest takes it."""
        async with self._writing:
            pieces = range(0, max(1, len(request.data)), INPUT_BYTES)
            for begin in pieces:
                data = request.data[begin : begin + INPUT_BYTES]
                end = request.end and begin == pieces[-1]
                calls = (host.write(self._written, data, end) for host in self._hosts)
                reads = await asyncio.gather(*calls)
                self._written += len(data)
                if not any(reads):
                    return

    async def stop(self) -> None:
        self._stopping = True
        self._not_full.set()  # its last output need not wait
        await asyncio.gather(*(host.stop() for host in self._hosts))
        await self._end

    async def _received(self, host: int, stream: int, data: bytes) -> None:
        while self._size >= KEPT_OUTPUT and not self._forget_read():
            if self._stopping:
                break
            self._not_full.clear()
            await self._not_full.wait()
        self._parts.append(OutputPart(host=host, stream=_STREAMS[stream], data=data))
        self._size += len(data)
        self._tell()

    def _forget_read(self) -> bool:
        """Forgets the oldest part if someone has it."""
        size = len(self._parts[0].data)
        if self._start + size > self._read:
            return False
        self._parts.popleft()
        self._start += size
        self._size -= size
        return True

    async def _finish(self) -> None:
        await asyncio.gather(*(host.wait() for host in self._hosts))
        self.run.code = max(host.code or 0 for host in self.run.hosts)
        self.run.state = "done"
        self.watched()
        self._tell()
        self._changed()

    def _host_changed(self) -> None:
        self._tell()
        self._changed()

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def watched(self) -> None:
        """Someone asks about it. If that was ordered, it is stopped if no one does for a while."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._stop_unwatched is not None and not self._readers and not self.done:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._stop_unwatched, self._stop_soon)

    def _stop_soon(self) -> None:
        self._stopped = asyncio.ensure_future(self.stop())
