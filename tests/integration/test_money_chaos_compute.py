"""As `test_money_chaos`, of slices of Compute Engine: a server may be killed between two parts."""

from typing import Any, ClassVar

import pytest
from compute_world import ALL, INSERTS, PARTS
from test_money_chaos import Lane, run_lanes

ZONES = ("us-east5-a", "europe-west4-a")
_AGGREGATED = "/compute/v1/projects/emulated/aggregated"


class SliceLane(Lane):
    tpu: ClassVar[dict[str, Any]] = {"type": "v6e-2x4", "api": "compute"}
    no_capacity = "enough resources"
    methods: ClassVar[dict[str, list[str]]] = {
        "create": [*INSERTS],
        "delete": [
            *("instanceGroupManagers.delete", "resourcePolicies.delete"),
            "regionInstanceTemplates.delete",
        ],
        "look": [
            *("instanceGroupManagers.get", "regionInstanceTemplates.get", "resourcePolicies.get"),
            *("instances.list", "instances.get"),
        ],
        "poll": ["instanceGroupManagers.listManagedInstances"],
    }

    def items(self, kind: str) -> list[dict[str, Any]]:
        """Those of the lane's zone, or that bear its end (templates and policies)."""
        page = self.emulator.request("GET", f"{_AGGREGATED}/{kind}")
        items = [item for scope in page["items"].values() for item in scope.get(kind, ())]
        return [item for item in items if item["name"].startswith(self.zone)]

    def nodes(self) -> dict[str, dict[str, Any]]:
        ending = f"-{self.zone.rpartition('-')[2]}"
        nodes: dict[str, dict[str, Any]] = {}
        for kind in PARTS[:2]:
            for item in self.items(kind):
                part = nodes.setdefault(item["name"].removesuffix(ending), {"state": "0"})
                part["state"] = f"{int(part['state'].split()[0]) + 1} parts"
        for group in self.items("instanceGroupManagers"):
            status = group["status"]
            topologies = [t["state"] for t in status.get("appliedAcceleratorTopologies", ())]
            ready = status["isStable"] and topologies == ["ACTIVE"]
            deleting = group["currentActions"]["deleting"]
            state = "DELETING" if deleting else "READY" if ready else "CREATING"
            nodes[group["name"]] = {"state": state}
        for instance in self.items("instances"):  # none may be without its group
            nodes.setdefault(instance["name"].partition("-w-")[0], {"state": "instances"})
        return nodes

    def _inject(self, fault: dict[str, Any]) -> None:
        method = str(fault.get("method", ""))
        # Calls of a region are in no zone; those of all lanes are hit.
        regional = method.startswith(("regionInstanceTemplates", "resourcePolicies"))
        super()._inject({**fault, "zone": ""} if regional else fault)

    def hosts(self, name: str) -> list[dict[str, Any]]:
        hosts = self.emulator.request("GET", "/emulator/v1/hosts")["hosts"]
        return [host for host in hosts if f"/instances/{name}-w-" in host["node"]]

    def nothing_is_left(self, name: str) -> None:
        super().nothing_is_left(name)
        left = [item["name"] for kind in ALL for item in self.items(kind)]
        assert not left, left


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_servers_that_are_killed_between_two_parts_of_a_slice_leave_nothing(
    emulator, tmp_path, tmp_path_factory, capsys
):
    run_lanes(SliceLane, ZONES, emulator, tmp_path, tmp_path_factory, capsys)
