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

from ..commands import once, runs
from ..commands.once import HeldTPU, OnceTPU
from ..commands.scripts import as_text, project_of, script_command, send_project
from ..commands.session import Session, open_session
from ..errors import TPUError
from .approval import carry_out
from .console import complain, note
from .waiting import finish, finish_all

if TYPE_CHECKING:
    from ..fleet.models import Operation, Plan, Run, StartRun

#: Seconds between two looks whether Google has taken the TPU back.
LOOK = 5.0
#: How long after the loss of its hosts Google may say that it has; seconds.
SAID = 60.0


def run_once(
    script: Path,
    args: Sequence[str],
    requested_tpu: OnceTPU,
    request: StartRun,
    begun: Callable[[Session, Run], runs.Sink],
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
            if ended is not None:
                return ended
            note(f"Google has taken the TPU back. Trying again ({attempt + 1} of {retries}).")
    raise AssertionError  # the last attempt returns or raises


def _attempt(
    session: Session,
    script: Path,
    args: Sequence[str],
    requested_tpu: OnceTPU,
    request: StartRun,
    begun: Callable[[Session, Run], runs.Sink],
    output: str | None,
    yes: bool,
    *,
    last: bool,
) -> Run | None:
    """None: Google has taken the TPU back, and it is not the *last* attempt."""

    def approve(plan: Plan) -> Operation:
        note(f"At most ${plan.most:.2f}, about ${plan.usd_per_hour:.2f} an hour. {plan.guard}")
        return carry_out(session, plan, yes=yes or requested_tpu.max_cost is not None)

    held = once.acquire(
        session, requested_tpu, approve, lambda o: finish_all(session, o, sys.stderr), note
    )
    keep_for_guard = False
    try:
        folder = send_project(session, held.ref, script, lambda o: finish(session, o, sys.stderr))
        request.cwd = folder
        request.command = as_text(script_command(script, args))
        with _watched(session, held) as taken:
            try:
                ended = runs.execute(
                    session,
                    held.ref,
                    request,
                    lambda run: begun(session, run),
                    lambda _: note("Stopping the script."),
                )
            except TPUError:
                if taken.is_set() and not last:
                    return None
                raise
        lost = ended.code and (taken.is_set() or _is_taken(session, held, ended))
        if lost and not last:
            return None
        if lost:
            complain("Google has taken the TPU back before the script had ended.")
        elif output is not None:
            keep_for_guard = True
            _fetch(session, held, f"{folder}/{output}", project_of(script) / output)
            keep_for_guard = False
        return ended
    finally:
        if keep_for_guard:
            note(
                f"{held.tpu.name} still has the output. Its guard deletes it after "
                f"{(requested_tpu.keep or once.IDLE) / 60:.0f} min without work. To delete it now: "
                f"jupyter tpu delete {held.tpu.name}"
            )
            held.unlock()
        else:
            once.release(
                session, held, requested_tpu, lambda o: finish(session, o, sys.stderr), note
            )


def _fetch(session: Session, held: HeldTPU, source: str, destination: Path) -> None:
    """Copies the output folder here. Raises what keeps it from that."""
    once.fetch(
        session,
        held.ref,
        source,
        str(destination.parent),
        lambda o: finish(session, o, sys.stderr),
    )
    note(f"Copied {source} to {destination}.")


def _is_taken(session: Session, held: HeldTPU, ended: Run) -> bool:
    """Google may say so some time after the hosts have gone."""
    if all(host.state == "exited" and host.problem is None for host in ended.hosts):
        return False
    end = time.monotonic() + SAID
    while not once.is_taken(session, held):
        if time.monotonic() > end:
            return False
        time.sleep(LOOK)
    return True


@contextlib.contextmanager
def _watched(session: Session, held: HeldTPU) -> Iterator[threading.Event]:
    """Set when Google takes the TPU back. The run is then given up: nobody would answer."""
    taken, done = threading.Event(), threading.Event()

    def look() -> None:
        while not done.wait(LOOK):
            with contextlib.suppress(TPUError):
                if once.is_taken(session, held):
                    taken.set()
                    for run in session.call(session.fleet.runs.list(held.ref)):
                        session.call(session.fleet.runs.stop(held.ref, run.id))
                    return

    watching = threading.Thread(target=look, name="watches the TPU", daemon=True)
    watching.start()
    try:
        yield taken
    finally:
        done.set()
        watching.join(LOOK)


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
