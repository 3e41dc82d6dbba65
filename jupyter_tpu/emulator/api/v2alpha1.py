"""v2alpha1, which gcloud's alpha and beta use: v2 but for a few names."""

from __future__ import annotations

from typing import Any

#: Custom methods of nodes that only this version has.
MAINTENANCE_VERBS = ("performMaintenance", "simulateMaintenanceEvent")


def from_v2(value: Any) -> Any:
    """The same JSON in the words of v2alpha1, which has no ApiVersion "V2"."""
    if isinstance(value, list):
        return [from_v2(item) for item in value]
    if not isinstance(value, dict):
        return value
    changed = {key: from_v2(item) for key, item in value.items()}
    if str(changed.get("@type", "")).startswith("type.googleapis.com/google.cloud.tpu.v2."):
        changed["@type"] = changed["@type"].replace(".tpu.v2.", ".tpu.v2alpha1.")
    if changed.get("apiVersion") == "V2":
        changed["apiVersion"] = "V2_ALPHA1"
    elif changed.get("apiVersion") == "v2":
        changed["apiVersion"] = "v2alpha1"
    return changed
