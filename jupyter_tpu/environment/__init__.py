"""How a host gets Python, JAX and tools: steps with check and apply, on all hosts at once."""

from typing import TYPE_CHECKING

from ..lazy import lazy_names

if TYPE_CHECKING:
    from . import existing_pythons, locks, packages
    from .creation import create, framework_conflict, plan
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
    from .examination import (
        HeldChips,
        Machine,
        delete_lock_file,
        describe_machine,
        end_holders,
        examine,
        held_chips,
    )
    from .models import (
        CreatedEnvironment,
        EnvironmentContent,
        EnvironmentName,
        EnvironmentSpec,
        ExpectedHardware,
        FoundPython,
        FoundPythons,
        HostSetup,
        InstalledPackage,
        Requested,
        SyncedPackages,
    )
    from .requirements import framework_of
    from .torch_launch import launch_variables
    from .unattended import GuardRules, UnattendedStart, is_unattended, own_script, startup_script
    from .verification import single_host_variables

#: Models alone are needed by Jupyter Server's start and by `jupyter tpu list`.
__getattr__ = lazy_names(
    __name__,
    {
        "": "existing_pythons locks packages",
        "creation": "create framework_conflict plan",
        "diagnosis": (
            "ExaminedHost ExpectedTPU Finding HostFacts Report diagnose differences healthy"
        ),
        "examination": (
            "HeldChips Machine delete_lock_file describe_machine end_holders examine held_chips"
        ),
        "models": (
            "CreatedEnvironment EnvironmentContent EnvironmentName EnvironmentSpec "
            "ExpectedHardware FoundPython FoundPythons HostSetup InstalledPackage "
            "Requested SyncedPackages"
        ),
        "requirements": "framework_of",
        "torch_launch": "launch_variables",
        "unattended": "GuardRules UnattendedStart is_unattended own_script startup_script",
        "verification": "single_host_variables",
    },
)
