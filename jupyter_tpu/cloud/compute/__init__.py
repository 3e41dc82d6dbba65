"""A project at Compute Engine: VPC networks, their firewall rules, metadata, and OS Login."""

from .firewall import ANYWHERE, IAP_RANGE, MOSH, SSH, FirewallRule, PortRange, deciding_rule
from .networks import Network, Networks, Resource, Subnetwork
from .os_login import OSLoginProfile, OSLoginProfiles
from .project import ProjectMetadata
