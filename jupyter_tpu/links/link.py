"""`Link`: drives one host's `LinkLife` with a real connection."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ..errors import ConnectionLost, Reason, TPUError
from ..ssh import CompletedCommand, Connection, HostAddress, Keepalive, connect
from ..ssh.transport import WINDOW
from .life import Action, Do, LinkEvent, LinkLife, LinkState
from .lookup import HostName, Lookup, ResolvedHost

if TYPE_CHECKING:
    from asyncssh import SSHReader, SSHTCPChannel, SSHWriter

    from ..ssh.agent_client import AgentClient

log = logging.getLogger(__name__)

#: A link that was only borrowed (`run` without `hold`) stays up for this long afterwards.
LINGER = 30.0  # seconds

#: How long `run` and the others wait for the link.
WAIT = 60.0  # seconds

#: How long a host may take to answer after this machine slept.
_PROBE_LIMIT = 1.5  # seconds; a wrong guess costs a reconnect, which is little

#: How long taking leave of the agent may take; its stream is probably gone already.
_CLOSE_LIMIT = 5.0  # seconds

#: These pass by themselves; everything else that stops an attempt needs the user.
_PASSING = {Reason.UNREACHABLE, Reason.UNAVAILABLE, Reason.RATE_LIMITED, Reason.TIMEOUT}


class Link:
    """The supervised SSH connection to one host; lives on the core loop.

    It is up while somebody holds it. It heals by itself; commands that were under way when it
    broke fail with UNREACHABLE within the keepalive's bound, and those that come while it heals
    wait for it.
    """

    def __init__(self, host: HostName, lookup: Lookup, keepalive: Keepalive | None = None) -> None:
        self.host = host
        self.problem: TPUError | None = None  # why it is not up
        self.since = _now()  # of the present state, RFC 3339
        self._lookup = lookup
        self._keepalive = keepalive or Keepalive()
        self._life = LinkLife(random.random)
        self._holds = 0
        self._wished = False  # somebody held it: when nobody does any more it goes, at once
        self._ended = False
        self._found: ResolvedHost | None = None
        self._connection: Connection | None = None
        self._agent: AgentClient | None = None
        self._agent_lock = asyncio.Lock()  # one deployment at a time
        self._compressed: Connection | None = None  # beside the other, for what shrinks
        self._compressed_lock = asyncio.Lock()
        self._attempt: asyncio.Task[None] | None = None
        self._watch: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._linger: asyncio.TimerHandle | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._subscribers: list[Callable[[Link], None]] = []
        self._changed = asyncio.Event()  # replaced at each change of state

    def __repr__(self) -> str:
        return f"<Link {self.host} {self.state.value}>"

    # ---- what it is ------------------------------------------------------------------------

    @property
    def state(self) -> LinkState:
        return self._life.state

    @property
    def address(self) -> str:
        """Where it is, or was last, connected to; "" if it never was."""
        return self._found.address.address if self._found else ""

    @property
    def host_address(self) -> HostAddress:
        """How it was last connected to; UNREACHABLE if it never was."""
        if self._found is None:
            raise TPUError(f"{self.host} was not reached yet.", Reason.UNREACHABLE)
        return self._found.address

    def subscribe(self, callback: Callable[[Link], None]) -> Callable[[], None]:
        """Calls *callback* after each change of state, on the core loop.

        Returns a function that ends that.
        """
        self._subscribers.append(callback)

        def unsubscribe() -> None:
            if callback in self._subscribers:
                self._subscribers.remove(callback)

        return unsubscribe

    # ---- who wants it ------------------------------------------------------------------------

    def acquire(self) -> None:
        """Wishes it to be up, until :meth:`release`; returns at once."""
        self._wished = True
        self._hold()

    def _hold(self) -> None:
        self._holds += 1
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None
        if self.state is LinkState.DOWN and not self._ended:
            self._on(LinkEvent.WANTED)

    def release(self) -> None:
        """Takes one :meth:`hold` back; the last one closes the connection."""
        self._release(linger=0.0)

    def _release(self, linger: float) -> None:
        if self._holds == 0:
            raise RuntimeError(f"{self!r} is released more often than it is held")
        self._holds -= 1
        if self._holds or self._ended:
            return
        wished, self._wished = self._wished, False
        if linger and not wished:
            loop = asyncio.get_running_loop()
            self._linger = loop.call_later(linger, self._on, LinkEvent.UNWANTED)
        else:
            self._on(LinkEvent.UNWANTED)

    @contextlib.asynccontextmanager
    async def _borrowed(self, timeout: float = WAIT) -> AsyncIterator[Connection]:
        """The connection, as soon as it is up."""
        self._hold()
        try:
            yield await self._up(timeout)
        finally:
            self._release(LINGER)

    async def wait_up(self, timeout: float = WAIT) -> None:
        """Returns when it is up.

        Raises the problem that keeps it down: at once where the user has to act (after one more
        attempt), otherwise after *timeout* seconds.
        """
        async with self._borrowed(timeout):
            pass

    async def _up(self, timeout: float) -> Connection:
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout
        if self.state is LinkState.NEEDS_ATTENTION:
            self.retry()
        while True:
            # A connection can be closed a moment before the machine hears of it.
            connection = self._connection
            if self.state is LinkState.UP and connection and not connection.closed:
                return connection
            if self.state is LinkState.NEEDS_ATTENTION and self.problem is not None:
                raise self.problem
            if self.state is LinkState.DOWN:
                raise TPUError(f"The link to {self.host} was closed.", Reason.CANCELLED)
            changed = self._changed
            try:
                await asyncio.wait_for(changed.wait(), end - loop.time())
            except TimeoutError:
                raise self.problem or TPUError(
                    f"{self.host} could not be reached within {timeout:g} s.",
                    Reason.UNREACHABLE,
                    "It is tried again by itself.",
                ) from None

    def retry(self) -> None:
        """Tries again now: this machine woke up, or the user asks for it."""
        self._lookup.forget(self.host.node)
        self._on(LinkEvent.WANTED if self.state is LinkState.NEEDS_ATTENTION else LinkEvent.WOKE)

    def moved(self) -> None:
        """Told when the host has another address, or can be reached again."""
        self._on(LinkEvent.MOVED)

    # ---- what can be done over it ------------------------------------------------------------

    async def run(
        self,
        argv: Sequence[str],
        *,
        input: bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
        on_line: Callable[[str], None] | None = None,
        check: bool = True,
    ) -> CompletedCommand:
        """Runs a command; see :meth:`jupyter_tpu.ssh.Connection.run`. Waits for the link first."""
        async with self._borrowed() as connection:
            return await connection.run(
                argv,
                input=input,
                env=env,
                cwd=cwd,
                timeout=timeout,
                on_line=on_line,
                check=check,
            )

    async def open_unix(self, path: str) -> tuple[SSHReader[bytes], SSHWriter[bytes]]:
        """A stream to a unix socket there; see :meth:`jupyter_tpu.ssh.Connection.open_unix`.

        Hold the link for as long as the stream is used.
        """
        async with self._borrowed() as connection:
            return await connection.open_unix(path)

    async def open_port(
        self, factory: Callable[[], Any], port: int, *, window: int = WINDOW
    ) -> SSHTCPChannel[bytes]:
        """A channel to a TCP port there; see :meth:`jupyter_tpu.ssh.Connection.open_port`.

        Hold the link for as long as the channel is used.
        """
        async with self._borrowed() as connection:
            return await connection.open_port(factory, port, window=window)

    async def open_compressed(
        self, factory: Callable[[], Any], port: int, *, window: int = WINDOW
    ) -> SSHTCPChannel[bytes]:
        """The same over a second connection, which compresses.

        It is made when it is first asked for and ends with the link's own.
        """
        async with self._borrowed() as connection:
            compressing = await self._compressing(connection)
            return await compressing.open_port(factory, port, window=window)

    async def _compressing(self, plain: Connection) -> Connection:
        async with self._compressed_lock:
            if self._compressed is None or self._compressed.closed:
                made = await connect(plain.host, keepalive=self._keepalive, compressed=True)
                if self._connection is not plain:
                    self._own(made.close())
                    raise ConnectionLost(str(self.host))
                self._compressed = made
            return self._compressed

    async def open_tcp(
        self, port: int, *, window: int = WINDOW
    ) -> tuple[SSHReader[bytes], SSHWriter[bytes]]:
        """Streams to a TCP port there; see :meth:`jupyter_tpu.ssh.Connection.open_tcp`.

        Hold the link for as long as they are used.
        """
        async with self._borrowed() as connection:
            return await connection.open_tcp(port, window=window)

    async def put(self, data: bytes, path: str, mode: int = 0o600) -> None:
        """Writes a file there; see :meth:`jupyter_tpu.ssh.Connection.put`."""
        async with self._borrowed() as connection:
            await connection.put(data, path, mode)

    async def agent(self) -> AgentClient:
        """Our agent on the host; deployed if it is not there yet, kept for the connection."""
        from ..ssh.agent_client import ensure_agent

        async with self._borrowed() as connection, self._agent_lock:
            if self._connection is not connection:
                raise ConnectionLost(str(self.host))
            if self._agent is None or self._agent.closed:
                agent = await ensure_agent(connection.run, connection.put, connection.open_unix)
                if self._connection is not connection:
                    self._own(asyncio.wait_for(agent.close(), _CLOSE_LIMIT))
                    raise ConnectionLost(str(self.host))
                self._agent = agent
            return self._agent

    async def close(self) -> None:
        """Ends it for good, whoever holds it."""
        self._ended = True
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None
        self._on(LinkEvent.UNWANTED)
        while self._closing:
            await asyncio.gather(*self._closing, return_exceptions=True)

    # ---- driving its life --------------------------------------------------------------------

    def _on(self, event: LinkEvent) -> None:
        for action in self._life.on(event):
            self._do(action)

    def _do(self, action: Action) -> None:
        loop = asyncio.get_running_loop()
        if action.do is Do.CONNECT:
            self._attempt = loop.create_task(self._connect(), name=f"connect {self.host}")
            self._attempt.add_done_callback(self._attempted)
        elif action.do is Do.DISCONNECT:
            self._disconnect()
        elif action.do is Do.SCHEDULE:
            self._unschedule()
            self._timer = loop.call_later(action.delay, self._on, LinkEvent.TIMER)
        elif action.do is Do.UNSCHEDULE:
            self._unschedule()
        elif action.do is Do.PROBE:
            self._own(self._probe())
        else:
            self._report()

    def _unschedule(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _report(self) -> None:
        self.since = _now()
        if self.state in (LinkState.UP, LinkState.DOWN):
            self.problem = None
        self._changed.set()
        self._changed = asyncio.Event()
        for callback in list(self._subscribers):
            callback(self)

    async def _connect(self) -> None:
        try:
            found = await self._lookup.find(self.host)
            self._found = found
            connection = await self._dial(found)
        except TPUError as error:
            self.problem = error
            self._attempt = None
            self._on(LinkEvent.FAILED if error.reason in _PASSING else LinkEvent.REFUSED)
            return
        self._attempt = None
        self._lookup.reached(found)
        self._connection = connection
        self._watch = asyncio.get_running_loop().create_task(
            self._watched(connection), name=f"watch {self.host}"
        )
        self._on(LinkEvent.CONNECTED)

    async def _dial(self, found: ResolvedHost) -> Connection:
        """Connects; a host that does not know our key yet is asked again for a while."""
        loop = asyncio.get_running_loop()
        end = loop.time() + found.patience
        pause = 0.3
        while True:
            try:
                return await connect(found.address, keepalive=self._keepalive)
            except TPUError as error:
                if error.reason is not Reason.PERMISSION:
                    raise
                if loop.time() + pause > end:
                    raise (found.key_problem or error) from error
            await asyncio.sleep(pause)
            pause = min(3.0, pause * 1.5)

    def _attempted(self, task: asyncio.Task[None]) -> None:
        # Whatever else happens in an attempt is a fault of ours; the link must not hang on it.
        if task.cancelled() or task.exception() is None:
            return
        error = task.exception()
        log.error("Connecting to %s failed", self.host, exc_info=error)
        self.problem = TPUError(
            f"Connecting to {self.host} failed: {error!r}.", Reason.INTERNAL, "See the log."
        )
        self._attempt = None
        self._on(LinkEvent.REFUSED)

    async def _watched(self, connection: Connection) -> None:
        """Tells of silence, answers and the loss of *connection*."""
        look = self._keepalive.interval / 2
        while not connection.closed:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(connection.wait_lost(), look)
            if connection.closed:
                break
            self._on(LinkEvent.SILENCE if connection.silent else LinkEvent.HEARD)
        self.problem = ConnectionLost(str(self.host))
        self._on(LinkEvent.LOST)

    async def _probe(self) -> None:
        connection = self._connection
        if connection is None:
            return
        alive = await connection.alive(_PROBE_LIMIT)
        if self._connection is connection:
            if not alive:
                self.problem = ConnectionLost(str(self.host))
            self._on(LinkEvent.HEARD if alive else LinkEvent.LOST)

    def _disconnect(self) -> None:
        if self._attempt is not None:
            self._attempt.cancel()
            self._attempt = None
        connection, self._connection = self._connection, None
        watch, self._watch = self._watch, None
        agent, self._agent = self._agent, None
        compressed, self._compressed = self._compressed, None
        if watch is not None and watch is not asyncio.current_task():
            watch.cancel()
        if connection is not None and self.state is not LinkState.DOWN:
            # It is of no use any more, and nobody may be there to take leave of: what runs over
            # it is to know at once, and to go on over the next one.
            connection.abort()
        self._own(_part(agent, connection))
        if compressed is not None:
            self._own(compressed.close())

    def _own(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs *work* (closing, probing) beside; :meth:`close` waits for it."""
        task = asyncio.get_running_loop().create_task(work)
        self._closing.add(task)
        task.add_done_callback(self._owned)

    def _owned(self, task: asyncio.Task[None]) -> None:
        self._closing.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.debug("Taking leave of %s failed", self.host, exc_info=task.exception())


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


async def _part(agent: AgentClient | None, connection: Connection | None) -> None:
    """Takes leave of the agent, which may end then, before its connection goes."""
    if agent is not None:
        with contextlib.suppress(asyncio.TimeoutError, TPUError):
            await asyncio.wait_for(agent.close(), _CLOSE_LIMIT)
    if connection is not None:
        await connection.close()
