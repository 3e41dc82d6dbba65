"""Starting, stopping and deleting a TPU."""

from __future__ import annotations

from collections.abc import Awaitable

from ...cloud import Cloud, Node, NodeName
from ...environment import StepPlan
from ...errors import Reason, TPUError
from ..discovery.observer import Observer
from ..hosts.connections import HostConnections
from ..models import DeleteTPU, Operation, StopTPU
from .connected import ConnectedTPUs
from .progress import Progress
from .runner import OperationRunner

#: How long a connect may take to clean up before its TPU is deleted; seconds.
CANCEL_CONNECT = 15.0


class PowerService:
    def __init__(
        self,
        cloud: Cloud,
        observer: Observer,
        connections: HostConnections,
        connected: ConnectedTPUs,
        runner: OperationRunner,
    ) -> None:
        self._cloud = cloud
        self._observer = observer
        self._connections = connections
        self._connected = connected
        self._runner = runner

    def start(self, name: NodeName) -> Operation:
        """Raises CONFLICT unless the TPU is stopped."""
        self._observer.observed.require(
            name, ("STOPPED", "STOPPING"), "Only a stopped TPU can be started."
        )

        async def work(progress: Progress) -> None:
            progress.plan([StepPlan("start", "Start the TPU", 1)])
            await self._change("start", self._cloud.start_node(name), progress)

        return self._runner.start_exclusive("start", name, work)

    async def stop(self, name: NodeName, options: StopTPU) -> Operation:
        """Raises CONFLICT unless the TPU is READY, KERNELS_RUNNING unless *options* allow it."""
        self._observer.observed.require(name, ("READY",), "Only a READY TPU can be stopped.")
        await self._connected.kernels.require_confirmation(name, options.end_kernels, "Stopping")

        async def work(progress: Progress) -> None:
            progress.plan(
                [
                    StepPlan("kernels", "Shut down kernels", 1),
                    StepPlan("stop", "Stop the TPU", 9),
                ]
            )
            await self._connected.shut_down_kernels(name, progress)
            self._connections.release(name)
            await self._change("stop", self._cloud.stop_node(name), progress)

        return self._runner.start_exclusive("stop", name, work)

    async def delete(self, name: NodeName, options: DeleteTPU) -> Operation:
        """Raises CONFLICT while it is being created, KERNELS_RUNNING unless *options* allow it."""
        for record in self._runner.running_on(name):
            if record.operation.kind == "create":
                raise TPUError(
                    f"{name.node} is still being created.",
                    Reason.CONFLICT,
                    "Cancel its creation: that deletes what was created.",
                )
        await self._connected.kernels.require_confirmation(name, options.end_kernels, "Deleting")
        await self._runner.cancel_connects(name, CANCEL_CONNECT)
        return self._runner.start_exclusive(
            "delete", name, lambda progress: self._delete(name, progress)
        )

    async def _delete(self, name: NodeName, progress: Progress) -> None:
        """Kernelspecs go last: if Google refuses to delete the TPU, they are kept."""
        progress.plan(
            [
                StepPlan("kernels", "Shut down kernels", 1),
                StepPlan("delete", "Delete the TPU", 9),
                StepPlan("forget", "Remove its kernels from Jupyter", 1),
            ]
        )
        await self._connected.shut_down_kernels(name, progress)
        progress.begin("delete")
        self._observer.request_refresh()
        try:
            await self._cloud.delete_node(name)
        except TPUError as error:
            if error.reason is not Reason.NOT_FOUND:
                raise
            progress.log("The TPU no longer exists")
        progress.done("delete")
        progress.begin("forget")
        self._connected.forget(name)
        self._observer.remove(name)
        progress.done("forget")

    async def _change(self, key: str, change: Awaitable[Node], progress: Progress) -> None:
        progress.begin(key)
        self._observer.request_refresh()
        node = await change
        self._observer.upsert(node)
        progress.done(key)
        progress.log(f"{node.name.node} is {node.state}")
