"""Connecting a TPU (an environment, its kernel in Jupyter, links that stay up), and the reverse."""

from __future__ import annotations

import asyncio

from msgspec import structs

from ...cloud import Node, NodeName, without_chips
from ...environment import is_unattended
from ...errors import Reason, TPUError
from ...progress import StepPlan
from ..core import checks
from ..core.core import Core
from ..core.known_operations import OperationProgress
from ..core.operation_records import Belongings, OperationRecord, TPUConnection
from ..environments.environment import (
    create_environment,
    earlier_lock,
    lock_of,
    locked_request,
    merge_request,
    record_of,
    steps,
    unfinished_record,
)
from ..forwarding.apps import TensorBoardService
from ..homes.service import HOME_STEP, HomeService
from ..kernels.kernels import shut_down_error
from ..models import ConnectTPU, DisconnectTPU, Operation, StartJob
from ..models.core import validated
from .belongings import RunningWork, TPUBelongings
from .defaults import EnvironmentDefaults
from .node_options import STARTUP_SCRIPT
from .power import CANCEL_CONNECT

_JOB = StepPlan("job", "Start the job", 1)


class ConnectService:
    def __init__(
        self,
        core: Core,
        work: RunningWork,
        tensorboard: TensorBoardService,
        defaults: EnvironmentDefaults,
        belongings: TPUBelongings,
        homes: HomeService,
    ) -> None:
        self._cloud = core.cloud
        self._links = core.links
        self._desired = core.desired
        self._observer = core.observer
        self._connections = core.connections
        self._connected = core.connected
        self._work = work
        self._tensorboard = tensorboard
        self._runner = core.runner
        core.runner.register_resume("connect", core.runner.keep_until_seen)
        self._locks = core.locks
        self._connected_now = core.polled.wake
        self._defaults = defaults
        self._belongings = belongings
        self._homes = homes
        self._start_job = work.jobs.start_once

    async def connect(self, name: NodeName, request: ConnectTPU) -> Operation:
        """Raises INVALID, and CONFLICT unless the TPU is READY and idle."""
        request = validated(request)
        checks.check_environment(request)
        for record in self._runner.known.running_on(name):
            running = record.content
            if isinstance(running, TPUConnection) and running.request == request:
                return record.operation  # pressed twice
        self._runner.known.require_idle(name, "connect")
        node = self._observer.observed.require_hosts(name)
        before = self._desired.environments(name).get(request.environment)
        if before is not None and before.node_id == node.id:
            checks.check_same_python(before, request)
        self._runner.drop_resumable(name)
        connection = TPUConnection(request=request, node_id=node.id)
        record = self._runner.new_record("connect", name, connection)
        return await self._runner.start(
            record, lambda progress: self._connect(record, connection, progress)
        )

    def follow(
        self,
        name: NodeName,
        request: ConnectTPU,
        node_id: str,
        job: str,
        belongings: Belongings | None = None,
    ) -> Operation:
        """Connects a TPU that was created to be connected, whatever else is going on. *job*: the id
        of the job that it starts, if it starts one; the TPU may have done so on its own.
        *belongings*: of the TPU that this one replaces; what is left of them follows.
        """
        connection = TPUConnection(request=request, node_id=node_id, job=job, belongings=belongings)
        record = self._runner.new_record("connect", name, connection)
        self._runner.save_soon(record)
        return self._runner.resume(
            record, lambda progress: self._connect(record, connection, progress)
        )

    def resume(self, name: NodeName) -> None:
        """Continues what a dead process left on a TPU."""
        record = self._runner.known.resumable.pop(name)
        connection = record.of(TPUConnection)

        async def work(progress: OperationProgress) -> None:
            progress.log("The server was restarted. Continuing.")
            await self._connect(record, connection, progress)

        self._runner.resume(record, work)

    async def disconnect(self, name: NodeName, options: DisconnectTPU) -> Operation:
        """Raises KERNELS_RUNNING unless *options* allow it, CONFLICT unless the TPU is idle."""
        await self._work.kernels.require_confirmation(name, options.end_kernels, "Disconnecting")
        await self._runner.cancel_connects(name, CANCEL_CONNECT)
        return await self._runner.start_exclusive(
            self._runner.new_record("disconnect", name),
            lambda progress: self._disconnect(name, progress),
        )

    async def _disconnect(self, name: NodeName, progress: OperationProgress) -> None:
        progress.plan(
            [
                StepPlan("kernels", "Shut down kernels", 1),
                StepPlan("forget", "Remove its kernels from Jupyter", 1),
            ]
        )
        why = shut_down_error(
            f"disconnect {name.node}", f"Connect {name.node}. Then restart the kernel."
        )
        await self._work.shut_down_kernels(name, why, progress)
        await self._tensorboard.stop(name)
        progress.begin("forget")
        self._connected.disconnect(name)
        progress.done("forget")

    async def _connect(
        self, record: OperationRecord, connection: TPUConnection, progress: OperationProgress
    ) -> None:
        """Connects; then what is left to be restored of a TPU that was replaced follows, also
        after a failure.
        """
        try:
            await self._connect_one(record, connection, progress)
        except asyncio.CancelledError:
            if not self._runner.closing:
                self._connect_next(record.name, connection)
            raise
        except TPUError:
            await self._restore_rest(record.name, connection, progress)
            raise
        await self._restore_rest(record.name, connection, progress)

    def _connect_next(self, name: NodeName, connection: TPUConnection) -> bool:
        """Begins with the next environment, if there is one."""
        belongings = connection.belongings
        if belongings is None or len(belongings.environments) < 2:
            return False
        rest = structs.replace(belongings, environments=belongings.environments[1:])
        self.follow(name, rest.environments[0].connect, connection.node_id, "", rest)
        return True

    async def _restore_rest(
        self, name: NodeName, connection: TPUConnection, progress: OperationProgress
    ) -> None:
        if not self._connect_next(name, connection) and connection.belongings is not None:
            await self._belongings.share(name, connection.belongings, progress.log)

    async def _connect_one(
        self, record: OperationRecord, connection: TPUConnection, progress: OperationProgress
    ) -> None:
        """Connects, and starts a job then if the request says so."""
        command = connection.request.then_run
        request = structs.replace(connection.request, then_run="")
        await self._prepare(record.name, connection, request, [_JOB] if command else [], progress)
        if command:
            progress.begin(_JOB.key)
            id = connection.job or record.own_job
            job = StartJob(command=["sh", "-c", command], environment=request.environment)
            await self._start_job(record.name, job, id)
            progress.done(_JOB.key)
            progress.log(f"Started the job {id}")
            await self._remove_startup_script(record.name, progress)

    async def _remove_startup_script(self, name: NodeName, progress: OperationProgress) -> None:
        """One with which a TPU starts its job automatically has done its work when that is started.
        It is large, and would be in each list of TPUs.
        """
        try:
            node = await self._cloud.get_node(name)
            if is_unattended(node.metadata.get(STARTUP_SCRIPT, "")):
                await self._cloud.remove_metadata(node, STARTUP_SCRIPT)
        except TPUError as error:
            progress.log(f"The startup script stays in the TPU's metadata: {error.message}")

    async def _prepare(
        self,
        name: NodeName,
        connection: TPUConnection,
        request: ConnectTPU,
        more: list[StepPlan],
        progress: OperationProgress,
    ) -> None:
        """Ends connected; or failed, with what was connected before as it was. more: the steps that
        follow.
        """
        if self._homes.due(name):
            more = [HOME_STEP, *more]
        before = self._desired.environments(name).get(request.environment)
        seen = self._observer.observed.node(name)
        hosts = len(seen.endpoints) if seen else 0
        steps = [*_steps(merge_request(before, request)), *more]
        progress.plan(steps, hosts=hosts, measured=True)
        progress.begin("key")
        node = await self._cloud.get_node(name)
        self._observer.upsert(node)
        if other := checks.another_node(node, connection.node_id):
            raise other
        self._observer.observed.require_hosts(name)
        node = await self._links.number_hosts(node)
        self._observer.upsert(node)
        emulated = without_chips(self._cloud, node)
        if before is not None and before.node_id != node.id:
            before = None  # on another TPU of the same name, which is gone
        request = merge_request(before, request)
        if before is None:
            asked = await self._as_before(node, request, progress)
            request = self._defaults.added_to(asked)
            if request != asked:
                progress.log("It also gets what c.JupyterTPU.environment_defaults names")
        progress.plan([*_steps(request), *more], hosts=len(node.endpoints), measured=True)
        self._desired.save(name, unfinished_record(node, request, before))
        failure: TPUError | None = TPUError("Connecting failed.", Reason.INTERNAL)
        try:
            environment, created = await create_environment(
                node, request, self._connections, progress, emulated=emulated
            )
            if created.lock:
                await self._locks.save(lock_of(node, environment, created.lock, emulated=emulated))
            elif before is not None:  # it was not verified again
                environment.versions = before.environment.versions
            failure = None
        except TPUError as error:
            failure = error
            raise
        except asyncio.CancelledError:
            failure = TPUError("Connecting was cancelled.", Reason.CANCELLED, "Connect again.")
            raise
        finally:
            # At the end of the process it stays "making", and is resumed by the next one.
            if failure is not None and not self._runner.closing:
                self._desired.save(name, unfinished_record(node, request, before, failure))
                if name not in self._desired.connected:
                    self._connections.release(name)
        progress.begin("kernelspec")
        # The lock has done its work: what is changed from now on may have other versions.
        request = structs.replace(request, lock=None, resolve_again=False)
        finished = record_of(node, request, environment, before, created.requested)
        self._desired.save(name, finished)
        restored = connection.belongings.environments[:1] if connection.belongings else []
        for earlier in restored:
            finished.warm = earlier.warm
        self._connected.register(name, finished)
        for chips in (chips for earlier in restored for chips in earlier.chips):
            self._connected.register_chips(name, finished, chips)
        self._desired.connect(name, node.id)
        self._connections.acquire(name, len(node.endpoints))
        more_kernels = self._connected.added_with(name, request.environment)
        progress.done("kernelspec")
        for display_name in (environment.display_name, *more_kernels):
            progress.log(f"Added {display_name} to Jupyter")
        self._connected_now()
        if HOME_STEP in more:
            await self._homes.settle_in(name, progress)

    async def _as_before(
        self, node: Node, request: ConnectTPU, progress: OperationProgress
    ) -> ConnectTPU:
        """The request for a new environment, with what `earlier_lock` gives."""
        emulated = without_chips(self._cloud, node)
        lock = await earlier_lock(self._locks, request, emulated=emulated)
        if lock is None:
            return request
        progress.log(
            f"{lock.environment} gets the versions that it had on {lock.tpu} at {lock.time}"
        )
        if lock.type != node.type:
            progress.log(f"{lock.tpu} is a {lock.type}, and {node.name.node} is a {node.type}")
        return locked_request(request, lock)


def _steps(request: ConnectTPU) -> list[StepPlan]:
    return [*steps(request), StepPlan("kernelspec", "Add the kernel to Jupyter", 1)]
