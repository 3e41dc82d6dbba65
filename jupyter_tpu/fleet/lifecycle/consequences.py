"""What an act on a TPU would end and take away: said here once, for all faces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...wording import count
from ..models import TPU, Consequences, Job, Kernel
from ..models.consequences import Act


def consequences(
    act: Act, tpu: TPU, kernels: Sequence[Kernel], jobs: Sequence[Job]
) -> Consequences:
    """kernels, jobs: those that run there."""
    lost = [*_ends(act, tpu.name, kernels, jobs), *_rest(act, tpu)]
    return Consequences(kernels=[*kernels], jobs=[*jobs], lost=lost)


def _ends(act: Act, name: str, kernels: Sequence[Kernel], jobs: Sequence[Job]) -> Iterator[str]:
    if kernels:
        shown = ", ".join(f"{k.notebook or k.id} ({k.state}, {k.environment})" for k in kernels)
        yield f"This shuts down {count(len(kernels), 'kernel')} on {name}: {shown}."
        one = len(kernels) == 1
        yield "Its variables will be lost." if one else "Their variables will be lost."
    if jobs:
        shown = ", ".join(f"{job.name} ({job.id}, {job.state})" for job in jobs)
        number = count(len(jobs), "job")
        yield (
            f"This does not end {number} on {name}: {shown}."
            if act == "disconnect"
            else f"This ends {number} on {name}: {shown}."
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
