"""A project's networks, subnetworks and firewall rules, as Compute Engine has them.

A project begins with Google's network ``default``, which has a subnetwork in each region and four
firewall rules. Bodies are kept as JSON, in Compute Engine's own field names.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from ... import catalog
from . import api_errors
from .operations import rfc3339
from .records import ComputeRecord, NetworkRecord

_NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
#: The fields of each collection that a request may set; the others are the service's, or unknown.
_SETTABLE = {
    "networks": {
        *("name", "description", "autoCreateSubnetworks", "routingConfig", "mtu"),
        *(
            "networkFirewallPolicyEnforcementOrder",
            "networkProfile",
            "params",
            "enableUlaInternalIpv6",
        ),
        *("internalIpv6Range", "peerings", "IPv4Range"),
    },
    "subnetworks": {
        *("name", "description", "network", "ipCidrRange", "privateIpGoogleAccess", "purpose"),
        *("role", "secondaryIpRanges", "stackType", "enableFlowLogs", "logConfig", "region"),
        *("ipv6AccessType", "privateIpv6GoogleAccess", "params", "reservedInternalRange"),
    },
    "firewalls": {
        *("name", "description", "network", "priority", "direction", "disabled", "allowed"),
        *("denied", "sourceRanges", "destinationRanges", "sourceTags", "targetTags", "logConfig"),
        *("sourceServiceAccounts", "targetServiceAccounts", "params"),
    },
}
_SET_BY_SERVICE = {"kind", "id", "creationTimestamp", "selfLink", "fingerprint", "gatewayAddress"}
_DEFAULT_RULES: tuple[tuple[str, str, list[dict[str, Any]], list[str]], ...] = (
    ("icmp", "Allow ICMP from anywhere", [{"IPProtocol": "icmp"}], ["0.0.0.0/0"]),
    (
        "internal",
        "Allow internal traffic on the default network",
        [
            {"IPProtocol": "tcp", "ports": ["0-65535"]},
            {"IPProtocol": "udp", "ports": ["0-65535"]},
            {"IPProtocol": "icmp"},
        ],
        ["10.128.0.0/9"],
    ),
    (
        *("rdp", "Allow RDP from anywhere"),
        *([{"IPProtocol": "tcp", "ports": ["3389"]}], ["0.0.0.0/0"]),
    ),
    (
        *("ssh", "Allow SSH from anywhere"),
        *([{"IPProtocol": "tcp", "ports": ["22"]}], ["0.0.0.0/0"]),
    ),
)

Body = dict[str, Any]


def regions() -> tuple[str, ...]:
    return tuple(sorted({zone.rpartition("-")[0] for zone in catalog.zones()}))


class EmulatedNetworks:
    """The networks of all projects in *records*. A place is "global" or a region."""

    def __init__(self, records: dict[str, ComputeRecord], now: Callable[[], datetime]) -> None:
        self.records = records
        self._now = now

    def list(self, project: str, collection: str, place: str | None = None) -> list[Body]:
        """Those of *place*, or of all places."""
        resources = self._of(project, collection)
        start = "" if place is None else f"{place}/"
        return [body for key, body in sorted(resources.items()) if key.startswith(start)]

    def get(self, project: str, collection: str, place: str, name: str) -> Body:
        try:
            return self._of(project, collection)[f"{place}/{name}"]
        except KeyError:
            raise api_errors.resource_not_found(_path(project, collection, place, name)) from None

    def insert(self, project: str, collection: str, place: str, body: Body) -> Body:
        name = self._check(collection, body)
        resources = self._of(project, collection)
        if f"{place}/{name}" in resources:
            raise api_errors.resource_exists(_path(project, collection, place, name))
        if collection != "networks":
            body["network"] = self._network_of(project, body)
        if collection == "subnetworks" and place not in regions():
            raise api_errors.resource_not_found(f"projects/{project}/regions/{place}")
        made = self._add(project, collection, place, body)
        if collection == "networks" and body.get("autoCreateSubnetworks"):
            self._add_subnetworks(project, name)
        return made

    def delete(
        self, project: str, collection: str, place: str, name: str, users: Iterator[str]
    ) -> None:
        """*users* are the paths of nodes that use it."""
        body = self.get(project, collection, place, name)
        path = _path(project, collection, place, name)
        own = {"networks": ("firewalls", "subnetworks")}.get(collection, ())
        mine = [
            (kind, key)
            for kind in own
            for key, other in self._of(project, kind).items()
            if _last(other["network"]) == name
        ]
        automatic = bool(body.get("autoCreateSubnetworks"))
        in_use = [
            _path(project, kind, *key.split("/"))
            for kind, key in mine
            if kind == "firewalls" or not automatic
        ]
        for user in (*users, *in_use):
            raise api_errors.resource_in_use(path, user)
        for kind, key in mine:
            del self._of(project, kind)[key]
        del self._of(project, collection)[f"{place}/{name}"]

    def patch(self, project: str, collection: str, place: str, name: str, body: Body) -> Body:
        now = self.get(project, collection, place, name)
        self._check(collection, {"name": name, **body})
        now.update({key: value for key, value in body.items() if key not in _SET_BY_SERVICE})
        return now

    def check(self, project: str, zone: str, network: NetworkRecord) -> None:
        """ApiError if the network or subnetwork of a new node does not exist."""
        region = zone.rpartition("-")[0]
        for collection, place, name in (
            ("networks", "global", network.network),
            ("subnetworks", region, network.subnetwork),
        ):
            host = _project_of(name) or project  # of a shared VPC
            if f"{place}/{_last(name)}" not in self._of(host, collection):
                raise api_errors.unknown_network(_path(host, collection, place, _last(name)))

    # ---- internals ------------------------------------------------------------------------------

    def _of(self, project: str, collection: str) -> dict[str, Body]:
        if project not in self.records:
            self.records[project] = ComputeRecord()
            self._add_default(project)
        resources: dict[str, Body] = getattr(self.records[project], collection)
        return resources

    def _check(self, collection: str, body: Body) -> str:
        known = _SETTABLE[collection] | _SET_BY_SERVICE
        unknown = [name for name in body if name not in known]
        if unknown:
            prefix = "Invalid JSON payload received. Unknown name"
            raise api_errors.invalid_payload(
                [("", f'{prefix} "{name}": Cannot find field.') for name in unknown]
            )
        name = body.get("name")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise api_errors.invalid_value("resource.name", name, _NAME.pattern)
        return name

    def _network_of(self, project: str, body: Body) -> str:
        """The full name of the network that a subnetwork or firewall rule is of."""
        name = _last(str(body.get("network") or "default"))
        self.get(project, "networks", "global", name)
        return _path(project, "networks", "global", name)

    def _add(self, project: str, collection: str, place: str, body: Body) -> Body:
        path = _path(project, collection, place, body["name"])
        made = {
            "kind": f"compute#{collection.removesuffix('s')}",
            "id": str(int(hashlib.sha256(path.encode()).hexdigest()[:15], 16)),
            "creationTimestamp": rfc3339(self._now()),
            **{key: value for key, value in body.items() if key not in _SET_BY_SERVICE},
        }
        if collection == "firewalls":
            made = {"priority": 1000, "direction": "INGRESS", "disabled": False, **made}
        self._of(project, collection)[f"{place}/{body['name']}"] = made
        return made

    def _add_default(self, project: str) -> None:
        self._add(
            project,
            "networks",
            "global",
            {
                "name": "default",
                "description": "Default network for the project",
                "autoCreateSubnetworks": True,
                "routingConfig": {"routingMode": "REGIONAL"},
            },
        )
        self._add_subnetworks(project, "default")
        for name, description, allowed, sources in _DEFAULT_RULES:
            rule: Body = {"name": f"default-allow-{name}", "description": description}
            rule |= {"network": _path(project, "networks", "global", "default"), "priority": 65534}
            rule |= {"allowed": allowed, "sourceRanges": sources}
            self._add(project, "firewalls", "global", rule)

    def _add_subnetworks(self, project: str, network: str) -> None:
        """One in each region, as in a network of the mode "auto"."""
        for number, region in enumerate(regions()):
            subnetwork = {"name": network, "network": _path(project, "networks", "global", network)}
            subnetwork["ipCidrRange"] = f"10.{128 + number}.0.0/20"
            self._add(project, "subnetworks", region, subnetwork)


def _path(project: str, collection: str, place: str, name: str) -> str:
    where = place if place == "global" else f"regions/{place}"
    return f"projects/{project}/{where}/{collection}/{name}"


def _last(name: str) -> str:
    return name.rpartition("/")[2]


def _project_of(name: str) -> str:
    """The project in a full name or URL; "" for a short name."""
    match = re.search(r"projects/([^/]+)/", name)
    return match[1] if match else ""
