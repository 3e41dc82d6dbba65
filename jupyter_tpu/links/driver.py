"""`LinkDriver`: does with a real connection what a link's `LinkLife` decides; and `HostSession`,
one connection with what lives no longer than it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from ..backoff import Backoff
from ..errors import ConnectionLost, Reason, TPUError
from ..own_log import happened
from ..ssh import HostAddress, Keepalive, SSHConnection, connect
from .life import LinkAction, LinkCommand, LinkEvent, LinkLife, LinkState
from .lookup import HostName, Lookup, ResolvedHost

if TYPE_CHECKING:
    from ..ssh import SSHConnection
    from ..ssh.agent_client import DaemonClient


#: How long leaving the daemon may take; its stream is probably gone already.
_CLOSE_LIMIT = 5.0  # seconds


class HostSession:
    """An open connection, and the daemon's channel, which is made when it is first asked for."""

    def __init__(self, connection: SSHConnection) -> None:
        self.connection = connection
        self._ended = False
        self._agent: DaemonClient | None = None
        self._agent_lock = asyncio.Lock()  # one deployment at a time

    @property
    def has_agent(self) -> bool:
        """Whether the daemon's channel is open."""
        return self.open_agent is not None

    @property
    def open_agent(self) -> DaemonClient | None:
        """The daemon, if its channel is open."""
        return self._agent if self._agent is not None and not self._agent.closed else None

    async def agent(self) -> DaemonClient:
        """Our daemon on the host; deployed if it is not there yet."""
        from ..ssh.agent_client import ensure_agent

        async with self._agent_lock:
            self._check()
            if self._agent is None or self._agent.closed:
                ssh = self.connection
                agent = await ensure_agent(ssh.run, ssh.open_unix)
                if self._ended:
                    await _leave(agent)
                self._check()
                self._agent = agent
            return self._agent

    def _check(self) -> None:
        if self._ended:
            raise ConnectionLost(self.connection.host.label)

    def abort(self) -> None:
        """Drops the connection at once: what runs over it fails now, and can use the next one."""
        self._ended = True
        self.connection.abort()

    async def close(self) -> None:
        """Tells the daemon that this client leaves, and closes the connection."""
        self._ended = True
        agent, self._agent = self._agent, None
        if agent is not None:
            await _leave(agent)
        await self.connection.close()


async def _leave(agent: DaemonClient) -> None:
    with contextlib.suppress(asyncio.TimeoutError, TPUError):
        async with asyncio.timeout(_CLOSE_LIMIT):
            await agent.close()


log = logging.getLogger(__name__)

#: Seconds in which the daemon is usually asked for, which takes a command.
_FIRST_COMMAND = 0.5

#: Between attempts while the host does not accept our key yet.
_KEY_PAUSES = Backoff(0.3, 3.0, factor=1.5)

#: How long a host may take to answer after this machine slept.
_PROBE_LIMIT = 1.5  # seconds; if it is too short, the only cost is a reconnect

#: These pass on their own; everything else that stops an attempt needs the user's attention.
_TRANSIENT = {Reason.UNREACHABLE, Reason.UNAVAILABLE, Reason.RATE_LIMITED, Reason.TIMEOUT}


class LinkDriver:
    """Opens the connection to one host, watches it, and opens it again; on the core loop.

    Parameters
    ----------
    keepalive: how soon a silent host is noticed.
    report: called after each change of state.
    connected: called with the host's address when there is a connection, before the report.

    Attributes
    ----------
    problem: why it is not up.
    resolved: the host, as it was last looked up.
    session: what is open. It can be lost a moment before the state says so.
    """

    def __init__(
        self,
        host: HostName,
        lookup: Lookup,
        keepalive: Keepalive,
        report: Callable[[], None],
        connected: Callable[[HostAddress], None],
    ) -> None:
        self.problem: TPUError | None = None
        self.resolved: ResolvedHost | None = None
        self.session: HostSession | None = None
        self._host = host
        self._lookup = lookup
        self._keepalive = keepalive
        self._interval = keepalive.interval
        self._report_change = report
        self._connected = connected
        self._life = LinkLife(random.random)
        self._attempt: asyncio.Task[None] | None = None
        self._watch: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._background: set[asyncio.Task[None]] = set()

    @property
    def state(self) -> LinkState:
        return self._life.state

    def keep_alive(self, interval: float) -> None:
        """From now on a keepalive is sent after *interval* seconds in which nothing came."""
        self._interval = interval
        if self.session is not None:
            self.session.connection.keep_alive(interval)

    def on(self, event: LinkEvent) -> None:
        """Does what there is to do about *event*."""
        before = self.state
        actions = self._life.on(event)
        if self.state is not before:
            why = f": {self.problem.message}" if self.problem is not None else ""
            happened(
                f"Link to host {self._host.number}: {before} → {self.state} ({event.value}){why}",
                tpu=self._host.node.node,
            )
        for action in actions:
            self._do(action)

    def run_in_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Runs *work* (closing, probing); :meth:`wait_background` waits for it."""
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background_done)
        return task

    async def wait_background(self) -> None:
        """Returns when nothing runs in the background any more."""
        while self._background:  # gather() of what has ended lets nothing else run in Python 3.12+
            await asyncio.wait(self._background)

    def _do(self, action: LinkAction) -> None:
        loop = asyncio.get_running_loop()
        if action.do is LinkCommand.CONNECT:
            self._attempt = loop.create_task(self._connect(), name=f"connect {self._host}")
            self._attempt.add_done_callback(self._attempted)
        elif action.do is LinkCommand.DISCONNECT:
            self._disconnect()
        elif action.do is LinkCommand.SCHEDULE:
            self._unschedule()
            self._timer = loop.call_later(action.delay, self.on, LinkEvent.TIMER)
        elif action.do is LinkCommand.UNSCHEDULE:
            self._unschedule()
        elif action.do is LinkCommand.PROBE:
            self.run_in_background(self._probe())
        else:
            self._report()

    def _unschedule(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _report(self) -> None:
        if self.state in (LinkState.UP, LinkState.DOWN):
            self.problem = None
        self._report_change()

    async def _connect(self) -> None:
        try:
            resolved_host = await self._lookup.find(self._host)
            self.resolved = resolved_host
            connection = await self._dial(resolved_host)
        except TPUError as error:
            self.problem = error
            self._attempt = None
            self.on(LinkEvent.FAILED if error.reason in _TRANSIENT else LinkEvent.REFUSED)
            return
        self._attempt = None
        self._lookup.reached(resolved_host)
        self.session = HostSession(connection)
        self.keep_alive(self._interval)
        self._connected(resolved_host.address)
        self._watch = asyncio.get_running_loop().create_task(
            self._watched(connection), name=f"watch {self._host}"
        )
        self.on(LinkEvent.CONNECTED)

    async def _dial(self, host: ResolvedHost) -> SSHConnection:
        """Connects; retries for a while if the host does not accept our key yet."""
        loop = asyncio.get_running_loop()
        end = loop.time() + host.key_wait
        for pause in _KEY_PAUSES:
            try:
                return await connect(
                    host.address, keepalive=self._keepalive, command_within=_FIRST_COMMAND
                )
            except TPUError as error:
                if error.reason is not Reason.PERMISSION:
                    raise
                if loop.time() + pause > end:
                    raise (host.key_problem or error) from error
            await asyncio.sleep(pause)
        raise AssertionError  # the pauses have no end

    def _attempted(self, task: asyncio.Task[None]) -> None:
        # Any other error is a bug of ours; the link must not hang on it.
        if task.cancelled() or task.exception() is None:
            return
        error = task.exception()
        log.error("Connecting to %s failed", self._host, exc_info=error)
        self.problem = TPUError(
            f"Connecting to {self._host} failed: {error!r}.", Reason.INTERNAL, "See the log."
        )
        self._attempt = None
        self.on(LinkEvent.REFUSED)

    async def _watched(self, connection: SSHConnection) -> None:
        """Reports silence, answers and the loss of *connection*."""
        looks = asyncio.create_task(self._look_for_silence(connection))
        try:
            await connection.wait_lost()
        finally:
            looks.cancel()
        self.problem = ConnectionLost(str(self._host))
        self.on(LinkEvent.LOST)

    async def _look_for_silence(self, connection: SSHConnection) -> None:
        while True:
            # This is what a link at rest does most often.
            await asyncio.sleep(self._interval / 2)
            self.on(LinkEvent.SILENCE if connection.silent else LinkEvent.HEARD)

    async def _probe(self) -> None:
        session = self.session
        if session is None:
            return
        alive = await session.connection.alive(_PROBE_LIMIT)
        if self.session is session:
            if not alive:
                self.problem = ConnectionLost(str(self._host))
            self.on(LinkEvent.HEARD if alive else LinkEvent.LOST)

    def _disconnect(self) -> None:
        if self._attempt is not None:
            self._attempt.cancel()
            self._attempt = None
        session, self.session = self.session, None
        watch, self._watch = self._watch, None
        if watch is not None and watch is not asyncio.current_task():
            watch.cancel()
        if session is not None:
            if self.state is not LinkState.DOWN:
                session.abort()
            self.run_in_background(session.close())

    def _background_done(self, task: asyncio.Task[None]) -> None:
        self._background.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.debug("Work for the link to %s failed", self._host, exc_info=task.exception())
