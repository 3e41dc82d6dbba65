"""Tunnels: which should be there (SQLite), and the loop that makes it so.

A tunnel belongs to the process that runs it. When that process is gone, however it went, the next
server takes its tunnels over, with the same local ports. A break of the link cuts what is under
way (bytes were lost, and a reset says so) and leaves the port where it is: who connects meanwhile
waits until the link is up again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import uuid
from collections.abc import Callable
from datetime import UTC, datetime

from ...cloud import Node, NodeName
from ...errors import Reason, TPUError
from ...links import HostName, Link, Links, LinkState
from ...ssh import Forwarder, PortInUse
from ...ssh.listening import LOOPBACK
from ..models import OpenTunnel, Problem, Tunnel
from ..models.times import timestamp
from ..store.database import Store
from ..store.process_lease import ProcessLease
from ..store.records import TunnelRecord
from .ports import check_host_port, check_port

#: Addresses other than loopback that tunnels may listen on, with blanks or commas between them.
ADDRESSES_VARIABLE = "JUPYTER_TPU_TUNNEL_ADDRESSES"

#: How often it is looked what should be there, and what the counts are; seconds.
LOOK_EVERY = 2.0
COUNT_EVERY = 1.0


class Tunnels:
    """The tunnels of one fleet. On the core loop.

    changed(id) is called when something about a tunnel may have changed.
    """

    def __init__(
        self, links: Links, store: Store, owner: ProcessLease, changed: Callable[[str], None]
    ) -> None:
        self._links = links
        self._store = store
        self._owner = owner
        self._changed = changed
        self._records = {record.id: record for record in store.tunnels()}
        self._running: dict[str, _ActiveTunnel] = {}
        self._wake = asyncio.Event()

    # ---- asking ----

    def names(self) -> set[NodeName]:
        """The TPUs that tunnels should lead to."""
        return {record.name for record in self._records.values()}

    def node_id(self, name: NodeName) -> str:
        """The id of the node that the tunnels to a TPU mean; "" if there are none."""
        ids = [record.node_id for record in self._records.values() if record.name == name]
        return ids[-1] if ids else ""

    def all(self) -> list[Tunnel]:
        """The oldest first."""
        records = sorted(self._records.values(), key=lambda record: (record.created, record.id))
        return [self._tunnel(record) for record in records]

    def find(self, id: str) -> Tunnel | None:
        record = self._records.get(id)
        return self._tunnel(record) if record is not None else None

    # ---- changing ----

    async def open(self, node: Node, wanted: OpenTunnel, *, keep: bool = True) -> Tunnel:
        """Opens a tunnel; it listens when this returns, whatever the link does.

        keep: whether it should be there after this process, too.

        A tunnel to the same port with no wish for a local one is asked for twice: the first is
        given. Raises INVALID for what can't be a port, a host or an allowed address, CONFLICT for
        a local port that is taken, PERMISSION for one of the system's.
        """
        _check(node, wanted, self._links.cloud.emulated)
        self.reload()
        # What is not kept lasts as long as a command: the wishes of servers are none of its.
        for record in self._records.values() if keep else ():
            same = (record.name, record.host, record.port) == (node.name, wanted.host, wanted.port)
            if same and wanted.local_port is None and record.address == wanted.address:
                return self._tunnel(record)
            if wanted.local_port == record.local_port and record.address == wanted.address:
                if same:
                    return self._tunnel(record)
                raise PortInUse(
                    f"Port {record.local_port} of this machine is taken by the tunnel to port "
                    f"{record.port} of {HostName(record.name, record.host)}.",
                    Reason.CONFLICT,
                    "Choose another local port, or close that tunnel.",
                )
        link = self._links.get(HostName(node.name, wanted.host))
        id = uuid.uuid4().hex[:8]
        running = _ActiveTunnel(link, wanted.port, wanted.address, lambda: self._changed(id))
        try:
            await running.listen(wanted.local_port, emulated=self._links.cloud.emulated)
        except BaseException:
            await running.close()
            raise
        record = TunnelRecord(
            id=id,
            project=node.name.project,
            zone=node.name.zone,
            tpu=node.name.node,
            node_id=node.id,
            host=wanted.host,
            port=wanted.port,
            local_port=running.forwarder.local_port,
            address=wanted.address,
            created=datetime.now(UTC).isoformat(),
            owner=self._owner.id,
        )
        self._running[id] = running
        self._records[id] = record
        running.keep = keep
        if keep:
            self._store.save_tunnel(record)
        self._changed(id)
        return self._tunnel(record)

    async def remove(self, name: NodeName, id: str) -> None:
        """Closes a tunnel for good; NOT_FOUND where the TPU has none of that id."""
        record = self._records.get(id)
        if record is None or record.name != name:
            raise TPUError(f"There is no tunnel {id!r} to {name.node}.", Reason.NOT_FOUND)
        self._store.drop_tunnel(id)
        await self._stop(id)

    def forget(self, name: NodeName) -> None:
        """The TPU is gone: so are its tunnels."""
        for record in list(self._records.values()):
            if record.name == name:
                self._store.drop_tunnel(record.id)
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
                due = loop.time() + LOOK_EVERY
            for id, running in self._running.items():
                if running.counted():
                    self._changed(id)
            with contextlib.suppress(asyncio.TimeoutError):
                pause = COUNT_EVERY if self._running else LOOK_EVERY
                await asyncio.wait_for(self._wake.wait(), pause)

    def reload(self) -> None:
        """Takes over what another process has written."""
        stored = {record.id: record for record in self._store.tunnels()}
        mine = {id for id, running in self._running.items() if not running.keep}
        for id in self._records.keys() | stored.keys():
            if self._records.get(id) != stored.get(id) and id not in mine:
                self._changed(id)
        unsaved = {id: self._records[id] for id in mine if id in self._records}
        self._records = {**stored, **unsaved}

    async def _reconcile(self) -> None:
        self.reload()
        for id in self._running.keys() - self._records.keys():
            await self._stop(id)
        for record in list(self._records.values()):
            if record.owner != self._owner.id:
                if self._owner.alive(record.owner):
                    continue
                if not self._store.claim_tunnel(record, self._owner.id):
                    continue
                self.reload()
            await self._run(self._records.get(record.id))

    async def _run(self, record: TunnelRecord | None) -> None:
        if record is None:
            return
        running = self._running.get(record.id)
        if running is None:
            id = record.id
            link = self._links.get(HostName(record.name, record.host))
            running = _ActiveTunnel(link, record.port, record.address, lambda: self._changed(id))
            self._running[id] = running
        if not running.forwarder.listening:
            try:
                await running.listen(record.local_port)
            except TPUError as error:
                running.fail(error)

    async def _stop(self, id: str) -> None:
        self._records.pop(id, None)
        running = self._running.pop(id, None)
        if running is not None:
            await running.close()
        self._changed(id)

    async def close(self) -> None:
        """Ends them here; those that are kept go on with the next server."""
        for running in list(self._running.values()):
            await running.close()
        self._running.clear()

    # ---- telling ----

    def _tunnel(self, record: TunnelRecord) -> Tunnel:
        running = self._running.get(record.id)
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
        if running is not None:
            running.describe(shown)
        elif record.owner == self._owner.id or not self._owner.alive(record.owner):
            shown.state = "waiting"  # for the loop, or for a server
        return shown


class _ActiveTunnel:
    """One tunnel that this process runs: a held link, and a forwarder over it."""

    def __init__(self, link: Link, port: int, address: str, changed: Callable[[], None]) -> None:
        self.keep = True
        self._link = link
        self._address = address
        self._changed = changed
        self._problem: TPUError | None = None  # why it does not listen
        self._counts = (0, 0)
        self._since = timestamp("seconds")
        self._was: LinkState | None = None
        self.forwarder = Forwarder(link.open_port, port, changed, link.open_compressed)
        self._unsubscribe = link.subscribe(self._link_changed)
        link.acquire()

    async def listen(self, local_port: int | None, *, emulated: bool = False) -> None:
        """*local_port* None: the host's number if it is free, any free one if not."""
        forwarder = self.forwarder
        if local_port is not None:
            await forwarder.listen(local_port, self._address)
        elif emulated or forwarder.port < 1024:
            # An emulated host's `localhost` is this machine's: the tunnel would lead to itself.
            await forwarder.listen(0, self._address)
        else:
            try:
                await forwarder.listen(forwarder.port, self._address)
            except PortInUse:
                await forwarder.listen(0, self._address)
        self._problem = None
        self._since = timestamp("seconds")
        self._changed()

    def fail(self, error: TPUError) -> None:
        """It could not listen."""
        if self._problem is None:
            self._since = timestamp("seconds")
        self._problem = error
        self._changed()

    def counted(self) -> bool:
        """Whether bytes went through since this was last asked."""
        before, self._counts = self._counts, (self.forwarder.sent, self.forwarder.received)
        return before != self._counts

    def describe(self, shown: Tunnel) -> None:
        """Fills in what is going on."""
        state, problem = self._link.state, self._link.problem
        if not self.forwarder.listening:
            shown.state, problem = "taken", self._problem
        elif state in (LinkState.UP, LinkState.SILENT):
            shown.state, problem = "open", self.forwarder.problem
        elif state is LinkState.NEEDS_ATTENTION:
            shown.state = "needs-you"
        else:
            shown.state = "waiting"
        if problem is not None:
            shown.problem = Problem(
                message=problem.message, reason=problem.reason, hint=problem.hint
            )
        shown.since = max(self._since, self._link.since)
        shown.connections = self.forwarder.connections
        shown.sent, shown.received = self.forwarder.sent, self.forwarder.received
        shown.compressed = self.forwarder.compressed

    async def close(self) -> None:
        self._unsubscribe()
        await self.forwarder.close()
        self._link.release()

    def _link_changed(self, link: Link) -> None:
        if self._was in (LinkState.UP, LinkState.SILENT) and link.state not in (
            LinkState.UP,
            LinkState.SILENT,
        ):
            self.forwarder.cut()
        self._was = link.state
        self._changed()


def _check(node: Node, wanted: OpenTunnel, emulated: bool) -> None:
    check_port(wanted.port, "on the host")
    if wanted.local_port is not None:
        check_port(wanted.local_port, "on this machine")
    if emulated and wanted.local_port == wanted.port:
        raise TPUError(
            f"An emulated host shares this machine's network: a tunnel from port {wanted.port} to "
            "the same port would lead to itself.",
            Reason.INVALID,
            "Leave the local port out to get a free one.",
        )
    check_host_port(node, wanted.port, wanted.host)
    allowed = os.environ.get(ADDRESSES_VARIABLE, "").replace(",", " ").split()
    if wanted.address not in (*LOOPBACK, *allowed):
        raise TPUError(
            f"Tunnels listen on this machine alone, not on {wanted.address!r}.",
            Reason.INVALID,
            f"To let others in, set {ADDRESSES_VARIABLE}={wanted.address} for the server first.",
        )
