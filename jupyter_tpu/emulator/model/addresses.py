"""The hosts' addresses: on the loopback interface, different for all hosts."""

from __future__ import annotations

import random
from collections.abc import Mapping

from .records import HostRecord, InterfaceRecord, NodeRecord


class Addresses:
    """Gives and takes the addresses of the hosts of *nodes*.

    *chance* makes them random, so that two emulators seldom meet. *one_address*: this machine has
    no loopback address but 127.0.0.1, so all hosts have that.
    """

    def __init__(
        self, nodes: Mapping[str, NodeRecord], chance: random.Random, *, one_address: bool
    ) -> None:
        self._nodes = nodes
        self._chance = chance
        self._one_address = one_address

    def new_hosts(self, count: int, prefix: str, further_networks: int) -> list[HostRecord]:
        """The hosts of a new node, with internal addresses; *prefix* is of their host names."""
        addresses = iter(self._unused(count * (1 + further_networks)))
        return [
            HostRecord(
                worker=worker,
                hostname=f"{prefix}{worker}",
                internal=next(addresses),
                further_interfaces=[
                    InterfaceRecord(internal=next(addresses)) for _ in range(further_networks)
                ],
            )
            for worker in range(count)
        ]

    def renew_external(self, node: NodeRecord) -> None:
        """Gives the hosts other external addresses, as after a start or maintenance."""
        addresses = iter(self._unused(len(node.hosts) * (1 + len(node.further_networks))))
        for host in node.hosts:
            host.external = next(addresses) if node.external_addresses else ""
            for interface, network in zip(
                host.further_interfaces, node.further_networks, strict=True
            ):
                interface.external = next(addresses) if network.external_addresses else ""

    def renew_own_external(self, node: NodeRecord) -> None:
        """As `renew_external`, but only of the host of an instance."""
        for host in node.own_hosts:
            host.external = self._unused(1)[0] if node.external_addresses else ""

    def drop_external(self, node: NodeRecord) -> None:
        """The hosts are down: other hosts may get their external addresses."""
        for host in node.own_hosts:
            host.external = ""
            for interface in host.further_interfaces:
                interface.external = ""

    def _unused(self, count: int) -> list[str]:
        if self._one_address:
            return ["127.0.0.1"] * count
        used = {
            address
            for node in self._nodes.values()
            for host in node.hosts
            for interface in host.interfaces
            for address in (interface.internal, interface.external)
        }
        while True:
            second = self._chance.randrange(16, 255)
            third = self._chance.randrange(0, 255 - count // 250)
            unused = [f"127.{second}.{third + at // 250}.{2 + at % 250}" for at in range(count)]
            if not used & set(unused):
                return unused
