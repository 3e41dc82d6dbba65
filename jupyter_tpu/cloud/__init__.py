"""What exists in a cloud: TPUs, what their hosts published, operations, types and zones.

`Cloud` is what is asked of any cloud, in this project's own words and states. `CloudTPU` and
`ComputeEngine` are Google's two control planes, and `GoogleCloud` is both in one; the same code
speaks to Google and to the emulator, and this package alone picks channel and credentials.
`CloudWithAttached` adds machines that are reached by SSH alone.
"""

from typing import TYPE_CHECKING

from ..lazy import lazy_names
from .models import (
    API,
    OPERATION_LABEL,
    OWN_LABELS,
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
    from .compute_engine import ComputeEngine
    from .errors import APIDisabled
    from .google import GoogleCloud
    from .tpu import CloudTPU, has_ssh_key, uses_os_login

#: What asks no cloud, such as a command next to a server, needs none of these.
__getattr__ = lazy_names(
    __name__,
    {
        "attached": (
            "ATTACHED AttachedHost AttachedMachine AttachedMachines CloudWithAttached "
            "attached_name check_ours is_attached is_emulated without_chips"
        ),
        "compute_engine": "ComputeEngine",
        "errors": "APIDisabled",
        "google": "GoogleCloud",
        "tpu": "CloudTPU has_ssh_key uses_os_login",
    },
)
