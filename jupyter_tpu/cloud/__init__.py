"""What exists in a cloud: TPUs, what their hosts published, operations, types and zones.

`Cloud` is what is asked of any cloud, in this project's own words and states. `CloudTPU` is the
one of Google's Cloud TPU; the same code speaks to Google and to the emulator, and this room alone
picks channel and credentials. `CloudWithAttached` adds machines that are reached by SSH alone.
"""

from typing import TYPE_CHECKING

from ..lazy import lazy_names
from .models import (
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

if TYPE_CHECKING:
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
    from .tpu import CloudTPU, has_ssh_key, uses_os_login

__all__ = [
    "ATTACHED",
    "AttachedHost",
    "AttachedMachine",
    "AttachedMachines",
    "Cloud",
    "CloudTPU",
    "CloudWithAttached",
    "DataDisk",
    "Endpoint",
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

#: What asks no cloud, such as a command next to a server, needs none of these.
__getattr__ = lazy_names(
    __name__,
    {
        "attached": (
            "ATTACHED AttachedHost AttachedMachine AttachedMachines CloudWithAttached "
            "attached_name check_ours is_attached is_emulated without_chips"
        ),
        "tpu": "CloudTPU has_ssh_key uses_os_login",
    },
)
