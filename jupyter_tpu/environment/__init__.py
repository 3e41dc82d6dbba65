"""How a host gets Python, JAX and tools: steps with check and apply, on all hosts at once."""

from . import existing_pythons, packages
from .chips import HeldChips, delete_lock_file, end_holders, held_chips
from .creation import create, plan
from .diagnosis import (
    ExaminedHost,
    ExpectedTPU,
    Finding,
    HostFacts,
    Report,
    diagnose,
    differences,
    healthy,
)
from .examination import examine
from .machine import Machine, describe_machine
from .models import (
    CreatedEnvironment,
    EnvironmentSpec,
    ExpectedHardware,
    FoundPython,
    FoundPythons,
    HostSetup,
    InstalledPackage,
    RemoteHost,
    Requested,
    SyncedPackages,
)
from .progress import ProgressReporter, StepPlan
from .unattended import GuardRules, UnattendedStart, is_unattended, startup_script
from .verification import single_host_variables

__all__ = [
    "CreatedEnvironment",
    "EnvironmentSpec",
    "ExaminedHost",
    "ExpectedHardware",
    "ExpectedTPU",
    "Finding",
    "FoundPython",
    "FoundPythons",
    "GuardRules",
    "HeldChips",
    "HostFacts",
    "HostSetup",
    "InstalledPackage",
    "Machine",
    "ProgressReporter",
    "RemoteHost",
    "Report",
    "Requested",
    "StepPlan",
    "SyncedPackages",
    "UnattendedStart",
    "create",
    "delete_lock_file",
    "describe_machine",
    "diagnose",
    "differences",
    "end_holders",
    "examine",
    "existing_pythons",
    "healthy",
    "held_chips",
    "is_unattended",
    "packages",
    "plan",
    "single_host_variables",
    "startup_script",
]
