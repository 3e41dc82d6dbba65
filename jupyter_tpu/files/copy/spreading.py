"""Copies files and folders to several hosts of a pod at about the cost of one copy.

One host gets them from here. Inside the network each host that has them sends them to the next one
over SSH, so that their number doubles in each round. The program is that of `copying`.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence

from msgspec import structs

from ...cloud import Node
from ...concurrency import gather_or_cancel
from ...errors import ConnectionLost, Reason, TPUError
from ...links import HostName, Link, Links, LinkState
from ...links.pod_ssh import authorize_hosts
from ...problem import Problem
from ...ssh.host_program import COMMAND
from ...ssh.host_values import InvalidAnswer
from ..relay import TransferRelay
from .copying import Report, call_host, copy_of, upload
from .models import HostCopy

#: How often the connection to the origin may be lost.
_MOST_LOSSES = 10
#: Hosts that send to one host at the same time.
_AT_ONCE = 4
#: Reasons to begin with another host.
_OF_ONE_HOST = (Reason.UNREACHABLE, Reason.DISK_FULL)
#: Called with each host's copy when it has ended.
Ended = Callable[[HostCopy], None]


async def upload_to_hosts(
    links: Links,
    node: Node,
    hosts: Sequence[int],
    sources: Sequence[str],
    destination: str,
    *,
    overwrite: bool = False,
    make_folder: bool = False,
    agents_folder: str = "",
    report: Report,
    ended: Ended,
) -> list[HostCopy]:
    """As `copying.upload`, to several hosts of a TPU; returns the copies in their order.

    What fails on one host does not stop the others. Raises what is wrong with the request, and
    `FilesExist` where the first host has files that would be overwritten.
    """
    list_id = secrets.token_hex(8) if len(hosts) > 1 else ""
    settings = {"overwrite": overwrite, "make_folder": make_folder}

    async def to_first(host: int) -> HostCopy:
        link = links.get(HostName(node.name, host))
        return await upload(
            link,
            sources,
            destination,
            list_id=list_id,
            agents_folder=agents_folder,
            report=report,
            **settings,
        )

    if not list_id:
        return [await to_first(hosts[0])]
    everyone = _everyone(node)
    copies: dict[int, HostCopy] = {}

    def end(copy: HostCopy) -> None:
        copies[copy.host] = copy
        ended(copy)

    every_link = [links.get(host) for host in everyone]
    for link in every_link:
        link.acquire()
    authorizing = asyncio.create_task(authorize_hosts(links.get, everyone))
    try:
        for origin in hosts:
            try:
                end(await to_first(origin))
                break
            except TPUError as error:
                if error.reason not in _OF_ONE_HOST or origin == hosts[-1]:
                    raise
                end(failed_copy(origin, error))
        refused = await authorizing
        others = []
        for host in (host for host in hosts if host not in copies):
            link = links.get(HostName(node.name, host))
            refusal = refused.get(link.host) or refused.get(HostName(node.name, origin))
            if refusal is None:
                others.append(link)
            else:
                end(failed_copy(host, refusal))
        first = links.get(HostName(node.name, origin))
        await _spread(first, others, copies[origin].targets, list_id, settings, end)
    finally:
        authorizing.cancel()
        await asyncio.gather(authorizing, return_exceptions=True)
        # Those of a host that can't be reached are deleted by a later copy.
        up = [link for link in every_link if link.state is LinkState.UP]
        request = {"call": "forget", "list_id": list_id}
        await asyncio.gather(*(call_host(link, request) for link in up), return_exceptions=True)
        for link in every_link:
            link.release()
    return [copies[host] for host in hosts]


async def collect_on_host(
    links: Links, node: Node, target: int, sources: Mapping[int, Sequence[str]]
) -> dict[int, HostCopy]:
    """Copies files of other hosts, by their numbers, to the same paths of the host *target*.

    Returns how it went for each of these hosts; none stops the others.
    """
    everyone = _everyone(node)
    acquired = [links.get(host) for host in everyone]
    gate = asyncio.Semaphore(_AT_ONCE)

    async def collect(host: int, paths: Sequence[str]) -> HostCopy:
        link, list_id = links.get(HostName(node.name, host)), secrets.token_hex(8)
        refusal = refused.get(link.host) or refused.get(HostName(node.name, target))
        if refusal is not None:
            return failed_copy(host, refusal)
        async with gate:
            try:
                request = {"call": "list", "sources": list(paths), "list_id": list_id}
                there = await call_host(link, request)
                if there.get("targets") != [*paths]:  # a host does not choose where they go
                    raise InvalidAnswer("copy", "other files than those that were asked for")
                to = links.get(HostName(node.name, target))
                copy = await _forward(link, to, paths, list_id, {"overwrite": False})
            except TPUError as error:
                return failed_copy(host, error)
            # Lists that stay are deleted by a later copy.
            forget = {"call": "forget", "list_id": list_id}
            await asyncio.gather(
                *(call_host(end, forget) for end in (link, to)), return_exceptions=True
            )
        return structs.replace(copy, host=host)

    for link in acquired:
        link.acquire()
    try:
        refused = await authorize_hosts(links.get, everyone)
        copies = await asyncio.gather(*(collect(*source) for source in sources.items()))
    finally:
        for link in acquired:
            link.release()
    return dict(zip(sources, copies, strict=True))


def _everyone(node: Node) -> dict[HostName, str]:
    """All hosts of a TPU, with their internal addresses."""
    return {
        HostName(node.name, number): endpoint.internal
        for number, endpoint in enumerate(node.endpoints)
    }


async def _spread(
    origin: Link,
    hosts: Sequence[Link],
    targets: Sequence[str],
    list_id: str,
    settings: Mapping[str, bool],
    end: Ended,
) -> None:
    """Copies what a list on the host *origin* has to *hosts*, which accept each other."""
    relay = TransferRelay[Link]()
    await relay.add(origin)
    losses = 0

    async def once(target: Link) -> HostCopy | None:
        """None: the connection to its source was lost."""
        nonlocal losses
        async with relay.source() as source:
            assert source is not None
            try:
                copy = await _forward(source, target, targets, list_id, settings)
            except ConnectionLost:
                # It has its files, but is not used again; the origin is.
                if source is not origin:
                    relay.drop(source)
                elif losses >= _MOST_LOSSES:
                    raise
                else:
                    losses += 1
                return None
            await relay.add(target)
            return copy

    async def to(target: Link) -> None:
        unreachable = False
        copy = None
        while copy is None:
            try:
                copy = await once(target)
            except TPUError as error:
                is_lost = isinstance(error, ConnectionLost)
                if unreachable or is_lost or error.reason is not Reason.UNREACHABLE:
                    copy = failed_copy(target.host.number, error)
                unreachable = True
        end(copy)

    await gather_or_cancel([to(host) for host in hosts])


async def _forward(
    source: Link,
    target: Link,
    targets: Sequence[str],
    list_id: str,
    settings: Mapping[str, bool],
) -> HostCopy:
    """settings: those of the receiver."""
    request = {
        "call": "forward",
        "list_id": list_id,
        "targets": list(targets),
        "command": target.pod_command(COMMAND),
        **settings,
    }
    return copy_of(target.host.number, await call_host(source, request, str(target.host)))


def failed_copy(host: int, error: TPUError) -> HostCopy:
    return HostCopy(host=host, state="failed", problem=Problem.of(error))
