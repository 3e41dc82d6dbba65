"""Creating a TPU, and connecting it then if that was asked for."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from msgspec import structs

from ...catalog import API, API_NAMES
from ...cloud import NodeName, NodeSpec
from ...cloud.models import DISK_GB, LONGEST_WAIT
from ...errors import Reason, TPUError
from ...progress import StepPlan
from ..core import checks
from ..core.core import Core
from ..core.known_operations import (
    CarryOut,
    OperationCancelled,
    OperationProgress,
    Work,
    demand_of,
    wanted_by,
)
from ..core.operation_records import Belongings, Creation, NodeClaim, OperationRecord, PlanTerms
from ..homes.service import chosen_folders
from ..jobs.guard import check_guard, cost_deadline, server_side_limit
from ..models import (
    ConnectTPU,
    CreateTPU,
    Operation,
    QueueTPU,
    Quote,
    SetGuard,
    SetHome,
    SetSessions,
)
from ..models.core import image_warning, known_type, seconds_of, timestamp, validated
from ..money.budget_rules import most_for, time_within
from ..money.grants import Grants
from ..money.owners import ONCE, OWNER, own_name
from ..money.pricing import PriceDecision
from . import choices, node_options
from .availability import Availability
from .defaults import (
    EnvironmentDefaults,
    UnattendedStarts,
    has_job,
    require_no_startup_script,
)
from .provisioner import NodeProvisioner, QueuedNodeProvisioner
from .provisioning import LABEL

log = logging.getLogger(__name__)

_STEPS = (StepPlan("create", "Create the TPU", 1),)


class CreateService:
    """connect, guard: start connecting a TPU that was created, and setting its guard; they get the
    id of its node, and *connect* that of the job which follows and what else is restored.
    choose_sessions: chooses where its kernels are saved; choose_home: where its home folders are.
    """

    def __init__(
        self,
        core: Core,
        availability: Availability,
        grants: Grants,
        connect: Callable[[NodeName, ConnectTPU, str, str, Belongings | None], Operation],
        guard: Callable[[NodeName, SetGuard, str], None],
        choose_sessions: Callable[[NodeName, SetSessions], object],
        choose_home: Callable[[NodeName, SetHome], object],
        defaults: EnvironmentDefaults,
    ) -> None:
        self._links = core.links
        self._cloud = core.cloud
        self._observer = core.observer
        self._runner = core.runner
        self._runner.register_resume("create", self.resume)
        self._availability = availability
        self._grants = grants
        self._connect = connect
        self._guard = guard
        self._choose_sessions = choose_sessions
        self._choose_home = choose_home
        self._unattended = UnattendedStarts(core, defaults)
        self._being_checked: set[NodeName] = set()  # names of requests that are not accepted yet

    async def quote(self, request: CreateTPU) -> Quote:
        """What :meth:`start` would create; raises what that raises at once."""
        asked, (request, name, api_reason) = request, await self._resolve(request)
        await self.require_new(name)
        accelerator = known_type(request.type)
        price = await self.price(request, name)
        require_cost_limit(request, price)
        return Quote(
            name=name.node,
            zone=name.zone,
            type=request.type,
            meaning=accelerator.meaning if accelerator else "",
            version=request.version or "",
            tier=request.tier,
            chips=accelerator.chips if accelerator else 0,
            hosts=accelerator.hosts if accelerator else 0,
            emulated=self._cloud.emulated,
            cost=price.cost,
            question=price.question,
            uncovered=price.uncovered,
            warning=image_warning(request.version or "", request.type),
            zone_reason=""
            if asked.zone
            else choices.another_zone(request.type, self._cloud.zone or "", name.zone),
            api=request.api or "tpu",
            api_reason=api_reason,
            other_form=choices.other_form(request, name.zone)
            if "compute" in self._cloud.apis
            else "",
        )

    async def price(self, request: CreateTPU, name: NodeName) -> PriceDecision:
        """What it would cost there, and what has to be confirmed first."""
        await self._grants.refresh()
        return self._grants.decide(request.type, name.zone, request.tier)

    async def with_plan_guard(
        self, request: CreateTPU, name: NodeName, terms: PlanTerms
    ) -> CreateTPU:
        """*request* with a guard that deletes its TPU at the limits of a plan, which begin now.

        Raises BUDGET where its price is not known.
        """
        cost = (await self.price(request, name)).cost
        price = self._grants.counted_price(cost, request.max_price)
        if price is None:
            raise TPUError(
                f"The price of {request.type} in {name.zone} is not known.",
                Reason.BUDGET,
                "Plan it with the most that an hour may cost: --max-price USD.",
            )
        end = time.time() + time_within(terms, price)
        guard = SetGuard(
            action="delete",
            idle=request.guard.idle if request.guard is not None else None,
            until=timestamp("seconds", at=end),
            max_cost=most_for(price, terms.time) if cost.usd_per_hour else None,
        )
        return structs.replace(request, guard=guard)

    async def require_price(self, request: CreateTPU, name: NodeName) -> None:
        """Raises PRICE for what costs something without a confirmation, and INVALID for a guard
        that can't be set.
        """
        require_guard(request)
        price = await self.price(request, name)
        price.require(confirm_price=request.confirm_price, max_price=request.max_price)
        require_cost_limit(request, price)

    async def save_priced(self, record: OperationRecord) -> None:
        """Saves an operation that is about to ask for a TPU. Raises PRICE if its grant has not
        enough chips left any more: another process may just have asked for them.
        """
        request = wanted_by(record)
        assert request is not None
        await self._grants.save(
            record,
            demand_of(record.name, request),
            confirm_price=request.confirm_price,
            max_price=request.max_price,
        )

    async def resolve(self, request: CreateTPU) -> tuple[CreateTPU, NodeName]:
        """The request with its defaults filled in. Raises INVALID for one that can't be met."""
        request, name, _ = await self._resolve(request)
        return request, name

    async def _resolve(self, request: CreateTPU) -> tuple[CreateTPU, NodeName, str]:
        """As `resolve`, with why that control plane makes it."""
        request = self._availability.control_planes.named(validated(request))
        checks.check_labels(request.labels)
        node_options.check(request.options)
        request = node_options.named_type(request)
        if request.connect is not None:
            checks.check_environment(request.connect)
        require_guard(request)
        checks.check_run(request)
        request, api_reason = await self._availability.resolve(request)
        checks.check_api(request)
        assert request.zone is not None
        name = NodeName(self._cloud.project, request.zone, request.name)
        return request, name, api_reason

    async def start(self, request: CreateTPU, terms: PlanTerms | None = None) -> Operation:
        """Raises INVALID for a request that can't be met, EXISTS for a name that is in use, PRICE
        for what costs something without a confirmation, and BUDGET for what is outside of one.

        terms: the plan that is carried out: the TPU gets its guard.
        """
        request, name = await self.resolve(request)
        if terms is not None:
            request = await self.with_plan_guard(request, name, terms)
        if name in self._being_checked:
            raise _exists(name)
        self._being_checked.add(name)
        try:
            await self.require_new(name)
            queued = request.tier == "flex-start"  # Google has no other way to get it
            if queued:
                require_no_startup_script(request)
                await self.require_not_queued(name)
            await self.require_price(request, name)
            record, guard = self._runner.new_record("create", name), request.guard
            claim = NodeClaim(
                want="present",
                since=time.time(),
                label=record.operation.id,
                tidy=queued,
                until=seconds_of(guard.until, "until") if guard and guard.until else 0.0,
            )
            queue = QueueTPU(tpu=request) if queued else None
            record.content = Creation(request=request, claim=claim, queue=queue, terms=terms)
            return await self._runner.start(
                record, *self._work(record, record.content, resumed=False), self.save_priced
            )
        finally:
            self._being_checked.discard(name)

    def resume(self, record: OperationRecord) -> None:
        """Continues one that another process has left."""
        self._runner.resume(record, *self._work(record, record.of(Creation), resumed=True))

    def _work(
        self, record: OperationRecord, creation: Creation, *, resumed: bool
    ) -> tuple[Work, CarryOut]:
        message = "Create the TPU" if creation.queue is None else "Waiting in Google's queue"
        provisioner = self.provisioner(record, creation, message)

        async def work(progress: OperationProgress) -> None:
            await self._create(record, creation, provisioner, progress, resumed=resumed)

        return work, provisioner.carry_out

    def provisioner(
        self, record: OperationRecord, creation: Creation, message: str
    ) -> NodeProvisioner:
        """Creates what *record* asks for now. *message*: see `NodeProvisioner`."""
        queue = creation.queue
        job = record.own_job if queue is not None and has_job(creation.request) else ""

        def spec() -> Awaitable[NodeSpec]:
            queued, planned = queue is not None, creation.terms is not None
            label = creation.claim.label
            return self.spec(creation.request, label, job, queued=queued, planned=planned)

        parts = self._cloud, self._observer, self._grants, self._runner, record, creation.claim
        if queue is not None:
            return QueuedNodeProvisioner(*parts, spec, message, queue=queue)
        return NodeProvisioner(*parts, spec, message)

    async def require_new(self, name: NodeName) -> None:
        """Raises EXISTS for a name that is in use, and what Google answers instead.

        What works on the hosts of a TPU that is gone, such as a watched folder, does not use it.
        """
        if any(record.claim is not None for record in self._runner.known.running_on(name)):
            raise _exists(name)
        try:
            node = await self._cloud.get_node(name)
        except TPUError as error:
            if error.reason is Reason.NOT_FOUND:
                return
            raise
        if not node.unfinished:  # what is left of one may be in nobody's way: its cloud decides
            raise _exists(name)

    async def require_not_queued(self, name: NodeName) -> None:
        """As `require_new`, of the names of queued resources."""
        try:
            await self._cloud.get_queued(name)
        except TPUError as error:
            if error.reason is Reason.NOT_FOUND:
                return
            raise
        raise TPUError(
            f"A queued resource called {name.node} already exists in {name.zone}.",
            Reason.EXISTS,
            f"Choose another name, or delete it: jupyter tpu queued delete {name.node}",
            field="name",
        )

    async def spec(
        self,
        request: CreateTPU,
        label: str,
        job: str = "",
        *,
        queued: bool = True,
        planned: bool = False,
    ) -> NodeSpec:
        """What Google is asked for, with our label and key. *job*: the id of the one that the TPU
        starts automatically; "" for none. *queued*: whether it waits for capacity where Google lets
        it. *planned*: its guard works also if no one connects to it.
        """
        assert request.version is not None
        assert request.zone is not None
        options = request.options
        name = NodeName(self._cloud.project, request.zone, request.name)
        if job:
            cost = (await self.price(request, name)).cost
            script = await self._unattended.script(request, name, job, cost)
            options = structs.replace(options, startup_script=script)
        elif planned:
            cost = (await self.price(request, name)).cost
            script = await self._unattended.guard_script(request, name, cost)
            options = structs.replace(options, startup_script=script)
        return NodeSpec(
            type=request.type,
            version=request.version,
            tier=request.tier,
            api=request.api or "tpu",
            disk_gb=request.disk_gb or DISK_GB,
            reservation=request.reservation,
            run_for=await self._run_for(request, name),
            wait_for=LONGEST_WAIT if queued else 0.0,
            network=request.network,
            subnetwork=request.subnetwork,
            labels={
                **request.labels,
                OWNER: own_name(),
                **({ONCE: request.once} if request.once else {}),
                LABEL: label,
            },
            metadata=node_options.metadata(
                options, await asyncio.to_thread(self._links.key_metadata)
            ),
            options=node_options.resolved(options, project=self._cloud.project, zone=request.zone),
        )

    async def _run_for(self, request: CreateTPU, name: NodeName) -> float:
        """After how many seconds Google itself deletes it; 0: never."""
        limits = [request.run_for or 0.0]
        if request.guard is not None and request.api == "compute":
            cost = (await self.price(request, name)).cost
            limits.append(server_side_limit(request.guard, cost, time.time()))
        return min(filter(None, limits), default=0.0)

    async def _create(
        self,
        record: OperationRecord,
        creation: Creation,
        provisioner: NodeProvisioner,
        progress: OperationProgress,
        *,
        resumed: bool,
    ) -> None:
        name, request = record.name, creation.request
        progress.plan(_STEPS)
        progress.begin("create")
        if not resumed:
            _log_request(name, request, progress)
            if creation.queue is not None:
                progress.log("It waits in Google's queue, even while this computer is off")
        self._observer.request_refresh()
        end = await provisioner.run(progress)
        if end.error is not None:
            raise end.error
        if end.how == "gone":
            raise OperationCancelled
        progress.done("create")
        progress.log(f"{name.node} is READY")
        await self.warn_of_twin(name, request.api or "tpu", progress)
        self.follow_up(name, request, provisioner.node_id, record.own_job)

    async def warn_of_twin(self, name: NodeName, api: API, progress: OperationProgress) -> None:
        """Says that the other control plane has a TPU of the name, too: somebody has created it at
        the same moment. Neither is deleted, since both may be in use.
        """
        for other in self._cloud.apis:
            if other == api:
                continue
            try:
                twin = await self._cloud.of_api(other).get_node(name)
            except TPUError as error:
                log.info("No second %s is known: %s", name.node, error)
                continue
            kept = f"{name.node}@{other}"
            progress.log(
                f"Warning: {API_NAMES[other]} has a TPU called {name.node} in {name.zone}, too "
                f"({twin.type}, {twin.state}). It is billed as well, and nothing was deleted. One "
                f"of them is listed as {kept} or {name.node}@{api}. If you don't need both, delete "
                "one."
            )
            log.warning("There are two TPUs called %s in %s", name.node, name.zone)

    def follow_up(
        self,
        name: NodeName,
        request: CreateTPU,
        node_id: str,
        job: str,
        belongings: Belongings | None = None,
    ) -> None:
        """Starts what *request* wants to be done with a TPU that was just created; *node_id*:
        Google's id of it; *job*: the id of the job that follows; *belongings*: of the TPU that it
        replaces.
        """
        if request.guard is not None:
            self._guard(name, request.guard, node_id)
        if request.sessions is not None:
            self._choose_sessions(name, request.sessions)
        if request.home is not None:
            try:
                self._choose_home(name, request.home)
            except TPUError as error:  # another TPU of the name has them
                log.warning("The home folders of %s are not kept: %s", name.node, error)
        if request.connect is not None and name not in self._runner.known.resumable:
            self._connect(name, request.connect, node_id, job, belongings)


def _log_request(name: NodeName, request: CreateTPU, progress: OperationProgress) -> None:
    accelerator = known_type(request.type)
    meaning = f" ({accelerator.meaning})" if accelerator else ""
    progress.log(f"Creating {name.node}: {request.type}{meaning} in {name.zone}")
    usual = accelerator.version_of(request.api or "tpu") if accelerator is not None else None
    if usual is not None and request.version != usual:
        progress.log(
            f"{request.version} is not the usual version for {request.type}, which is "
            f"{usual}. If JAX sees no chips there, that is the reason."
        )


def require_guard(request: CreateTPU) -> None:
    """Raises INVALID for a guard that the type or tier does not allow, and for home folders that
    can't be kept.
    """
    if request.home is not None:
        chosen_folders(request.home)
    if request.guard is not None:
        accelerator = known_type(request.type)
        hosts = accelerator.hosts if accelerator else 1
        check_guard(request.guard, several=hosts > 1, tier=request.tier, api=request.api)


def require_cost_limit(request: CreateTPU, price: PriceDecision) -> None:
    """Raises INVALID for a limit of cost that can't be reached."""
    if request.guard is not None and request.guard.max_cost is not None:
        cost_deadline(request.guard.max_cost, structs.replace(price.cost, usd=0.0), time.time())


def _exists(name: NodeName) -> TPUError:
    return TPUError(
        f"A TPU called {name.node} already exists in {name.zone}.",
        Reason.EXISTS,
        "Choose another name.",
        field="name",
    )
