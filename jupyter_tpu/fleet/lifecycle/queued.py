"""Queued resources: asks Google for TPUs that are created when there is capacity, and deletes them.

They are made and deleted as TPUs are, by a claim (see `provisioning`): the intent is saved before
Google is asked, an unknown outcome is looked up, and only what carries our label, or is the one
that the user saw, is deleted. Their id is the time of their creation; our label is on their TPUs.

One is also deleted with its last TPU: suspended, it would go on to use quota, for nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable

from msgspec import structs

from ... import cloud
from ...backoff import POLLING
from ...cloud import Cloud, Node, NodeName, QueuedSpec, QueuedState
from ...errors import InvalidInput, Reason, TPUError
from ...progress import StepPlan
from ..core.core import Core
from ..core.known_operations import CarryOut, OperationCancelled, OperationProgress, Work
from ..core.operation_records import (
    NodeClaim,
    OperationRecord,
    QueuedCreation,
    QueuedDeletion,
    QueuedOrigin,
)
from ..models import (
    DeleteQueued,
    ListQuery,
    Operation,
    Problem,
    QueuedResource,
    QueuedResources,
    QueueTPU,
    ResetQueued,
)
from ..models.core import future_seconds, validated
from ..money.owners import TPUOwner, TPUOwners
from ..money.pricing import PriceDecision
from .create import CreateService
from .provisioner import WITH_TPUS, QueuedProvisioner, failure
from .provisioning import LABEL

#: For how long Google may refuse to delete it when its TPU is gone; seconds.
REFUSED_SECONDS = 600.0
#: Answers that do not say that Google refuses.
_UNCLEAR = (
    Reason.UNAVAILABLE,
    Reason.TIMEOUT,
    Reason.INTERNAL,
    Reason.RATE_LIMITED,
    Reason.NO_CREDENTIALS,
)


class QueuedOrigins:
    def __init__(self, cloud: Cloud, owners: TPUOwners) -> None:
        self._cloud = cloud
        self._owners = owners

    async def of(self, node: Node) -> QueuedOrigin | None:
        """That of *node*, before the node is deleted. It stays unless it is the user's, and has no
        other TPUs.
        """
        if not node.queued:
            return None
        try:
            queued = await self._cloud.get_queued(structs.replace(node.name, node=node.queued))
        except TPUError as error:
            gone = error.reason is Reason.NOT_FOUND
            return None if gone else QueuedOrigin(name=node.queued)
        owner = self._owners.of(queued)
        mine = owner.is_me or (LABEL in queued.labels and not owner.is_other)
        alone = set(queued.nodes) <= {node.name.node}
        return QueuedOrigin(name=node.queued, created=queued.created if mine and alone else "")

    async def delete(
        self, tpu: NodeName, origin: QueuedOrigin, progress: OperationProgress
    ) -> None:
        """Returns when Google says that it is gone. It may have been asked for before, by a process
        that was killed for example: what is there decides.

        Raises why Google refuses. What is without an answer is asked again.
        """
        name, refused = structs.replace(tpu, node=origin.name), 0.0
        for pause in POLLING:
            try:
                queued = await self._cloud.get_queued(name)
                if queued.created != origin.created:
                    return  # another one of that name
                if queued.state != QueuedState.DELETING:
                    await self._cloud.begin_delete_queued(name, force=True)
                refused = 0.0
                progress.block(None)
            except TPUError as error:
                if error.reason is Reason.NOT_FOUND:
                    return
                if error.reason not in _UNCLEAR:
                    refused = refused or time.time()
                    if error.reason is Reason.PERMISSION or time.time() - refused > REFUSED_SECONDS:
                        raise TPUError(
                            f"{tpu.node} is deleted, and its queued resource {name.node} "
                            f"is not: {error.message}",
                            error.reason,
                            leftover_hint(origin),
                        ) from error
                progress.block(error)
                pause = max(pause, error.retry_after or 0.0)
            await asyncio.sleep(pause)


def leftover_hint(origin: QueuedOrigin) -> str:
    """What to do about one that stays."""
    return f"It uses quota until you delete it: jupyter tpu queued delete {origin.name}"


#: How long an answer about all queued resources serves further questions, and those of someone who
#: asks for the list; seconds.
RECENT_ANSWER_SECONDS = 19.0  # panels ask every 20 s
FRESH_ANSWER_SECONDS = 2.0
_USES_QUOTA = "It still uses quota: delete it, or reset it to wait again."
#: What each state means, where it is known.
_MEANINGS = {
    QueuedState.CREATING: "Google is checking the request.",
    QueuedState.ACCEPTED: "It is accepted, and waits to begin.",
    QueuedState.WAITING_FOR_RESOURCES: "It waits for capacity.",
    QueuedState.PROVISIONING: "Google has capacity. Its TPUs are being created.",
    QueuedState.ACTIVE: "Its TPUs exist. Connect them.",
    QueuedState.FAILED: f"It failed. {_USES_QUOTA}",
    QueuedState.SUSPENDING: "Its TPUs are being deleted.",
    QueuedState.SUSPENDED: f"Its TPUs are gone. {_USES_QUOTA}",
    QueuedState.DELETING: "It is being deleted.",
}
#: What is to be said of money in a state, where it is not emulated.
_BILLING = {
    QueuedState.WAITING_FOR_RESOURCES: "Nothing is billed yet.",
    QueuedState.ACTIVE: "They are billed, used or not.",
}
_RESETTABLE = (QueuedState.FAILED, QueuedState.SUSPENDED)


class QueuedService:
    """A :class:`~jupyter_tpu.fleet.api.QueuedAPI`."""

    def __init__(self, core: Core, create: CreateService, owners: TPUOwners) -> None:
        self._cloud = core.cloud
        self._observer = core.observer
        self._runner = core.runner
        self._runner.register_resume("queue", self.resume_creation)
        self._runner.register_resume("unqueue", self.resume_deletion)
        self._one_changed = core.changes.marker("queued")
        self._create = create
        self._owners = owners
        self._listing = asyncio.Lock()
        self._listed: tuple[float, QueuedResources] = (float("-inf"), QueuedResources(queued=[]))
        self._known: dict[str, QueuedResource] = {}  # those of the last list

    async def list(self, query: ListQuery | None = None) -> QueuedResources:
        age = FRESH_ANSWER_SECONDS if query is not None and query.fresh else RECENT_ANSWER_SECONDS
        async with self._listing:  # many that ask at the same time cause one call
            asked, answer = self._listed
            if time.monotonic() - asked > age:
                queued = await self._cloud.list_queued()
                answer = QueuedResources(
                    queued=sorted(
                        map(self._shown, queued.queued),
                        key=lambda queued_resource: queued_resource.created,
                    )
                )
                if queued.unreachable:
                    answer.problem = Problem(
                        message=f"{', '.join(queued.unreachable)} did not answer.",
                        reason=Reason.UNAVAILABLE,
                        hint="Try again.",
                    )
                for why in queued.not_listed.values():
                    answer.problem = Problem.of(why)
                self._listed = (time.monotonic(), answer)
                unseen = (resource.zone for resource in self._known.values() if queued.unanswered)
                self._publish(answer.queued, {*queued.unreachable, *unseen})
            return answer

    def find(self, id: str) -> QueuedResource | None:
        """For events: as the last list had it."""
        return self._known.get(id)

    def _publish(self, listed: Iterable[QueuedResource], unreachable: set[str]) -> None:
        """What is in a zone that did not answer stays as it was."""
        before = self._known
        now = {id: resource for id, resource in before.items() if resource.zone in unreachable}
        now |= {_id(queued_resource): queued_resource for queued_resource in listed}
        self._known = now
        for id in before.keys() | now.keys():
            if before.get(id) != now.get(id):
                self._one_changed(id)

    async def get(self, ref: str) -> QueuedResource:
        return self._shown(await self._cloud.get_queued(await self._find(ref)))

    async def create(self, request: QueueTPU) -> Operation:
        request = validated(request)
        if request.tpu.connect is not None:
            raise InvalidInput(
                "A queued TPU can't be connected yet.",
                "Connect it when it is READY, or start a hunt with `queued`, which connects it.",
            )
        if request.tpu.guard is not None:
            raise InvalidInput(
                "A queued TPU can't have a guard yet.",
                "Set its guard when it is READY, or start a hunt with `queued`, which sets it.",
            )
        if request.valid_until:
            future_seconds(request.valid_until, "valid_until", time.time())
        if request.tpu.api == "compute":
            raise InvalidInput(
                "Compute Engine has no queued resources.",
                "Create the TPU with flex-start, which waits for capacity, or start a hunt.",
                field="api",
            )
        tpu = structs.replace(request.tpu, api="tpu")
        create_tpu, name = await self._create.resolve(tpu)
        await self._create.require_new(name)
        await self._create.require_not_queued(name)
        price = _of_all(await self._create.price(create_tpu, name), request.node_count)
        if not self._cloud.emulated:
            price.require(confirm_price=create_tpu.confirm_price, max_price=create_tpu.max_price)
        request = structs.replace(request, tpu=create_tpu)
        record = self._runner.new_record("queue", name)
        claim = NodeClaim(want="present", since=time.time(), label=record.operation.id, tidy=True)
        record.content = QueuedCreation(request=request, claim=claim)
        return await self._runner.start_exclusive(
            record, *self._work(record, record.content), self._create.save_priced
        )

    async def delete(self, ref: str, options: DeleteQueued | None = None) -> Operation:
        name = await self._find(ref)
        options = options or DeleteQueued()
        queued = await self._cloud.get_queued(name)
        self._owners.require_consent(queued, options.confirm_name)
        if queued.state in WITH_TPUS and not options.force:
            raise TPUError(
                f"{name.node} is {queued.state}. Its TPUs ({', '.join(queued.nodes)}) would be "
                "deleted, too.",
                Reason.CONFLICT,
                "Use --force to delete it with its TPUs and everything on their disks.",
            )
        node_id = queued.id or queued.created
        claim = NodeClaim(want="absent", since=time.time(), node_id=node_id)
        deletion = QueuedDeletion(claim=claim)
        record = self._runner.new_record("unqueue", name, deletion)
        return await self._runner.start_exclusive(record, *self._work(record, deletion))

    async def reset(self, ref: str, options: ResetQueued | None = None) -> QueuedResource:
        name = await self._find(ref)
        confirmed = options.confirm_name if options is not None else ""
        self._owners.require_consent(await self._cloud.get_queued(name), confirmed)
        await self._cloud.begin_reset_queued(name)
        self._changed()
        return self._shown(await self._cloud.get_queued(name))

    def resume_creation(self, record: OperationRecord) -> None:
        """Continues one that another process has left."""
        self._runner.resume(record, *self._work(record, record.of(QueuedCreation)))

    def resume_deletion(self, record: OperationRecord) -> None:
        self._runner.resume(record, *self._work(record, record.of(QueuedDeletion)))

    def _changed(self) -> None:
        self._listed = (float("-inf"), self._listed[1])
        self._observer.request_refresh()

    def _work(
        self, record: OperationRecord, content: QueuedCreation | QueuedDeletion
    ) -> tuple[Work, CarryOut]:
        request = content.request if isinstance(content, QueuedCreation) else None
        claim = content.claim
        spec = None if request is None else lambda: self._spec(request, claim.label)
        provisioner = QueuedProvisioner(self._cloud, self._runner, record, claim, spec)

        async def work(progress: OperationProgress) -> None:
            title = "Delete the queued resource" if request is None else "Ask Google for the TPUs"
            progress.plan([StepPlan("queue", title, 1)])
            progress.begin("queue")
            try:
                end = await provisioner.run(progress)
            finally:
                self._changed()
            if end.error is not None:
                raise end.error
            if end.how == "gone" and request is not None:
                raise OperationCancelled
            progress.done("queue")
            if request is not None:
                progress.log(f"{record.name.node} is queued in {record.name.zone}")

        return work, provisioner.carry_out

    async def _spec(self, request: QueueTPU, label: str) -> QueuedSpec:
        return QueuedSpec(
            node=await self._create.spec(request.tpu, label),
            node_id=request.tpu.name,
            node_count=request.node_count,
            reservation=request.reservation,
            valid_until=request.valid_until,
            run_for=request.tpu.run_for or 0.0,
        )

    async def _find(self, ref: str) -> NodeName:
        """The queued resource that "name", "zone~name" or "zone/name" means."""
        zone, _, name = ref.replace("~", "/", 1).rpartition("/")
        if zone:
            return NodeName(self._cloud.project, zone, name)
        queued_resources = [
            resource for resource in (await self.list()).queued if resource.name == name
        ]
        if not queued_resources:
            self._changed()  # it may be new
            queued_resources = [
                queued_resource
                for queued_resource in (await self.list()).queued
                if queued_resource.name == name
            ]
        if len(queued_resources) == 1:
            return NodeName(queued_resources[0].project, queued_resources[0].zone, name)
        if queued_resources:
            zones = ", ".join(queued_resource.zone for queued_resource in queued_resources)
            raise TPUError(
                f"Several queued resources have the name {name}: in {zones}.",
                Reason.CONFLICT,
                f"Add the zone: {queued_resources[0].zone}~{name}.",
            )
        problem = (await self.list()).problem
        if problem is not None:
            raise problem.to_error()
        raise TPUError(f"The queued resource {name} does not exist.", Reason.NOT_FOUND)

    def _shown(self, queued: cloud.QueuedTPUs) -> QueuedResource:
        owner = self._owners.of(queued)
        shown = view_queued(queued, owner, emulated=self._cloud.emulated)
        idle = not self._runner.known.on(queued.name)
        shown.forgotten = owner.is_me and queued.state in _RESETTABLE and idle
        return shown


def _id(queued: QueuedResource) -> str:
    return f"{queued.zone}/{queued.name}"


def _of_all(price: PriceDecision, count: int) -> PriceDecision:
    """What *count* TPUs cost, of which each costs *price*. Several always need a confirmation: a
    grant that covers one may not cover them all.
    """
    if count == 1:
        return price
    hour = price.cost.usd_per_hour
    return PriceDecision(
        cost=structs.replace(price.cost, usd_per_hour=None if hour is None else hour * count),
        question=f"{count} TPUs. Each: {price.question or 'inside a grant, if it covers all.'}",
        uncovered=price.uncovered,
    )


def meaning(state: QueuedState, *, emulated: bool) -> str:
    """What a state means, and what can be done now."""
    text = _MEANINGS.get(state, "jupyter-tpu does not know this state.")
    billing = "" if emulated else _BILLING.get(state, "")
    return f"{text} {billing}".rstrip()


def view_queued(queued: cloud.QueuedTPUs, owner: TPUOwner, *, emulated: bool) -> QueuedResource:
    """How it is shown."""
    return QueuedResource(
        name=queued.name.node,
        zone=queued.name.zone,
        project=queued.name.project,
        state=queued.state,
        emulated=emulated,
        meaning=meaning(queued.state, emulated=emulated),
        tpus=[*queued.nodes],
        type=queued.type,
        version=queued.version,
        tier=queued.tier,
        run_for=queued.run_for,
        reservation=queued.reservation,
        created=queued.created,
        valid_until=queued.valid_until,
        can_reset=queued.state in _RESETTABLE,
        has_tpus=queued.state in WITH_TPUS,
        owner=owner.name,
        not_yours=owner.is_other,
        problem=failure(queued, "Delete it: it uses quota until then."),
    )
