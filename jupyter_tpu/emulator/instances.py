"""Carries out what Compute Engine's instances need: their hosts are started, ended and removed.

One loop moves instances and groups on; each host's start or end is a task, owned here.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

from ..errors import TPUError
from .engine import STEP_SECONDS, WEEK_SECONDS, Engine
from .model import api_errors
from .model.faults import Fault
from .model.groups import EmulatedGroups
from .model.instance_records import ComputeOperation, InstanceRecord
from .model.instances import EmulatedInstances, Work

#: At once, where states don't last. What fails at once again and again is tried later.
MOST_STEPS = 8

log = logging.getLogger(__name__)


class InstanceEngine:
    """The hosts of the instances of *engine*'s model. *delay*: seconds that each state lasts."""

    def __init__(self, engine: Engine, *, delay: float) -> None:
        self.instances = EmulatedInstances(engine.model)
        self.groups = EmulatedGroups(engine.model, self.instances)
        self._engine = engine
        self._delay = delay
        self._tasks: dict[str, asyncio.Task[None]] = {}  # the path of an instance → its work
        self._changed = asyncio.Event()

    async def open(self) -> None:
        """Starts the hosts that should run, and goes on with what is in progress."""
        self.groups.relink()
        running = [
            record for record in self.instances.records.values() if record.status == "RUNNING"
        ]
        await asyncio.gather(*map(self._start_again, running))
        self._engine.spawn(self._drive())

    def begin(self, operation: ComputeOperation) -> ComputeOperation:
        """Saves what a call has just changed, and goes on with it."""
        instance = self.instances.records.get(operation.target)
        if instance is not None and instance.deleting and operation.target in self._tasks:
            self._tasks[operation.target].cancel()
        self._engine.save()
        self._changed.set()
        return operation

    async def set_users(self, instance: InstanceRecord) -> None:
        """Who may log in has changed. The host knows it at return."""
        self._engine.save()
        await self._engine.set_users(instance)

    async def restart(self, instance: InstanceRecord) -> None:
        """Its host ends. It is started again, in a slice with all others, if it restarts at all."""
        await self._host_error(instance, 0.01)

    def inject_fault(self, fault: Fault, instance: InstanceRecord) -> None:
        """Starts an immediate fault of *instance*; returns before it has ended."""
        seconds = fault.seconds
        if fault.kind == "vanish":
            if instance.status != "PENDING":
                raise api_errors.wrong_state(fault.kind, instance.status)
            self.instances.vanish(instance)
        elif instance.status != "RUNNING":
            raise api_errors.wrong_state(fault.kind, instance.status)
        elif fault.kind == "preempt":
            self._engine.notices.announce(instance.id, "preempted")
            self._engine.spawn(self._preempt(instance, seconds or 0.0))
        elif fault.kind == "host-error":
            self._engine.spawn(self._host_error(instance, seconds or 0.0))
        elif fault.kind == "run-over":
            self.instances.run_over(instance)
        elif fault.kind == "announce-maintenance":
            self._engine.model.announce_maintenance(
                instance, WEEK_SECONDS if seconds is None else seconds
            )
        elif fault.kind in ("reboot", "cut-links"):
            self._engine.inject_fault(fault, instance)
        else:
            raise api_errors.invalid_field(f"there is no fault {fault.kind} of an instance")
        self._engine.save()
        self._changed.set()

    # ---- internals ------------------------------------------------------------------------------

    async def _drive(self) -> None:
        while True:
            self._changed.clear()
            unsettled = self.instances.unsettled() or self.groups.unsettled()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STEP_SECONDS if unsettled else None):
                    await self._changed.wait()
            await asyncio.sleep(self._delay)  # so that a person sees each state
            for _ in range(1 if self._delay else MOST_STEPS):
                before = self._states()
                self.groups.step()
                for work in self.instances.step(self._tasks):
                    self._begin_work(work)
                if self._states() == before:
                    break
                self._engine.save()

    def _states(self) -> object:
        states = [
            (record.path, record.status, record.restarting)
            for record in self.instances.records.values()
        ]
        return states, self.groups.states()

    def _begin_work(self, work: Work) -> None:
        verb, instance = work
        task = asyncio.create_task(
            self._start(instance) if verb == "start" else self._end(instance), name=instance.path
        )
        self._tasks[instance.path] = task
        task.add_done_callback(lambda task: self._ended(instance.path, task))

    def _ended(self, path: str, task: asyncio.Task[None]) -> None:
        if self._tasks.get(path) is task:
            del self._tasks[path]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("the work on %s failed unexpectedly", path, exc_info=error)
        self._changed.set()

    async def _start(self, instance: InstanceRecord) -> None:
        try:
            await self._engine.start_hosts(instance)
        except (OSError, TPUError, TimeoutError) as error:
            log.warning("the host of %s did not start: %s", instance.path, error)
            await self._end_host(instance)
            self.instances.failed(instance, "INTERNAL_ERROR", f"Internal error: {error}")
        else:
            self.instances.started(instance)
        self._engine.save()

    async def _end(self, instance: InstanceRecord) -> None:
        await self._end_host(instance)
        self.instances.ended(instance)
        self._engine.save()

    async def _end_host(self, instance: InstanceRecord) -> None:
        await self._engine.end_hosts(instance.path)
        if instance.deleting or not instance.host.host_keys:
            await self._engine.destroy(instance)

    async def _start_again(self, instance: InstanceRecord) -> None:
        """After a restart of the emulator."""
        try:
            await self._engine.start_hosts(instance)
        except (OSError, TPUError) as error:
            log.warning("the host of %s did not start: %s", instance.path, error)
            await self._engine.end_hosts(instance.path)
            instance.become("TERMINATED")

    async def _preempt(self, instance: InstanceRecord, seconds: float) -> None:
        await asyncio.sleep(seconds)
        if instance.status == "RUNNING":
            self.instances.preempt(instance)
            self._engine.save()
            self._changed.set()

    async def _host_error(self, instance: InstanceRecord, seconds: float) -> None:
        self.instances.host_error(instance, seconds)
        await self._engine.end_hosts(instance.path)
        self._engine.save()
        self._changed.set()
