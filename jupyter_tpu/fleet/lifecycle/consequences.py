"""What an act on a TPU would end and take away: said here once, for all faces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...wording import count
from ..models import TPU, Consequences, ConsequencesQuery, Job, Kernel, Session
from ..models.consequences import Act


def consequences(
    query: ConsequencesQuery,
    tpu: TPU,
    kernels: Sequence[Kernel],
    jobs: Sequence[Job],
    kept: tuple[bool, str, list[Session]] = (False, "", []),
    homes: Sequence[str] = (),
    *,
    answered: bool = True,
) -> Consequences:
    """kernels, jobs: those that run there. kept: whether the kernels are saved before, where, and
    which sessions are lost. homes: what happens to home folders. answered: the hosts have just said
    so.
    """
    saves, sessions_text, lost_sessions = kept
    if query.act == "remove-environment":
        kernels = [kernel for kernel in kernels if kernel.environment == query.environment]
        jobs = []
    unsure = "Its hosts did not answer: this is what was last known to run there."
    return Consequences(
        kernels=[*kernels],
        jobs=[*jobs],
        kernels_text=_kernels_text(tpu.name, len(kernels), saves=saves),
        jobs_text=_jobs_text(query.act, tpu.name, len(jobs)),
        saves=saves,
        sessions_text=sessions_text,
        lost_sessions=lost_sessions,
        lost=[
            *([] if answered else [unsure]),
            *_rest(query, tpu),
            *_lost_sessions(tpu.name, lost_sessions),
            *homes,
        ],
    )


def _lost_sessions(name: str, sessions: Sequence[Session]) -> Iterator[str]:
    if names := ", ".join(session.name for session in sessions):
        yield (
            f"The session {names} on the disk of {name} is lost."
            if len(sessions) == 1
            else f"The sessions {names} on the disk of {name} are lost."
        )


def _kernels_text(name: str, number: int, *, saves: bool) -> str:
    if saves and number:
        return (
            f"This shuts down 1 kernel on {name}."
            if number == 1
            else f"This shuts down {number} kernels on {name}."
        )
    if number == 1:
        return f"This shuts down 1 kernel on {name}. Its variables will be lost."
    return (
        f"This shuts down {number} kernels on {name}. Their variables will be lost."
        if number
        else ""
    )


def _jobs_text(act: Act, name: str, number: int) -> str:
    if not number:
        return ""
    jobs = count(number, "job")
    return (
        f"This does not end {jobs} on {name}."
        if act == "disconnect"
        else f"This ends {jobs} on {name}."
    )


def _rest(query: ConsequencesQuery, tpu: TPU) -> Iterator[str]:
    name = tpu.name
    match query.act:
        case "delete":
            yield (
                f"This permanently deletes {name} in {tpu.zone}, its disk, and all environments "
                "and files on it."
            )
            if tpu.queued and not tpu.not_yours:
                yield f"Its queued resource {tpu.queued} is deleted, too, if it is yours."
        case "detach":
            yield (
                "Its kernels are removed from Jupyter. The environments and files on the machine "
                "are kept."
            )
        case "disconnect":
            yield "Its web apps close. The TPU, its environments and its files are kept."
        case "remove-environment":
            is_existing = any(
                environment.python_path
                for environment in tpu.environments
                if environment.name == query.environment
            )
            yield (
                f"This removes its kernel from Jupyter. The environment on {name} is kept."
                if is_existing
                else f"This removes its packages from {name}, and its kernel from Jupyter. Your "
                "files are kept."
            )
        case "report-fault":
            yield "Google ends the host at once, and starts it again on another machine."
            yield "Its disk is kept. All hosts of a slice are restarted."
        case "stop":
            yield f"The disk of {name} with all environments and files is kept."
        case "replace":
            yield "All files on the disks of its hosts are lost. A synced project is copied again."
