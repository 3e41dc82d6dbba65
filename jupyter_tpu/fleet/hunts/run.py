"""Runs one hunt in this process: one attempt after another, until there is a TPU."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from datetime import datetime

from msgspec import structs

from ...clock import CLOCK_SET_SECONDS, Clock
from ...cloud import NodeName
from ...errors import Reason, TPUError
from ...own_log import happened
from ...wording import first_sentence
from ..core.known_operations import OperationCancelled, OperationProgress
from ..core.operation_records import (
    AwaitedTPU,
    Belongings,
    Candidate,
    Creation,
    HuntRecord,
    NodeClaim,
    OperationRecord,
    OperationRequest,
)
from ..core.operation_runner import OperationRunner
from ..lifecycle.create import CreateService
from ..lifecycle.provisioner import NodeProvisioner
from ..lifecycle.provisioning import ProvisioningResult
from ..models import CreateTPU, HuntAttempt, Problem, QueueTPU
from ..models.core import seconds_of, timestamp
from ..models.hunts import AttemptState
from .candidates import request_of
from .planner import Attempt, Exhausted, Wait, clock_set, learn, next_step, turn
from .replacing import PreemptedTPUs

log = logging.getLogger(__name__)

#: How many attempts are kept.
KEPT_ATTEMPTS = 50
#: A wait is looked at again after this time: clocks jump, and computers sleep. Seconds.
WAIT_SLICE_SECONDS = 10.0
#: How long a new TPU may take to get its tunnels and syncs back; seconds.
RESTORE_SECONDS = 30.0

_NOT_BEGUN = TPUError("The process was stopped before this attempt began.", Reason.INTERRUPTED)


Restore = Callable[[NodeName, Belongings, Callable[[str], None]], Awaitable[None]]


class HuntRun:
    """The hunt of *record*. on_found(): there is a TPU. changed(name): it may look different.
    restore: gives the TPU what the one had that it replaces.
    """

    def __init__(
        self,
        record: OperationRecord,
        hunt: HuntRecord,
        create: CreateService,
        runner: OperationRunner,
        changed: Callable[[NodeName], None],
        preempted: PreemptedTPUs,
        on_found: Callable[[], None],
        restore: Restore,
    ) -> None:
        self._preempted = preempted
        self._on_found = on_found
        self._restore = restore
        self._record = record
        self._hunt = hunt
        self._create = create
        self._runner = runner
        self._changed = changed
        self._current: tuple[Creation, NodeProvisioner] | None = None  # attempt
        self._stopped = asyncio.Event()
        self._clock = Clock()
        if hunt.current is not None:
            self._carry_on(hunt.current)
        elif self._hunt.attempts and self._hunt.attempts[-1].state == "trying":
            self._end_attempt("failed", _NOT_BEGUN)
        else:
            self._notice_clock_set_back()

    def _notice_clock_set_back(self) -> None:
        """The clock may have been set while no process had this hunt. What has ended in its future
        shows that, and by how much at least.
        """
        ended = self._hunt.attempts[-1].ended if self._hunt.attempts else ""
        ahead = seconds_of(ended, "ended") - self._now() if ended else 0.0
        if ahead > CLOCK_SET_SECONDS:
            clock_set(self._hunt, -ahead)

    def carry_out(self, request: OperationRequest) -> None:
        """As `NodeProvisioner.carry_out`, where there is an attempt."""
        if request == "cancel":
            self._stopped.set()
        if self._current is not None:
            self._current[1].carry_out(request)

    async def work(self, progress: OperationProgress) -> None:
        """Until there is a TPU; if it waits for preemptions, until it is stopped."""
        while True:
            if self._hunt.awaited is not None:
                if not await self._preempted.wait(
                    self._record, self._hunt, self._hunt.awaited, progress, self._stopped
                ):
                    raise OperationCancelled
                self._hunt.awaited = None
                self._runner.save_soon(self._record)
            creation, provisioner = await self._search(progress)
            await self._use_tpu(creation.request, provisioner.node_id, progress)
            if not self._hunt.request.repeats:
                break

    async def _search(self, progress: OperationProgress) -> tuple[Creation, NodeProvisioner]:
        """Returns when there is a TPU."""
        while True:
            if (current := self._current) is not None:
                if self._attempt_ended(await current[1].run(progress), progress):
                    return current
                continue
            if self._stopped.is_set():
                raise OperationCancelled
            match next_step(self._hunt, self._now()):
                case Attempt(candidate):
                    await self._attempt(candidate, progress)
                case Wait() as step:
                    await self._wait(step, progress)
                case Exhausted(error):
                    raise error

    async def _use_tpu(self, request: CreateTPU, node_id: str, progress: OperationProgress) -> None:
        """There is a TPU: does what was asked to be done with it."""
        record, hunt = self._record, self._hunt
        name = record.name
        progress.log(f"{name.node} is READY in {name.zone}")
        await self._create.warn_of_twin(name, request.api or "tpu", progress)
        self._preempted.take_over_jobs(name)
        if hunt.belongings is not None:
            await self._restore_safely(name, hunt.belongings, progress)
        self._create.follow_up(name, request, node_id, record.own_job, hunt.belongings)
        self._on_found()
        if hunt.request.repeats:
            hunt.awaited = AwaitedTPU(zone=name.zone, node_id=node_id)
            for candidate in hunt.candidates:
                candidate.failures, candidate.retry_at = 0, 0.0
            self._end_claim()
            try:
                await self._runner.save(record)
            except TPUError as error:  # it is saved when that is possible again
                progress.block(error)

    async def _restore_safely(
        self, name: NodeName, belongings: Belongings, progress: OperationProgress
    ) -> None:
        """Whatever goes wrong, the guard and the environments follow."""
        try:
            async with asyncio.timeout(RESTORE_SECONDS):
                await self._restore(name, belongings, progress.log)
        except Exception as error:
            log.warning("Not all of %s is restored", name.node, exc_info=error)
            progress.log(f"Tunnels and syncs may be missing: {error or type(error).__name__}")

    def _now(self) -> float:
        """The time; pauses follow a clock that is set."""
        now, moved = self._clock.now()
        if moved:
            clock_set(self._hunt, moved)
        return now

    def _end_claim(self) -> None:
        """The current attempt is over."""
        self._current = self._hunt.current = None
        self._record.operation.zone = ""

    async def _attempt(self, candidate: Candidate, progress: OperationProgress) -> None:
        """Begins one: from then on there is a claim."""
        record, hunt = self._record, self._hunt
        hunt.attempted += 1
        candidate.attempts += 1
        attempt = HuntAttempt(
            number=hunt.attempted,
            zone=candidate.zone,
            type=candidate.type,
            tier=candidate.tier,
            api=candidate.api,
            started=timestamp(),
            unattended=hunt.waits(candidate),
        )
        hunt.attempts = [*hunt.attempts, attempt][-KEPT_ATTEMPTS:]
        self._note(attempt)
        request = request_of(hunt.request, candidate)
        progress.log(f"Attempt {attempt.number}: {_doing(attempt)}")
        progress.set_message(_doing(attempt))
        if attempt.unattended:
            progress.log("Google continues this attempt while this computer is off")
        try:
            name = structs.replace(record.name, zone=candidate.zone)
            await self._create.require_new(name)
            if attempt.unattended:
                await self._create.require_not_queued(name)
            if hunt.terms is not None:
                request = await self._create.with_plan_guard(request, name, hunt.terms)
            await self._create.require_price(request, name)
        except TPUError as error:
            self._failed(error, progress)
            return
        # This computer may have slept since the attempt began.
        if self._stopped.is_set() or isinstance(next_step(hunt, self._now()), Exhausted):
            self._end_attempt("cancelled")
            return
        record.operation.zone = candidate.zone
        claim = NodeClaim(
            want="present",
            since=self._now(),
            label=f"{record.operation.id}-{attempt.number}",
            tidy=True,
            until=hunt.deadline or 0.0,
        )
        hunt.current = Creation(request=request, claim=claim, terms=hunt.terms)
        if attempt.unattended:
            end, limit = hunt.deadline, turn(hunt, candidate)
            until = timestamp("seconds", at=end) if end is not None else ""
            hunt.current.queue = QueueTPU(tpu=request, valid_until=until)
            claim.withdraw_at = self._now() + limit if limit is not None else 0.0
        self._carry_on(hunt.current)
        try:
            await self._create.save_priced(record)
        except TPUError as error:  # another process has got the last chips, or the disk is full
            self._end_claim()
            self._failed(error, progress)

    def _carry_on(self, creation: Creation) -> None:
        message = _doing(self._hunt.attempts[-1])
        self._current = creation, self._create.provisioner(self._record, creation, message)

    def _attempt_ended(self, end: ProvisioningResult, progress: OperationProgress) -> bool:
        """Whether there is a TPU. Raises where the hunt ends without one."""
        if end.how == "ready":
            self._end_attempt("found")
            return True
        if end.how == "gone":
            self._end_attempt("cancelled")
            raise OperationCancelled
        assert end.error is not None
        if end.how == "kept":
            self._end_attempt("failed", end.error)
            raise end.error
        name = self._record.name
        self._end_claim()
        self._failed(end.error, progress)
        self._changed(name)
        return False

    def _failed(self, error: TPUError, progress: OperationProgress) -> None:
        attempt = self._hunt.attempts[-1]
        candidate = next(
            candidate
            for candidate in self._hunt.candidates
            if (candidate.zone, candidate.type, candidate.tier, candidate.api)
            == (attempt.zone, attempt.type, attempt.tier, attempt.api)
            and self._hunt.waits(candidate) == attempt.unattended
        )
        self._end_attempt("failed", error)
        learn(self._hunt, candidate, error, self._now(), random.random())
        line = self._outlook(next_step(self._hunt, self._now()))
        progress.log(line)
        progress.set_message(line)
        progress.block(error if self._hunt.failures else None)  # it is not about a zone
        self._runner.save_soon(self._record)

    def _end_attempt(self, state: AttemptState, error: TPUError | None = None) -> None:
        attempt = self._hunt.attempts[-1]
        attempt.state = state
        attempt.ended = timestamp()
        attempt.problem = Problem.of(error) if error is not None else None
        self._note(attempt)

    def _note(self, attempt: HuntAttempt) -> None:
        """The state of an attempt, for the log."""
        why = f". {attempt.problem.message}" if attempt.problem is not None else ""
        happened(
            f"Hunt, attempt {attempt.number} ({attempt.type} in {attempt.zone}, {attempt.tier}): "
            f"{attempt.state}{why}",
            tpu=self._record.name.node,
            operation=self._record.operation.id,
            costs=True,
        )

    async def _wait(self, step: Wait, progress: OperationProgress) -> None:
        message = self._outlook(step)
        if message != self._record.operation.message:  # a process that ended has said another
            progress.set_message(message)
        try:
            async with asyncio.timeout(min(max(step.until - self._now(), 0.0), WAIT_SLICE_SECONDS)):
                await self._stopped.wait()
        except TimeoutError:
            pass

    def _outlook(self, step: Attempt | Wait | Exhausted) -> str:
        """Why the last attempt failed, and when the next one begins, if there is a pause."""
        attempt, sentences = self._hunt.attempts[-1], []
        if attempt.problem is not None:
            reason = first_sentence(attempt.problem.message).rstrip(".")
            sentences.append(f"Attempt {attempt.number} failed: {reason}.")
        if isinstance(step, Wait) and step.until != self._hunt.deadline:
            begins = datetime.fromtimestamp(step.until).astimezone()
            sentences.append(f"The next one begins at {begins:%H:%M:%S %Z}.")
        return " ".join(sentences)


def _doing(attempt: HuntAttempt) -> str:
    what = f"{attempt.type} ({attempt.tier}) in {attempt.zone}"
    return f"Waiting in the queue for {what}" if attempt.unattended else f"Trying {what}"
