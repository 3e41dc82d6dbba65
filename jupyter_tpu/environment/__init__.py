"""How a host gets Python, JAX and tools: steps with check and apply, on all hosts at once."""

from .concurrency import gather_or_cancel
from .creation import STEPS, create
from .models import CreatedEnvironment, EnvironmentSpec, ExpectedHardware, RemoteHost
from .progress import ProgressReporter, StepPlan
from .verification import single_host_variables

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
