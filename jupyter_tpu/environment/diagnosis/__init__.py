"""What is wrong with a TPU's hosts, as findings, each with what to do about it."""

from .diagnose import diagnose, differences
from .facts import ClockOffset, ExaminedHost, ExpectedTPU, HostFacts, ServiceAccount
from .findings import Finding, Report, healthy
from .machine import COORDINATOR_PORTS

__all__ = [
    "COORDINATOR_PORTS",
    "ClockOffset",
    "ExaminedHost",
    "ExpectedTPU",
    "Finding",
    "HostFacts",
    "Report",
    "ServiceAccount",
    "diagnose",
    "differences",
    "healthy",
]
