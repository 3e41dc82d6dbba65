"""What stopping or deleting a TPU, and the like, ends and takes away."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from .environments import Kernel
from .jobs import Job

Act = Literal["delete", "detach", "disconnect", "replace", "report-fault", "stop"]


class ConsequencesQuery(Struct, kw_only=True):
    """What would be done to the TPU."""

    act: Act


class Consequences(Struct, kw_only=True):
    """What an act on a TPU would end and take away; nothing is changed yet."""

    #: The kernels that it shuts down, as far as known.
    kernels: list[Kernel] = []
    #: The jobs that it ends; when it is disconnected, they continue.
    jobs: list[Job] = []
    #: What that means, and what else is lost or kept, each in a sentence or two.
    lost: list[str] = []
