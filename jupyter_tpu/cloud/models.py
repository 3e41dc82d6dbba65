"""Cloud TPU nodes as this project sees them, apart from any transport."""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Struct

from ..errors import InvalidInput

Tier = Literal["on-demand", "spot", "reserved"]

_ZONE = re.compile(r"-|[a-z]([a-z0-9-]{0,61}[a-z0-9])?")


def check_zone(zone: str) -> None:
    """Raises INVALID for what can't be a zone's name; "-" stands for all zones."""
    if not _ZONE.fullmatch(zone):
        shown = zone if len(zone) < 50 else f"{zone[:50]}…"
        raise InvalidInput(
            f"{shown!r} is not a zone.", "Zones have names such as us-central1-a or europe-west4-b."
        )


class NodeName(Struct, frozen=True, order=True):
    """The full name of a node."""

    project: str
    zone: str
    node: str

    @property
    def path(self) -> str:
        """``projects/P/locations/Z/nodes/N``, as the API spells it."""
        return f"projects/{self.project}/locations/{self.zone}/nodes/{self.node}"

    @classmethod
    def parse(cls, path: str) -> NodeName:
        _, project, _, zone, _, node = path.split("/")
        return cls(project, zone, node)


class Endpoint(Struct, frozen=True, kw_only=True):
    """Where one host (worker) is reached."""

    internal: str
    external: str = ""  # "" where the host has no external address


class Node(Struct, frozen=True, kw_only=True):
    """One Cloud TPU node, as the API last described it."""

    name: NodeName
    id: str  # Google's number of it; another node of the same name has another
    type: str
    state: str  # "READY", …; the names of google.cloud.tpu_v2.Node.State
    health: str = ""
    health_description: str = ""
    version: str = ""
    tier: Tier = "on-demand"
    endpoints: tuple[Endpoint, ...] = ()
    created: str = ""  # RFC 3339
    metadata: dict[str, str] = {}
    labels: dict[str, str] = {}


class NodeSpec(Struct, frozen=True, kw_only=True):
    """What to create."""

    type: str
    version: str
    tier: Tier = "on-demand"
    network: str | None = None
    subnetwork: str | None = None
    labels: dict[str, str] = {}
    metadata: dict[str, str] = {}


class NodeList(Struct, frozen=True, kw_only=True):
    """The nodes of one zone or of all, and the zones that did not answer."""

    nodes: tuple[Node, ...]
    unreachable: tuple[str, ...] = ()


#: What one host published about itself: (namespace, key) -> value; ("hostkeys", "ssh-ed25519").
GuestAttributes = dict[tuple[str, str], str]
