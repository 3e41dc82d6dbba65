"""Compute Engine in the emulator's model, by hand: for tests without a transport or a host."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

from jupyter_tpu.emulator.model.faults import Fault
from jupyter_tpu.emulator.model.groups import EmulatedGroups
from jupyter_tpu.emulator.model.instance_records import InstanceRecord
from jupyter_tpu.emulator.model.instances import EmulatedInstances
from jupyter_tpu.emulator.model.model import Model
from jupyter_tpu.emulator.model.snapshot import EmulatorSnapshot

P, ZONE = "emulated", "us-east5-a"
IMAGE = (
    "projects/ubuntu-os-accelerator-images/global/images/family/"
    "ubuntu-accel-2204-amd64-tpu-v5e-v5p-v6e"
)


def body(name: str = "one", machine: str = "ct6e-standard-4t", **more: Any) -> dict[str, Any]:
    """An instance as it is asked for; *more* of its scheduling."""
    return {
        "name": name,
        "machineType": f"zones/{ZONE}/machineTypes/{machine}",
        "disks": [{"boot": True, "initializeParams": {"sourceImage": IMAGE, "diskSizeGb": "200"}}],
        "networkInterfaces": [{"network": "global/networks/default", "accessConfigs": [{}]}],
        "scheduling": {"onHostMaintenance": "TERMINATE", **more},
    }


FLEX = {
    "provisioningModel": "FLEX_START",
    "maxRunDuration": {"seconds": "3600"},
    "instanceTerminationAction": "DELETE",
}


class World:
    """A model whose clock is moved by hand, and hosts that start and end at once."""

    def __init__(self) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)
        self.model = Model(EmulatorSnapshot(id="1"), chance=random.Random(7), now=lambda: self.time)
        self.instances = EmulatedInstances(self.model)
        self.groups = EmulatedGroups(self.model, self.instances)

    def fault(self, kind: Any, **more: Any) -> Fault:
        return self.model.add_fault(Fault(kind=kind, **more))

    def insert(self, instance: dict[str, Any], id: str = "") -> Any:
        return self.instances.insert(P, ZONE, instance, id)

    def step(self) -> None:
        self.groups.step()
        for verb, instance in list(self.instances.step(())):
            if verb == "start":
                instance.host.host_keys = {"ssh-ed25519": "AAAA"}
                self.instances.started(instance)
            else:
                self.instances.ended(instance)

    def statuses(self, steps: int = 6) -> list[str]:
        """The states of the only instance, as it moves on; "" when there is none."""
        statuses: list[str] = []
        for _ in range(steps):
            now = next((record.status for record in self.instances.records.values()), "")
            if [now] != statuses[-1:]:
                statuses.append(now)
            self.step()
        return statuses

    @property
    def one(self) -> InstanceRecord:
        (record,) = self.instances.records.values()
        return record
