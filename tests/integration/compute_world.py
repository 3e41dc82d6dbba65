"""`fleet_world` for Compute Engine: slices of two hosts, and what there is of them at the cloud."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from typing import Any

from fleet_world import Server, World

from jupyter_tpu.cloud import Cloud, GoogleCloud, Target
from jupyter_tpu.fleet.models import CreateTPU, Operation

ZONE = "us-east5-a"
#: What a slice is, in the order in which its parts are made.
PARTS = ("instanceTemplates", "resourcePolicies", "instanceGroupManagers")
ALL = (*PARTS, "instances")
INSERTS = (
    "regionInstanceTemplates.insert",
    "resourcePolicies.insert",
    "instanceGroupManagers.insert",
)
_AGGREGATED = "/compute/v1/projects/emulated/aggregated"


class ComputeWorld(World):
    """Names are of slices."""

    def cloud(self) -> Cloud:
        return GoogleCloud(Target(emulator=str(self.emulator.state_file)))

    def items(self, *collections: str) -> list[dict[str, Any]]:
        """All there is at the cloud."""
        items = []
        for kind in collections or ALL:
            page = self.emulator.request("GET", f"{_AGGREGATED}/{kind}")
            for scope in page["items"].values():
                items += scope.get(kind, ())
        return items

    def names(self, *collections: str) -> list[str]:
        return sorted(item["name"] for item in self.items(*collections))

    def fault(self, kind: str, **more: Any) -> dict[str, Any]:
        return self.emulator.inject_fault(kind, **more)

    def behave(self) -> None:
        self.emulator.request("DELETE", "/emulator/v1/faults")

    async def make(self, server: Server, name: str, **more: Any) -> Operation:
        request = {"type": "v6e-2x4", "zone": ZONE, "api": "compute", **more}
        return await server.fleet.create(CreateTPU(name=name, **request))

    async def made(self, name: str, type: str, **more: Any) -> Server:
        """A server that has created such a TPU."""
        server = await self.server()
        ended = await server.end(await self.make(server, name, type=type, **more))
        assert ended.state == "done", ended
        return server

    def instances(self, name: str) -> list[dict[str, Any]]:
        """The hosts of a TPU."""
        return [item for item in self.items("instances") if item["name"].startswith(name)]

    def state(self, name: str) -> str:
        """The status of the slice: "3 parts", of the group's topology when it has one, "gone"."""
        groups = [group for group in self.items("instanceGroupManagers") if group["name"] == name]
        for group in groups:
            topologies = group["status"].get("appliedAcceleratorTopologies", [])
            return topologies[0]["state"] if topologies else "empty group"
        parts = [part for part in self.names(*PARTS) if part.startswith(name)]
        return f"{len(parts)} parts" if parts else "gone"

    @contextlib.contextmanager
    def new_name(self) -> Iterator[str]:
        name = f"ce-{uuid.uuid4().hex[:6]}"
        yield name
        self.behave()
        for kind in ("instances", *reversed(PARTS)):
            for item in self.items(kind):
                made_by = [i["key"] for i in item.get("metadata", {}).get("items", ())]
                if item["name"].startswith(name) and "created-by" not in made_by:
                    path = "/compute/v1/projects/" + item["selfLink"].partition("/projects/")[2]
                    done = self.emulator.request("DELETE", path)
                    operation = done["selfLink"].partition("/projects/")[2]
                    self.emulator.request("POST", f"/compute/v1/projects/{operation}/wait")
