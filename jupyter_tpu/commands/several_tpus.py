"""What the commands share that take several TPUs: start, stop, disconnect, detach, delete."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import Reason, TPUError
from ..terminal.printing import complain, print_json
from ..terminal.questions import confirm
from ..terminal.session import FleetSession, tpu_ref
from ..terminal.waiting import finish, leave, left_line, progress_stream
from .losses import consequences_of, lost

if TYPE_CHECKING:
    from ..fleet.models import TPU, Consequences, Operation
    from ..fleet.models.consequences import Act


SEVERAL = "jupyter tpu {0} my-tpu other-tpu --zone us-west4-a"


def find_tpus(session: FleetSession, names: Sequence[str], act: str = "") -> list[TPU]:
    """The TPUs, each once; raises NOT_FOUND before anything is changed.

    act: what attached machines can't be, such as "stopped"; raises CONFLICT for one.
    """
    from ..cloud import NodeName, check_ours

    tpus = [session.call(session.fleet.tpu(name)) for name in names]
    if act:
        for tpu in tpus:
            check_ours(NodeName(tpu.project, tpu.zone, tpu.name), act)
    return list({tpu_ref(tpu): tpu for tpu in tpus}.values())


def confirm_ends(
    session: FleetSession, act: Act, tpus: Sequence[TPU], yes: bool
) -> dict[str, Consequences]:
    """What ends on each TPU; asks whether it may, if anything does, unless *yes* says so."""
    ends = consequences_of(session, act, tpus)
    jobs = act != "disconnect"
    if not yes and any(entry.kernels or (jobs and entry.jobs) for entry in ends.values()):
        names = ", ".join(tpu.name for tpu in tpus)
        question = f"{act.capitalize()} {names}? {lost(ends)}"
        confirm(question, "Add --yes to end them without asking.")
    return ends


def run_on_each(
    session: FleetSession,
    tpus: Sequence[TPU],
    begin: Callable[[TPU], Coroutine[Any, Any, Operation]],
    done: str,
    no_wait: bool,
    as_json: bool,
    *,
    stays: bool = True,
) -> None:
    """Begins an operation for each TPU, waits for all, and prints *done* with each one's name.

    as_json: prints the TPUs, or the operations if it does not wait or no TPU *stays*.

    One that fails does not stop the others. Raises what failed last, and prints the rest.
    """
    begun: list[tuple[TPU, Operation]] = []
    results: list[Any] = []
    errors: list[TPUError] = []
    for tpu in tpus:
        try:
            begun.append((tpu, session.call(begin(tpu))))
        except TPUError as error:
            errors.append(error)
    for tpu, operation in begun:
        try:
            if no_wait:
                leave(session, operation)
                line = left_line(session, operation)
                results.append(operation)
            else:
                ended = finish(session, operation, progress_stream(as_json))
                line = done.format(tpu.name)
                results.append(session.call(session.fleet.tpu(tpu_ref(tpu))) if stays else ended)
        except TPUError as error:
            errors.append(error)
            if error.reason is Reason.CANCELLED:
                no_wait = True  # the user has stopped waiting: for the others, too
            continue
        if not as_json:
            print(line, flush=True)
    if as_json and results:
        print_json(results if len(tpus) > 1 else results[0])
    if errors:
        *others, last = errors
        for other in others:
            complain(str(other))
        raise last
