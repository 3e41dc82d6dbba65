"""What exists at Google: nodes, guest attributes, operations, types and zones.

The same code speaks to Google and to the emulator; this room alone picks channel and credentials.
"""

from .models import Endpoint, GuestAttributes, Node, NodeList, NodeName, NodeSpec, Tier
from .target import Target
from .tpu import Cloud, has_ssh_key

__all__ = [
    "Cloud",
    "Endpoint",
    "GuestAttributes",
    "Node",
    "NodeList",
    "NodeName",
    "NodeSpec",
    "Target",
    "Tier",
    "has_ssh_key",
]
