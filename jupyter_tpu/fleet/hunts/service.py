"""Carries hunts out: one attempt after the other, each as a creation's claim, until there is a TPU.

A hunt is an operation, so it has an owner, is continued by the next process, and can be stopped by
any. Its record has the planner's state and the claim of the current attempt, in one row: what a
killed process leaves is either no attempt, or one whose claim says how far it is. While that is
not known, no other attempt begins.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator

from msgspec import structs

from ...cloud import Cloud, NodeName
from ...errors import Reason, TPUError
from ...wording import count
from ..discovery.observer import Observer
from ..knowledge.grants import Grants
from ..models import Hunt, HuntAttempt, HuntCandidate, Problem, QueueTPU, StartHunt
from ..models.costs import cost_of
from ..models.hunts import AttemptState, HuntState
from ..models.requests import validated
from ..models.times import future_seconds, timestamp
from ..operations.create import CreateService, require_guard
from ..operations.progress import Progress
from ..operations.provisioner import NodeProvisioner
from ..operations.provisioning import End
from ..operations.runner import OperationRunner
from ..operations.running import CarryOut, OperationCancelled, Work
from ..operations.unattended import require_no_startup_script
from ..store.records import (
    AwaitedTPU,
    Candidate,
    HuntRecord,
    NodeClaim,
    OperationRecord,
    OperationRequest,
)
from ..store.store import Store
from . import candidates, webhook
from .planner import Over, Try, Wait, due, learn, next_step, turn
from .taken import TakenTPUs

#: How many attempts are kept.
HISTORY = 50
#: A wait is looked at again after this time: clocks jump, and computers sleep. Seconds.
SLICE = 10.0
#: How long a process that ends waits for the webhook; seconds.
LAST_NEWS = 3.0

_ENDS: dict[str, HuntState] = {"done": "found", "cancelled": "stopped", "failed": "failed"}
_NOT_BEGUN = TPUError("The process was stopped before this attempt began.", Reason.INTERRUPTED)


class HuntService:
    """reload(): takes over what other processes have written. changed(name): a TPU may look
    different.
    """

    def __init__(
        self,
        cloud: Cloud,
        store: Store,
        create: CreateService,
        observer: Observer,
        grants: Grants,
        runner: OperationRunner,
        taken: TakenTPUs,
        reload: Callable[[], Awaitable[None]],
        changed: Callable[[NodeName], None],
    ) -> None:
        self._taken = taken
        self._cloud = cloud
        self._store = store
        self._create = create
        self._observer = observer
        self._grants = grants
        self._runner = runner
        self._reload = reload
        self._changed = changed
        self._mine: dict[str, OperationRecord] = {}  # those that run or ran here
        self._notifying: set[asyncio.Task[bool]] = set()

    # ---- the interface ----

    async def quote(self, request: StartHunt) -> list[HuntCandidate]:
        hunt = await self._plan(request)
        return [self._candidate(hunt, each) for each in hunt.candidates]

    async def start(self, request: StartHunt) -> Hunt:
        await self._reload()
        self._require_no_other(request.tpu.name)
        hunt = await self._plan(request)
        await self._observer.ensure_recent()
        if request.when_preempted:
            hunt.awaited = self._taken.require(request)
        for candidate in hunt.candidates:
            if not candidate.ruled_out and not request.when_preempted:
                name = NodeName(self._cloud.project, candidate.zone, request.tpu.name)
                self._require_no_node(name)
        nowhere = NodeName(self._cloud.project, "", request.tpu.name)
        record = self._runner.new_record("hunt", nowhere, hunt=hunt)
        await self._runner.start(record, *self._run(record), self._save_only)
        return self._view(record)

    def resume(self, record: OperationRecord) -> None:
        """Continues one that another process has left."""
        self._runner.resume(record, *self._run(record))

    async def list(self) -> list[Hunt]:
        await self._reload()
        return [self._view(record) for record in self._records()]

    async def get(self, ref: str) -> Hunt:
        await self._reload()
        return self._view(self._require(ref))

    async def stop(self, ref: str) -> Hunt:
        await self._reload()
        record = self._require(ref)
        if any(record.operation.id == each.operation.id for each in self._runner.abandoned()):
            # Nobody runs it, and a process without a server would not.
            mine = await self._runner.take_over(record)
            if mine is not None:
                self.resume(mine)
        await self._runner.cancel(record.operation.id)
        return self._view(self._require(record.operation.id))

    def find(self, id: str) -> Hunt | None:
        """For events."""
        record = next((each for each in self._records() if each.operation.id == id), None)
        return self._view(record) if record is not None else None

    # ---- inside ----

    async def _plan(self, request: StartHunt) -> HuntRecord:
        await self._grants.refresh()

        def check_price(candidate: Candidate) -> None:
            """What a grant is for is tried whenever that has room; each attempt looks again."""
            type, zone, tier = candidate.type, candidate.zone, candidate.tier
            require_guard(structs.replace(request.tpu, type=type, tier=tier))
            if not self._grants.covering(type, zone, tier):
                self._grants.decide(type, zone, tier).require(
                    confirm_price=request.tpu.confirm_price, max_price=request.tpu.max_price
                )

        now = time.time()
        hunt = await candidates.plan(validated(request), self._create.resolve, check_price, now)
        if hunt.queued:
            require_no_startup_script(request.tpu)
        if (guard := request.tpu.guard) is not None and guard.until:
            # Afterwards a TPU could have no guard.
            until = future_seconds(guard.until, "until", now)
            hunt.deadline = until if hunt.deadline is None else min(until, hunt.deadline)
        return hunt

    async def shut_down(self) -> None:
        """Ends the attempts to reach the webhook, after a moment: a command ends with its hunt."""
        if self._notifying:
            _, left = await asyncio.wait(self._notifying, timeout=LAST_NEWS)
            for task in left:
                task.cancel()

    def _run(self, record: OperationRecord) -> tuple[Work, CarryOut]:
        self._mine = {
            id: each for id, each in self._mine.items() if self._runner.known.find(id) is not None
        }
        self._mine[record.operation.id] = record
        run = _HuntRun(
            record,
            self._create,
            self._runner,
            self._changed,
            self._taken,
            lambda: self._notify(record),
        )

        async def work(progress: Progress) -> None:
            try:
                await run.work(progress)
            except TPUError as error:
                self._notify(record, error)
                raise

        return work, run.carry_out

    def _notify(self, record: OperationRecord, error: TPUError | None = None) -> None:
        """Tells the webhook, if there is one, that nobody needs to wait any longer."""
        if url := webhook.configured_url():
            task = asyncio.create_task(webhook.notify(url, _news(record, error)))
            self._notifying.add(task)
            task.add_done_callback(self._notifying.discard)

    def _records(self) -> Iterator[OperationRecord]:
        """Of the hunts that are remembered, newest first."""
        known = {each.operation.id: each for each in self._store.snapshot.operations if each.hunt}
        known |= self._mine
        records = (each for id, each in known.items() if self._runner.known.find(id) is not None)
        yield from sorted(records, key=lambda each: each.operation.created, reverse=True)

    def _require(self, ref: str) -> OperationRecord:
        """By its id, or the newest for a TPU of that name."""
        for record in self._records():
            if ref in (record.operation.id, record.operation.tpu):
                return record
        raise TPUError(
            f"There is no hunt {ref!r}.", Reason.NOT_FOUND, "See `jupyter tpu hunt list`."
        )

    def _require_no_other(self, name: str) -> None:
        running = (each.operation for each in self._records() if each.operation.state == "running")
        if any(each.tpu == name for each in running):
            raise _hunted(name)

    async def _save_only(self, record: OperationRecord) -> None:
        """Raises EXISTS if another process was quicker to start a hunt for this name."""
        if not await self._store.add_operation(record):
            raise _hunted(record.name.node)

    def _require_no_node(self, name: NodeName) -> None:
        """By what is known; each attempt asks Google."""
        if self._observer.observed.node(name) is not None:
            raise TPUError(
                f"A TPU called {name.node} already exists in {name.zone}.",
                Reason.EXISTS,
                "Choose another name, or leave out this zone.",
            )

    # ---- how it is shown ----

    def _view(self, record: OperationRecord) -> Hunt:
        operation, hunt, now = record.operation, record.hunt, time.time()
        assert hunt is not None
        step = next_step(hunt, now) if operation.state == "running" and not record.claim else None
        return Hunt(
            id=operation.id,
            name=operation.tpu,
            state=self._state(record),
            message=operation.message,
            waiting=hunt.awaited is not None and operation.state == "running",
            zone=operation.zone if operation.state == "done" else "",
            request=hunt.request,
            queued=hunt.queued,
            candidates=[
                self._candidate(hunt, each, due(hunt, each, now)) for each in hunt.candidates
            ],
            attempts=list(hunt.attempts),
            attempted=hunt.attempted,
            next_attempt=timestamp("seconds", at=step.until) if isinstance(step, Wait) else "",
            problem=operation.problem,
            created=operation.created,
            ended=operation.ended,
        )

    def _state(self, record: OperationRecord) -> HuntState:
        operation = record.operation
        if operation.state != "running":
            return _ENDS[operation.state]
        if record.claim is not None and record.claim.want == "absent":
            return "stopping"
        abandoned = (each.operation.id for each in self._runner.abandoned())
        return "paused" if operation.id in abandoned else "running"

    def _candidate(self, hunt: HuntRecord, candidate: Candidate, due: float = 0.0) -> HuntCandidate:
        later = not candidate.ruled_out and due > time.time()
        return HuntCandidate(
            zone=candidate.zone,
            type=candidate.type,
            tier=candidate.tier,
            queued=hunt.waits(candidate),
            version=candidate.version,
            cost=cost_of(
                candidate.type,
                candidate.zone,
                candidate.tier,
                emulated=self._cloud.emulated,
                grant=self._grants.covering(candidate.type, candidate.zone, candidate.tier),
            ),
            attempts=candidate.attempts,
            retry_at=timestamp("seconds", at=due) if later else "",
            problem=candidate.problem,
            ruled_out=candidate.ruled_out,
        )


def _hunted(name: str) -> TPUError:
    return TPUError(
        f"There is a hunt for {name} already.",
        Reason.EXISTS,
        f"Stop it with `jupyter tpu hunt stop {name}`, or choose another name.",
    )


def _news(record: OperationRecord, error: TPUError | None) -> dict[str, object]:
    """The body for the webhook; chats show its "text"."""
    name, hunt = record.operation.tpu, record.hunt
    assert hunt is not None
    after = f"after {count(hunt.attempted, 'attempt')}"
    return {
        "text": f"The hunt for {name} has failed {after}: {error.message}"
        if error is not None
        else f"{name} is READY in {record.operation.zone}, {after}.",
        "event": "hunt",
        "id": record.operation.id,
        "tpu": name,
        "state": "failed" if error is not None else "found",
        "zone": record.operation.zone,
        "attempts": hunt.attempted,
        "reason": error.reason.value if error is not None else "",
    }


def _doing(attempt: HuntAttempt) -> str:
    what = f"{attempt.type} ({attempt.tier}) in {attempt.zone}"
    return f"Waiting in the queue for {what}" if attempt.unattended else f"Trying {what}"


class _HuntRun:
    """One hunt while it runs in this process."""

    def __init__(
        self,
        record: OperationRecord,
        create: CreateService,
        runner: OperationRunner,
        changed: Callable[[NodeName], None],
        taken: TakenTPUs,
        found: Callable[[], None],
    ) -> None:
        assert record.hunt is not None
        self._taken = taken
        self._found = found
        self._record = record
        self._hunt: HuntRecord = record.hunt
        self._create = create
        self._runner = runner
        self._changed = changed
        self._provisioner: NodeProvisioner | None = None  # of the current attempt
        self._stopped = asyncio.Event()
        if record.claim is not None:
            self._provisioner = self._new_provisioner()
        elif self._hunt.attempts and self._hunt.attempts[-1].state == "trying":
            self._end_attempt("failed", _NOT_BEGUN)

    def carry_out(self, request: OperationRequest) -> None:
        """As `NodeProvisioner.carry_out`, where there is an attempt."""
        if request == "cancel":
            self._stopped.set()
        if self._provisioner is not None:
            self._provisioner.carry_out(request)

    async def work(self, progress: Progress) -> None:
        """Until there is a TPU; if it waits for preemptions, until it is stopped."""
        while True:
            if self._hunt.awaited is not None:
                if not await self._taken.wait(self._record, progress, self._stopped):
                    raise OperationCancelled
                self._hunt.awaited = None
                self._runner.save_soon(self._record)
            await self._search(progress)
            await self._take(progress)
            if not self._hunt.request.when_preempted:
                break

    async def _search(self, progress: Progress) -> None:
        """Returns when there is a TPU."""
        while True:
            if self._provisioner is not None:
                if self._attempt_ended(await self._provisioner.run(progress), progress):
                    break
                continue
            if self._stopped.is_set():
                raise OperationCancelled
            match next_step(self._hunt, time.time()):
                case Try(candidate):
                    await self._attempt(candidate, progress)
                case Wait(until):
                    await self._wait(until, progress)
                case Over(error):
                    raise error

    async def _take(self, progress: Progress) -> None:
        """There is a TPU: does what was asked to be done with it."""
        record, hunt, provisioner = self._record, self._hunt, self._provisioner
        name = record.name
        progress.log(f"{name.node} is READY in {name.zone}")
        assert record.create is not None
        assert provisioner is not None
        self._create.follow_up(name, record.create, provisioner.node_id, record.own_job)
        self._found()
        if hunt.request.when_preempted:
            hunt.awaited = AwaitedTPU(zone=name.zone, node_id=provisioner.node_id)
            for candidate in hunt.candidates:
                candidate.failures, candidate.retry_at = 0, 0.0
            self._end_claim()
            await self._runner.save(record)

    def _end_claim(self) -> None:
        """The current attempt is over."""
        record = self._record
        self._provisioner = record.claim = record.create = record.queue = None
        record.operation.zone = ""

    async def _attempt(self, candidate: Candidate, progress: Progress) -> None:
        """Begins one: from then on there is a claim."""
        record, hunt = self._record, self._hunt
        hunt.attempted += 1
        candidate.attempts += 1
        attempt = HuntAttempt(
            number=hunt.attempted,
            zone=candidate.zone,
            type=candidate.type,
            tier=candidate.tier,
            started=timestamp(),
            unattended=hunt.waits(candidate),
        )
        hunt.attempts = [*hunt.attempts, attempt][-HISTORY:]
        request = structs.replace(
            hunt.request.tpu,
            zone=candidate.zone,
            type=candidate.type,
            tier=candidate.tier,
            version=candidate.version,
        )
        progress.set_message(_doing(attempt))
        progress.log(f"Attempt {attempt.number}: {_doing(attempt)}")
        if attempt.unattended:
            progress.log("Google continues this attempt while this computer is off")
        try:
            name = structs.replace(record.name, zone=candidate.zone)
            await self._create.require_new(name)
            if attempt.unattended:
                await self._create.require_not_queued(name)
            await self._create.require_price(request, name)
        except TPUError as error:
            self._failed(error, progress)
            return
        if self._stopped.is_set():
            self._end_attempt("cancelled")
            return
        record.operation.zone = candidate.zone
        record.create = request
        record.claim = NodeClaim(
            want="present",
            since=time.time(),
            label=f"{record.operation.id}-{attempt.number}",
            tidy=True,
        )
        if attempt.unattended:
            end, limit = hunt.deadline, turn(hunt, candidate)
            until = timestamp("seconds", at=end) if end is not None else ""
            record.queue = QueueTPU(tpu=request, valid_until=until)
            record.claim.withdraw_at = time.time() + limit if limit is not None else 0.0
        self._provisioner = self._new_provisioner()
        self._runner.save_soon(record)

    def _new_provisioner(self) -> NodeProvisioner:
        return self._create.provisioner(self._record, _doing(self._hunt.attempts[-1]))

    def _attempt_ended(self, end: End, progress: Progress) -> bool:
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

    def _failed(self, error: TPUError, progress: Progress) -> None:
        attempt = self._hunt.attempts[-1]
        candidate = next(
            each
            for each in self._hunt.candidates
            if (each.zone, each.type, each.tier) == (attempt.zone, attempt.type, attempt.tier)
            and self._hunt.waits(each) == attempt.unattended
        )
        self._end_attempt("failed", error)
        learn(self._hunt, candidate, error, time.time(), random.random())
        progress.log(f"Attempt {attempt.number} failed: {error.message}")
        progress.block(error if self._hunt.failures else None)  # it is not about a zone
        self._runner.save_soon(self._record)

    def _end_attempt(self, state: AttemptState, error: TPUError | None = None) -> None:
        attempt = self._hunt.attempts[-1]
        attempt.state = state
        attempt.ended = timestamp()
        attempt.problem = Problem.of(error) if error is not None else None

    async def _wait(self, until: float, progress: Progress) -> None:
        message = f"Waiting for the next attempt, number {self._hunt.attempted + 1}"
        if message != self._record.operation.message:
            progress.set_message(message)
        try:
            async with asyncio.timeout(min(max(until - time.time(), 0.0), SLICE)):
                await self._stopped.wait()
        except TimeoutError:
            pass
