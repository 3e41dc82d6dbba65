"""Lists the kernels and jobs that end with a TPU, for the question before that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..errors import TPUError
from ..terminal.printing import note
from ..terminal.session import Session, tpu_ref
from ..wording import count

if TYPE_CHECKING:
    from ..fleet.models import TPU, Job, Kernel


class Running(NamedTuple):
    """What runs on a TPU, as far as known."""

    tpu: TPU
    kernels: Sequence[Kernel]
    jobs: Sequence[Job]

    @property
    def kernel_count(self) -> int:
        """How many kernels run, also where they can't be listed."""
        return len(self.kernels) or self.tpu.kernels

    def may_end(self, yes: bool) -> dict[str, bool]:
        """The fields of a request that say what may end: all with --yes, else what was shown."""
        return {"end_kernels": yes or self.kernel_count > 0, "end_jobs": yes or bool(self.jobs)}


def running_on(session: Session, tpus: Sequence[TPU]) -> dict[str, Running]:
    """What runs on each TPU, by its reference."""
    return {
        tpu_ref(tpu): Running(tpu, running_kernels(session, tpu), _running_jobs(session, tpu))
        for tpu in tpus
    }


def kernels_now(session: Session, ref: str) -> Sequence[Kernel]:
    """The kernels of a TPU, as its hosts answer now; raises TPUError if they don't."""
    from ..fleet.models import ListQuery

    return session.call(session.fleet.kernels.list(ref, ListQuery(fresh=True)))


def running_kernels(session: Session, tpu: TPU) -> Sequence[Kernel]:
    """The kernels running there; none if they can't be listed now."""
    if not tpu.kernels and tpu.connection.value == "disconnected":
        return []
    try:
        return kernels_now(session, tpu_ref(tpu))
    except TPUError as error:
        note(f"Can't list the kernels on {tpu.name}: {error.message}")
        return []


def _running_jobs(session: Session, tpu: TPU) -> list[Job]:
    """The jobs that have not ended there; none if they can't be listed now."""
    try:
        jobs = session.call(session.fleet.jobs.list(tpu_ref(tpu)))
    except TPUError as error:
        note(f"Can't list the jobs on {tpu.name}: {error.message}")
        return []
    return [job for job in jobs if not job.over]


def losses(running: Sequence[Running], *, jobs: bool = True) -> str:
    """What ends with the TPUs: "" or sentences. jobs: whether they end, too."""
    sentences = ""
    for entry in running:
        where = f" on {entry.tpu.name}" if len(running) > 1 else ""
        if kernels := entry.kernel_count:
            names = ", ".join(
                f"{kernel.notebook or kernel.id} ({kernel.state}, {kernel.environment})"
                for kernel in entry.kernels
            )
            sentences += f" This shuts down {count(kernels, 'running kernel')}{where}" + (
                f": {names}." if names else "."
            )
        if jobs and entry.jobs:
            names = ", ".join(f"{job.name} ({job.id}, {job.state})" for job in entry.jobs)
            sentences += f" This ends {count(len(entry.jobs), 'job')}{where}: {names}."
    return sentences
