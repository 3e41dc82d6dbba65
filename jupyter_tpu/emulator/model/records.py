"""The emulator's data: nodes, their hosts, operations and faults; no transport.

Everything here is kept in the state folder as JSON. Times are RFC 3339 in UTC.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from ...catalog import AcceleratorType, accelerator_type


class NetworkRecord(Struct, kw_only=True):
    """A network that a node's hosts are on beside the first."""

    network: str
    subnetwork: str
    external_addresses: bool


class InterfaceRecord(Struct, kw_only=True):
    """A host's interface on such a network. The API shows its addresses; nothing listens there."""

    internal: str
    external: str = ""


class HostRecord(Struct, kw_only=True):
    """One host (worker) of a node."""

    worker: int
    hostname: str  # "t1v-n-0a1b2c3d-w-0"
    internal: str  # stays as long as the node
    #: Changes with each start and maintenance; "" where the node has no external addresses.
    external: str = ""
    further_interfaces: list[InterfaceRecord] = []
    port: int = 22  # of its sshd
    #: "ssh-ed25519" → base64; published as guest attributes, known once it has run.
    host_keys: dict[str, str] = {}

    @property
    def address(self) -> str:
        """Where its sshd listens."""
        return self.external or self.internal

    @property
    def interfaces(self) -> list[InterfaceRecord]:
        """On all of the node's networks, the first one first."""
        first = InterfaceRecord(internal=self.internal, external=self.external)
        return [first, *self.further_interfaces]


class NodeSettings(Struct, kw_only=True):
    """What a request chooses freely, and a node keeps."""

    description: str = ""
    network: str = "default"
    subnetwork: str = "default"
    external_addresses: bool = True
    further_networks: list[NetworkRecord] = []
    preemptible: bool = False
    spot: bool = False
    reserved: bool = False
    labels: dict[str, str] = {}
    metadata: dict[str, str] = {}
    tags: list[str] = []


class NodeRecord(NodeSettings, kw_only=True):
    """A Cloud TPU node."""

    project: str
    zone: str
    name: str
    id: str  # Google's number of it, decimal
    type: str
    version: str
    state: str = "CREATING"
    health: str = ""
    health_description: str = ""
    created: str = ""
    hosts: list[HostRecord] = []

    @property
    def path(self) -> str:
        return f"{self.parent}/nodes/{self.name}"

    @property
    def networks(self) -> list[NetworkRecord]:
        """All of them, the first one first."""
        first = NetworkRecord(
            network=self.network,
            subnetwork=self.subnetwork,
            external_addresses=self.external_addresses,
        )
        return [first, *self.further_networks]

    @property
    def parent(self) -> str:
        return f"projects/{self.project}/locations/{self.zone}"

    @property
    def accelerator(self) -> AcceleratorType:
        return accelerator_type(self.type)


class NodeRequest(NodeSettings, kw_only=True):
    """A node as a request describes it; empty fields were not given."""

    type: str = ""
    config_type: str = ""  # AcceleratorConfig, the other way to say a type
    topology: str = ""
    version: str = ""


class Failure(Struct, kw_only=True):
    """A google.rpc.Status without its details."""

    code: int
    message: str


class OperationRecord(Struct, kw_only=True):
    """A long-running operation on one node."""

    name: str  # projects/P/locations/Z/operations/O
    verb: Literal["create", "delete", "start", "stop", "update", "maintain"]
    target: str  # the node's path
    created: str
    ended: str = ""
    done: bool = False
    cancel_requested: bool = False
    error: Failure | None = None
    #: What the API answers when it is done: the node, or nothing for a delete.
    node: NodeRecord | None = None


class Snapshot(Struct, kw_only=True):
    """The whole of the emulator's memory, as the state folder keeps it."""

    id: str
    nodes: list[NodeRecord] = []
    operations: list[OperationRecord] = []
    #: commonInstanceMetadata of each project.
    project_metadata: dict[str, dict[str, str]] = field(default_factory=dict)
