"""Ports of hosts that are open here, over links that are kept up for them."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import uuid
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Literal, Protocol

from msgspec import structs

from ...cloud import Node, NodeName
from ...errors import InvalidInput, Reason, TPUError
from ...links import HostName, Link, LinkState
from ...ssh import Forwarder, PortInUse
from ...ssh.listening import LOOPBACK
from ..core.core import Core
from ..core.host_numbers import check_host
from ..core.records import Snapshot, TunnelRecord
from ..models import OpenTunnel, Problem, Tunnel
from ..models.core import timestamp, validated

#: How often the counts of bytes are checked; seconds.
COUNT_EVERY = 1.0

_REACHABLE = (LinkState.UP, LinkState.SILENT)


def check_host_port(node: Node, port: int, host: int) -> None:
    """Raises INVALID for a wrong port, or for a host that the TPU does not have."""
    check_port(port, "on the host")
    check_host(node, host)


def check_port(port: int, where: str) -> None:
    if not 1 <= port <= 65535:
        raise InvalidInput(f"{port} is not a port {where}.", "Ports are 1 to 65535.")


class ByteStream(Protocol):
    """What carries the bytes: a tunnel's `Forwarder`, or an app's `Upstream`."""

    sent: int
    received: int

    async def close(self) -> None: ...


class ForwardedPort:
    """Keeps *link* up for *stream*. changed() is called when the state changes."""

    def __init__(self, link: Link, stream: ByteStream, changed: Callable[[], None]) -> None:
        self.link = link
        self._stream = stream
        self._counts = (0, 0)
        self._unsubscribe = link.subscribe(lambda _: changed())
        link.acquire()

    @property
    def state(self) -> Literal["open", "waiting", "needs-attention"]:
        if self.link.state in _REACHABLE:
            return "open"
        return "needs-attention" if self.link.state is LinkState.NEEDS_ATTENTION else "waiting"

    @property
    def problem(self) -> TPUError | None:
        """Why it is not open."""
        return self.link.problem if self.state != "open" else None

    def had_traffic(self) -> bool:
        """Whether bytes were transferred since the last call."""
        before, self._counts = self._counts, (self._stream.sent, self._stream.received)
        return before != self._counts

    async def close(self) -> None:
        self._unsubscribe()
        await self._stream.close()
        self.link.release()


#: Addresses other than loopback that tunnels may listen on, with blanks or commas between them.
ADDRESSES_VARIABLE = "JUPYTER_TPU_TUNNEL_ADDRESSES"

#: How often it is checked which tunnels should be open; seconds.
RECONCILE_EVERY = 2.0
_WHAT = "Tunnels"


class Tunnels:
    """A :class:`~jupyter_tpu.fleet.api.TunnelsAPI`. On the core loop."""

    def __init__(self, core: Core) -> None:
        self._links = core.links
        self._finder = core.finder
        self._store = core.store
        self._owner = core.lease
        self._failures = core.failures
        self._changed = core.changes.marker("tunnel")
        #: Asked before a new connection to a port of a host is forwarded; see `Forwarder`.
        self.admit: Callable[[NodeName, int, int], Awaitable[bytes]] = _admit
        self._records = {record.id: record for record in core.store.snapshot.tunnels}
        self._active: dict[str, _ActiveTunnel] = {}
        self._wake = asyncio.Event()
        core.connected.ends_with_tpu(self.forget)
        core.tpus.register_desired(self.tpus)
        core.observer.register_need(self.tpus)
        core.shared.reloaded.add(self._reload)
        core.changes.register("tunnel", self.find)
        core.loops.register("tunnels", self.run)
        core.ending.push_async_callback(self.shut_down)

    # ---- asking ----

    def tpus(self) -> set[NodeName]:
        """The TPUs that should have tunnels, also without a command that holds one open."""
        return {record.name for record in self._records.values() if record.keep}

    def node_id(self, name: NodeName) -> str:
        """The id of the node that the tunnels to a TPU were opened for; "" if there are none."""
        ids = [record.node_id for record in self._records.values() if record.name == name]
        return ids[-1] if ids else ""

    def kept(self, name: NodeName) -> list[TunnelRecord]:
        """The tunnels to a TPU that no command holds open."""
        return [record for record in self._records.values() if record.keep and record.name == name]

    async def list(self, ref: str) -> Sequence[Tunnel]:
        name = await self._finder.find(ref)
        return [
            tunnel for tunnel in self._all() if (tunnel.tpu, tunnel.zone) == (name.node, name.zone)
        ]

    async def all(self) -> Sequence[Tunnel]:
        await self._finder.reload()
        return self._all()

    def _all(self) -> Sequence[Tunnel]:
        for record in tuple(self._records.values()):
            if not record.keep and not self._owner.alive(record.owner):  # its command was killed
                self._store.drop_tunnel(record.id)
                del self._records[record.id]
        records = sorted(self._records.values(), key=lambda record: (record.created, record.id))
        return [self._tunnel(record) for record in records]

    def find(self, id: str) -> Tunnel | None:
        record = self._records.get(id)
        return self._tunnel(record) if record is not None else None

    # ---- changing ----

    async def open(self, ref: str, request: OpenTunnel, *, keep: bool = True) -> Tunnel:
        """It listens when this returns, whatever the link does.

        keep: whether it should be there after this process, too. Else others only show it.
        """
        request = validated(request)
        node = await self._finder.find_ready(ref)
        _check(node, request, self._links.cloud.emulated)
        # A tunnel that is not kept lasts as long as a command, and is never a server's.
        others = [
            record
            for record in (self._records.values() if keep else ())
            if record.keep and record.address == request.address
        ]
        target = (node.name, request.host, request.port)
        for record in others:
            same = (record.name, record.host, record.port) == target
            if same and request.local_port in (None, record.local_port):
                return self._tunnel(record)
        id = uuid.uuid4().hex[:8]
        active = self._make_active(id, node.name, request.host, request.port, request.address)
        try:
            if request.local_port is not None:
                _check_unused(request.local_port, others)
                await active.listen(request.local_port)
            elif self._links.cloud.emulated:
                # Its `localhost` is this machine's: the tunnel would lead to itself.
                await active.listen_anywhere("An emulated host shares this machine's ports.")
            else:
                try:
                    _check_unused(request.port, others)
                    await active.listen(request.port)
                except TPUError as error:
                    if error.reason not in (Reason.CONFLICT, Reason.PERMISSION):
                        raise
                    await active.listen_anywhere(error.message)
        except BaseException:
            await active.forwarded.close()
            raise
        record = TunnelRecord(
            id=id,
            project=node.name.project,
            zone=node.name.zone,
            tpu=node.name.node,
            node_id=node.id,
            host=request.host,
            port=request.port,
            local_port=active.forwarder.local_port,
            address=request.address,
            created=datetime.now(UTC).isoformat(),
            owner=self._owner.id,
            keep=keep,
        )
        self._active[id] = active
        self._records[id] = record
        self._store.save_tunnel(record)
        self._changed(id)
        return self._tunnel(record)

    async def close(self, ref: str, id: str) -> None:
        """Raises NOT_FOUND if the TPU has none of that id, and CONFLICT for one of a command in
        another terminal.
        """
        name = await self._finder.find(ref)
        record = self._records.get(id)
        if record is None or record.name != name:
            raise TPUError(f"The tunnel {id} to {name.node} does not exist.", Reason.NOT_FOUND)
        if not record.keep and record.owner != self._owner.id:
            raise TPUError(
                f"`jupyter tpu tunnel` runs the tunnel {id} in a terminal.",
                Reason.CONFLICT,
                "Press Ctrl-C there.",
            )
        self._store.drop_tunnel(id)
        await self._stop(id)

    def forget(self, name: NodeName) -> None:
        """The TPU is gone: closes its tunnels."""
        for record in tuple(self._records.values()):
            if record.name == name:
                self._store.drop_tunnel(record.id)
                del self._records[record.id]
                self._changed(record.id)
        self._wake.set()

    # ---- the loop ----

    async def run(self) -> None:
        """Compares what should be with what is, until it is cancelled."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            if self._wake.is_set() or loop.time() >= due:
                self._wake.clear()
                await self._reconcile()
                due = loop.time() + RECONCILE_EVERY
            for id, active in self._active.items():
                if active.forwarded.had_traffic():
                    self._changed(id)
            with contextlib.suppress(TimeoutError):
                pause = COUNT_EVERY if self._active else RECONCILE_EVERY
                async with asyncio.timeout(pause):
                    await self._wake.wait()

    def _reload(self, snapshot: Snapshot) -> None:
        """Takes over what other processes have written."""
        stored = {record.id: record for record in snapshot.tunnels}
        for id in self._records.keys() | stored.keys():
            if self._records.get(id) != stored.get(id):
                self._changed(id)
        self._records = stored
        self._wake.set()

    async def _reconcile(self) -> None:
        for id in self._active.keys() - self._records.keys():
            await self._stop(id)
        self._failures.retain(_WHAT, self.tpus())
        for name in self.tpus():
            if self._failures.waits(name, _WHAT):
                continue
            try:
                for record in [record for record in self._records.values() if record.name == name]:
                    if await self._is_mine(record):
                        await self._activate(self._records.get(record.id))
            except Exception as error:  # the tunnels of other TPUs are opened all the same
                self._failures.record(name, _WHAT, error)
            else:
                self._failures.clear(name, _WHAT)

    async def _is_mine(self, record: TunnelRecord) -> bool:
        """Whether this process runs a tunnel; it takes over those of dead ones."""
        if record.owner == self._owner.id:
            return True
        if not record.keep or self._owner.alive(record.owner):
            return False
        if not await self._store.claim_tunnel(record, self._owner.id):
            return False
        if self._records.get(record.id) != record:
            return False  # closed meanwhile
        self._records[record.id] = structs.replace(record, owner=self._owner.id)
        return True

    async def _activate(self, record: TunnelRecord | None) -> None:
        if record is None:
            return
        active = self._active.get(record.id)
        if active is None:
            active = self._make_active(
                record.id, record.name, record.host, record.port, record.address
            )
            self._active[record.id] = active
        if not active.forwarder.listening:
            try:
                await active.listen(record.local_port)
            except TPUError as error:
                active.fail(error)

    def _make_active(
        self, id: str, name: NodeName, host: int, port: int, address: str
    ) -> _ActiveTunnel:
        link = self._links.get(HostName(name, host))
        active = _ActiveTunnel(link, port, address, lambda: self._changed(id))
        active.forwarder.admit = lambda: self.admit(name, host, port)
        return active

    async def _stop(self, id: str) -> None:
        self._records.pop(id, None)
        active = self._active.pop(id, None)
        if active is not None:
            await active.forwarded.close()
        self._changed(id)

    async def shut_down(self) -> None:
        """Closes them here. The next server opens those again that are kept."""
        for id, active in tuple(self._active.items()):
            if id in self._records and not self._records[id].keep:
                self._store.drop_tunnel(id)
            await active.forwarded.close()
        self._active.clear()

    # ---- telling ----

    def _tunnel(self, record: TunnelRecord) -> Tunnel:
        active = self._active.get(record.id)
        shown = Tunnel(
            id=record.id,
            tpu=record.tpu,
            zone=record.zone,
            host=record.host,
            port=record.port,
            local_port=record.local_port,
            address=record.address,
            state="elsewhere",
        )
        if active is not None:
            active.describe(shown)
        elif record.owner == self._owner.id or not self._owner.alive(record.owner):
            shown.state = "waiting"  # for the loop, or for a server
        return shown


class _ActiveTunnel:
    """One tunnel that this process runs: a forwarded port, and its local listener."""

    def __init__(self, link: Link, port: int, address: str, changed: Callable[[], None]) -> None:
        self._address = address
        self._changed = changed
        self._problem: TPUError | None = None  # why it does not listen
        self._local_port_reason = ""
        self._since = timestamp("seconds")
        self.forwarder = Forwarder(
            link.open_bulk, port, changed, functools.partial(link.open_bulk, compressed=True)
        )
        self.forwarded = ForwardedPort(link, self.forwarder, changed)

    async def listen(self, local_port: int) -> None:
        """Listens on *local_port*; raises what `Forwarder.listen` does."""
        await self.forwarder.listen(local_port, self._address)
        self._problem = None
        self._since = timestamp("seconds")
        self._changed()

    async def listen_anywhere(self, reason: str) -> None:
        """Listens on any free port; *reason*: why not on the one with the host's number."""
        await self.listen(0)
        self._local_port_reason = reason

    def fail(self, error: TPUError) -> None:
        """The local port could not be opened."""
        if self._problem is None:
            self._since = timestamp("seconds")
        self._problem = error
        self._changed()

    def describe(self, shown: Tunnel) -> None:
        """Fills in the tunnel's current state."""
        forwarder = self.forwarder
        shown.state, problem = self.forwarded.state, self.forwarded.problem
        if not forwarder.listening:
            shown.state, problem = "taken", self._problem
        elif shown.state == "open":
            problem = forwarder.problem
        shown.problem = Problem.of(problem) if problem is not None else None
        shown.local_port_reason = self._local_port_reason
        shown.since = max(self._since, self.forwarded.link.since)
        shown.connections = forwarder.connections
        shown.sent, shown.received = forwarder.sent, forwarder.received
        shown.compressed = forwarder.compressed


async def _admit(name: NodeName, host: int, port: int) -> bytes:
    return b""


def _check_unused(local_port: int, others: Iterable[TunnelRecord]) -> None:
    """Raises CONFLICT if one of the other tunnels has this local port."""
    for record in others:
        if record.local_port == local_port:
            raise PortInUse(
                f"Local port {local_port} is used by the tunnel to port {record.port} of "
                f"{HostName(record.name, record.host)}.",
                Reason.CONFLICT,
                "Choose another local port, or close that tunnel.",
            )


def _check(node: Node, request: OpenTunnel, emulated: bool) -> None:
    check_port(request.port, "on the host")
    if request.local_port is not None:
        check_port(request.local_port, "on this machine")
    if emulated and request.local_port == request.port:
        raise InvalidInput(
            f"An emulated host shares this machine's network: a tunnel from port {request.port} to "
            "the same port would lead to itself.",
            "Leave the local port out to get a free one.",
        )
    check_host_port(node, request.port, request.host)
    allowed = os.environ.get(ADDRESSES_VARIABLE, "").replace(",", " ").split()
    if request.address not in (*LOOPBACK, *allowed):
        raise InvalidInput(
            f"Tunnels listen on this machine alone, not on {request.address!r}.",
            f"To let others in, set {ADDRESSES_VARIABLE}={request.address} for the server first.",
        )
