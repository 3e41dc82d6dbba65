"""A hunt that waits until a TPU is preempted. It then deletes what is left of that TPU."""

from __future__ import annotations

import asyncio
import contextlib

from msgspec import structs

from ...cloud import Cloud, Node, NodeName
from ...errors import Reason, TPUError, error_for
from ..core.desired import DesiredState
from ..core.observer import Observer
from ..core.operation_progress import OperationProgress
from ..core.operation_runner import OperationRunner
from ..core.records import AwaitedTPU, OperationRecord
from ..lifecycle.power import PowerService
from ..models import ConnectTPU, DeleteTPU, StartHunt

#: Seconds between two looks at what the observer knows.
LOOK = 5.0


class PreemptedTPUs:
    """The TPUs that hunts wait for."""

    def __init__(
        self,
        cloud: Cloud,
        observer: Observer,
        desired: DesiredState,
        power: PowerService,
        runner: OperationRunner,
    ) -> None:
        self._cloud = cloud
        self._observer = observer
        self._desired = desired
        self._power = power
        self._runner = runner

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
        self, record: OperationRecord, progress: OperationProgress, stopped: asyncio.Event
    ) -> bool:
        """Waits until its TPU was preempted, and deletes it. False: someone else has deleted it,
        or *stopped* is set.
        """
        assert record.hunt is not None
        awaited = record.hunt.awaited
        assert awaited is not None
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
                if node is None and awaited.taken:
                    return True
                if node is None or node.id != awaited.node_id:
                    progress.log(
                        f"{name.node} {'was deleted' if node is None else 'is another TPU now'}: "
                        "the hunt ends"
                    )
                    return False
                if node.state.gone or awaited.replace:
                    await self._remove(record, awaited, node, progress)
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
            record.operation.kind == "delete" and not record.for_hunt
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
        self, record: OperationRecord, awaited: AwaitedTPU, node: Node, progress: OperationProgress
    ) -> None:
        """Deletes what is left, after it is written down that it was preempted: a TPU that its
        user deletes is not hunted for again.
        """
        hunt, name = record.hunt, node.name
        assert hunt is not None
        if not awaited.taken:
            if not awaited.replace:
                progress.log(f"Google ended {name.node} ({node.state})")
            if hunt.request.tpu.connect is None and name in self._desired.connected:
                tpu = structs.replace(hunt.request.tpu, connect=self._connection(name))
                hunt.request = structs.replace(hunt.request, tpu=tpu)
            awaited.taken = True
            await self._runner.save(record)
        progress.set_message(f"Deleting {'' if awaited.replace else 'what is left of '}{name.node}")
        options = DeleteTPU(end_kernels=True, end_jobs=True)
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
        async with asyncio.timeout(LOOK):
            await stopped.wait()
