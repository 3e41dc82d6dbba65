"""A TPU in the place of another: of one that Google preempts, or that its user replaces.

Both are hunts. The first waits until the TPU is preempted. The second deletes the TPU first and
looks in one place, for the same on other hardware. What it was made of, Google says. A process that
ends between the two is followed by the next one. Where there is no capacity, the hunt continues.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from typing import NamedTuple

from msgspec import structs

from ...cloud import OWN_LABELS, Node, NodeName, check_ours
from ...environment import own_script
from ...errors import Reason, TPUError, error_for
from ..core.core import Core
from ..core.known_operations import OperationProgress
from ..core.operation_records import AwaitedTPU, Belongings, Deletion, HuntRecord, OperationRecord
from ..jobs.guard import Guards
from ..jobs.jobs import JobService
from ..lifecycle.belongings import RunningWork, TPUBelongings
from ..lifecycle.node_options import STARTUP_SCRIPT
from ..lifecycle.power import PowerService
from ..models import (
    ConnectTPU,
    Consequences,
    ConsequencesQuery,
    CreateTPU,
    DeleteTPU,
    Guard,
    ReplaceTPU,
    SetGuard,
    StartHunt,
)
from ..models.core import seconds_of
from ..money.owners import ONCE

#: Seconds between two looks at what the observer knows.
LOOK_SECONDS = 5.0


class PreemptedTPUs:
    """The TPUs that hunts wait for."""

    def __init__(
        self, core: Core, power: PowerService, jobs: JobService, belongings: TPUBelongings
    ) -> None:
        self._belongings = belongings
        self.take_over_jobs = jobs.take_over
        self._jobs = jobs
        self._cloud = core.cloud
        self._observer = core.observer
        self._desired = core.desired
        self._runner = core.runner
        self._power = power

    def require(self, request: StartHunt) -> AwaitedTPU:
        """The TPU that is there now. Raises INVALID, NOT_FOUND, NOT_YOURS."""
        name = request.tpu.name
        nodes = [node for node in self._observer.observed.nodes.values() if node.name.node == name]
        if len(nodes) != 1:
            raise error_for(
                f"The TPU {name} does not exist."
                if not nodes
                else f"{len(nodes)} TPUs have the name {name}.",
                Reason.NOT_FOUND if not nodes else Reason.INVALID,
                "Use the name of one existing TPU, or hunt without waiting for a preemption.",
            )
        self._power.require_consent(nodes[0])
        return AwaitedTPU(zone=nodes[0].name.zone, node_id=nodes[0].id)

    async def wait(
        self,
        record: OperationRecord,
        hunt: HuntRecord,
        awaited: AwaitedTPU,
        progress: OperationProgress,
        stopped: asyncio.Event,
    ) -> bool:
        """Waits until its TPU was preempted, and deletes it. False: someone else has deleted it,
        or *stopped* is set.
        """
        name = structs.replace(record.name, zone=awaited.zone)
        while not stopped.is_set():
            try:
                await self._observer.ensure_recent()
                node = await self._look(name)
                if self._is_deleted_by_others(name):
                    # That ends this hunt, unless Google refuses it.
                    progress.set_message(f"{name.node} is being deleted")
                    await _wait(stopped)
                    continue
                if node is None and awaited.preempted:
                    return True
                if node is None or node.id != awaited.node_id:
                    progress.log(
                        f"{name.node} {'was deleted' if node is None else 'is another TPU now'}: "
                        "the hunt ends"
                    )
                    return False
                if node.state.gone or awaited.replace:
                    await self._remove(record, hunt, awaited, node, progress)
                    continue
                progress.block(None)
                message = f"Waiting until Google preempts {name.node}"
                if message != record.operation.message:
                    progress.set_message(message)
            except TPUError as error:
                progress.block(error)
            await _wait(stopped)
        return False

    def _is_deleted_by_others(self, name: NodeName) -> bool:
        """Whether a user, or a guard, has its deletion running in some process."""
        return any(
            isinstance(record.content, Deletion) and not record.content.for_hunt
            for record in self._runner.known.on(name)
        )

    async def _look(self, name: NodeName) -> Node | None:
        """None: Google has no such TPU. That a list lacks it is not enough to say so."""
        if node := self._observer.observed.node(name):
            return node
        try:
            return await self._cloud.get_node(name)
        except TPUError as error:
            if error.reason is Reason.NOT_FOUND:
                return None
            raise

    async def _remove(
        self,
        record: OperationRecord,
        hunt: HuntRecord,
        awaited: AwaitedTPU,
        node: Node,
        progress: OperationProgress,
    ) -> None:
        """Deletes what is left, after it is written down that it was preempted: a TPU that its
        user deletes is not hunted for again.
        """
        name = node.name
        if not awaited.preempted:
            if not awaited.replace:
                progress.log(f"Google ended {name.node} ({node.state})")
                self._jobs.await_successor(name)
                hunt.belongings = self._belongings.projects(node)
            if hunt.request.tpu.connect is None and name in self._desired.connected:
                tpu = structs.replace(hunt.request.tpu, connect=self._connection(name))
                hunt.request = structs.replace(hunt.request, tpu=tpu)
            if hunt.request.tpu.sessions is None:
                tpu = structs.replace(hunt.request.tpu, sessions=self._power.sessions.chosen(name))
                hunt.request = structs.replace(hunt.request, tpu=tpu)
            awaited.preempted = True
            await self._runner.save(record)
        progress.set_message(f"Deleting {'' if awaited.replace else 'what is left of '}{name.node}")
        options = DeleteTPU(end_kernels=True, end_jobs=True, sessions=awaited.sessions)
        deletion = await self._power.delete(name, options, for_hunt=True)
        ended = await self._runner.wait(deletion.id)
        if ended.problem is not None:
            raise ended.problem.to_error()

    def _connection(self, name: NodeName) -> ConnectTPU | None:
        """As it is connected now: its next environment of that name gets the same packages."""
        records = self._desired.environments(name)
        record = records.get("default") or next(iter(records.values()), None)
        return structs.replace(record.request, then_run="") if record is not None else None


async def _wait(stopped: asyncio.Event) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LOOK_SECONDS):
            await stopped.wait()


#: Metadata that Google or this program sets.
_NOT_COPIED = ("ssh-keys", STARTUP_SCRIPT, "enable-guest-attributes")


class KnownGuard(NamedTuple):
    """The guard of a TPU; None if it has none, or if *problem* says why that is not known."""

    guard: Guard | None
    problem: str = ""


class ReplacedTPUs:
    """What replacing a TPU needs to know of it."""

    def __init__(
        self,
        core: Core,
        power: PowerService,
        work: RunningWork,
        guards: Guards,
        belongings: TPUBelongings,
    ) -> None:
        self._core = core
        self._power = power
        self._work = work
        self._guards = guards
        self.belongings = belongings.find
        self.restore = belongings.restore

    async def find(self, ref: str) -> Node:
        """The TPU as Google describes it now. Raises NOT_YOURS, and CONFLICT for one that is being
        created or deleted.
        """
        name = await self._core.finder.find(ref)
        check_ours(name, "replaced")
        node = await self._core.cloud.get_node(name)
        self._core.observer.upsert(node)
        self._power.require_consent(node)
        if node.queued:
            raise TPUError(
                f"{name.node} came from a queued resource, which is not created again.",
                Reason.CONFLICT,
                "Delete it, and create it again.",
            )
        if node.state.changing:
            raise TPUError(
                f"{name.node} can't be replaced while it is {node.state}.",
                Reason.CONFLICT,
                "Wait until that has ended.",
            )
        return node

    async def consequences(self, node: Node, known: KnownGuard) -> Consequences:
        """What it ends, and what does not come back."""
        consequences = await self._work.consequences(ConsequencesQuery(act="replace"), node.name)
        return structs.replace(consequences, lost=[*consequences.lost, *_not_restored(node, known)])

    async def require_confirmation(self, node: Node, options: ReplaceTPU) -> None:
        await self._work.require_confirmation(
            node.name,
            "Replacing",
            end_kernels=options.end_kernels,
            end_jobs=options.end_jobs,
        )

    def require_kept(self, node: Node, options: ReplaceTPU) -> None:
        """Raises CONFLICT where all variables have to be saved, and can't be."""
        self._power.sessions.plan(node.name, options.sessions, keeps_disk=False)

    async def guard(self, node: Node) -> KnownGuard:
        """What its host says of its guard; if that does not answer, what was last known."""
        try:
            return KnownGuard(await self._guards.get(f"{node.name.zone}~{node.name.node}"))
        except TPUError as error:
            if error.reason is Reason.NOT_FOUND:
                return KnownGuard(None)
            last = self._guards.last_known(node)
            return KnownGuard(last, "" if last is not None else error.message)

    def request(self, node: Node, known: KnownGuard, belongings: Belongings) -> CreateTPU:
        """*node* as a TPU to create, with its guard and its first environment."""
        spec, first = node.request, next(iter(belongings.environments), None)
        compute = spec.api == "compute"
        return CreateTPU(
            name=node.name.node.partition("@")[0],
            type=spec.type,
            zone=node.name.zone,
            version=spec.version or None,
            tier=spec.tier,
            api=spec.api,
            run_for=spec.run_for if spec.tier == "flex-start" else None,
            disk_gb=spec.disk_gb if compute else None,
            reservation=spec.reservation,
            network=_network(spec.network),
            subnetwork=_network(spec.subnetwork),
            labels={
                key: text for key, text in spec.labels.items() if not key.startswith(OWN_LABELS)
            },
            once=spec.labels.get(ONCE, ""),
            options=structs.replace(
                spec.options,
                metadata={k: text for k, text in spec.metadata.items() if k not in _NOT_COPIED},
                startup_script=own_script(spec.metadata.get(STARTUP_SCRIPT, "")),
            ),
            connect=first.connect if first else None,
            guard=_guard(known.guard),
            sessions=self._power.sessions.chosen(node.name),
        )


def _not_restored(node: Node, known: KnownGuard) -> Iterator[str]:
    """What the new TPU does not have as the old one had it, in sentences."""
    guard = known.guard
    if node.api == "compute" and not node.version:
        yield "Google does not say which image it has: it gets the usual one."
    if known.problem:
        yield f"Whether it has a guard is not known: {known.problem} The new one has none."
    if guard is not None and _guard(guard) is None:
        yield "Its guard is not set again: its end time has passed."
    elif guard is not None and guard.max_cost is not None:
        yield "The cost limit of its guard counts from zero again."


def shown(request: CreateTPU) -> CreateTPU:
    """For pages: without what may have secrets."""
    options = structs.replace(request.options, metadata={}, startup_script="")
    return structs.replace(request, options=options)


def _guard(guard: Guard | None) -> SetGuard | None:
    """The same for a new TPU; None if no limit is left."""
    if guard is None:
        return None
    until = guard.until if guard.until and seconds_of(guard.until, "until") > time.time() else ""
    if guard.idle is None and guard.max_cost is None and not until:
        return None
    return SetGuard(
        action=guard.action,
        idle=guard.idle,
        max_cost=guard.max_cost,
        until=until,
        notice=guard.notice,
    )


def _network(path: str | None) -> str | None:
    """A network or subnetwork; None for the default one."""
    return None if not path or path.rpartition("/")[2] == "default" else path
