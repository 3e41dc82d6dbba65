"""What is wrong with a TPU's hosts, as findings, each with what to do about it."""

from typing import TYPE_CHECKING

from ...lazy import lazy_names
from .findings import Finding, Report, healthy

if TYPE_CHECKING:
    from .facts import ClockOffset, ExaminedHost, ExpectedTPU, HostFacts, ServiceAccount
    from .machine import COORDINATOR_PORTS
    from .rules import diagnose, differences

#: REST's models have findings, and need no rules.
__getattr__ = lazy_names(
    __name__,
    {
        "rules": "diagnose differences",
        "facts": "ClockOffset ExaminedHost ExpectedTPU HostFacts ServiceAccount",
        "machine": "COORDINATOR_PORTS",
    },
)
