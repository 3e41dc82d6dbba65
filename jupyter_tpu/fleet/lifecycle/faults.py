"""Reporting a host whose machine is broken. Google repairs that, and starts the host elsewhere."""

from __future__ import annotations

import asyncio

from ...backoff import POLLING
from ...cloud import NodeName, NodeState, check_ours
from ...errors import InvalidInput, Reason, TPUError
from ...progress import StepPlan
from ..core import checks
from ..core.core import Core
from ..core.known_operations import OperationProgress
from ..core.operation_records import OperationRecord, StateChange
from ..kernels.kernels import shut_down_error
from ..models import Operation, ReportFault
from ..money.owners import TPUOwners
from .belongings import RunningWork


class FaultService:
    def __init__(self, core: Core, work: RunningWork, owners: TPUOwners) -> None:
        self._cloud = core.cloud
        self._observer = core.observer
        self._runner = core.runner
        self._work = work
        self._owners = owners

    async def report(self, name: NodeName, request: ReportFault) -> Operation:
        """As `FleetAPI.report_fault`."""
        check_ours(name, "reported")
        node = self._observer.observed.require(
            name, (NodeState.READY,), "Only a host of a READY TPU can be reported."
        )
        if node.api != "compute":
            raise InvalidInput(
                f"{name.node} is a TPU of the Cloud TPU API, which takes no reports about hosts.",
                f"Replace the TPU: jupyter tpu replace {name.node}",
            )
        if request.host >= len(node.endpoints):
            raise InvalidInput(
                f"{name.node} has no host {request.host}.",
                f"Its hosts are 0 to {len(node.endpoints) - 1}.",
                field="host",
            )
        self._owners.require_consent(node, request.confirm_name)
        await self._work.require_confirmation(
            name,
            "Reporting a host",
            end_kernels=request.end_kernels,
            end_jobs=request.end_jobs,
        )
        change = StateChange(node_id=node.id)
        record = self._runner.new_record("report", name, change)
        return await self._runner.start_exclusive(
            record, lambda progress: self._report(record, change, request, progress)
        )

    async def _report(
        self,
        record: OperationRecord,
        change: StateChange,
        request: ReportFault,
        progress: OperationProgress,
    ) -> None:
        """Google is asked first: where it refuses, kernels go on."""
        name = record.name
        progress.plan(
            [
                StepPlan("report", "Report the host to Google", 5),
                StepPlan("kernels", "Shut down kernels", 1),
            ]
        )
        progress.begin("report")
        node = await self._cloud.get_node(name)
        if other := checks.another_node(node, change.node_id):
            raise other
        known = self._observer.observed.node(name) or node  # its hosts have their numbers
        operation = await self._cloud.begin_report_fault(
            known, request.host, request.fault, request.about
        )
        change.accepted = operation
        self._runner.save_soon(record)
        await self._follow(operation, progress)
        progress.done("report")
        why = shut_down_error(
            f"repair host {request.host} of {name.node}",
            f"Restart the kernel when {name.node} is READY again.",
        )
        await self._work.shut_down_kernels(name, why, progress)
        self._observer.request_refresh()
        progress.log(f"Google starts host {request.host} again on another machine")

    async def _follow(self, operation: str, progress: OperationProgress) -> None:
        """Returns when Google has accepted the report; raises why it has not."""
        for pause in POLLING:
            try:
                status = await self._cloud.operation(operation)
            except TPUError as error:
                if error.reason is Reason.NOT_FOUND:  # forgotten: it is over
                    return
                progress.block(error)
                pause = max(pause, error.retry_after or 0.0)
            else:
                progress.block(None)
                if status.error is not None:
                    raise status.error
                if status.done:
                    return
            await asyncio.sleep(pause)
