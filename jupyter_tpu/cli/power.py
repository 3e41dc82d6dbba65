"""The commands that take several TPUs: start, stop, disconnect, delete."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from ..commands.grammar import command, examples, tpu_argument
from ..commands.session import Session, open_session
from ..commands.tables import type_text
from ..errors import Reason, TPUError
from .approval import print_cost
from .console import complain, confirm, json_option, no_wait_option, note, print_json, yes_option
from .waiting import finish, leave, left_line, progress_stream

if TYPE_CHECKING:
    from ..fleet.models import TPU, Kernel, Operation

_SEVERAL = "jupyter tpu {0} my-tpu other-tpu --zone us-west4-a"


@command("start", epilog=examples(_SEVERAL.format("start")))
@tpu_argument(several=True)
@yes_option("Does nothing: there is no question.", hidden=True)
@no_wait_option
@json_option
def start(names: Sequence[str], yes: bool, no_wait: bool, as_json: bool) -> None:
    """Start stopped TPUs."""
    with open_session() as session:
        tpus = _find(session, names)
        if not as_json:
            for tpu in tpus:
                print_cost(tpu)

        def begin(tpu: TPU) -> Coroutine[Any, Any, Operation]:
            return session.fleet.start(tpu_ref(tpu))

        _run(session, tpus, begin, "Started {}.", no_wait, as_json)


@command("stop", epilog=examples(_SEVERAL.format("stop")))
@tpu_argument(several=True)
@yes_option("Shut down the kernels that run there without asking.")
@no_wait_option
@json_option
def stop(names: Sequence[str], yes: bool, no_wait: bool, as_json: bool) -> None:
    """Stop TPUs. Their disks are kept."""
    from ..fleet.models import StopTPU

    with open_session() as session:
        tpus = _find(session, names)
        ending = _confirm_kernels(session, tpus, yes, "Stop")

        def begin(tpu: TPU) -> Coroutine[Any, Any, Operation]:
            return session.fleet.stop(tpu_ref(tpu), StopTPU(end_kernels=tpu_ref(tpu) in ending))

        _run(session, tpus, begin, "Stopped {}. Its disk is kept.", no_wait, as_json)


@command("disconnect", epilog=examples(_SEVERAL.format("disconnect")))
@tpu_argument(several=True)
@yes_option("Shut down the kernels that run there without asking.")
@no_wait_option
@json_option
def disconnect(names: Sequence[str], yes: bool, no_wait: bool, as_json: bool) -> None:
    """Remove the kernels of TPUs from Jupyter. Environments stay on the hosts."""
    from ..fleet.models import DisconnectTPU

    with open_session() as session:
        tpus = _find(session, names)
        ending = _confirm_kernels(session, tpus, yes, "Disconnect")
        no_wait = no_wait and session.server is not None  # alone it takes no time worth leaving

        def begin(tpu: TPU) -> Coroutine[Any, Any, Operation]:
            options = DisconnectTPU(end_kernels=tpu_ref(tpu) in ending)
            return session.fleet.disconnect(tpu_ref(tpu), options)

        done = "Disconnected {}. Its environments stay on its hosts."
        _run(session, tpus, begin, done, no_wait, as_json)


@command(
    "delete",
    epilog=examples("jupyter tpu delete my-tpu", _SEVERAL.format("delete") + " --quiet"),
)
@tpu_argument(several=True)
@yes_option("Delete them, and shut down the kernels that run there, without asking.")
@no_wait_option
@json_option
def delete(names: Sequence[str], yes: bool, no_wait: bool, as_json: bool) -> None:
    """Delete TPUs and everything on their disks."""
    from ..fleet.models import DeleteTPU

    with open_session() as session:
        tpus = _find(session, names)
        if not yes:
            kernels = {tpu_ref(tpu): running_kernels(session, tpu) for tpu in tpus}
            which = ", ".join(f"{tpu.name} ({type_text(tpu)}, in {tpu.zone})" for tpu in tpus)
            disks = "its disk" if len(tpus) == 1 else "their disks"
            confirm(
                f"Delete {which} and everything on {disks}?" + _losses(tpus, kernels),
                "Add --yes to delete without asking.",
            )

        def begin(tpu: TPU) -> Coroutine[Any, Any, Operation]:
            return session.fleet.delete(tpu_ref(tpu), DeleteTPU(end_kernels=True))

        _run(session, tpus, begin, "Deleted {}.", no_wait, as_json, stays=False)


def tpu_ref(tpu: TPU) -> str:
    """What names exactly this TPU."""
    return f"{tpu.zone}~{tpu.name}"


def running_kernels(session: Session, tpu: TPU) -> list[Kernel]:
    """The kernels running there; none if they can't be listed now."""
    if not tpu.kernels and tpu.connection.value == "disconnected":
        return []
    try:
        return session.call(session.fleet.kernels(tpu_ref(tpu)))
    except TPUError as error:
        note(f"Can't list the kernels on {tpu.name}: {error.message}")
        return []


def _find(session: Session, names: Sequence[str]) -> list[TPU]:
    """The TPUs, each once; raises NOT_FOUND before anything is changed."""
    found = [session.call(session.fleet.tpu(name)) for name in names]
    return list({tpu_ref(tpu): tpu for tpu in found}.values())


def _confirm_kernels(session: Session, tpus: Sequence[TPU], yes: bool, verb: str) -> set[str]:
    """The TPUs whose kernels may end. Asks the user if there are any."""
    kernels = {tpu_ref(tpu): running_kernels(session, tpu) for tpu in tpus}
    if any(kernels.values()) and not yes:
        confirm(
            f"{verb} {', '.join(tpu.name for tpu in tpus)}?" + _losses(tpus, kernels),
            "Add --yes to shut them down without asking.",
        )
    return {ref for ref, running in kernels.items() if running or yes}


def _losses(tpus: Sequence[TPU], kernels: dict[str, list[Kernel]]) -> str:
    """What ends with the TPUs: "" or sentences."""
    sentences = ""
    for tpu in tpus:
        running = kernels[tpu_ref(tpu)]
        count = len(running) or tpu.kernels
        if count:
            loss = "1 running kernel" if count == 1 else f"{count} running kernels"
            where = f" on {tpu.name}" if len(tpus) > 1 else ""
            names = ", ".join(
                f"{kernel.notebook or kernel.id} ({kernel.state}, {kernel.environment})"
                for kernel in running
            )
            sentences += f" This shuts down {loss}{where}" + (f": {names}." if names else ".")
    return sentences


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
