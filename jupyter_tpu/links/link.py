"""`Link`: the supervised connection to one host, as its users see it."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from ..cloud import NodeName
from ..errors import ConnectionLost, Reason, TPUError
from ..ssh import HostAddress, Keepalive, SSHConnection
from ..ssh.transport import WINDOW_BYTES
from ..subscribers import Subscribers
from .bulk import BulkConnection
from .driver import HostSession, LinkDriver
from .life import LinkEvent, LinkState
from .lookup import HostName, Lookup
from .owned_kernels import end_orphans
from .pod_ssh import HostGroup, authorize_hosts, command_on

if TYPE_CHECKING:
    from asyncssh import SSHTCPChannel

    from ..ssh.agent_client import DaemonClient
    from ..ssh.stream import CommandStream

#: A link that was not acquired stays up for this long after its last use.
LINGER_SECONDS = 30.0  # seconds
#: Seconds for which the hosts of a pod count as authorized. After that, one may have been replaced
#: without a link to it having noticed.
AUTHORIZED_SECONDS = 600.0

#: How many times longer a link pauses between two keepalives while it is only kept up.
AT_REST = 3

#: How long `run` and the other methods wait for the link.
WAIT_SECONDS = 60.0  # seconds

P = ParamSpec("P")
T = TypeVar("T")


def _over_link(
    method: Callable[Concatenate[SSHConnection, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Link, P], Coroutine[Any, Any, T]]:
    """A method of `SSHConnection` as one of `Link`, which waits until the link is up."""

    @functools.wraps(method)
    async def call(self: Link, /, *args: P.args, **kwargs: P.kwargs) -> T:
        async with self._session_up() as session:
            return await method(session.connection, *args, **kwargs)

    return call


class Link:
    """The supervised SSH connection to one host; lives on the core loop.

    It is up while it is acquired or used, and reconnects automatically. Commands that were running
    when it broke fail with UNREACHABLE within the keepalive's bound; later ones wait for it.
    """

    def __init__(
        self,
        host: HostName,
        lookup: Lookup,
        keepalive: Keepalive,
        link_to: Callable[[HostName], Link],
        *,
        one_connection: bool = False,
    ) -> None:
        self.host = host
        self.since = _now()  # of the present state, RFC 3339
        self._lookup = lookup
        self._keepalive = keepalive
        self._link_to = link_to
        self._one_connection = one_connection
        self._users = self._in_use = 0
        self._acquired = (
            False  # acquired since it was last down: the last release closes it at once
        )
        self._ended = False
        self._driver = LinkDriver(host, lookup, keepalive, self._report, self._connected)
        self._bulk, self._compressed = (
            BulkConnection(keepalive, self._driver.run_in_background, compressed=compressed)
            for compressed in (False, True)
        )
        #: The hosts of its TPU that can log in to each other, and until when that counts.
        self._authorized: tuple[list[tuple[str, HostAddress]] | None, float] = (None, 0.0)
        self._linger: asyncio.TimerHandle | None = None
        self._ending_orphans: asyncio.Task[None] | None = None
        self._subscribers = Subscribers[Link]()
        self._changed = asyncio.Event()  # replaced at each change of state

    def __repr__(self) -> str:
        return f"<Link {self.host} {self.state.value}>"

    # ---- what it is ------------------------------------------------------------------------

    @property
    def state(self) -> LinkState:
        return self._driver.state

    @property
    def problem(self) -> TPUError | None:
        """Why it is not up."""
        return self._driver.problem

    @property
    def host_id(self) -> str:
        """Text that identifies its host among those of all clouds."""
        emulator = self._lookup.cloud.target.emulator
        cloud = os.path.realpath(emulator) if emulator else "google"
        node = self.host.node
        return f"{cloud}:{node.project}/{node.zone}/{node.node}/{self.host.number}"

    @property
    def address(self) -> str:
        """The address it is, or was last, connected to; "" if it never was."""
        return self._driver.resolved.address.address if self._driver.resolved else ""

    @property
    def node_id(self) -> str:
        """The id of the node that it is, or was last, connected to; "" if it never was."""
        return self._driver.resolved.node_id if self._driver.resolved else ""

    def others(self) -> list[Link]:
        """The links to the other hosts of its TPU, as far as they are known."""
        hosts = self._lookup.internal_addresses(self.host.node)
        return [self._link_to(host) for host in hosts if host != self.host]

    async def pod_addresses(self) -> list[str]:
        """The addresses of the hosts of its TPU in their own network, in their order.

        Raises the link's problem.
        """
        async with self._session_up():
            addresses = self._lookup.internal_addresses(self.host.node)
        return [addresses[host] for host in sorted(addresses, key=lambda host: host.number)]

    async def authorize_pod(self) -> None:
        """Lets the hosts of its TPU log in to each other, as far as they can be reached.

        What was done some minutes ago with the same hosts is not done again.
        """
        hosts = self._lookup.internal_addresses(self.host.node)
        loop = asyncio.get_running_loop()
        before, when = self._authorized
        if before is not None and before == self._identities(hosts) and loop.time() < when:
            return
        failed = await authorize_hosts(self._link_to, hosts)
        self._authorized = (
            None if failed else self._identities(hosts),
            loop.time() + AUTHORIZED_SECONDS,
        )

    def _identities(self, hosts: Mapping[HostName, str]) -> list[tuple[str, HostAddress]] | None:
        """What would change if other machines had the addresses; None if that is not known."""
        try:
            return [(address, self._link_to(host).host_address) for host, address in hosts.items()]
        except TPUError:
            return None

    async def slice_addresses(self, others: Sequence[str]) -> list[list[str]]:
        """As `pod_addresses`, of this TPU and of *others* in its zone: a list for each."""
        return [
            await self._link_to(HostName(node, 0)).pod_addresses() for node in self._slices(others)
        ]

    async def authorize_slices(self, others: Sequence[str]) -> None:
        """Lets the hosts of this TPU and of *others* log in to each other, as ``slice-0-host-0``
        and so on.
        """
        addresses: dict[HostName, str] = {}
        aliases: dict[HostName, str] = {}
        for number, node in enumerate(self._slices(others)):
            for host, address in self._lookup.internal_addresses(node).items():
                addresses[host] = address
                aliases[host] = f"slice-{number}-host-{host.number}"
        await authorize_hosts(self._link_to, addresses, HostGroup("slices", aliases))

    def _slices(self, others: Sequence[str]) -> list[NodeName]:
        node = self.host.node
        return [node, *(NodeName(node.project, node.zone, name) for name in others)]

    def pod_command(self, argv: Sequence[str]) -> list[str]:
        """The command with which another host of its TPU, once authorized, runs *argv* on it."""
        return command_on(self.host, argv)

    @property
    def host_address(self) -> HostAddress:
        """How it was last reached; raises UNREACHABLE if it never was."""
        if self._driver.resolved is None:
            raise TPUError(f"{self.host} has not been reached yet.", Reason.UNREACHABLE)
        return self._driver.resolved.address

    def subscribe(self, callback: Callable[[Link], None]) -> Callable[[], None]:
        """Calls *callback* after each change of state, on the core loop.

        Returns a function that unsubscribes it.
        """
        return self._subscribers.add(callback)

    # ---- who wants it ------------------------------------------------------------------------

    def acquire(self, *, in_use: bool = True) -> None:
        """Brings it up, and keeps it up until :meth:`release`; returns at once.

        in_use: its loss has to be noticed within the keepalive's bound, and not `AT_REST` times
        later.
        """
        self._acquired = True
        self._add_user(in_use)

    def _add_user(self, in_use: bool) -> None:
        self._users += 1
        self._in_use += in_use
        self._adapt_keepalive()
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None
        if self.state is LinkState.DOWN and not self._ended:
            self._driver.on(LinkEvent.WANTED)

    def release(self, *, in_use: bool = True) -> None:
        """Ends one :meth:`acquire`; the last one closes the connection."""
        self._remove_user(in_use, linger=0.0)

    def _remove_user(self, in_use: bool, linger: float) -> None:
        if self._users == 0:
            raise RuntimeError(f"{self!r} was released more often than acquired")
        self._users -= 1
        self._in_use -= in_use
        self._adapt_keepalive()
        if self._users or self._ended:
            return
        acquired, self._acquired = self._acquired, False
        if linger and not acquired:
            loop = asyncio.get_running_loop()
            self._linger = loop.call_later(linger, self._driver.on, LinkEvent.UNWANTED)
        else:
            self._driver.on(LinkEvent.UNWANTED)

    @contextlib.asynccontextmanager
    async def _session_up(
        self, timeout: float = WAIT_SECONDS, *, in_use: bool = True
    ) -> AsyncIterator[HostSession]:
        """The session, as soon as the link is up."""
        self._add_user(in_use)
        try:
            yield await self._wait_session(timeout)
        finally:
            self._remove_user(in_use, LINGER_SECONDS)

    def _adapt_keepalive(self) -> None:
        self._driver.keep_alive(self._keepalive.interval * (1 if self._in_use else AT_REST))

    async def wait_up(self, timeout: float = WAIT_SECONDS) -> None:
        """Returns when it is up.

        Raises the problem that keeps it down: at once where the user has to act (after one more
        attempt), otherwise after *timeout* seconds.
        """
        async with self._session_up(timeout, in_use=False):
            pass

    async def _wait_session(self, timeout: float) -> HostSession:
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout
        if self.state is LinkState.NEEDS_ATTENTION:
            self.retry()
        while True:
            # A connection can close a moment before the state machine learns of it.
            session = self._driver.session
            if self.state is LinkState.UP and session and not session.connection.closed:
                return session
            if self.state is LinkState.NEEDS_ATTENTION and self.problem is not None:
                raise self.problem
            if self.state is LinkState.DOWN:
                raise TPUError(f"The link to {self.host} was closed.", Reason.CANCELLED)
            changed = self._changed
            try:
                async with asyncio.timeout(end - loop.time()):
                    await changed.wait()
            except TimeoutError:
                raise self.problem or TPUError(
                    f"{self.host} could not be reached within {timeout:g} s.",
                    Reason.UNREACHABLE,
                    "Retrying automatically.",
                ) from None

    def retry(self) -> None:
        """Tries again now: this machine woke up, or the user asked for it."""
        self._lookup.forget(self.host.node)
        self._driver.on(
            LinkEvent.WANTED if self.state is LinkState.NEEDS_ATTENTION else LinkEvent.WOKE
        )

    def host_changed(self) -> None:
        """Call it when the host has a new address, or can be reached again."""
        self._driver.on(LinkEvent.MOVED)

    # ---- what can be done over it ------------------------------------------------------------

    # Each waits for the link first. Acquire the link for as long as a channel or stream is used.

    run = _over_link(SSHConnection.run)
    put = _over_link(SSHConnection.put)
    open_unix = _over_link(SSHConnection.open_unix)

    async def open_bulk(
        self,
        factory: Callable[[], Any],
        port: int,
        *,
        window: int = WINDOW_BYTES,
        compressed: bool = False,
    ) -> SSHTCPChannel[bytes]:
        """`SSHConnection.open_port`, over a connection that kernels don't use, or that compresses.

        While the host accepts no other connection, it is the one of the kernels. Which one it was
        matters to no one until the channel is open, so if it is lost before, another is used.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + WAIT_SECONDS
        while True:
            async with self._session_up(end - loop.time()) as session:
                connection = await self._bulk_connection(session, compressed)
                try:
                    return await connection.open_port(factory, port, window=window)
                except ConnectionLost:
                    if not connection.closed or loop.time() >= end:
                        raise

    @contextlib.asynccontextmanager
    async def stream(self, argv: Sequence[str]) -> AsyncIterator[CommandStream]:
        """`SSHConnection.stream`, for little data that comes soon."""
        async with self._session_up() as session, session.connection.stream(argv) as stream:
            yield stream

    @contextlib.asynccontextmanager
    async def stream_bulk(self, argv: Sequence[str]) -> AsyncIterator[CommandStream]:
        """`SSHConnection.stream`, over a connection that kernels don't use where possible."""
        async with self._session_up() as session:
            connection = await self._bulk_connection(session)
            async with connection.stream(argv) as stream:
                yield stream

    async def _bulk_connection(
        self, session: HostSession, compressed: bool = False
    ) -> SSHConnection:
        if self._one_connection:
            return session.connection
        host = session.connection.host
        return (
            (compressed and await self._compressed.get(host))
            or await self._bulk.get(host)
            or session.connection
        )

    @property
    def has_agent(self) -> bool:
        """Whether there is a channel to the daemon, so that :meth:`agent` takes no time."""
        return self._driver.session is not None and self._driver.session.has_agent

    async def agent(self) -> DaemonClient:
        """Our daemon on the host; deployed if it is not there yet, kept for the connection.

        Each call also ends kernels there that were left by programs of this machine.
        """
        async with self._session_up(in_use=False) as session:
            agent = await session.agent()
        self._end_orphans(agent)
        return agent

    def end_orphans(self) -> None:
        """Ends kernels that were left by programs of this machine, if the daemon is connected."""
        agent = self._driver.session.open_agent if self._driver.session is not None else None
        if agent is not None:
            self._end_orphans(agent)

    def _end_orphans(self, agent: DaemonClient) -> None:
        if self._ending_orphans is None or self._ending_orphans.done():
            self._ending_orphans = self._driver.run_in_background(end_orphans(agent, self.host_id))

    async def close(self) -> None:
        """Ends it for good, even if it is acquired."""
        self._ended = True
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None
        self._driver.on(LinkEvent.UNWANTED)
        await self._driver.wait_background()

    def _report(self) -> None:
        self.since = _now()
        if self.state is LinkState.DOWN:
            self._bulk.close()
            self._compressed.close()
        self._changed.set()
        self._changed = asyncio.Event()
        for callback in self._subscribers:
            callback(self)

    def _connected(self, host: HostAddress) -> None:
        for bulk in (self._bulk, self._compressed):
            bulk.link_up(host)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
