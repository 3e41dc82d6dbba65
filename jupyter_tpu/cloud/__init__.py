"""What exists in a cloud: TPUs, what their hosts published, operations, types and zones.

`Cloud` is what is asked of any cloud, in this project's own words and states. `CloudTPU` is the
one of Google's Cloud TPU; the same code speaks to Google and to the emulator, and this room alone
picks channel and credentials.
"""

from .models import (
    DataDisk,
    Endpoint,
    GuestAttributes,
    Node,
    NodeList,
    NodeName,
    NodeOptions,
    NodeSpec,
    NodeState,
    QueuedList,
    QueuedResource,
    QueuedSpec,
    Tier,
)
from .protocol import Cloud
from .target import Target
from .tpu import CloudTPU, has_ssh_key

__all__ = [
    "Cloud",
    "CloudTPU",
    "DataDisk",
    "Endpoint",
    "GuestAttributes",
    "Node",
    "NodeList",
    "NodeName",
    "NodeOptions",
    "NodeSpec",
    "NodeState",
    "QueuedList",
    "QueuedResource",
    "QueuedSpec",
    "Target",
    "Tier",
    "has_ssh_key",
]
