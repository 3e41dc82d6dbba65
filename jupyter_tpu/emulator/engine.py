"""Carries out the model's operations: starts, stops and removes hosts, and reports back.

One task per operation in progress; each is owned here and ended by `close`. The model is saved
after every change, so that an emulator that is killed continues where it was.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..errors import TPUError
from .hosts import HostSpec, RunningHost, Runtime
from .model import api_errors
from .model.bill import Bill
from .model.faults import Fault
from .model.host_profile import device_files, host_variables, missing_features
from .model.instance_records import InstanceRecord
from .model.model import Model
from .model.notices import Notices
from .model.os_login import authorized, is_enabled
from .model.queued import EmulatedQueue
from .model.records import EmulatedOperation, HostRecord, NodeRecord
from .state_folder import StateFolder

log = logging.getLogger(__name__)

INTERNAL = 13
STARTS_AT_ONCE = 8  # hosts; more at the same time start no sooner
START_LIMIT = 120.0  # seconds for one host
WEEK_SECONDS = 7 * 24 * 3600.0  # seconds
NOTICE_SECONDS = 60.0  # seconds before an announced maintenance, at which hosts are told of it
STEP_SECONDS = 0.2  # between two looks at queued resources that wait


class Engine:
    """The hosts of a model.

    *delay*: seconds that a create, start, stop or delete takes at least.
    """

    def __init__(
        self, model: Model, runtime: Runtime, folder: StateFolder, *, delay: float = 1.5
    ) -> None:
        self.model = model
        self.queue = EmulatedQueue(model)
        #: What programs on a node's hosts need to call Google as these hosts: variables.
        self.identity: Callable[[NodeRecord, HostRecord], dict[str, str]] = lambda *_: {}
        self.notices = Notices()
        self.bill = Bill()
        self._runtime = runtime
        self._folder = folder
        self._delay = delay
        self._hosts: dict[str, dict[int, RunningHost]] = {}  # node's path → worker → host
        self._tasks: dict[asyncio.Task[None], str] = {}  # → the node's path
        self._background: set[asyncio.Task[None]] = set()  # faults and watches
        self._starts = asyncio.Semaphore(STARTS_AT_ONCE)
        self._changed = asyncio.Event()

    async def open(self) -> None:
        """Starts the hosts that should run, and continues the operations in progress."""
        busy = {operation.target for operation in self.model.operations.in_progress()}
        ready = [
            node
            for node in self.model.nodes.values()
            if node.state == "READY" and node.path not in busy
        ]
        await asyncio.gather(*map(self._start_again, ready))
        self.save()
        for operation in self.model.operations.in_progress():
            self.begin(operation)
        self.spawn(self._drive_queue())

    async def _start_again(self, node: NodeRecord) -> None:
        """After a restart of the emulator; a node whose hosts don't come up is stopped."""
        try:
            await self.start_hosts(node)
        except (OSError, TPUError) as error:
            log.warning("the hosts of %s did not start: %s", node.path, error)
            await self.end_hosts(node.path)
            node.state, node.health, node.health_description = "STOPPED", "", str(error)

    async def close(self) -> None:
        """Ends all work and all hosts; operations in progress continue at the next start."""
        tasks = [*self._tasks, *self._background]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.save()
        await self._runtime.close()
        self._hosts.clear()

    def save(self) -> None:
        self.bill.observe(self.model.nodes.values())
        self._folder.save(self.model.snapshot())
        self.wake()

    def wake(self) -> None:
        """Something has changed that queued resources may wait for."""
        self._changed.set()

    async def _drive_queue(self) -> None:
        """Moves the queued resources on, each by one state at a time."""
        queue = self.queue
        while True:
            self._changed.clear()
            limit = STEP_SECONDS if queue.unsettled() else queue.next_due()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(limit):
                    await self._changed.wait()
            await asyncio.sleep(self._delay)  # so that a person sees each state
            before = queue.states()
            for operation in queue.step():
                self.begin(operation)
            if queue.states() != before:
                self.save()

    # ---- operations -----------------------------------------------------------------------------

    def begin(self, operation: EmulatedOperation) -> None:
        """Starts the work of an operation that the model has just begun."""
        # Only a delete may begin while another operation is in progress, which it ends.
        before = [task for task, target in self._tasks.items() if target == operation.target]
        self.save()
        if operation.target not in self.model.nodes:
            return  # of a queued resource: the queue carries it out
        if operation.verb == "maintain":
            self.notices.announce(self.model.node_of(operation).id, "maintenance-event")
        if operation.verb == "update":
            limit = 0.0
        else:
            limit = self._delay
            slow = self.model.faults.consume("slow", _zone(operation))
            if slow:
                limit += 10.0 if slow.seconds is None else slow.seconds
        task = asyncio.create_task(self._perform(operation, limit, before), name=operation.name)
        self._tasks[task] = operation.target
        task.add_done_callback(self._ended)

    async def _perform(
        self, operation: EmulatedOperation, delay: float, before: Sequence[asyncio.Task[None]]
    ) -> None:
        for task in before:
            task.cancel()
        await asyncio.gather(*before, return_exceptions=True)
        work: dict[str, Callable[[EmulatedOperation, NodeRecord], Awaitable[None]]] = {
            "create": self._create,
            "start": self._create,
            "stop": self._stop,
            "update": self._update,
            "maintain": self._maintain,
            "delete": self._delete,
        }
        node = self.model.node_of(operation)
        try:
            await asyncio.sleep(delay)
            await work[operation.verb](operation, node)
        except (OSError, TPUError, TimeoutError) as error:
            log.warning("%s of %s failed: %s", operation.verb, operation.target, error)
            if operation.verb in ("create", "start", "maintain"):
                await self.end_hosts(node.path)
            if operation.verb == "create":
                await self.destroy(node)
            self.model.fail(operation, INTERNAL, f"Internal error: {error}")
        finally:
            self.save()

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s failed unexpectedly", task.get_name(), exc_info=error)

    async def _create(self, operation: EmulatedOperation, node: NodeRecord) -> None:
        # The turn of a queued resource has come before it was created.
        if not (node.queued_resource and operation.verb == "create") and (
            self.model.limits.lacks_capacity(node.zone, node.accelerator, node.tier, but=node.path)
        ):
            text = api_errors.no_capacity_text(node.zone, node.tier)
            self.model.fail(operation, api_errors.RESOURCE_EXHAUSTED, text)
            return
        self.model.addresses.renew_external(node)
        await self.start_hosts(node)
        self.model.complete(operation)

    async def _stop(self, operation: EmulatedOperation, node: NodeRecord) -> None:
        await self.end_hosts(node.path)
        self.model.addresses.drop_external(node)
        self.model.complete(operation)

    async def _update(self, operation: EmulatedOperation, node: NodeRecord) -> None:
        await self.set_users(node)
        self.model.complete(operation)

    async def _maintain(self, operation: EmulatedOperation, node: NodeRecord) -> None:
        node.health = "UNHEALTHY_MAINTENANCE"
        await self.end_hosts(node.path)
        self.notices.withdraw(node.id)
        self.model.addresses.renew_external(node)
        await self.start_hosts(node)
        self.model.complete(operation)

    async def _delete(self, operation: EmulatedOperation, node: NodeRecord) -> None:
        await self.end_hosts(node.path)
        await self.destroy(node)
        self.model.complete(operation)

    # ---- project-wide keys ----------------------------------------------------------------------

    async def set_project_metadata(self, project: str, items: dict[str, str]) -> None:
        """Replaces a project's commonInstanceMetadata. The hosts have its keys at return."""
        self.model.project_metadata[project] = items
        await self.set_all_users()

    async def set_all_users(self) -> None:
        """Who may log in has changed. The hosts know it at return."""
        self.save()
        for node in self.model.machines():
            await self.set_users(node)

    # ---- immediate faults -----------------------------------------------------------------------

    def inject_fault(self, fault: Fault, node: NodeRecord) -> None:
        """Starts an immediate fault of *node*; returns before it has ended."""
        if fault.kind == "maintenance":
            self._maintain_now(node)
            return
        if fault.kind == "state":
            node.state, node.health = fault.state, fault.health
            node.health_description = fault.description
            self.save()
            return
        if node.state != "READY":
            raise api_errors.wrong_state(fault.kind, node.state)
        if fault.kind == "announce-maintenance":
            seconds = WEEK_SECONDS if fault.seconds is None else fault.seconds
            self.model.announce_maintenance(node, seconds)
            self.save()
            self.spawn(self._maintain_later(node, seconds))
        elif fault.kind == "preempt":
            self.notices.announce(node.id, "preempted")
            if fault.seconds:
                self.spawn(self._preempt_later(node, fault.seconds))
            else:
                self._preempt(node)
        elif fault.kind == "run-over":
            self.queue.end_run(node.queued_resource)
            self.save()
            self.wake()
        elif fault.kind == "tpu-node":
            node.retired = True
            self.save()
            self.spawn(self.end_hosts(node.path))
        elif fault.kind == "reboot":
            self.spawn(self._reboot(node))
        else:
            self.spawn(self._cut_links(node))

    async def _maintain_later(self, node: NodeRecord, seconds: float) -> None:
        announced = node.upcoming_maintenance

        def is_due() -> bool:
            return self._is_ready(node) and node.upcoming_maintenance is announced

        await asyncio.sleep(max(0.0, seconds - NOTICE_SECONDS))
        if is_due():
            self.notices.announce(node.id, "maintenance-event")
            await asyncio.sleep(min(seconds, NOTICE_SECONDS))
        if is_due():
            self._maintain_now(node)

    def _maintain_now(self, node: NodeRecord) -> None:
        self.begin(self.model.maintain_node(node.project, node.zone, node.name))

    async def _preempt_later(self, node: NodeRecord, seconds: float) -> None:
        await asyncio.sleep(seconds)
        if self._is_ready(node):
            self._preempt(node)

    def _preempt(self, node: NodeRecord) -> None:
        self.model.preempt(node)
        self.save()
        self.spawn(self.end_hosts(node.path))

    def _is_ready(self, node: NodeRecord) -> bool:
        """Whether this very node still runs."""
        return self.model.nodes.get(node.path) is node and node.state == "READY"

    async def _reboot(self, node: NodeRecord) -> None:
        await self.end_hosts(node.path)
        await asyncio.sleep(self._delay)
        if node.state == "READY":  # not deleted meanwhile
            await self.start_hosts(node)
            self.save()

    async def _cut_links(self, node: NodeRecord) -> None:
        for host in list(self._hosts.get(node.path, {}).values()):
            await host.cut_links()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background_ended)

    def _background_ended(self, task: asyncio.Task[None]) -> None:
        self._background.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("a background task failed: %s", error, exc_info=error)

    # ---- hosts ----------------------------------------------------------------------------------

    async def describe_hosts(self) -> list[dict[str, Any]]:
        """Every host with its processes, for tests."""
        hosts = []
        for node in self.model.machines():
            for record in node.own_hosts:
                host = self._hosts.get(node.path, {}).get(record.worker)
                hosts.append(
                    {
                        "node": node.path,
                        "worker": record.worker,
                        "hostname": record.hostname,
                        "internal": record.internal,
                        "external": record.external,
                        "address": record.address,
                        "port": record.port,
                        "running": host is not None,
                        "init_pid": host.init_pid if host else None,
                        "processes": await host.processes() if host else [],
                        "folder": str(self._spec(node, record).folder),
                    }
                )
        return hosts

    async def start_hosts(
        self, node: NodeRecord, records: Sequence[HostRecord] | None = None
    ) -> None:
        """Starts a node's hosts, or some of them; raises the first failure."""
        users = self._users(node)
        running = self._hosts.setdefault(node.path, {})

        async def start(record: HostRecord) -> None:
            async with self._starts:
                spec = self._spec(node, record)
                async with asyncio.timeout(START_LIMIT):
                    host = await self._runtime.start(spec)
            running[record.worker] = host
            self.spawn(self._watch(node, record, host))
            record.port, record.host_keys = host.port, dict(host.host_keys)
            await host.set_users(users)

        for answer in await asyncio.gather(
            *map(start, records or node.own_hosts), return_exceptions=True
        ):
            if isinstance(answer, BaseException):
                raise answer

    async def _watch(self, node: NodeRecord, record: HostRecord, host: RunningHost) -> None:
        """Starts a host again that ended on its own, like a VM that was rebooted from inside."""
        await host.wait_ended()
        await asyncio.sleep(self._delay)
        running = self._hosts.get(node.path, {})
        if running.get(record.worker) is not host or node.state != "READY":
            return  # ended by the engine
        del running[record.worker]
        try:
            await self.start_hosts(node, [record])
        except (OSError, TPUError) as error:
            log.warning("%s did not start again: %s", record.hostname, error)
            node.health, node.health_description = "TIMEOUT", str(error)
        self.save()

    async def end_hosts(self, path: str) -> None:
        hosts = self._hosts.pop(path, {})
        await asyncio.gather(*(host.stop() for host in hosts.values()))

    async def destroy(self, node: NodeRecord) -> None:
        """Removes the files of a node's hosts, which have ended."""
        for host in node.own_hosts:
            await self._runtime.destroy(self._spec(node, host))

    async def set_users(self, node: NodeRecord) -> None:
        users = self._users(node)
        for host in list(self._hosts.get(node.path, {}).values()):
            await host.set_users(users)

    def _users(self, node: NodeRecord) -> dict[str, list[str]]:
        project = self.model.project_metadata.get(node.project, {})
        if is_enabled(node.metadata, project):  # then keys in the metadata do not count
            return self.model.os_login.authorized(datetime.now(UTC))
        return authorized(node.metadata, project, datetime.now(UTC))

    def _spec(self, node: NodeRecord, host: HostRecord) -> HostSpec:
        return HostSpec(
            node_id=node.id,
            worker=host.worker,
            hostname=host.hostname,
            address=host.address,
            internal=host.internal,
            environment={**host_variables(node, host), **self.identity(node, host)},
            peers=tuple((other.hostname, other.address) for other in node.hosts),
            folder=self._host_folder(node, host),
            devices=device_files(node.accelerator),
            without_docker=isinstance(node, InstanceRecord),
            startup_script=node.metadata.get("startup-script", ""),
            **missing_features(node.metadata),
        )

    def _host_folder(self, node: NodeRecord, host: HostRecord) -> Path:
        return self._folder.hosts / f"{node.id}-{host.worker}"


def _zone(operation: EmulatedOperation) -> str:
    return operation.target.split("/")[3]
