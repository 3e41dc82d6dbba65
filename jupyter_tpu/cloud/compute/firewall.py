"""Firewall rules of a VPC network, and which one decides about a connection. No calls here.

Policies of a folder or organization come before these rules. Reading them needs permissions that
few have, so they are not known here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any

from msgspec import Struct

ANYWHERE = "0.0.0.0/0"
#: From where Google's Identity-Aware Proxy connects.
IAP_RANGE = "35.235.240.0/20"
_PROTOCOLS = {"1": "icmp", "6": "tcp", "17": "udp"}
_LAST_PORT = 65535
#: Addresses that the internet does not have (RFC 1918).
_INTERNAL = (*map(ip_network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")),)


class PortRange(Struct, frozen=True):
    """Ports of a protocol, the last one included."""

    protocol: str  # "tcp", or "all"
    first: int = 0
    last: int = _LAST_PORT

    def __str__(self) -> str:
        """ "TCP port 22", "UDP ports 60000-61000", "ICMP"."""
        name = self.protocol.upper()
        if (self.first, self.last) == (0, _LAST_PORT):
            return name
        if self.first == self.last:
            return f"{name} port {self.first}"
        return f"{name} ports {self.first}-{self.last}"

    def covers(self, other: PortRange) -> bool:
        return (
            self.protocol in ("all", other.protocol)
            and self.first <= other.first
            and other.last <= self.last
        )

    def overlaps(self, other: PortRange) -> bool:
        return (
            self.protocol in ("all", other.protocol)
            and self.first <= other.last
            and other.first <= self.last
        )

    def body(self) -> dict[str, Any]:
        """As Compute Engine writes it."""
        if (self.first, self.last) == (0, _LAST_PORT):
            return {"IPProtocol": self.protocol}
        ports = f"{self.first}" if self.first == self.last else f"{self.first}-{self.last}"
        return {"IPProtocol": self.protocol, "ports": [ports]}


SSH = PortRange("tcp", 22, 22)
#: The ports of mosh's servers.
MOSH = PortRange("udp", 60000, 61000)


class FirewallRule(Struct, frozen=True, kw_only=True):
    """A firewall rule for what comes in."""

    name: str
    network: str  # its short name
    priority: int = 1000  # the lowest number decides
    sources: tuple[str, ...] = ()  # ranges of addresses; empty: from no address
    tags: tuple[str, ...] = ()  # the instances for which it is; empty: all
    #: Only for instances of certain service accounts, which are not looked at here.
    of_accounts: bool = False
    allowed: tuple[PortRange, ...] = ()
    denied: tuple[PortRange, ...] = ()

    def is_for(self, tags: Iterable[str]) -> bool:
        """Whether it is for an instance with *tags*."""
        return not self.of_accounts and (not self.tags or any(tag in self.tags for tag in tags))

    @property
    def internal(self) -> bool:
        """Whether it is about addresses inside of networks only."""
        ranges = [ip_network(source, strict=False) for source in self.sources]
        return all(any(_covers(inside, network) for inside in _INTERNAL) for network in ranges)

    def allows(self, ports: PortRange) -> bool:
        return any(port_range.covers(ports) for port_range in self.allowed)


def read_rules(bodies: Iterable[Mapping[str, Any]]) -> list[FirewallRule]:
    """Those of Compute Engine's answer that are on, and for what comes in."""
    return [
        FirewallRule(
            name=str(body["name"]),
            network=str(body.get("network", "")).rpartition("/")[2],
            priority=int(body.get("priority", 1000)),
            sources=_sources(body),
            tags=(*body.get("targetTags", ()),),
            of_accounts=bool(body.get("targetServiceAccounts")),
            allowed=_ports(body.get("allowed", ())),
            denied=_ports(body.get("denied", ())),
        )
        for body in bodies
        if body.get("direction", "INGRESS") == "INGRESS" and not body.get("disabled")
    ]


def deciding_rule(
    rules: Iterable[FirewallRule], ports: PortRange, source: str, tags: Iterable[str] = ()
) -> FirewallRule | None:
    """The rule that lets all of *source* in to *ports* of an instance with *tags*, or keeps some
    of it out (then it has `denied`). None: no rule says anything, so nothing is let in.
    """
    source_network, tags = ip_network(source), (*tags,)
    for rule in sorted(rules, key=lambda rule: (rule.priority, not rule.denied)):
        if not rule.is_for(tags):
            continue
        ranges = [ip_network(source, strict=False) for source in rule.sources]
        if rule.denied:
            if any(port_range.overlaps(ports) for port_range in rule.denied) and any(
                network.version == source_network.version and network.overlaps(source_network)
                for network in ranges
            ):
                return rule
        elif rule.allows(ports) and any(_covers(network, source_network) for network in ranges):
            return rule
    return None


def _covers(range: IPv4Network | IPv6Network, network: IPv4Network | IPv6Network) -> bool:
    if isinstance(range, IPv4Network) and isinstance(network, IPv4Network):
        return network.subnet_of(range)
    if isinstance(range, IPv6Network) and isinstance(network, IPv6Network):
        return network.subnet_of(range)
    return False


def _sources(body: Mapping[str, Any]) -> tuple[str, ...]:
    """A rule that names no source is for all addresses."""
    if body.get("sourceRanges"):
        return (*body["sourceRanges"],)
    return () if body.get("sourceTags") or body.get("sourceServiceAccounts") else (ANYWHERE,)


def _ports(entries: Iterable[Mapping[str, Any]]) -> tuple[PortRange, ...]:
    """The ports of "allowed" or "denied": no ports means all."""
    port_ranges = []
    for entry in entries:
        protocol = str(entry.get("IPProtocol", "")).lower()
        protocol = _PROTOCOLS.get(protocol, protocol)
        for ports in entry.get("ports") or [f"0-{_LAST_PORT}"]:
            if match := re.fullmatch(r"(\d+)(?:-(\d+))?", ports):
                port_ranges.append(PortRange(protocol, int(match[1]), int(match[2] or match[1])))
    return (*port_ranges,)
