"""How a host gets Python, JAX and tools: steps with check and apply, on all hosts at once."""

from .making import STEPS, alone, make, together
from .report import Report, StepPlan
from .spec import Expected, Host, Made, Spec

__all__ = [
    "STEPS",
    "Expected",
    "Host",
    "Made",
    "Report",
    "Spec",
    "StepPlan",
    "alone",
    "make",
    "together",
]
