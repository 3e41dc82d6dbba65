"""A TPU for one script or function: planned, created, guarded, and deleted whatever happens.

It is made of the fleet's own operations. What deletes the TPU if this process is killed is its
guard: of time, of cost, and of a while without work. It is set before anything of the user runs,
also by the TPU itself at its first boot.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ..errors import Reason, TPUError
from .session import Session, tpu_ref

if TYPE_CHECKING:
    from ..fleet.models import TPU, Operation, Plan, PlanTPU

#: A TPU is deleted after so many seconds without work, unless it is kept for longer.
IDLE = 600.0
#: What creating, connecting and copying may take, beside the time of the script; seconds.
SETUP = 1200.0
#: The time of the script if none is given; seconds.
TIME = 3600.0
#: States of a TPU that Google has taken back.
_TAKEN = ("PREEMPTED", "TERMINATED")

#: Waits for an operation's end, and raises what it failed with.
Finish = Callable[["Operation"], object]
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
    #: Of what runs there; the TPU's name begins with it.
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
                guard=SetGuard(action="delete", idle=max(60.0, self.keep or IDLE)),
            ),
            zones=self.zone.split(",") if several else [],
            time=(self.timeout or TIME) + SETUP + self.keep,
            max_cost=self.max_cost,
        )


class HeldTPU:
    """A TPU that this process uses alone, until it is released."""

    def __init__(self, tpu: TPU, lock: int) -> None:
        self.tpu = tpu
        self.ref = tpu_ref(tpu)
        self._lock = lock

    def unlock(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self._lock)


def acquire(
    session: Session,
    requested_tpu: OnceTPU,
    approve: Callable[[Plan], Operation],
    finish: Finish,
    say: Say,
) -> HeldTPU:
    """A TPU that is connected, and has its guard: a warm one, or a new one.

    approve: begins what was planned, if the price is agreed to. Whatever fails or interrupts this,
    what was begun is deleted.
    """
    if (held := _warm(session, requested_tpu)) is not None:
        say(f"Using {held.tpu.name}, which was kept.")
        return held
    plan = session.call(session.fleet.plans.make(requested_tpu.plan()))
    operation = approve(plan)
    try:
        finish(operation)
        ended = session.call(session.fleet.operations.get(operation.id))
        ref = f"{ended.zone}~{ended.tpu}"
        # Not found: it is not set, so nothing may run there.
        guard = session.call(session.fleet.guards.get(ref))
        if guard.action != "delete" or not guard.until:
            raise TPUError(f"{ended.tpu} has another guard than its own.", Reason.CONFLICT)
        tpu = session.call(session.fleet.tpu(ref))
        lock = _try_lock(tpu)
        if lock is None:
            raise TPUError(f"Another program uses {tpu.name}.", Reason.CONFLICT)
        return HeldTPU(tpu, lock)
    except BaseException:
        say("Deleting what was begun.")
        undo(session, operation, finish)
        raise


def undo(session: Session, operation: Operation, finish: Finish) -> None:
    """Ends the creation or hunt, and deletes its TPU."""
    latest = session.call(session.fleet.operations.get(operation.id))
    if latest.state == "running":
        with contextlib.suppress(TPUError):
            latest = session.call(session.fleet.operations.cancel(operation.id))
        with contextlib.suppress(TPUError):
            finish(latest)
        latest = session.call(session.fleet.operations.get(operation.id))
    if latest.state == "done" and latest.zone:
        delete(session, f"{latest.zone}~{latest.tpu}", finish)


def delete(session: Session, ref: str, finish: Finish) -> None:
    """Deletes a TPU with all that runs there; one that is gone is no failure."""
    from ..fleet.models import DeleteTPU

    options = DeleteTPU(end_kernels=True, end_jobs=True)
    try:
        finish(session.call(session.fleet.delete(ref, options)))
    except TPUError as error:
        if error.reason is Reason.NOT_FOUND:
            return
        if error.reason is Reason.CONFLICT:  # its guard, or another process, deletes it
            for other in session.call(session.fleet.operations.list()):
                if other.kind == "delete" and f"{other.zone}~{other.tpu}" == ref:
                    finish(other)
                    return
        raise


def release(
    session: Session, held: HeldTPU, requested_tpu: OnceTPU, finish: Finish, say: Say
) -> None:
    """Deletes the TPU, or keeps it for the next one, if that was wanted and it is still there."""
    try:
        if requested_tpu.keep and not is_taken(session, held):
            say(
                f"{held.tpu.name} is kept for the next one. Its guard deletes it after "
                f"{requested_tpu.keep / 60:.0f} min without work."
            )
            return
        delete(session, held.ref, finish)
    finally:
        held.unlock()


def is_taken(session: Session, held: HeldTPU) -> bool:
    """Whether Google has taken the TPU back, or it is gone."""
    from ..fleet.models import ListQuery

    try:
        session.call(session.fleet.tpus(ListQuery(fresh=True)))
        return session.call(session.fleet.tpu(held.ref)).state in _TAKEN
    except TPUError as error:
        return error.reason is Reason.NOT_FOUND


def _warm(session: Session, requested_tpu: OnceTPU) -> HeldTPU | None:
    """A TPU that was kept, has enough time left, and is used by no one."""
    from ..agent_token import acts_as_agent
    from ..fleet.models import AGENT
    from ..fleet.models.core import seconds_of
    from ..fleet.money.owners import ONCE

    needed = time.time() + (requested_tpu.timeout or TIME)
    for tpu in session.tpus().tpus:
        if tpu.labels.get(ONCE) != requested_tpu.key or tpu.state != "READY" or tpu.not_yours:
            continue
        # What runs there gets the tokens of who asks: agents and people use none of each other's,
        # nor one of which only a label says whose it is.
        if not tpu.planned_by or (tpu.planned_by == AGENT) != acts_as_agent():
            continue
        if tpu.agents_may_use and not acts_as_agent():
            continue
        lock = _try_lock(tpu)
        if lock is None:
            continue
        held = HeldTPU(tpu, lock)
        try:
            guard = session.call(session.fleet.guards.get(held.ref))
            runs = session.call(session.fleet.runs.list(held.ref))
            ready = any(environment.state == "ready" for environment in tpu.environments)
            busy = any(run.state == "running" for run in runs)
            if guard.until and seconds_of(guard.until, "until") > needed and ready and not busy:
                return held
        except TPUError:
            pass  # it is about to be gone
        held.unlock()
    return None


def _try_lock(tpu: TPU) -> int | None:
    """A lock on the TPU for the processes of this computer; None if another one has it."""
    from ..files import try_lock
    from ..paths import data_dir, private_dir

    path: Path = private_dir(data_dir() / "once") / f"{tpu.zone}-{tpu.name}.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    if try_lock(descriptor):
        return descriptor
    os.close(descriptor)
    return None


def fetch(session: Session, ref: str, source: str, destination: str, finish: Finish) -> Any:
    """Copies a folder of host 0 here; raises what keeps it from that."""
    from ..fleet.models import CopyFiles

    request = CopyFiles(
        sources=[source], destination=destination, download=True, overwrite=True, make_folder=True
    )
    finish(session.call(session.fleet.copies.start(ref, request)))
