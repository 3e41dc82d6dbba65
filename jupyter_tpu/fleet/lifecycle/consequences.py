"""What an act on a TPU would end and take away: said here once, for all faces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..models import TPU, Consequences, Job, Kernel
from ..models.consequences import Act


def consequences(
    act: Act, tpu: TPU, kernels: Sequence[Kernel], jobs: Sequence[Job]
) -> Consequences:
    """kernels, jobs: those that run there."""
    lost = [*_kernels(tpu.name, kernels), *_jobs(act, tpu.name, jobs), *_rest(act, tpu)]
    return Consequences(kernels=[*kernels], jobs=[*jobs], lost=lost)


def _kernels(name: str, kernels: Sequence[Kernel]) -> Iterator[str]:
    shown = ", ".join(f"{k.notebook or k.id} ({k.state}, {k.environment})" for k in kernels)
    number = len(kernels)
    if number == 1:
        yield f"This shuts down 1 kernel on {name}: {shown}. Its variables will be lost."
    elif kernels:
        yield f"This shuts down {number} kernels on {name}: {shown}. Their variables will be lost."


def _jobs(act: Act, name: str, jobs: Sequence[Job]) -> Iterator[str]:
    shown = ", ".join(f"{job.name} ({job.id}, {job.state})" for job in jobs)
    number, one = len(jobs), len(jobs) == 1
    if act == "disconnect" and jobs:
        yield (
            f"1 job continues on {name}: {shown}."
            if one
            else f"{number} jobs continue on {name}: {shown}."
        )
    elif jobs:
        yield (
            f"This ends 1 job on {name}: {shown}."
            if one
            else f"This ends {number} jobs on {name}: {shown}."
        )


def _rest(act: Act, tpu: TPU) -> Iterator[str]:
    name = tpu.name
    match act:
        case "delete":
            yield f"This permanently deletes {name}, its disk and everything on it."
            if tpu.queued and not tpu.not_yours:
                yield f"Its queued resource {tpu.queued} is deleted, too, if it is yours."
        case "detach":
            yield "Its kernels are removed from Jupyter. Its environments and files are kept."
        case "disconnect":
            yield "Its web apps close. The TPU, its environments and its files are kept."
        case "report-fault":
            yield "Google ends the host at once, and starts it again on another machine."
            yield "Its disk is kept. All hosts of a slice are restarted."
        case "stop":
            yield f"The disk of {name} with all environments and files is kept."
        case "replace":
            yield "All files on the disks of its hosts are lost. A synced project is copied again."
