"""The commands that take several TPUs: start, stop, disconnect, detach, delete."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

import click

from ..commands.grammar import command, examples
from ..commands.parameters import tpu_argument
from ..commands.questions import confirm_name_option, confirmed_names
from ..commands.session import Session, open_session, tpu_ref
from ..commands.tables import type_text
from ..errors import Reason, TPUError
from .approval import approve_start
from .console import complain, confirm, json_option, no_wait_option, note, print_json, yes_option
from .losses import consequences_of, lost, may_end
from .waiting import finish, leave, left_line, progress_stream

if TYPE_CHECKING:
    from ..fleet.models import TPU, Consequences, Operation
    from ..fleet.models.consequences import Act

_SEVERAL = "jupyter tpu {0} my-tpu other-tpu --zone us-west4-a"


@command("start", epilog=examples(_SEVERAL.format("start")))
@tpu_argument(several=True)
@yes_option("Start them without asking, whatever they cost.")
@click.option(
    "--max-price",
    type=click.FloatRange(min=0),
    metavar="USD",
    help="Start TPUs without asking if they cost at most this price in USD an hour.",
)
@confirm_name_option
@no_wait_option
@json_option
def start(
    names: Sequence[str],
    yes: bool,
    max_price: float | None,
    confirmed: tuple[str, ...],
    no_wait: bool,
    as_json: bool,
) -> None:
    """Start stopped TPUs. Shows the price first, and asks."""
    from ..fleet.models import StartTPU

    limited = max_price is not None
    with open_session() as session:
        tpus = _find(session, names, "started")
        approve_start(tpus, yes=yes or limited, as_json=as_json)
        typed = confirmed_names(tpus, confirmed)

        def begin(tpu: TPU) -> Coroutine[Any, Any, Operation]:
            # What was said is what may be paid, also if the price changes; None: it is not known.
            price = max_price if yes or limited else tpu.cost.usd_per_hour or None
            agreed = yes or tpu.cost.usd_per_hour != 0
            name = tpu.name if tpu.name in typed else ""
            options = StartTPU(confirm_price=agreed, max_price=price, confirm_name=name)
            return session.fleet.start(tpu_ref(tpu), options)

        _run(session, tpus, begin, "Started {}.", no_wait, as_json)


@command("stop", epilog=examples(_SEVERAL.format("stop")))
@tpu_argument(several=True)
@yes_option("End the kernels and jobs that run there without asking.")
@confirm_name_option
@no_wait_option
@json_option
def stop(
    names: Sequence[str], yes: bool, confirmed: tuple[str, ...], no_wait: bool, as_json: bool
) -> None:
    """Stop TPUs. Their disks are kept."""
    from ..fleet.models import StopTPU

    with open_session() as session:
        tpus = _find(session, names, "stopped")
        ends = _agree(session, "stop", tpus, yes)
        typed = confirmed_names(tpus, confirmed)

        def begin(tpu: TPU) -> Coroutine[Any, Any, Operation]:
            name = tpu.name if tpu.name in typed else ""
            options = StopTPU(**may_end(ends[tpu_ref(tpu)], yes), confirm_name=name)
            return session.fleet.stop(tpu_ref(tpu), options)

        _run(session, tpus, begin, "Stopped {}. Its disk is kept.", no_wait, as_json)


@command("disconnect", epilog=examples(_SEVERAL.format("disconnect")))
@tpu_argument(several=True)
@yes_option("Shut down the kernels that run there without asking.")
@no_wait_option
@json_option
def disconnect(names: Sequence[str], yes: bool, no_wait: bool, as_json: bool) -> None:
    """Remove the kernels of TPUs from Jupyter. Environments stay on the hosts; jobs continue."""
    from ..fleet.models import DisconnectTPU

    with open_session() as session:
        tpus = _find(session, names)
        ends = _agree(session, "disconnect", tpus, yes)
        no_wait = no_wait and session.server is not None  # alone it takes no time worth leaving

        def begin(tpu: TPU) -> Coroutine[Any, Any, Operation]:
            options = DisconnectTPU(end_kernels=yes or bool(ends[tpu_ref(tpu)].kernels))
            return session.fleet.disconnect(tpu_ref(tpu), options)

        for tpu in tpus:
            for job in ends[tpu_ref(tpu)].jobs:
                note(f"The job {job.name} ({job.id}) continues on {tpu.name}.")
        done = "Disconnected {}. Its environments stay on its hosts."
        _run(session, tpus, begin, done, no_wait, as_json)


@command("detach", epilog=examples("jupyter tpu detach my-box"))
@tpu_argument(several=True)
@yes_option("End the kernels and jobs that run there without asking.")
@no_wait_option
@json_option
def detach(names: Sequence[str], yes: bool, no_wait: bool, as_json: bool) -> None:
    """Stop what runs on attached machines, and forget them. Their files stay."""
    from ..fleet.models import DetachMachine

    with open_session() as session:
        tpus = _find(session, names)
        ends = _agree(session, "detach", tpus, yes)

        def begin(tpu: TPU) -> Coroutine[Any, Any, Operation]:
            options = DetachMachine(**may_end(ends[tpu_ref(tpu)], yes))
            return session.fleet.attached.detach(tpu_ref(tpu), options)

        _run(session, tpus, begin, "Detached {}. Its files stay.", no_wait, as_json, stays=False)


@command(
    "delete",
    epilog=examples("jupyter tpu delete my-tpu", _SEVERAL.format("delete") + " --quiet"),
)
@tpu_argument(several=True)
@yes_option("Delete them, and end the kernels and jobs that run there, without asking.")
@confirm_name_option
@no_wait_option
@json_option
def delete(
    names: Sequence[str], yes: bool, confirmed: tuple[str, ...], no_wait: bool, as_json: bool
) -> None:
    """Delete TPUs and everything on their disks."""
    from ..fleet.models import DeleteTPU

    with open_session() as session:
        tpus = _find(session, names, "deleted")
        if not yes:
            ends = consequences_of(session, "delete", tpus)
            which = ", ".join(f"{tpu.name} ({type_text(tpu)}, in {tpu.zone})" for tpu in tpus)
            confirm(f"Delete {which}? {lost(ends)}", "Add --yes to delete without asking.")
        typed = confirmed_names(tpus, confirmed)

        def begin(tpu: TPU) -> Coroutine[Any, Any, Operation]:
            name = tpu.name if tpu.name in typed else ""
            options = DeleteTPU(end_kernels=True, end_jobs=True, confirm_name=name)
            return session.fleet.delete(tpu_ref(tpu), options)

        _run(session, tpus, begin, "Deleted {}.", no_wait, as_json, stays=False)


def _find(session: Session, names: Sequence[str], act: str = "") -> list[TPU]:
    """The TPUs, each once; raises NOT_FOUND before anything is changed.

    act: what attached machines can't be, such as "stopped"; raises CONFLICT for one.
    """
    from ..cloud import NodeName, check_ours

    tpus = [session.call(session.fleet.tpu(name)) for name in names]
    if act:
        for tpu in tpus:
            check_ours(NodeName(tpu.project, tpu.zone, tpu.name), act)
    return list({tpu_ref(tpu): tpu for tpu in tpus}.values())


def _agree(session: Session, act: Act, tpus: Sequence[TPU], yes: bool) -> dict[str, Consequences]:
    """What ends on each TPU; asks whether it may, if anything does, unless *yes* says so."""
    ends = consequences_of(session, act, tpus)
    jobs = act != "disconnect"
    if not yes and any(entry.kernels or (jobs and entry.jobs) for entry in ends.values()):
        names = ", ".join(tpu.name for tpu in tpus)
        question = f"{act.capitalize()} {names}? {lost(ends)}"
        confirm(question, "Add --yes to end them without asking.")
    return ends


def _run(
    session: Session,
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
