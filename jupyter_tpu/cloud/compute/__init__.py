"""Compute Engine's part of a project: VPC networks, their firewall rules, and metadata."""

from .firewall import ANYWHERE, IAP_RANGE, MOSH, SSH, Ports, Rule, deciding_rule
from .networks import Network, Networks, Resource, Subnetwork
from .project import project_metadata

__all__ = [
    "ANYWHERE",
    "IAP_RANGE",
    "MOSH",
    "SSH",
    "Network",
    "Networks",
    "Ports",
    "Resource",
    "Rule",
    "Subnetwork",
    "deciding_rule",
    "project_metadata",
]
