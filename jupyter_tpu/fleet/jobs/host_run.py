"""A command on one host, followed over its link until it has ended.

It is started over SSH alone: a host without an agent needs none for a short one. What takes longer
is handed over to the agent, which is started then (`agent.daemon.handed_over`).
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging
import signal
from collections.abc import Awaitable, Callable
from typing import Any

from ...agent.protocol import requests
from ...errors import Reason, TPUError
from ...links import HostName, Link
from ...ssh.host_program import argument
from ...ssh.stream import CommandStream
from ..core.connections import HostConnections
from ..models import HostRun, Problem

log = logging.getLogger(__name__)

#: Seconds in which the link must be up.
REACH = 60.0
#: Seconds without a connection after which the agent ends a command (`agent.daemon.runs`), and the
#: wait for it here.
ABANDONED = 300.0
#: Between two attempts to ask again; seconds. The link itself waits between its attempts.
PAUSE = 0.2
#: Seconds in which a host must answer that it stopped a command.
STOP = 12.0
#: Seconds that input may wait in the host before it is offered again.
WRITE = 3600.0
#: The exit codes for the time limit and for what is not known, as of timeout(1) and ssh(1).
TIMED_OUT, UNKNOWN = 124, 255

Received = Callable[[int, bytes], Awaitable[None]]


class FollowedRun:
    """Brings `state` up to date, and output to *received*, until the command has ended.

    Parameters
    ----------
    id: of the run, for the agent.
    request: the fields of `StartRun` that say what to run.
    received: called with 1 (stdout) or 2 and data; may wait, and the command then waits, too.
    changed: called when `state` has changed.
    """

    def __init__(
        self,
        connections: HostConnections,
        host: HostName,
        id: str,
        request: dict[str, Any],
        received: Received,
        changed: Callable[[], None],
    ) -> None:
        self.state = HostRun(host=host.worker)
        self._connections = connections
        self._host = host
        self._id = id
        self._request = request
        self._received = received
        self._changed = changed
        self._asked = asyncio.Event()  # the agent was asked to start it, or never will be
        self._daemon: Any = None  # the process that was asked first
        self._known = False  # to that daemon, as its answers show
        self._plain = PlainRun(id, request, received)
        self._task = asyncio.ensure_future(self._live())

    async def wait(self) -> None:
        """Until it has ended, or is given up."""
        await asyncio.wait({self._task})

    async def stop(self) -> None:
        """Ends it; if the host can't be asked to, it may continue there, and `state` says so."""
        with contextlib.suppress(TPUError, TimeoutError):
            async with asyncio.timeout(STOP):
                if await self._plain.stop():
                    await self.wait()
        if not self._task.done() and (self._daemon is not None or self._plain.asked):
            try:
                async with asyncio.timeout(STOP):
                    self._plain.leave()
                    agent = await self._connections.link(self._host).agent()
                    await agent.request(requests.StopRun(id=self._id))
                    await self.wait()
            except (TPUError, TimeoutError):
                pass  # its end is not known
        self._task.cancel()
        await self.wait()

    async def write(self, start: int, data: bytes, end: bool) -> bool:
        """Writes to its input, which has *start* bytes so far; False if it reads no more."""
        await self._asked.wait()
        encoded = base64.b64encode(data).decode()
        write = requests.WriteRun(id=self._id, start=start, data=encoded, end=end)
        while not self._task.done():
            try:
                agent = await self._connections.link(self._host).agent()
                return (await agent.request(write, WRITE))["reads"]
            except TPUError as error:
                if not _is_interruption(error):
                    return False
            await asyncio.sleep(PAUSE)
        return False

    # ---- its life

    async def _live(self) -> None:
        try:
            async with self._connections.borrow(self._host, REACH) as link:
                self._end(await self._follow(link))
        except TPUError as error:
            self._give_up(error)
        except asyncio.CancelledError:
            self._give_up(None)
        except Exception as error:  # ours; the other hosts continue, and this one is not a success
            log.exception("The run %s on %s", self._id, self._host)
            self._give_up(TPUError(f"jupyter-tpu failed ({error}).", hint="See the server's log."))
        finally:
            self._asked.set()
            self._changed()

    async def _follow(self, link: Link) -> dict[str, Any]:
        """Its end, as the agent has it."""
        loop = asyncio.get_running_loop()
        begun, lost = loop.time(), 0.0  # when the connection was lost
        if not link.has_agent:
            try:
                ended = await self._plain.follow(link, self._started)
            except TPUError as error:
                if not _is_interruption(error):
                    raise
                ended, lost = None, loop.time()
            if ended is not None:
                return ended
        offset = self._plain.offset
        while True:
            try:
                answer = await self._ask(link, offset)
            except TPUError as error:
                lost = lost or loop.time()
                asked = self._daemon is not None or self._plain.started
                since, limit = (lost, ABANDONED) if asked else (begun, REACH)
                if not _is_interruption(error) or loop.time() - since > limit:
                    raise
                await asyncio.sleep(PAUSE)
                continue
            lost = 0.0
            self._known = True
            for stream, data in answer["output"]:
                await self._received(stream, data)
            offset = answer["next"]
            if answer["ended"] is not None:
                return dict(answer["ended"])

    async def _ask(self, link: Link, offset: int) -> requests.RunOutput:
        agent = await link.agent()
        daemon = (agent.hello["boot"], agent.hello["pid"])
        if self._daemon is None:
            self._daemon = daemon
            self._started()
            asking = asyncio.ensure_future(agent.request(self._order(offset)))
            asyncio.get_running_loop().call_soon(self._asked.set)
            return await asking
        if self._daemon == daemon and not self._known:
            # It may have it or not; with the same id it is not started twice.
            return await agent.request(self._order(offset))
        return await agent.request(requests.ReadRun(id=self._id, start=offset))

    def _order(self, offset: int) -> requests.StartRun:
        """What the agent is asked for, which starts the command or takes it over."""
        begun = ("started" if self._plain.started else "") if self._plain.asked else None
        return requests.StartRun(id=self._id, start=offset, begun=begun, **self._request)

    def _started(self) -> None:
        if self.state.state != "running":
            self.state.state = "running"
            self._changed()

    def _end(self, ended: dict[str, Any]) -> None:
        state = self.state
        state.state = "exited"
        state.cause = ended["cause"]
        state.seconds = ended["seconds"]
        number = ended["signal"]
        state.code = ended["code"] if number is None else 128 + number
        state.signal = _signal_name(number)
        if ended["cause"] == "timeout":
            state.code = TIMED_OUT
        if ended["message"]:
            reason = Reason.NOT_FOUND if ended["code"] == 127 else Reason.INVALID
            state.problem = Problem(message=ended["message"], reason=reason)

    def _give_up(self, error: TPUError | None) -> None:
        """Its end is not known. *error*: why; None: it was stopped."""
        state = self.state
        state.code = UNKNOWN
        state.cause = "stopped" if error is None else ""
        lost = error is None or _is_interruption(error) or error.reason is Reason.NOT_FOUND
        asked = self._daemon is not None or self._plain.asked
        if not asked or not (lost or self._known or self._plain.started):
            state.state = "not-started"
            error = error or TPUError("It was stopped before it started.", Reason.CANCELLED)
            state.problem = Problem.of(error)
            return
        state.state = "unknown"
        if error is not None and error.reason in (Reason.INTERNAL, Reason.UNAVAILABLE):
            message = f"{error.message} The command may still run there."
        elif error is not None and error.reason is Reason.NOT_FOUND:
            message = "The agent on the host was restarted. The command was probably ended."
        else:
            minutes = round(ABANDONED / 60)
            message = (
                "The connection was lost. The command may still run there; it is ended "
                f"{minutes} minutes after the loss."
            )
        worker = f" --worker {self._host.worker}" if self._host.worker else ""
        hint = f"See `jupyter tpu ssh {self._host.node.node}{worker}`."
        state.problem = Problem(message=message, reason=Reason.UNREACHABLE, hint=hint)


def _is_interruption(error: TPUError) -> bool:
    """Whether asking again can help."""
    return error.reason in (Reason.UNREACHABLE, Reason.TIMEOUT)


def _signal_name(number: int | None) -> str:
    if number is None:
        return ""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


#: Seconds from its start after which a command is handed over.
SOON = 2.0

_PROGRAM = "fleet.jobs.run_on_host"


class PlainRun:
    """One command, until it has ended or is left to the agent.

    id: of the run, for the agent. received: as of `FollowedRun`.

    Attributes
    ----------
    asked: whether the host may have been asked to start it; started: it has.
    offset: bytes of its output that were received.
    """

    def __init__(
        self, id: str, request: dict[str, Any], received: Callable[[int, bytes], Awaitable[None]]
    ) -> None:
        self.asked = self.started = False
        self.offset = 0
        self._id = id
        self._request = request
        self._received = received
        self._leaving = asyncio.Event()
        self._stopping = False
        self._stream: CommandStream | None = None

    async def stop(self) -> bool:
        """Has it stopped where it runs; False if it is not followed here (any more)."""
        self._stopping = True
        return self._stream is not None and await self._stream.write(b"s")

    def leave(self) -> None:
        """Leaves it to the agent now."""
        self._leaving.set()

    async def follow(self, link: Link, started: Callable[[], None]) -> dict[str, Any] | None:
        """Its end, as the agent has it; None: ask the agent. Calls *started* when it runs."""
        async with link.stream(
            ["sh", "-c", 'exec python3 -I -S -c "$0"', argument(_PROGRAM)]
        ) as stream:
            self.asked = True
            await stream.write(self._encoded())
            self._stream = stream
            try:
                return await self._read(stream, started)
            finally:
                self._stream = None

    async def _read(
        self, stream: CommandStream, started: Callable[[], None]
    ) -> dict[str, Any] | None:
        until: float | None = None
        while (line := await self._line(stream, until)) is not None:
            word, *more = line.split() or [b""]
            if word == b"started":
                self.started = True
                until = asyncio.get_running_loop().time() + SOON
                started()
            elif word == b"output":
                number, size = map(int, more)
                data = await stream.read_exactly(size)
                if len(data) < size:
                    return None
                self.offset += size
                await self._received(number, data)
            elif word == b"ended":
                await stream.write(b".")
                return _end(*more)
            else:
                if word == b"agent":
                    self.asked = False
                return None
        return None

    async def _line(self, stream: CommandStream, until: float | None) -> bytes | None:
        """What it says next; None if it is left before, or at the time *until*."""
        loop = asyncio.get_running_loop()
        reading = asyncio.ensure_future(stream.read_line())
        leaving = asyncio.ensure_future(self._leaving.wait())
        limit = None if until is None or self._stopping else max(0.0, until - loop.time())
        try:
            await asyncio.wait(
                {reading, leaving}, timeout=limit, return_when=asyncio.FIRST_COMPLETED
            )
            return await reading if reading.done() else None
        finally:
            leaving.cancel()
            reading.cancel()

    def _encoded(self) -> bytes:
        request = self._request
        limit, variables = request.get("limit"), request.get("env") or {}
        words = [
            self._id,
            request.get("cwd") or "",
            "" if limit is None else str(limit),
            "1" if request.get("input") else "",
            request.get("python") or "",
            str(len(variables)),
            *(f"{name}={value}" for name, value in variables.items()),
            *request["command"],
        ]
        data = "\0".join(words).encode("utf-8", "surrogateescape")
        return b"%d\n%s" % (len(data), data)


def _end(code: bytes, number: bytes, cause: bytes, seconds: bytes) -> dict[str, Any]:
    return {
        "code": int(code) if int(number) < 0 else None,
        "signal": int(number) if int(number) >= 0 else None,
        "cause": cause.decode().strip("-"),
        "seconds": float(seconds),
        "message": "",
    }
