"""A TPU for one script or function: planned, created, guarded, and deleted whatever happens.

It is made of the fleet's own operations. What deletes the TPU if this process is killed is its
guard: of time, of cost, and of a while without work. It is set before anything of the user runs,
also by the TPU itself at its first boot. The plan has an id before anything is asked for. So where
an answer is lost, this process finds what became of it, or the next one does.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from msgspec import Struct, structs

from ..errors import Reason, TPUError
from ..terminal.session import FleetSession, open_session
from .held_tpu import HeldTPU, Wish, folder, lock_file, try_lock

if TYPE_CHECKING:
    from ..fleet.models import TPU, Operation, Plan, PlanTPU


#: A TPU is deleted after so many seconds without work, unless it is kept for longer.
IDLE_SECONDS = 600.0


#: What creating, connecting and copying may take, beside the time of the script; seconds.
SETUP_SECONDS = 1200.0


#: The time of the script if none is given; seconds.
SCRIPT_SECONDS = 3600.0


#: States in which a TPU is not there for a script, and does not come back by itself.
_ENDED = ("PREEMPTED", "TERMINATED", "DELETING", "STOPPING", "STOPPED", "FAILED")


#: States of a job that has ended.
_FINAL = ("ended", "failed", "stopped", "lost")


#: Reasons of an error after which the server may have done what it was asked for.
_UNHEARD = (Reason.UNREACHABLE, Reason.TIMEOUT)


#: Seconds for a server to say what a plan has begun; and between two questions.
SETTLED_SECONDS, ASK_SECONDS = 60.0, 0.5


#: Seconds for which a kept TPU is looked at until its guard says that it is idle.
QUIET_SECONDS = 75.0


#: For how long the plans of earlier commands are known; seconds.
KNOWN_PLAN_SECONDS = 86_400.0


T = TypeVar("T")


#: Waits for an operation's end, and raises what it failed with.
Finish = Callable[["FleetSession", "Operation"], object]


#: Says one sentence.
Say = Callable[[str], None]


class OnceTPU(Struct, kw_only=True):
    """What is needed: a type, and limits. Times: seconds. Amounts: USD."""

    type: str
    #: "-": all that offer the type; several with commas between them.
    zone: str = ""
    spot: bool = False
    max_cost: float | None = None
    #: An hour.
    max_price: float | None = None
    timeout: float | None = None
    #: How long it is kept for the next one; 0: it is deleted.
    keep: float = 0.0
    #: The title of what runs there; the TPU's name begins with it.
    title: str = "run"

    @property
    def key(self) -> str:
        """The same for those that can use one TPU after the other."""
        tier = "spot" if self.spot else "on-demand"
        text = "_".join((self.type, self.zone, tier))
        return re.sub(r"[^-_a-z0-9]", "-", text.lower())[:63]

    def plan(self) -> PlanTPU:
        from ..fleet.models import ConnectTPU, CreateTPU, PlanTPU, SetGuard

        title = re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")[:20]
        several = "," in self.zone or self.zone == "-"
        return PlanTPU(
            tpu=CreateTPU(
                name=f"once-{title or 'run'}-{secrets.token_hex(3)}",
                type=self.type,
                zone=None if several else self.zone or None,
                tier="spot" if self.spot else "on-demand",
                once=self.key,
                max_price=self.max_price,
                connect=ConnectTPU(),
                guard=SetGuard(action="delete", idle=max(60.0, self.keep or IDLE_SECONDS)),
            ),
            zones=self.zone.split(",") if several else [],
            time=(self.timeout or SCRIPT_SECONDS) + SETUP_SECONDS + self.keep,
            max_cost=self.max_cost,
        )


def acquire(
    session: FleetSession,
    requested_tpu: OnceTPU,
    approve: Callable[[Plan], Operation],
    finish: Finish,
    say: Say,
) -> HeldTPU:
    """A TPU that is connected, and has its guard: a warm one, or a new one.

    approve: begins what was planned, if the price is agreed to. Whatever fails or interrupts this,
    what was begun is deleted.
    """
    settle_left(session, finish, say)
    if (held := _warm(session, requested_tpu, say)) is not None:
        say(f"Using {held.tpu.name}, which was kept.")
        return held
    plan = session.call(session.fleet.plans.make(requested_tpu.plan()))
    wish = Wish(plan.id)
    try:
        operation = approve(plan)
        finish(session, operation)
        ended = session.call(session.fleet.operations.get(operation.id))
        ref = f"{ended.zone}~{ended.tpu}"
        # Not found: it is not set, so nothing may run there.
        guard = session.call(session.fleet.guards.get(ref))
        if guard.action != "delete" or not guard.until:
            raise TPUError(f"{ended.tpu} has another guard than its own.", Reason.CONFLICT)
        tpu = session.call(session.fleet.tpu(ref))
        lock = try_lock(tpu)
        if lock is None:
            raise TPUError(f"Another program uses {tpu.name}.", Reason.CONFLICT)
        return HeldTPU(tpu, lock, wish)
    except BaseException:
        try:
            with_server(session, lambda usable: undo(usable, plan.id, finish, say))
        except BaseException:
            wish.close()
            say(
                f"{plan.name} may exist. The next `jupyter tpu run --once` or its guard deletes it."
            )
            raise
        wish.fulfil()
        raise


def with_server(session: FleetSession, act: Callable[[FleetSession], T]) -> T:
    """What *act* returns, with another session where the server of this one does not answer."""
    try:
        return act(session)
    except TPUError as error:
        if session.server is None or error.reason not in _UNHEARD:
            raise
    with open_session() as another:
        return act(another)


def settle_left(session: FleetSession, finish: Finish, say: Say) -> None:
    """Deletes what processes have left that were killed, unless somebody uses it: then its guard
    deletes it.
    """
    for path in folder().glob("*.plan"):
        lock = lock_file(path)
        if lock is None:
            continue  # its process runs
        try:
            if not path.exists():
                continue  # it was settled a moment ago
            if (
                _settle(session, path.stem, finish, say)
                or time.time() - path.stat().st_mtime > KNOWN_PLAN_SECONDS
            ):
                path.unlink(missing_ok=True)
        except TPUError as error:
            say(f"What an earlier command has created is not deleted yet: {error.message}")
        finally:
            os.close(lock)


def _settle(session: FleetSession, plan: str, finish: Finish, say: Say) -> bool:
    """Whether nothing is left to do for a *plan*."""
    try:
        operation = _withdraw(session, plan)
    except TPUError as error:
        if error.reason is Reason.NOT_FOUND:
            return False  # of another cloud, or forgotten
        raise
    if operation is None or operation.state in ("failed", "cancelled"):
        return True
    if operation.state == "done" and not is_free(session, f"{operation.zone}~{operation.tpu}"):
        say(f"{operation.tpu} is in use. Its guard deletes it later.")
        return True
    say(f"Deleting {operation.tpu}, which an earlier command has left.")
    _end(session, operation, finish)
    return True


def undo(session: FleetSession, plan: str, finish: Finish, say: Say) -> None:
    """Ends the creation or hunt that a *plan* has begun, and deletes its TPU."""
    operation = _withdraw(session, plan)
    if operation is not None:
        say("Deleting what was begun.")
        _end(session, operation, finish)


def _withdraw(session: FleetSession, plan: str) -> Operation | None:
    """The operation that a *plan* has begun; None if it has begun none, and will not."""
    from ..fleet.models import AnswerPlan

    fleet, deadline = session.fleet, time.monotonic() + SETTLED_SECONDS
    while True:
        # Refused, it begins nothing any more, also where the request is still on its way.
        with contextlib.suppress(TPUError):
            session.call(fleet.plans.answer(plan, AnswerPlan(approve=False)))
        latest = session.call(fleet.plans.get(plan))
        if latest.operation:
            return session.call(fleet.operations.get(latest.operation))
        if latest.state == "refused":
            return None
        if time.monotonic() > deadline:
            raise TPUError(f"It is not known what the plan {plan} has begun.", Reason.TIMEOUT)
        time.sleep(ASK_SECONDS)


def _end(session: FleetSession, operation: Operation, finish: Finish) -> None:
    latest = session.call(session.fleet.operations.get(operation.id))
    if latest.state == "running":
        with contextlib.suppress(TPUError):
            latest = session.call(session.fleet.operations.cancel(operation.id))
        with contextlib.suppress(TPUError):
            finish(session, latest)
        latest = session.call(session.fleet.operations.get(operation.id))
    if latest.state == "done" and latest.zone:
        delete(session, f"{latest.zone}~{latest.tpu}", finish)


def delete(session: FleetSession, ref: str, finish: Finish, *, used: bool = True) -> None:
    """Deletes a TPU; one that is gone is no failure. used: also if kernels or jobs run there, which
    otherwise raises KERNELS_RUNNING or JOBS_RUNNING.
    """
    from ..fleet.models import DeleteTPU

    options = DeleteTPU(end_kernels=used, end_jobs=used)
    try:
        finish(session, session.call(session.fleet.delete(ref, options)))
    except TPUError as error:
        if error.reason is Reason.NOT_FOUND:
            return
        if error.reason is Reason.CONFLICT:  # its guard, or another process, deletes it
            for other in session.call(session.fleet.operations.list()):
                if other.kind == "delete" and f"{other.zone}~{other.tpu}" == ref:
                    finish(session, other)
                    return
        raise


def release(
    session: FleetSession, held: HeldTPU, requested_tpu: OnceTPU, finish: Finish, say: Say
) -> None:
    """Deletes the TPU, or keeps it for the next one, if that was wanted and it is still there."""
    settled = False
    try:
        ended = how_ended(session, held)
        if requested_tpu.keep and not ended:
            say(
                f"{held.tpu.name} is kept for the next one. Its guard deletes it after "
                f"{requested_tpu.keep / 60:.0f} min without work."
            )
        elif ended != "gone":
            used = bool(ended)  # its kernels and jobs have ended
            with_server(session, lambda usable: delete(usable, held.ref, finish, used=used))
        settled = True
    except TPUError as error:
        if error.reason not in (Reason.KERNELS_RUNNING, Reason.JOBS_RUNNING):
            raise
        settled = True
        say(
            f"{held.tpu.name} is not deleted now. {error.message} Its guard deletes it after "
            f"{(requested_tpu.keep or IDLE_SECONDS) / 60:.0f} min without work."
        )
    finally:
        held.unlock(settled=settled)


def how_ended(session: FleetSession, held: HeldTPU) -> Literal["", "preempted", "ended", "gone"]:
    """ "preempted": the TPU was. "ended" and "gone": somebody has stopped or deleted it, its guard
    for example. "": it is there, as far as Google says.
    """
    from ..fleet.models import ListQuery

    try:
        session.call(session.fleet.tpus(ListQuery(fresh=True)))
        tpu = session.call(session.fleet.tpu(held.ref))
    except TPUError as error:
        return "gone" if error.reason is Reason.NOT_FOUND else ""
    if tpu.id and tpu.id != held.tpu.id:
        return "gone"  # another one has its name
    if tpu.state == "PREEMPTED":
        return "preempted"
    return "ended" if tpu.state in _ENDED else ""


def ended_error(held: HeldTPU) -> TPUError:
    return TPUError(
        f"{held.tpu.name} was stopped or deleted before the end: by a person or program, or by its "
        "guard because its limit of time or cost was reached. No other TPU is created.",
        Reason.INTERRUPTED,
        "`jupyter tpu budget spending` shows what it has cost.",
    )


def cost(session: FleetSession, tpu: TPU) -> float:
    """USD that a TPU has cost, by the ledger."""
    spending = session.call(session.fleet.budgets.show()).spending
    return sum(line.usd for line in spending if (line.tpu, line.zone) == (tpu.name, tpu.zone))


def for_next_attempt(session: FleetSession, requested_tpu: OnceTPU, held: HeldTPU) -> OnceTPU:
    """The same, with what is left of its cost limit after *held*."""
    if requested_tpu.max_cost is None:
        return requested_tpu
    left = requested_tpu.max_cost - max(0.0, cost(session, held.tpu) - held.spent)
    if left <= 0.0:
        raise TPUError(
            f"Nothing is left of ${requested_tpu.max_cost:.2f}, so no other TPU is created.",
            Reason.BUDGET,
            "Allow more: --max-cost USD.",
        )
    return structs.replace(requested_tpu, max_cost=left)


def _warm(session: FleetSession, requested_tpu: OnceTPU, say: Say) -> HeldTPU | None:
    """A TPU that was kept, has enough time left, and is used by no one."""
    from ..agent_token import acts_as_agent
    from ..fleet.models import AGENT
    from ..fleet.models.core import seconds_of
    from ..fleet.money.owners import ONCE

    needed = time.time() + (requested_tpu.timeout or SCRIPT_SECONDS)
    for tpu in session.tpus().tpus:
        if tpu.labels.get(ONCE) != requested_tpu.key or tpu.state != "READY" or tpu.not_yours:
            continue
        # What runs there gets the tokens of who asks: agents and people use none of each other's,
        # nor one of which only a label says whose it is.
        if not tpu.planned_by or (tpu.planned_by == AGENT) != acts_as_agent():
            continue
        if tpu.agents_may_use and not acts_as_agent():
            continue
        lock = try_lock(tpu)
        if lock is None:
            continue
        held = HeldTPU(tpu, lock)
        try:
            guard = session.call(session.fleet.guards.get(held.ref))
            ready = any(environment.state == "ready" for environment in tpu.environments)
            if guard.until and seconds_of(guard.until, "until") > needed and ready:
                say(f"Looking whether {tpu.name}, which was kept, is in use.")
                if is_free(session, held.ref):
                    held.spent = cost(session, tpu)
                    return held
        except TPUError:
            pass  # it is about to be gone
        held.unlock()
    return None


def is_free(session: FleetSession, ref: str) -> bool:
    """Whether nobody uses a TPU: no notebook, job or command of this program, and nothing else that
    its guard sees, such as a terminal. The guard's word may be of before the last command ended, so
    it is waited for.
    """
    from ..fleet.models import ListQuery

    fleet, deadline = session.fleet, time.monotonic() + QUIET_SECONDS
    while True:
        kernels = session.call(fleet.kernels.list(ref, ListQuery(fresh=True)))
        jobs = session.call(fleet.jobs.list(ref))
        runs = session.call(fleet.runs.list(ref))
        if (
            any(kernel.state != "dead" for kernel in kernels)
            or any(job.state not in _FINAL for job in jobs)
            or any(run.state == "running" for run in runs)
        ):
            return False
        busy = session.call(fleet.guards.get(ref)).busy
        if busy == []:
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(ASK_SECONDS)


def fetch(session: FleetSession, ref: str, source: str, destination: str, finish: Finish) -> Any:
    """Copies a folder of host 0 here; raises what keeps it from that."""
    from ..fleet.models import CopyFiles

    request = CopyFiles(
        sources=[source], destination=destination, download=True, overwrite=True, make_folder=True
    )
    finish(session, session.call(session.fleet.copies.start(ref, request)))
