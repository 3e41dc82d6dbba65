"""What exists in a cloud: TPUs, what their hosts published, operations, types and zones.

`Cloud` is what is asked of any cloud, in this project's own words and states. `CloudTPU` and
`ComputeEngine` are Google's two control planes, and `GoogleCloud` is both in one; the same code
speaks to Google and to the emulator, and this room alone picks channel and credentials.
`CloudWithAttached` adds machines that are reached by SSH alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .attached import (
    ATTACHED,
    AttachedHost,
    AttachedMachine,
    AttachedMachines,
    CloudWithAttached,
    attached_name,
    check_ours,
    is_attached,
    is_emulated,
    without_chips,
)
from .google import GoogleCloud
from .models import (
    API,
    OPERATION_LABEL,
    DataDisk,
    Endpoint,
    GuestAttributes,
    Maintenance,
    Node,
    NodeList,
    NodeName,
    NodeOptions,
    NodeSpec,
    NodeState,
    QueuedList,
    QueuedSpec,
    QueuedState,
    QueuedTPUs,
    Tier,
)
from .protocol import Cloud
from .target import Target
from .tpu import CloudTPU, has_ssh_key, uses_os_login

if TYPE_CHECKING:
    from .compute_engine import ComputeEngine

__all__ = [
    "API",
    "ATTACHED",
    "OPERATION_LABEL",
    "AttachedHost",
    "AttachedMachine",
    "AttachedMachines",
    "Cloud",
    "CloudTPU",
    "CloudWithAttached",
    "ComputeEngine",
    "DataDisk",
    "Endpoint",
    "GoogleCloud",
    "GuestAttributes",
    "Maintenance",
    "Node",
    "NodeList",
    "NodeName",
    "NodeOptions",
    "NodeSpec",
    "NodeState",
    "QueuedList",
    "QueuedSpec",
    "QueuedState",
    "QueuedTPUs",
    "Target",
    "Tier",
    "attached_name",
    "check_ours",
    "has_ssh_key",
    "is_attached",
    "is_emulated",
    "uses_os_login",
    "without_chips",
]


def __getattr__(name: str) -> Any:
    """`ComputeEngine` is loaded when it is first used."""
    if name == "ComputeEngine":
        from .compute_engine import ComputeEngine

        return ComputeEngine
    raise AttributeError(name)
