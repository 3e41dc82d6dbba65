"""A project at Compute Engine: VPC networks, their firewall rules, metadata, and OS Login."""

from .firewall import ANYWHERE, IAP_RANGE, MOSH, SSH, FirewallRule, PortRange, deciding_rule
from .networks import Network, Networks, Resource, Subnetwork
from .os_login import OSLoginProfile, OSLoginProfiles
from .project import ProjectMetadata

__all__ = [
    "ANYWHERE",
    "IAP_RANGE",
    "MOSH",
    "SSH",
    "FirewallRule",
    "Network",
    "Networks",
    "OSLoginProfile",
    "OSLoginProfiles",
    "PortRange",
    "ProjectMetadata",
    "Resource",
    "Subnetwork",
    "deciding_rule",
]
