"""The whole of the emulator's memory."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from .instance_records import ComputeOperation, GroupRecord, InstanceRecord
from .records import ComputeRecord, EmulatedOperation, NodeRecord, OsLoginKey, QueuedRecord


class EmulatorSnapshot(Struct, kw_only=True):
    """The whole of the emulator's memory, as the state folder keeps it."""

    id: str
    nodes: list[NodeRecord] = []
    queued: list[QueuedRecord] = []
    operations: list[EmulatedOperation] = []
    #: commonInstanceMetadata of each project.
    project_metadata: dict[str, dict[str, str]] = field(default_factory=dict)
    #: What each project has of Compute Engine.
    compute: dict[str, ComputeRecord] = {}
    instances: list[InstanceRecord] = []
    groups: list[GroupRecord] = []
    #: Workload policies and instance templates: path → the resource in Compute Engine's JSON.
    policies: dict[str, dict[str, Any]] = {}
    templates: dict[str, dict[str, Any]] = {}
    #: The same of reservations and future reservations.
    reservations: dict[str, dict[str, Any]] = {}
    compute_operations: list[ComputeOperation] = []
    #: Project → name → what Cloud Logging does not store.
    log_exclusions: dict[str, dict[str, dict[str, Any]]] = {}
    #: User's address → fingerprint → key.
    os_login: dict[str, dict[str, OsLoginKey]] = {}
