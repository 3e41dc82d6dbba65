"""What stopping or deleting a TPU, and the like, ends and takes away."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from .environments import Kernel
from .jobs import Job
from .sessions import Session

Act = Literal[
    "delete", "detach", "disconnect", "remove-environment", "replace", "report-fault", "stop"
]


class ConsequencesQuery(Struct, kw_only=True):
    """What would be done to the TPU."""

    act: Act
    #: The environment to remove.
    environment: str = ""


class Consequences(Struct, kw_only=True):
    """What an act on a TPU would end and take away; nothing is changed yet."""

    #: The kernels that it shuts down, as far as known.
    kernels: list[Kernel] = []
    #: The jobs that it ends; when it is disconnected, they continue.
    jobs: list[Job] = []
    #: What happens to these kernels, and to these jobs, without their names; "" if there are none.
    kernels_text: str = ""
    jobs_text: str = ""
    #: Whether the variables of these kernels are saved before; see `sessions` of `StopTPU`.
    saves: bool = False
    #: Where they are saved, what of them is lost afterwards, or that they are not saved, in
    #: sentences.
    sessions_text: str = ""
    #: The sessions that are lost, since they are on its disk.
    lost_sessions: list[Session] = []
    #: What else is lost or kept, each in a sentence.
    lost: list[str] = []

    def sentences(self) -> list[str]:
        """All of it, with the names, for where there are no lists."""
        kernels = ", ".join(
            f"{kernel.notebook or kernel.id} ({kernel.state}, {kernel.environment})"
            for kernel in self.kernels
        )
        jobs = ", ".join(f"{job.name} ({job.id}, {job.state})" for job in self.jobs)
        return [
            *([self.kernels_text, f"Kernels: {kernels}."] if kernels else ()),
            *([self.jobs_text, f"Jobs: {jobs}."] if jobs else ()),
            *([self.sessions_text] if self.sessions_text else ()),
            *self.lost,
        ]
