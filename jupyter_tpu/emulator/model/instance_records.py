"""The emulator's data of Compute Engine: instances, groups of them, and operations."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from ...catalog import AcceleratorType
from .machine_types import MachineType, machine_type
from .records import HostRecord, NodeRecord

#: What an instance's status is for a node.
_STATES = {"RUNNING": "READY", "TERMINATED": "STOPPED", "PROVISIONING": "CREATING",
           "STAGING": "CREATING"}  # fmt: skip


class InstanceRecord(NodeRecord, kw_only=True):
    """An instance of Compute Engine: one host. `type` is its machine type, `version` its image.

    `hosts` has all hosts of its slice, by their worker numbers.
    """

    body: dict[str, Any] = field(default_factory=dict)  # as it was asked for
    topology: str = ""  # of its slice; "": it is alone
    worker: int = 0
    group: str = ""  # the path of its group
    status: str = ""
    waits_until: float = 0.0  # seconds since the epoch: for capacity (flex-start)
    ends_at: float = 0.0  # 0: no limit of its run time
    restarts_at: float = 0.0  # TERMINATED for now
    slow_until: float = 0.0  # it stays in its state
    deleting: bool = False  # it is STOPPING for good
    moves: int = 0  # how often it was started on another machine
    restarting: bool = False  # STOPPING, to be started at once

    def become(self, status: str) -> None:
        self.status, self.state = status, _STATES.get(status, status)

    @property
    def path(self) -> str:
        return f"{self.parent}/instances/{self.name}"

    @property
    def parent(self) -> str:
        return f"projects/{self.project}/zones/{self.zone}"

    @property
    def machine(self) -> MachineType:
        machine = machine_type(self.type)
        assert machine is not None
        return machine

    @property
    def accelerator(self) -> AcceleratorType:
        return self.machine.accelerator(self.topology)

    @property
    def held(self) -> AcceleratorType:
        return self.machine.accelerator(name=self.machine.name)

    @property
    def host(self) -> HostRecord:
        return next(host for host in self.hosts if host.worker == self.worker)

    @property
    def own_hosts(self) -> list[HostRecord]:
        return [self.host]

    @property
    def attributes(self) -> dict[str, str]:
        accelerator = self.accelerator
        environment = {
            "ACCELERATOR_TYPE": accelerator.name,
            "TPU_ACCELERATOR_TYPE": accelerator.name,
            "TOPOLOGY": accelerator.topology,
            "HOST_BOUNDS": f"1,{accelerator.hosts},1",
            "WORKER_ID": str(self.worker),
            "TPU_WORKER_ID": str(self.worker),
        }
        return {
            **self.metadata,
            "accelerator-type": accelerator.name,
            "agent-worker-number": str(self.worker),
            "worker-id": str(self.worker),
            # Bare names, in the order of the workers.
            "worker-network-endpoints": ",".join(host.hostname for host in self.hosts),
            "tpu-env": "".join(f"{key}: '{value}'\n" for key, value in environment.items()),
        }


class MemberRecord(Struct, kw_only=True):
    """An instance that a group has, or wants."""

    name: str
    worker: int
    internal: str = ""  # its address, which stays
    made: bool = False  # whether it has been an instance before
    deleting: bool = False
    #: Errors of the last attempt: {"code", "message"}.
    errors: list[dict[str, str]] = []


class GroupRecord(Struct, kw_only=True):
    """A managed instance group."""

    project: str
    place: str  # "zones/Z" or "regions/R"
    zone: str  # of its instances
    name: str
    id: str
    created: str
    body: dict[str, Any]
    template: str  # a path
    policy: str = ""  # the path of its workload policy
    size: int = 0
    members: list[MemberRecord] = []
    topology: str = ""
    topology_state: str = ""
    topology_since: str = ""
    deleting: bool = False
    checked: str = ""  # when it was last tried to make instances
    errors: list[dict[str, Any]] = []  # what listErrors says

    @property
    def parent(self) -> str:
        return f"projects/{self.project}/{self.place}"

    @property
    def path(self) -> str:
        return f"{self.parent}/instanceGroupManagers/{self.name}"

    @property
    def is_bulk(self) -> bool:
        mode = (self.body.get("targetSizePolicy") or {}).get("mode")
        return bool(mode == "BULK")

    def instance_path(self, member: MemberRecord) -> str:
        return f"projects/{self.project}/zones/{self.zone}/instances/{member.name}"


class ComputeOperation(Struct, kw_only=True):
    """An operation of Compute Engine."""

    project: str
    place: str  # "global", "regions/R" or "zones/Z"
    name: str
    id: str
    kind: str  # "insert"
    target: str  # a path
    target_id: str = ""
    status: str = "RUNNING"
    inserted: str = ""
    ended: str = ""
    user: str = ""
    request_id: str = ""
    errors: list[dict[str, str]] = []

    @property
    def path(self) -> str:
        return f"projects/{self.project}/{self.place}/operations/{self.name}"
