"""``jupyter tpu run --once``: a TPU for one script, and its exit code."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import TPUError
from ..terminal.printing import complain, note
from ..terminal.session import FleetSession, open_session
from ..terminal.waiting import finish, finish_all
from . import once_tpu as once
from . import run_output as runs
from .approval import carry_out
from .once_tpu import HeldTPU, OnceTPU
from .scripts import as_text, project_of, script_command, send_project

if TYPE_CHECKING:
    from ..fleet.models import Operation, Plan, Run, StartRun

#: Seconds between two looks whether the TPU was preempted.
LOOK_SECONDS = 5.0
#: How long after the loss of its hosts Google may say that it has; seconds.
PREEMPTION_SECONDS = 60.0


def run_once(
    script: Path,
    args: Sequence[str],
    requested_tpu: OnceTPU,
    request: StartRun,
    begun: Callable[[FleetSession, Run], runs.Sink],
    *,
    output: str | None,
    retries: int,
    yes: bool,
) -> Run:
    """Runs a script on all hosts of a TPU that is made for it. request: for the run.

    What it prints is the script's; all else goes to stderr.
    """
    project_of(script)  # raises what is wrong with it before anything is created
    if output is not None and (Path(output).is_absolute() or ".." in Path(output).parts):
        raise click.UsageError("--output is a folder inside the script's project.")
    with _endings(), open_session() as session:
        for attempt in range(retries + 1):
            ended = _attempt(
                session,
                script,
                args,
                requested_tpu,
                request,
                begun,
                output,
                yes,
                last=attempt == retries,
            )
            if not isinstance(ended, HeldTPU):
                return ended
            note(f"The TPU was preempted. Trying again ({attempt + 1} of {retries}).")
            requested_tpu = once.for_next_attempt(session, requested_tpu, ended)
    raise AssertionError  # the last attempt returns or raises


def _attempt(
    session: FleetSession,
    script: Path,
    args: Sequence[str],
    requested_tpu: OnceTPU,
    request: StartRun,
    begun: Callable[[FleetSession, Run], runs.Sink],
    output: str | None,
    yes: bool,
    *,
    last: bool,
) -> Run | HeldTPU:
    """The TPU, if it was preempted, and this is not the *last* attempt."""

    def approve(plan: Plan) -> Operation:
        note(f"At most ${plan.most:.2f}, about ${plan.usd_per_hour:.2f} an hour. {plan.guard}")
        return carry_out(session, plan, yes=yes or requested_tpu.max_cost is not None)

    held = once.acquire(session, requested_tpu, approve, _finish_all, note)
    keep_for_guard = False
    try:
        folder = send_project(session, held.ref, script, lambda o: _finish(session, o))
        request.cwd = folder
        request.command = as_text(script_command(script, args))
        with _watched(session, held) as loss:
            try:
                ended = runs.execute(
                    session,
                    held.ref,
                    request,
                    lambda run: begun(session, run),
                    lambda _: note("Stopping the script."),
                )
            except TPUError as error:
                why = loss.why or once.how_ended(session, held)
                if why == "preempted" and not last:
                    return held
                if why in ("ended", "gone"):
                    raise once.ended_error(held) from error
                raise
        if ended.code and (why := loss.why or _why_lost(session, held, ended)):
            if why == "preempted" and not last:
                return held
            if why != "preempted":
                raise once.ended_error(held)
            complain("The TPU was preempted before the script had ended.")
        elif output is not None:
            keep_for_guard = True
            _fetch(session, held, f"{folder}/{output}", project_of(script) / output)
            keep_for_guard = False
        return ended
    finally:
        if keep_for_guard:
            note(
                f"{held.tpu.name} still has the output. Its guard deletes it after "
                f"{(requested_tpu.keep or once.IDLE_SECONDS) / 60:.0f} min without work. "
                f"To delete it now: jupyter tpu delete {held.tpu.name}"
            )
            held.unlock()
        else:
            once.release(session, held, requested_tpu, _finish, note)


def _finish(session: FleetSession, operation: Operation) -> None:
    finish(session, operation, sys.stderr)


def _finish_all(session: FleetSession, operation: Operation) -> None:
    finish_all(session, operation, sys.stderr)


def _fetch(session: FleetSession, held: HeldTPU, source: str, destination: Path) -> None:
    """Copies the output folder here. Raises what keeps it from that."""
    once.fetch(session, held.ref, source, str(destination.parent), _finish)
    note(f"Copied {source} to {destination}.")


def _why_lost(session: FleetSession, held: HeldTPU, ended: Run) -> str:
    """As `once.how_ended`, where hosts are not reached. Google may say it some time later."""
    if all(host.state == "exited" and host.problem is None for host in ended.hosts):
        return ""
    end = time.monotonic() + PREEMPTION_SECONDS
    while not (why := once.how_ended(session, held)):
        if time.monotonic() > end:
            return ""
        time.sleep(LOOK_SECONDS)
    return why


class _Loss:
    """Why the TPU is not there any more, as `once.how_ended` says it; "": it is."""

    why = ""


@contextlib.contextmanager
def _watched(session: FleetSession, held: HeldTPU) -> Iterator[_Loss]:
    """Says when the TPU is lost. The run is then given up: nobody would answer."""
    loss, done = _Loss(), threading.Event()

    def look() -> None:
        while not done.wait(LOOK_SECONDS):
            with contextlib.suppress(TPUError):
                if why := once.how_ended(session, held):
                    loss.why = why
                    for run in session.call(session.fleet.runs.list(held.ref)):
                        session.call(session.fleet.runs.stop(held.ref, run.id))
                    return

    watching = threading.Thread(target=look, name="watches the TPU", daemon=True)
    watching.start()
    try:
        yield loss
    finally:
        done.set()
        watching.join(LOOK_SECONDS)


@contextlib.contextmanager
def _endings() -> Iterator[None]:
    """A terminal that is closed, and SIGTERM, end the command as an exception does."""

    def end(number: int, _: Any) -> None:
        raise SystemExit(128 + number)

    before = {name: signal.signal(name, end) for name in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
