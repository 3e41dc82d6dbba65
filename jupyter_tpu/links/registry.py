"""`Links`: the process's one registry of links."""

from __future__ import annotations

import asyncio
import importlib
import os
import time

from ..cloud import (
    Cloud,
    CloudWithAttached,
    GoogleCloud,
    GuestAttributes,
    Node,
    NodeState,
    Target,
    is_emulated,
)
from ..cloud.tpu.rest import RestReader
from ..errors import Reason, TPUError
from ..per_process import per_process
from ..ssh import Keepalive, KnownHosts, ensure_key, public_key, user_name
from ..subscribers import Subscribers
from .free_memory import FreeMemory
from .life import LinkState
from .link import Link
from .lookup import HostName, Lookup

#: How often the clock is checked, and the jump that means that this machine slept; seconds.
_LOOK_SECONDS = 5.0
_SLEPT_SECONDS = 10.0

#: It continues while this machine sleeps; a monotonic clock may not.
_clock = time.time


class _Pool:
    """The links, shared by the registries for several targets of one cloud."""

    def __init__(self, cloud: Cloud, keepalive: Keepalive, known_hosts: KnownHosts | None) -> None:
        self.keepalive = keepalive
        self.one_connection = False
        self.lookup = Lookup(cloud, known_hosts)
        self.links: dict[HostName, Link] = {}
        self.observed: dict[HostName, tuple[str, str, str]] = {}  # id, state, address
        self.sleep_watch: asyncio.Task[None] | None = None
        self.free_memory = FreeMemory()


class Links:
    """One link per host and process.

    Parameters
    ----------
    cloud: gives addresses, host keys and metadata.
    keepalive: how soon a silent host is noticed.
    known_hosts: where host keys are pinned; our file in the data folder by default.
    share_with: another registry, whose links this one shares.
    """

    def __init__(
        self,
        cloud: Cloud,
        *,
        keepalive: Keepalive | None = None,
        known_hosts: KnownHosts | None = None,
        share_with: Links | None = None,
    ) -> None:
        self.cloud = cloud
        self._pool: _Pool = (
            share_with._pool if share_with else _Pool(cloud, keepalive or Keepalive(), known_hosts)
        )

    def get(self, host: HostName) -> Link:
        """The link to *host*; the same object each time. It is down until it is used."""
        pool = self._pool
        link = pool.links.get(host)
        if link is None:
            link = pool.links[host] = Link(
                host, pool.lookup, pool.keepalive, self.get, one_connection=pool.one_connection
            )
        if pool.sleep_watch is None:
            pool.sleep_watch = asyncio.get_running_loop().create_task(
                self._watch_sleep(), name="watch for sleep"
            )
        return link

    def use_one_connection(self) -> None:
        """From now on a new link has no further connection for bulk data: for a process that only
        copies, which saves it a handshake with each host.
        """
        self._pool.one_connection = True

    async def prepare(self, node: Node) -> None:
        """Call it with a node that was just read: its hosts are connected to without asking again,
        and, where they are known already, without loading Google's client.
        """
        # First: on a busy machine, loading it takes longer than what is noted below stays fresh.
        await asyncio.to_thread(importlib.import_module, "jupyter_tpu.ssh.library")
        lookup = self._pool.lookup
        if is_emulated(self.cloud, node.name):  # their ports
            published: list[GuestAttributes] | None
            if node.api == "compute":  # which needs no client
                published = await self.cloud.guest_attributes(node.name)
            else:
                reader = RestReader(self.cloud.target)
                published = await asyncio.to_thread(reader.guest_attributes, node.name)
            if published is not None:
                lookup.note_attributes(node, published)
        lookup.note(node)

    def observe(self, node: Node) -> None:
        """Call it with nodes that a poll has read: their links then learn of a new address or a
        start at once. It makes no calls, and is optional.
        """
        if any(host.node == node.name for host in self._pool.links):
            self._pool.lookup.note(node)
        for number, endpoint in enumerate(node.endpoints):
            host = HostName(node.name, number)
            link = self._pool.links.get(host)
            if link is None or endpoint.ssh:  # its address is not in the node
                continue
            now = (node.id, node.state, endpoint.external or endpoint.internal)
            before = self._pool.observed.get(host)
            self._pool.observed[host] = now
            if node.state is not NodeState.READY:
                continue
            if (
                link.problem
                and link.state is LinkState.NEEDS_ATTENTION
                and _is_solved(link.problem)
            ):
                link.host_changed()
            elif now != before:
                elsewhere = link.address not in ("", now[2]) or (before or now)[0] != now[0]
                if elsewhere or link.state in (LinkState.NEEDS_ATTENTION, LinkState.WAITING):
                    link.host_changed()

    @property
    def numbered(self) -> Subscribers[Node]:
        """Called with a TPU whose hosts were just put into the order of Google's numbers."""
        return self._pool.lookup.numbered

    async def number_hosts(self, node: Node) -> Node:
        """*node* with its hosts in the order of Google's numbers; asks them where these are not
        known. Raises TPUError if no host answers.
        """
        return await self._pool.lookup.number_hosts(node)

    def key_metadata(self) -> dict[str, str]:
        """Metadata with which a new node accepts our key from its start. Raises KEY_FILE."""
        user, key = user_name(), public_key(ensure_key())
        return {"ssh-keys": f"{user}:{key} {user}"}

    def login_changed(self) -> None:
        """Call it when our key may log in where it could not before: links that were rejected are
        tried again.
        """
        for link in self._pool.links.values():
            if link.problem is not None and link.problem.reason is Reason.PERMISSION:
                link.retry()

    async def close(self) -> None:
        """Ends all links; the registry can be used again."""
        pool = self._pool
        watch, pool.sleep_watch = pool.sleep_watch, None
        if watch is not None:
            watch.cancel()
        links = list(pool.links.values())
        pool.links.clear()
        pool.observed.clear()
        await asyncio.gather(*(link.close() for link in links))
        await pool.lookup.close()

    async def _watch_sleep(self) -> None:
        """Retries all links after a sleep: connections are dead then, and keepalives are late.

        Also ends kernels that other programs of this machine have left on linked hosts, and gives
        memory back that connecting has used.
        """
        while True:
            before = _clock()
            await asyncio.sleep(_LOOK_SECONDS)
            links = list(self._pool.links.values())
            for link in links:
                link.end_orphans()
            self._pool.free_memory.look(sum(link.state is LinkState.UP for link in links))
            if _clock() - before > _LOOK_SECONDS + _SLEPT_SECONDS:
                for link in list(self._pool.links.values()):
                    if link.state is not LinkState.NEEDS_ATTENTION:
                        link.retry()


def _is_solved(problem: TPUError) -> bool:
    """Whether *problem* is over once the node is READY."""
    return problem.reason in (Reason.NO_CREDENTIALS, Reason.CONFLICT, Reason.NOT_FOUND)


@per_process
def _registries() -> dict[str, dict[Target, Links]]:
    return {}


def default_links(target: Target | None = None) -> Links:
    """The process's one registry for Google, and one per emulator (by its state file).

    Its ``cloud`` has the project and default zone of *target*; the links are the same for every
    target of one cloud. Call it on the core loop.
    """
    target = target if target is not None else Target.from_environment()
    key = os.path.realpath(target.emulator) if target.emulator else "google"
    known = _registries().setdefault(key, {})
    if target not in known:
        share_with = next(iter(known.values()), None)
        known[target] = Links(CloudWithAttached(GoogleCloud(target)), share_with=share_with)
    return known[target]
