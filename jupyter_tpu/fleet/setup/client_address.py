"""The address from which this computer reaches TPUs, as their hosts see it."""

from __future__ import annotations

import asyncio
from ipaddress import AddressValueError, IPv4Address, IPv4Network

from ...cloud.compute import IAP_RANGE
from ...errors import TPUError
from ...links import Link, LinkState
from ..core.connections import HostConnections

_LIMIT = 10.0  # seconds for all hosts


async def client_address(connections: HostConnections, project: str) -> str | None:
    """ "203.0.113.4/32", from a host of *project* to which there is a connection.

    None if there is none, or it goes through Identity-Aware Proxy, whose address says nothing.
    """
    try:
        async with asyncio.timeout(_LIMIT):
            for name in connections.names():
                for link in connections.links(name)[:1] if name.project == project else ():
                    if link.state is LinkState.UP and (address := await _seen_by(link)):
                        return address
    except TimeoutError:
        pass  # as if there were no connection: the user is asked for the address
    return None


async def _seen_by(link: Link) -> str | None:
    """sshd's SSH_CONNECTION begins with the client's address."""
    try:
        answer = await link.run(["printenv", "SSH_CONNECTION"])
        address = IPv4Address(answer.stdout.partition(" ")[0])
    except (TPUError, AddressValueError):  # the link was lost; IPv6
        return None
    return None if address in IPv4Network(IAP_RANGE) else f"{address}/32"
