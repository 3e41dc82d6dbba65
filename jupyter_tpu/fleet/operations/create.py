"""Creating a TPU, and connecting it then if that was asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ...cloud import Cloud, Node, NodeName, NodeSpec
from ...environment import StepPlan
from ...errors import Reason, TPUError
from ...links import Links
from ..discovery.availability import Availability
from ..discovery.observer import Observer
from ..models import ConnectTPU, CreateTPU, Operation
from ..models.catalog import known_type
from ..models.requests import validated
from ..store.records import OperationRecord
from . import checks
from .progress import Progress
from .runner import OperationRunner

_STEPS = (StepPlan("create", "Create the TPU", 1),)
#: Between two polls while a create is resumed; seconds.
_RESUME_POLL = 2.0


class CreateService:
    """connect: starts connecting a TPU that was created."""

    def __init__(
        self,
        links: Links,
        availability: Availability,
        observer: Observer,
        runner: OperationRunner,
        connect: Callable[[NodeName, ConnectTPU], Operation],
    ) -> None:
        self._links = links
        self._cloud: Cloud = links.cloud
        self._availability = availability
        self._observer = observer
        self._runner = runner
        self._connect = connect

    async def start(self, request: CreateTPU) -> Operation:
        """Raises INVALID for a request that can't be met, EXISTS for a name that is in use."""
        request = validated(request)
        checks.check_labels(request.labels)
        if request.connect is not None:
            checks.check_environment(request.connect)
        request = await self._availability.resolve_defaults(request)
        assert request.zone is not None
        name = NodeName(self._cloud.project, request.zone, request.name)
        await self._require_new(name)
        return self._runner.start(
            self._runner.new_record("create", name, create=request),
            lambda progress: self._create(name, request, progress),
            lambda progress: self._undo(name, progress),
        )

    def resume(self, record: OperationRecord) -> None:
        """Continues one that a dead process left."""
        name, request = record.name, record.create
        assert request is not None
        self._runner.start(
            record,
            lambda progress: self._wait_for_created(name, request, progress),
            lambda progress: self._undo(name, progress),
        )

    async def _require_new(self, name: NodeName) -> None:
        exists = TPUError(
            f"A TPU called {name.node} already exists in {name.zone}.",
            Reason.EXISTS,
            "Choose another name.",
        )
        if self._runner.running_on(name):
            raise exists
        try:
            await self._cloud.get_node(name)
        except TPUError as error:
            if error.reason is Reason.NOT_FOUND:
                return
            raise
        raise exists

    async def _create(self, name: NodeName, request: CreateTPU, progress: Progress) -> None:
        assert request.version is not None
        progress.plan(_STEPS)
        progress.begin("create")
        accelerator = known_type(request.type)
        meaning = f" ({accelerator.meaning})" if accelerator else ""
        progress.log(f"Creating {name.node}: {request.type}{meaning} in {name.zone}")
        if accelerator is not None and request.version != accelerator.version:
            progress.log(
                f"{request.version} is not the usual version for {request.type}, which is "
                f"{accelerator.version}. If JAX sees no chips there, that is the reason."
            )
        spec = NodeSpec(
            type=request.type,
            version=request.version,
            tier=request.tier,
            network=request.network,
            subnetwork=request.subnetwork,
            labels=request.labels,
            metadata=await asyncio.to_thread(self._links.key_metadata),
        )
        self._observer.request_refresh()
        node = await self._cloud.create_node(name, spec)
        self._created(node, request, progress)

    async def _wait_for_created(
        self, name: NodeName, request: CreateTPU, progress: Progress
    ) -> None:
        """Waits for a TPU that an earlier process asked for, as the poll sees it."""
        progress.plan(_STEPS)
        progress.begin("create")
        progress.log("The server was restarted. Checking whether Google has created the TPU.")
        observed = self._observer.observed
        while True:
            await self._observer.refresh()
            node = observed.node(name)
            if node is not None and node.state != "CREATING":
                break
            if node is None and observed.complete(name.zone):
                raise TPUError(
                    f"The server was stopped while {name.node} was being created, and Google has "
                    "no such TPU now.",
                    Reason.INTERRUPTED,
                    "Create it again.",
                )
            await asyncio.sleep(_RESUME_POLL)
        if node.state != "READY":
            raise TPUError(f"{name.node} was created and is now {node.state}.", Reason.CONFLICT)
        self._created(node, request, progress)

    def _created(self, node: Node, request: CreateTPU, progress: Progress) -> None:
        progress.done("create")
        progress.log(f"{node.name.node} is {node.state}")
        self._observer.upsert(node)
        if request.connect is not None:
            self._connect(node.name, request.connect)

    async def _undo(self, name: NodeName, progress: Progress) -> None:
        """Deletes what was created so far."""
        progress.set_message("Deleting what was created")
        progress.log("Cancelled: deleting what was created so far")
        try:
            await self._cloud.delete_node(name)
        except TPUError as error:
            if error.reason is not Reason.NOT_FOUND:
                raise
        self._observer.remove(name)
