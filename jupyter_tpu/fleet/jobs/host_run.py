"""A command on one host, followed over its link until it has ended.

The process that owns it there, its keeper (`agent.keeper.run_keeper`), is asked in one way. The
agent starts that, and passes questions and answers on. If no agent runs there, the keeper is
started over SSH: a short command needs no agent. After `SOON`, or when that connection has broken,
the agent is started, and asked for the rest.
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
from ...agent.protocol.records import RunEnd
from ...agent.protocol.run_client import Refused, RunClient, encoded_order
from ...errors import Reason, TPUError
from ...links import HostName, Link
from ...ssh.agent_answers import checked_record
from ...ssh.host_program import argument
from ...ssh.host_values import InvalidAnswer
from ..core.connections import HostConnections
from ..models import HostRun, Problem

log = logging.getLogger(__name__)

#: Seconds in which the link must be up.
REACH = 60.0
#: Seconds without a connection after which the keeper ends a command, and the wait for it here.
ABANDONED = 300.0
#: Seconds without an agent: sshd allows few programs at once on one connection.
SOON = 2.0
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
        self._asked = asyncio.Event()  # the host was asked to start it, or never will be
        self._keeper: RunClient | None = None  # while it is asked itself
        self._leave_keeper: asyncio.Timeout | None = None  # while it is being asked
        self._tried = self._started = False  # to start it without the agent
        self._stopping = False
        self._daemon: Any = None  # the process that was asked first
        self._known = False  # to that daemon, as its answers show
        self._task = asyncio.ensure_future(self._live())

    async def wait(self) -> None:
        """Until it has ended, or is given up."""
        await asyncio.wait({self._task})

    async def stop(self) -> None:
        """Ends it; if the host can't be asked to, it may continue there, and `state` says so."""
        self._stopping = True
        if self._keeper is not None:
            with contextlib.suppress(TPUError, OSError, ValueError, TimeoutError):
                async with asyncio.timeout(STOP):
                    await self._keeper.stop()
                    await self.wait()
        if not self._task.done() and (self._daemon is not None or self._tried):
            with contextlib.suppress(TPUError, TimeoutError):  # its end is not known
                async with asyncio.timeout(STOP):
                    self._leave()
                    agent = await self._connections.link(self._host).agent()
                    await agent.request(requests.StopRun(id=self._id))
                    await self.wait()
        self._task.cancel()
        await self.wait()

    async def write(self, start: int, data: bytes, end: bool) -> bool:
        """Writes to its input, which has *start* bytes so far; False if it reads no more."""
        await self._asked.wait()
        encoded = base64.b64encode(data).decode()
        write = requests.WriteRun(id=self._id, start=start, data=encoded, end=end)
        while not self._task.done():
            try:
                if self._keeper is not None:
                    with contextlib.suppress(OSError, ValueError):
                        return await self._keeper.write(start, data, end)
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

    async def _follow(self, link: Link) -> RunEnd:
        """Its end, as the host has it."""
        loop = asyncio.get_running_loop()
        begun, lost, offset = loop.time(), 0.0, 0  # lost: when the connection was
        async with contextlib.AsyncExitStack() as stack:
            while True:
                try:
                    if not link.has_agent and self._daemon is None and not self._tried:
                        ended = await self._start_keeper(link, stack)
                        if ended is not None:
                            return ended
                    answer = await self._ask(link, offset)
                except TPUError as error:
                    lost = lost or loop.time()
                    asked = self._daemon is not None or self._started
                    since, limit = (lost, ABANDONED) if asked else (begun, REACH)
                    if not _is_interruption(error) or loop.time() - since > limit:
                        raise
                    await asyncio.sleep(PAUSE)
                    continue
                lost = 0.0
                for stream, data in answer["output"]:
                    await self._received(stream, data)
                offset = answer["next"]
                if answer["ended"] is not None:
                    if self._keeper is not None:
                        await self._keeper.forget()
                    return answer["ended"]
                if self._keeper is None:
                    await stack.aclose()

    async def _start_keeper(self, link: Link, stack: contextlib.AsyncExitStack) -> RunEnd | None:
        """Starts it without the agent; its end, if it can't be started.

        `_keeper` is None after that if the agent has to be asked.
        """
        words = ["sh", "-c", 'exec python3 -I -S -c "$0"', argument("agent.keeper.run_keeper")]
        stream = await stack.enter_async_context(link.stream(words))
        self._tried = True
        keeper = RunClient(stream)
        stack.callback(keeper.close)
        request = requests.StartRun(id=self._id, **self._request)
        try:
            await keeper.begin(encoded_order(request))
        except Refused as refusal:
            if refusal.what == "program":
                return checked_record(refusal.end(request.command[0]), RunEnd, "run")
            self._tried = False
            if refusal.what == "folder":
                message = f"The folder {request.cwd} does not exist on the host."
                raise TPUError(message, Reason.NO_FOLDER) from None
        except ConnectionError:
            pass
        except ValueError as error:
            raise InvalidAnswer("run", str(error)) from None
        else:
            self._keeper = keeper
            self._started = True
            self._mark_running()
            self._soon = asyncio.get_running_loop().time() + SOON
            self._asked.set()
        return None

    async def _ask(self, link: Link, offset: int) -> requests.RunOutput:
        if self._keeper is not None:
            answer = await self._ask_keeper(self._keeper, offset)
            if answer is not None:
                return answer
        agent = await link.agent()
        daemon = (agent.hello["boot"], agent.hello["pid"])
        if self._daemon is None:
            self._daemon = daemon
            self._mark_running()
            asking = asyncio.ensure_future(agent.request(self._order(offset)))
            asyncio.get_running_loop().call_soon(self._asked.set)
            return await asking
        if self._daemon == daemon and not self._known:
            # It may have it or not; with the same id it is not started twice.
            return await agent.request(self._order(offset))
        return await agent.request(requests.ReadRun(id=self._id, start=offset))

    async def _ask_keeper(self, keeper: RunClient, offset: int) -> requests.RunOutput | None:
        """None if the agent has to be asked from now on."""
        try:
            async with asyncio.timeout_at(None if self._stopping else self._soon) as limit:
                self._leave_keeper = limit
                output, size, ended = await keeper.read(offset)
            end = None if ended is None else checked_record(ended, RunEnd, "run")
            answer: Any = {"output": output, "next": offset + size, "ended": end}
            return answer
        except (TimeoutError, ConnectionError):
            self._keeper = None
        except ValueError as error:
            self._keeper = None
            raise InvalidAnswer("run", str(error)) from None
        except TPUError:
            self._keeper = None
            raise
        return None

    def _leave(self) -> None:
        """Asks the agent from now on."""
        if self._leave_keeper is not None and self._keeper is not None:
            self._leave_keeper.reschedule(0)

    def _order(self, offset: int) -> requests.StartRun:
        """What the agent is asked for, which starts the command if it was not started."""
        begun = ("started" if self._started else "") if self._tried else None
        return requests.StartRun(id=self._id, start=offset, begun=begun, **self._request)

    def _mark_running(self) -> None:
        if self.state.state != "running":
            self.state.state = "running"
            self._changed()

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
        state.code = UNKNOWN
        state.cause = "stopped" if error is None else ""
        lost = error is None or _is_interruption(error) or error.reason is Reason.NOT_FOUND
        asked = self._daemon is not None or self._tried
        if not asked or not (lost or self._known or self._started):
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
