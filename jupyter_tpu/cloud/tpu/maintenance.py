"""Maintenance that Google announces: a field of nodes that its REST interface has in v2.

The installed client has it in v2alpha1 only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..google_apis import GoogleAPIs
from ..models import Maintenance


async def list_maintenance(apis: GoogleAPIs, project: str) -> dict[str, Maintenance]:
    """The maintenance of a *project*'s nodes, by their ids. Raises what `GoogleAPIs` raises."""
    maintenances: dict[str, Maintenance] = {}
    path, token = f"/v2/projects/{project}/locations/-/nodes", ""
    while True:
        answer = await apis.get("tpu", path, **({"pageToken": token} if token else {}))
        for node in answer.get("nodes", ()):
            if coming := node.get("upcomingMaintenance"):
                maintenances[str(node.get("id", ""))] = parse_maintenance(coming)
        token = str(answer.get("nextPageToken", ""))
        if not token:
            return maintenances


def parse_maintenance(data: Mapping[str, Any]) -> Maintenance:
    """Reads the API's UpcomingMaintenance."""
    return Maintenance(
        ongoing=data.get("maintenanceStatus") == "ONGOING",
        scheduled=data.get("type") == "SCHEDULED",
        start=str(data.get("windowStartTime", "")),
        end=str(data.get("windowEndTime", "")),
        can_reschedule=bool(data.get("canReschedule")),
    )
