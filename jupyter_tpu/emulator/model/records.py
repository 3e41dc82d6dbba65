"""The emulator's data: nodes, their hosts and operations; no transport.

Everything here is kept in the state folder as JSON. Times are RFC 3339 in UTC.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from ...catalog import AcceleratorType, accelerator_type

#: "reset" is of queued resources only, whose states are in ``queued.py``.
Verb = Literal["create", "delete", "start", "stop", "update", "maintain", "reset"]


class Transition(Struct, frozen=True):
    """An operation: the states it may begin in, the state during it, and the state after it."""

    begins_in: tuple[str, ...]
    during: str | None  # None: the state stays as it is
    after: str | None


#: "delete" may begin in any state, and ends the operation in progress.
TRANSITIONS: dict[str, Transition] = {
    "create": Transition((), "CREATING", "READY"),
    "start": Transition(("STOPPED",), "STARTING", "READY"),
    "stop": Transition(("READY",), "STOPPING", "STOPPED"),
    "update": Transition(("READY", "STOPPED"), None, None),
    "maintain": Transition(("READY",), "REPAIRING", "READY"),
    "delete": Transition((), "DELETING", None),
}
#: The state after an operation that failed. A node that could not be created is removed.
AFTER_FAILURE = {"start": "STOPPED", "stop": "READY", "maintain": "STOPPED", "delete": "STOPPED"}


Tier = Literal["on-demand", "spot", "reserved", "flex-start"]


class NetworkRecord(Struct, kw_only=True):
    """A network that a node's hosts are on in addition to the first."""

    network: str
    subnetwork: str
    external_addresses: bool
    can_ip_forward: bool = False
    queue_count: int = 0


class DiskRecord(Struct, kw_only=True):
    """A disk in addition to the boot disk."""

    source: str
    mode: str  # AttachedDisk.DiskMode: "READ_WRITE"


class MaintenanceRecord(Struct, kw_only=True):
    """Maintenance that was announced (UpcomingMaintenance)."""

    kind: str  # "SCHEDULED" or "UNSCHEDULED"
    status: str  # "PENDING" or "ONGOING"
    can_reschedule: bool
    start: str
    end: str


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
    #: Further guest attributes, which programs on it publish: "namespace/key" → value.
    published: dict[str, str] = {}

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
    can_ip_forward: bool = False
    queue_count: int = 0
    further_networks: list[NetworkRecord] = []
    cidr_block: str = ""
    preemptible: bool = False
    spot: bool = False
    reserved: bool = False
    provisioning_model: str = ""  # "STANDARD", "SPOT", "RESERVATION_BOUND" or "FLEX_START"
    reservation_name: str = ""
    service_account: str = ""  # an address; "": the project's own
    scopes: list[str] = []
    data_disks: list[DiskRecord] = []
    secure_boot: bool = False
    autocheckpoint: bool = False
    encryption_key: str = ""  # of the boot disk
    confidential_compute: bool = False
    labels: dict[str, str] = {}
    metadata: dict[str, str] = {}
    tags: list[str] = []

    @property
    def networks(self) -> list[NetworkRecord]:
        """All of them, the first one first."""
        first = NetworkRecord(
            network=self.network,
            subnetwork=self.subnetwork,
            external_addresses=self.external_addresses,
            can_ip_forward=self.can_ip_forward,
            queue_count=self.queue_count,
        )
        return [first, *self.further_networks]

    @property
    def tier(self) -> Tier:
        """How it is had: what capacity, quotas and prices go by."""
        if self.provisioning_model == "FLEX_START":
            return "flex-start"
        if self.spot or self.preemptible or self.provisioning_model == "SPOT":
            return "spot"
        if self.reserved or self.reservation_name:
            return "reserved"
        return "on-demand"


class SliceRecord(Struct, kw_only=True):
    """What a node of a multislice knows of the others."""

    number: int  # from 0
    count: int
    coordinator: str  # the internal address of the first host of slice 0


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
    queued_resource: str = ""  # the path of the queued resource that it belongs to
    slice: SliceRecord | None = None
    upcoming_maintenance: MaintenanceRecord | None = None
    #: Whether it is a TPU Node: of the retired architecture, without hosts to log in to.
    retired: bool = False

    @property
    def path(self) -> str:
        return f"{self.parent}/nodes/{self.name}"

    @property
    def parent(self) -> str:
        return f"projects/{self.project}/locations/{self.zone}"

    @property
    def accelerator(self) -> AcceleratorType:
        return accelerator_type(self.type)

    @property
    def held(self) -> AcceleratorType:
        """What of it counts for capacity and quotas."""
        return self.accelerator

    @property
    def own_hosts(self) -> list[HostRecord]:
        """Those of `hosts` that are its own."""
        return self.hosts

    @property
    def attributes(self) -> dict[str, str]:
        """What its hosts' metadata server says."""
        return self.metadata


class NodeRequest(NodeSettings, kw_only=True):
    """A node as a request describes it; empty fields were not given."""

    type: str = ""
    config_type: str = ""  # AcceleratorConfig, the other way to say a type
    topology: str = ""
    version: str = ""


class OperationFailure(Struct, kw_only=True):
    """A google.rpc.Status without its details."""

    code: int
    message: str


class SpecRecord(Struct, kw_only=True):
    """A node that a queued resource asks for."""

    name: str
    node: NodeRequest
    type: str  # of the accelerator: "v5litepod-8"


class QueuedSettings(Struct, kw_only=True):
    """What the request for a queued resource chooses, and the queued resource keeps."""

    tier: Literal["", "spot", "guaranteed", "best-effort"] = ""
    min_duration: str = ""  # "3600s"
    reserved: bool = False  # v2alpha1's Guaranteed.reserved
    multislice: bool = False  # its TPUs are slices of one job
    reservation_name: str = ""
    provisioning_model: str = ""
    max_run_seconds: float = 0.0  # 0: no limit
    #: As it was asked for: QueueingPolicy as JSON.
    policy: dict[str, Any] = {}
    valid_after: str = ""
    valid_until: str = ""


class QueuedRequest(QueuedSettings, kw_only=True):
    """A queued resource as a request describes it; *specs* are (name, node), one for each node."""

    specs: list[tuple[str, NodeRequest]] = []


class QueuedRecord(QueuedSettings, kw_only=True):
    """A queued resource."""

    project: str
    zone: str
    name: str
    created: str = ""
    specs: list[SpecRecord] = []
    state: str = "CREATING"
    initiator: str = ""  # of SUSPENDING and SUSPENDED: "USER" or "SERVICE"
    error: OperationFailure | None = None  # of FAILED
    active_since: str = ""

    @property
    def path(self) -> str:
        return f"{self.parent}/queuedResources/{self.name}"

    @property
    def parent(self) -> str:
        return f"projects/{self.project}/locations/{self.zone}"

    def node_path(self, spec: SpecRecord) -> str:
        return f"{self.parent}/nodes/{spec.name}"


class EmulatedOperation(Struct, kw_only=True):
    """A long-running operation on one node or queued resource."""

    name: str  # projects/P/locations/Z/operations/O
    verb: Verb
    target: str  # the path of the node or queued resource
    created: str
    api_version: str = "v2"  # of the call that began it
    request_id: str = ""  # the client's; a second call with it gets the same operation
    ended: str = ""
    done: bool = False
    cancel_requested: bool = False
    error: OperationFailure | None = None
    #: What the API answers when it is done: the node (nothing for a delete) or queued resource.
    node: NodeRecord | None = None
    queued: QueuedRecord | None = None


class ComputeRecord(Struct, kw_only=True):
    """A project's networks: "PLACE/NAME" → the resource in Compute Engine's JSON."""

    networks: dict[str, dict[str, Any]] = {}
    subnetworks: dict[str, dict[str, Any]] = {}
    firewalls: dict[str, dict[str, Any]] = {}


class OsLoginKey(Struct, kw_only=True):
    """A user's public key for OS Login."""

    key: str
    expires: int = 0  # microseconds since the epoch; 0: never
