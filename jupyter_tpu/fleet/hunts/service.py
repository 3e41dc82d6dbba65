"""Carries hunts out: one attempt after the other, each as a creation's claim, until there is a TPU.

A hunt is an operation, so it has an owner, is continued by the next process, and can be stopped by
any. Its record has the planner's state and the claim of the current attempt, in one row: what a
killed process leaves is either no attempt, or one whose claim says how far it is. While that is
not known, no other attempt begins.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

from msgspec import structs

from ...cloud import NodeName
from ...errors import InvalidInput, Reason, TPUError
from ...wording import count
from ..core.checks import check_run
from ..core.core import Core
from ..core.known_operations import CarryOut, OperationProgress, Work
from ..core.operation_records import AwaitedTPU, Candidate, HuntRecord, OperationRecord, PlanTerms
from ..lifecycle.belongings import words
from ..lifecycle.create import CreateService, require_cost_limit, require_guard
from ..lifecycle.defaults import require_no_startup_script
from ..models import Hunt, HuntCandidate, Replacement, ReplaceTPU, StartHunt
from ..models.core import future_seconds, timestamp, validated
from ..models.hunts import HuntState
from ..models.money import cost_of
from ..money.grants import Grants
from . import candidates, webhook
from .planner import Wait, due, next_step
from .replacing import PreemptedTPUs, ReplacedTPUs, shown
from .run import HuntRun

#: How long a process that ends waits for the webhook; seconds.
LAST_NEWS = 3.0

_ENDS: dict[str, HuntState] = {"done": "found", "cancelled": "stopped", "failed": "failed"}


class HuntService:
    """A :class:`~jupyter_tpu.fleet.api.HuntsAPI`."""

    def __init__(
        self,
        core: Core,
        create: CreateService,
        grants: Grants,
        preempted: PreemptedTPUs,
        replaced: ReplacedTPUs,
    ) -> None:
        self._cloud = core.cloud
        self._store = core.store
        self._observer = core.observer
        self._runner = core.runner
        self._runner.register_resume("hunt", self.resume)
        self._reload = core.shared.reload
        self._changed = core.changes.mark_tpu_changed
        self._create = create
        self._grants = grants
        self._preempted = preempted
        self._replaced = replaced
        self._mine: dict[str, OperationRecord] = {}  # those that run or ran here
        self._notifying: set[asyncio.Task[bool]] = set()

    # ---- the interface ----

    async def quote(self, request: StartHunt) -> list[HuntCandidate]:
        hunt = await self._plan(request)
        return [self._candidate(hunt, candidate) for candidate in hunt.candidates]

    async def start(self, request: StartHunt, terms: PlanTerms | None = None) -> Hunt:
        """terms: of the plan that it carries out."""
        await self._reload()
        self._require_no_other(request.tpu.name)
        hunt = await self._plan(request)
        await self._observer.ensure_recent()
        if request.when_preempted:
            hunt.awaited = self._preempted.require(request)
        for candidate in hunt.candidates:
            if not candidate.ruled_out and not request.when_preempted:
                name = NodeName(self._cloud.project, candidate.zone, request.tpu.name)
                self._require_no_node(name)
        return await self._begin(hunt, terms)

    async def _begin(self, hunt: HuntRecord, terms: PlanTerms | None = None) -> Hunt:
        nowhere = NodeName(self._cloud.project, "", hunt.request.tpu.name)
        hunt.terms = terms
        record = self._runner.new_record("hunt", nowhere, hunt)
        await self._runner.start(record, *self._run(record, hunt), self._save_only)
        return self._view(record)

    async def replacement(self, ref: str) -> Replacement:
        node = await self._replaced.find(ref)
        guard = await self._replaced.guard(node)
        belongings, lost = await self._replaced.belongings(node)
        request = self._replaced.request(node, guard, belongings)
        decision = await self._create.price(request, node.name)
        consequences = await self._replaced.consequences(node, guard)
        return Replacement(
            kernels=consequences.kernels,
            jobs=consequences.jobs,
            kernels_text=consequences.kernels_text,
            jobs_text=consequences.jobs_text,
            saves=consequences.saves,
            sessions_text=consequences.sessions_text,
            lost_sessions=consequences.lost_sessions,
            request=shown(request),
            cost=decision.cost,
            question=decision.question,
            restored=words(belongings),
            lost=[*consequences.lost, *lost],
        )

    async def replace(self, ref: str, options: ReplaceTPU | None = None) -> Hunt:
        options = options or ReplaceTPU()
        node = await self._replaced.find(ref)
        guard = await self._replaced.guard(node)
        belongings, _ = await self._replaced.belongings(node)
        request = structs.replace(
            self._replaced.request(node, guard, belongings),
            confirm_price=options.confirm_price,
            max_price=options.max_price,
        )
        await self._reload()
        self._require_no_other(request.name)
        await self._create.require_price(request, node.name)
        hunt = await self._plan(StartHunt(tpu=request, zones=[node.name.zone]))
        await self._replaced.require_confirmation(node, options)
        self._replaced.require_kept(node, options)
        hunt.awaited = AwaitedTPU(
            zone=node.name.zone, node_id=node.id, replace=True, sessions=options.sessions
        )
        hunt.belongings = belongings
        return await self._begin(hunt)

    def resume(self, record: OperationRecord) -> None:
        """Continues one that another process has left."""
        self._runner.resume(record, *self._run(record, record.of(HuntRecord)))

    async def list(self) -> list[Hunt]:
        await self._reload()
        return [self._view(record) for record in self._records()]

    async def get(self, ref: str) -> Hunt:
        await self._reload()
        return self._view(self._require(ref))

    async def stop(self, ref: str) -> Hunt:
        await self._reload()
        record = self._require(ref)
        if any(
            record.operation.id == operation_record.operation.id
            for operation_record in self._runner.abandoned()
        ):
            # No one runs it, and a process without a server would not.
            mine = await self._runner.take_over(record)
            if mine is not None:
                self.resume(mine)
        await self._runner.cancel(record.operation.id)
        return self._view(self._require(record.operation.id))

    def find(self, id: str) -> Hunt | None:
        """For events."""
        record = next((record for record in self._records() if record.operation.id == id), None)
        return self._view(record) if record is not None else None

    # ---- inside ----

    async def _plan(self, request: StartHunt) -> HuntRecord:
        if request.deadline and request.repeats:
            raise InvalidInput(
                "A hunt that waits for a preemption can't have a deadline.",
                "Omit the deadline.",
                field="deadline",
            )
        await self._grants.refresh()

        def check_price(candidate: Candidate) -> None:
            """What a grant is for is tried whenever it has free chips; each attempt looks again."""
            type, zone, tier = candidate.type, candidate.zone, candidate.tier
            create_tpu = candidates.request_of(request, candidate)
            require_guard(create_tpu)
            check_run(create_tpu)
            price = self._grants.decide(type, zone, tier)
            if not self._grants.covering(type, zone, tier):
                price.require(
                    confirm_price=request.tpu.confirm_price, max_price=request.tpu.max_price
                )
            require_cost_limit(create_tpu, price)

        now = time.time()
        hunt = await candidates.plan(validated(request), self._create.resolve, check_price, now)
        if any(map(hunt.waits, hunt.candidates)):
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

    def _run(self, record: OperationRecord, hunt: HuntRecord) -> tuple[Work, CarryOut]:
        self._mine = {
            id: operation_record
            for id, operation_record in self._mine.items()
            if self._runner.known.find(id) is not None
        }
        self._mine[record.operation.id] = record
        run = HuntRun(
            record,
            hunt,
            self._create,
            self._runner,
            self._changed,
            self._preempted,
            lambda: self._notify(record),
            self._replaced.restore,
        )

        async def work(progress: OperationProgress) -> None:
            try:
                await run.work(progress)
            except TPUError as error:
                self._notify(record, error)
                raise

        return work, run.carry_out

    def _notify(self, record: OperationRecord, error: TPUError | None = None) -> None:
        """Tells the webhook, if there is one, that no one needs to wait any longer."""
        if url := webhook.configured_url():
            task = asyncio.create_task(webhook.notify(url, _webhook_body(record, error)))
            self._notifying.add(task)
            task.add_done_callback(self._notifying.discard)

    def _records(self) -> Iterator[OperationRecord]:
        """The records of the hunts that are remembered, newest first."""
        known = {
            operation.operation.id: operation
            for operation in self._store.snapshot.operations
            if isinstance(operation.content, HuntRecord)
        }
        known |= self._mine
        records = (
            record for id, record in known.items() if self._runner.known.find(id) is not None
        )
        yield from sorted(
            records, key=lambda operation_record: operation_record.operation.created, reverse=True
        )

    def _require(self, ref: str) -> OperationRecord:
        """By its id, or the newest for a TPU of that name."""
        for record in self._records():
            if ref in (record.operation.id, record.operation.tpu):
                return record
        raise TPUError(
            f"The hunt {ref} does not exist.", Reason.NOT_FOUND, "See `jupyter tpu hunt list`."
        )

    def _require_no_other(self, name: str) -> None:
        running = (
            record.operation for record in self._records() if record.operation.state == "running"
        )
        if any(operation.tpu == name for operation in running):
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
        operation, hunt, now = record.operation, record.of(HuntRecord), time.time()
        step = next_step(hunt, now) if operation.state == "running" and not record.claim else None
        return Hunt(
            id=operation.id,
            name=operation.tpu,
            state=self._state(record),
            message=operation.message,
            waiting=operation.state == "running"
            and hunt.awaited is not None
            and not hunt.awaited.replace,
            zone=operation.zone if operation.state == "done" else "",
            request=hunt.request,
            queued=hunt.queued,
            candidates=[
                self._candidate(hunt, candidate, due(hunt, candidate, now))
                for candidate in hunt.candidates
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
        abandoned = (operation_record.operation.id for operation_record in self._runner.abandoned())
        return "paused" if operation.id in abandoned else "running"

    def _candidate(self, hunt: HuntRecord, candidate: Candidate, due: float = 0.0) -> HuntCandidate:
        later = not candidate.ruled_out and due > time.time()
        return HuntCandidate(
            zone=candidate.zone,
            type=candidate.type,
            tier=candidate.tier,
            api=candidate.api,
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


def _webhook_body(record: OperationRecord, error: TPUError | None) -> dict[str, object]:
    """The body for the webhook; chats show its "text"."""
    name, attempted = record.operation.tpu, record.of(HuntRecord).attempted
    after = f"after {count(attempted, 'attempt')}"
    return {
        "text": f"The hunt for {name} has failed {after}: {error.message}"
        if error is not None
        else f"{name} is READY in {record.operation.zone}, {after}.",
        "event": "hunt",
        "id": record.operation.id,
        "tpu": name,
        "state": "failed" if error is not None else "found",
        "zone": record.operation.zone,
        "attempts": attempted,
        "reason": error.reason.value if error is not None else "",
    }
