"""What exists at Google: nodes, guest attributes, operations, types and zones.

The same code speaks to Google and to the emulator; this room alone picks channel and credentials.
"""

from .client import Cloud
from .models import Endpoint, GuestAttributes, Node, NodeList, NodeName, NodeSpec, Tier
from .target import Target

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
]
