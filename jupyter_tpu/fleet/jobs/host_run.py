"""A command on one host, followed over its link until it has ended.

The process that owns it there, its keeper (`on_host.agent.keeper.run_keeper`), is started by the
daemon, if that runs: a short command takes one request. If not, it is started over SSH: a command
needs no agent. What takes longer is asked for at the keeper's socket, and again after each loss of
the link.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from ...errors import ConnectionLost, Reason, TPUError
from ...links import HostName, Link
from ...on_host.agent.protocol import requests
from ...on_host.agent.protocol.paths import run_socket
from ...on_host.agent.protocol.records import RunEnd
from ...on_host.agent.protocol.run_client import (
    OUTPUT_SECONDS,
    RunClient,
    RunRefused,
    SocketStream,
    encoded_order,
)
from ...on_host.packing import argument
from ...ssh.agent_answers import checked_record
from ...ssh.host_values import InvalidAnswer
from ..core.connections import HostConnections
from ..models import HostRun, Problem

log = logging.getLogger(__name__)

_KEEPER = "agent.keeper.run_keeper"
#: Seconds in which the link must be up, and the keeper must answer.
REACH_SECONDS = 60.0
#: Seconds without a connection after which the keeper ends a command, and the wait for it here.
ABANDONED_SECONDS = 300.0
#: Seconds after which its first connection is left: sshd allows few programs at once on a link.
FIRST_CONNECTION_SECONDS = 2.0
#: Between two attempts to ask again; seconds. The link itself waits between its attempts.
RETRY_SECONDS = 0.2
#: Seconds in which a host must answer that it stopped a command.
STOP_SECONDS = 12.0
#: The exit codes for the time limit and for what is not known, as of timeout(1) and ssh(1).
TIMED_OUT, UNKNOWN_CODE = 124, 255

Received = Callable[[int, bytes], Awaitable[None]]
#: Output by stream, and how the command has ended.
Answer = tuple[Sequence[tuple[int, bytes]], RunEnd | None]


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
        self.state = HostRun(host=host.number)
        self._connections = connections
        self._host = host
        self._order = requests.StartRunRequest(id=id, **request)
        self._received = received
        self._changed = changed
        self._tried = False  # to start it
        self._daemon: Any = None  # the daemon's process that was asked to
        self._socket = ""  # of its keeper, once that is there
        self._at_keeper = asyncio.Event()  # the rest is there, or it has ended
        self._keeper: RunClient | None = None  # while there is a connection
        self._connecting = asyncio.Lock()
        self._program = contextlib.AsyncExitStack()  # the keeper's first connection, by SSH
        self._soon: float | None = None  # when that is left for one to its socket
        self._task = asyncio.ensure_future(self._live())

    async def wait(self) -> None:
        """Until it has ended, or is given up."""
        await asyncio.wait({self._task})

    async def stop(self) -> None:
        """Ends it; if the host can't be asked to, it may continue there, and `state` says so."""
        if self._tried:
            with contextlib.suppress(TPUError, OSError, ValueError):
                async with asyncio.timeout(STOP_SECONDS):
                    await self._at_keeper.wait()
                    if not self._task.done():
                        await (await self._connected()).stop()
                    await self.wait()
        self._task.cancel()
        await self.wait()

    async def write(self, start: int, data: bytes, end: bool) -> bool:
        """Writes to its input, which has *start* bytes so far; False if it reads no more."""
        await self._at_keeper.wait()
        while not self._task.done():
            try:
                return await (await self._connected()).write(start, data, end)
            except ValueError:
                return False
            except TPUError as error:
                if not _is_interruption(error):
                    return False
            except ConnectionError:
                pass  # it is made anew
            await asyncio.sleep(RETRY_SECONDS)
        return False

    # ---- its life

    async def _live(self) -> None:
        try:
            async with self._connections.borrow(self._host, REACH_SECONDS) as link:
                self._end(await self._follow(link))
        except TPUError as error:
            self._give_up(error)
        except asyncio.CancelledError:
            self._give_up(None)
        except Exception as error:  # ours; the other hosts continue, and this one is not a success
            log.exception("The run %s on %s", self._order.id, self._host)
            self._give_up(TPUError(f"jupyter-tpu failed ({error}).", hint="See the server's log."))
        finally:
            await self._leave_keeper()
            self._at_keeper.set()
            self._changed()

    async def _follow(self, link: Link) -> RunEnd:
        """Its end, as the host has it."""
        loop = asyncio.get_running_loop()
        begun, lost, offset = loop.time(), 0.0, 0  # lost: when the connection was
        while True:
            try:
                output, ended = await self._next(link, offset)
            except TPUError as error:
                lost = lost or loop.time()
                running = self.state.state == "running"
                since, limit = (lost, ABANDONED_SECONDS) if running else (begun, REACH_SECONDS)
                if not _is_interruption(error) or loop.time() - since > limit:
                    raise
                await asyncio.sleep(RETRY_SECONDS)
                continue
            lost = 0.0
            for stream, data in output:
                await self._received(stream, data)
                offset += len(data)
            if ended is not None:
                if self._keeper is not None:
                    with contextlib.suppress(ConnectionError):
                        await self._keeper.forget()
                return ended

    async def _next(self, link: Link, offset: int) -> Answer:
        """More of its output from *offset* on, if there is any within a while; and its end."""
        if not self._socket:
            answer = await self._start(link)
            if answer is not None:
                return answer
        keeper = await self._connected(offset)
        seconds = OUTPUT_SECONDS
        if self._soon is not None:
            seconds = max(0.0, self._soon - asyncio.get_running_loop().time())
        try:
            async with asyncio.timeout(seconds + REACH_SECONDS):
                output, _, ended = await keeper.read(offset, seconds)
        except ValueError as error:
            raise InvalidAnswer("run", str(error)) from None
        except (ConnectionError, TimeoutError) as error:
            await self._leave_keeper()
            raise ConnectionLost(str(self._host)) from error
        return output, None if ended is None else checked_record(ended, RunEnd, "run")

    # ---- its start

    async def _start(self, link: Link) -> Answer | None:
        """Has it started; its first output, if the daemon does that. Can be called again."""
        if self._daemon is not None or (link.has_agent and not self._tried):
            return await self._start_by_agent(link)
        words = [
            "sh",
            "-c",
            'exec python3 -I -S -c "$0"',
            argument("agent.keeper.run_keeper"),
        ]
        keeper = RunClient(await self._program.enter_async_context(link.stream(words)))
        again, self._tried = self._tried, True
        try:
            async with asyncio.timeout(REACH_SECONDS):
                await keeper.begin(
                    encoded_order(self._order, again=again), 0, FIRST_CONNECTION_SECONDS
                )
        except RunRefused as refusal:
            await self._program.aclose()
            if refusal.what == "program":
                end = refusal.end(self._order.command[0])
                return [], checked_record(end, RunEnd, "run")
            if refusal.what == "run":
                self._started(str(refusal))
                return None
            self._tried = again
            if refusal.what == "place":
                return await self._start_by_agent(link)
            cwd = self._order.cwd
            message = f"The folder {cwd} does not exist on the host."
            raise TPUError(message, Reason.NO_FOLDER) from None
        except (ConnectionError, TimeoutError) as error:
            await self._program.aclose()
            raise ConnectionLost(str(self._host)) from error
        except ValueError as error:
            raise InvalidAnswer("run", str(error)) from None
        self._keeper = keeper
        self._soon = asyncio.get_running_loop().time() + FIRST_CONNECTION_SECONDS
        self._started(keeper.socket)
        return None

    async def _start_by_agent(self, link: Link) -> Answer | None:
        agent = await link.agent()
        daemon = (agent.hello["boot"], agent.hello["pid"])
        socket = run_socket(agent.hello["run"], self._order.id)
        if self._daemon not in (None, daemon):  # perhaps that has started it
            self._started(socket)
            return None
        self._daemon, self._tried = daemon, True
        self._mark_running()
        answer = await agent.request(self._order)
        self._started(socket)
        return answer["output"], answer["ended"]

    def _started(self, socket: str) -> None:
        self._socket = socket
        self._at_keeper.set()
        self._mark_running()

    def _mark_running(self) -> None:
        if self.state.state != "running":
            self.state.state = "running"
            self._changed()

    # ---- its keeper

    async def _connected(self, offset: int | None = None) -> RunClient:
        """The keeper, by a connection that was up just now.

        offset: of the output that is asked for first.
        """
        async with self._connecting:
            soon, now = self._soon, asyncio.get_running_loop().time()
            if self._keeper is None or (soon is not None and now >= soon):
                self._soon = None
                try:
                    keeper = await self._connect(offset)
                except TPUError:  # the host's sshd may forbid it
                    if self._keeper is None:
                        raise
                else:
                    await self._leave_keeper()
                    self._keeper = keeper
            assert self._keeper is not None
            return self._keeper

    async def _connect(self, offset: int | None) -> RunClient:
        link = self._connections.link(self._host)
        keeper = RunClient(SocketStream(*await link.open_unix(self._socket)))
        try:
            async with asyncio.timeout(REACH_SECONDS):
                await keeper.begin(start=offset)
        except (ConnectionError, TimeoutError) as error:
            keeper.close()
            raise ConnectionLost(str(self._host)) from error
        except (ValueError, RunRefused) as error:
            keeper.close()
            raise InvalidAnswer("run", str(error)) from None
        return keeper

    async def _leave_keeper(self) -> None:
        if self._keeper is not None:
            self._keeper.close()
            self._keeper = None
        await self._program.aclose()

    def _end(self, ended: RunEnd) -> None:
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
        state.code = UNKNOWN_CODE
        state.cause = "stopped" if error is None else ""
        lost = error is None or _is_interruption(error) or error.reason is Reason.NOT_FOUND
        if not self._tried or not (lost or self._socket):
            state.state = "not-started"
            error = error or TPUError("It was stopped before it started.", Reason.CANCELLED)
            state.problem = Problem.of(error)
            return
        state.state = "unknown"
        if error is not None and error.reason in (Reason.INTERNAL, Reason.UNAVAILABLE):
            message = f"{error.message} The command may still run there."
        elif error is not None and error.reason is Reason.NOT_FOUND:
            message = (
                "The process that kept the command on the host has ended. "
                "The command has probably ended, too."
            )
        else:
            minutes = round(ABANDONED_SECONDS / 60)
            message = (
                "The connection was lost. The command may still run there; it is ended "
                f"{minutes} minutes after the loss."
            )
        option = f" --worker {self._host.number}" if self._host.number else ""
        hint = f"See `jupyter tpu ssh {self._host.node.node}{option}`."
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
