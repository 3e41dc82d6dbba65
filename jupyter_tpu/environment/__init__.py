"""How a host gets Python, JAX and tools: steps with check and apply, on all hosts at once."""

from .creation import STEPS, create, gather_or_cancel, single_host_variables
from .models import CreatedEnvironment, EnvironmentSpec, ExpectedHardware, RemoteHost
from .progress import ProgressReporter, StepPlan

__all__ = [
    "STEPS",
    "CreatedEnvironment",
    "EnvironmentSpec",
    "ExpectedHardware",
    "ProgressReporter",
    "RemoteHost",
    "StepPlan",
    "create",
    "gather_or_cancel",
    "single_host_variables",
]
