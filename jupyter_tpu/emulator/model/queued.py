"""Queued resources: requests that wait until there is capacity, and then make their TPUs.

```
CREATING → ACCEPTED (until its valid-after) → WAITING_FOR_RESOURCES → PROVISIONING → ACTIVE
any of them → FAILED (quota, valid-until has passed, a TPU could not be made)
PROVISIONING, ACTIVE → SUSPENDING → SUSPENDED (a TPU was preempted, or deleted by its user)
SUSPENDED, FAILED → reset → WAITING_FOR_RESOURCES;   any → DELETING
```

`step` moves each of them on by one state at most, and returns the operations on TPUs that it has
begun. Nothing here waits: the engine calls it again when something has changed or is due.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import msgspec

from ...catalog import accelerator_type
from . import api_errors
from .model import Model
from .operations import rfc3339
from .records import (
    EmulatedOperation,
    NodeRecord,
    NodeRequest,
    OperationFailure,
    QueuedRecord,
    QueuedRequest,
    QueuedSettings,
    SliceRecord,
    SpecRecord,
)

#: Where it has no TPUs, so that a delete needs no force.
DELETABLE = ("ACCEPTED", "WAITING_FOR_RESOURCES", "FAILED", "SUSPENDED")
RESETTABLE = ("FAILED", "SUSPENDED")
#: They need no step before something else happens to them.
SETTLED = ("FAILED", "SUSPENDED")


class EmulatedQueue:
    """The queued resources of *model*: the calls about them, and their steps."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._found = model.queued  # by path
        self._now = model.now
        self._steps: dict[str, Callable[[QueuedRecord], list[EmulatedOperation]]] = {
            "CREATING": self._created,
            "ACCEPTED": self._accepted,
            "WAITING_FOR_RESOURCES": self._waiting,
            "PROVISIONING": self._provisioning,
            "ACTIVE": self._active,
            "SUSPENDING": self._suspending,
            "SUSPENDED": self._settled,
            "FAILED": self._settled,
            "DELETING": self._deleting,
        }

    # ---- calls ----------------------------------------------------------------------------------

    def get(self, project: str, zone: str, name: str) -> QueuedRecord:
        self._model.check_zone(zone)
        path = f"projects/{project}/locations/{zone}/queuedResources/{name}"
        try:
            return self._found[path]
        except KeyError:
            raise api_errors.not_found(path) from None

    def list_in(self, project: str, zone: str) -> tuple[list[QueuedRecord], list[str]]:
        """Those of a zone, or of all zones for "-"; and the locations that did not answer."""
        return self._model.list_in(self._found.values(), project, zone)

    def create(
        self, project: str, zone: str, name: str, request: QueuedRequest
    ) -> EmulatedOperation:
        model = self._model
        model.check_zone(zone)
        parent = f"projects/{project}/locations/{zone}"
        model.take_permission_fault("queuedresources.create", parent, zone)
        if not model.is_id(name):
            raise api_errors.invalid_queued_resource_id(name)
        queued = QueuedRecord(
            project=project,
            zone=zone,
            name=name,
            created=rfc3339(self._now()),
            **{field: getattr(request, field) for field in QueuedSettings.__struct_fields__},
        )
        if queued.path in self._found:
            raise api_errors.exists(queued.path)
        if not request.specs:
            raise api_errors.invalid_field("the queued resource has no node spec")
        for node_name, node in request.specs:
            accelerator = model.check_node_request(project, zone, node_name, node)
            path = f"{parent}/nodes/{node_name}"
            if self._is_used(path) or any(node_name == other.name for other in queued.specs):
                raise api_errors.exists(path)
            node_request = _in_its_tier(node, request)
            queued.specs.append(
                SpecRecord(name=node_name, node=node_request, type=accelerator.name)
            )
        model.check_host_capacity(_hosts(queued))
        self._found[queued.path] = queued
        return model.operations.begin("create", queued.path)

    def delete(self, project: str, zone: str, name: str, *, force: bool) -> EmulatedOperation:
        queued = self.get(project, zone, name)
        self._model.take_permission_fault("queuedresources.delete", queued.path, zone)
        if queued.state == "DELETING":
            raise api_errors.busy(queued.path)
        if not force and queued.state not in DELETABLE and self._nodes(queued):
            raise api_errors.needs_force(queued.path, queued.state)
        self._model.operations.end_all(queued.path)
        queued.state = "DELETING"
        return self._model.operations.begin("delete", queued.path)

    def reset(self, project: str, zone: str, name: str) -> EmulatedOperation:
        queued = self.get(project, zone, name)
        self._model.take_permission_fault("queuedresources.reset", queued.path, zone)
        if queued.state not in RESETTABLE:
            raise api_errors.wrong_state("reset", queued.state)
        operation = self._model.operations.begin("reset", queued.path)
        queued.state, queued.initiator, queued.error = "WAITING_FOR_RESOURCES", "", None
        queued.active_since = ""
        self._complete(queued)
        return operation

    def end_run(self, path: str) -> None:
        """The time of one that runs for a limited time is over now."""
        queued = self._found.get(path)
        if queued is None or _end(queued) is None:
            raise api_errors.invalid_field("the TPU does not run for a limited time")
        run = timedelta(seconds=queued.max_run_seconds)
        queued.active_since = rfc3339(self._now() - run)

    # ---- what happens automatically -------------------------------------------------------------

    def unsettled(self) -> bool:
        """Whether a step may move one of them without a call or an event before it."""
        return any(
            self._nodes(queued_record)
            if queued_record.state in SETTLED
            else queued_record.state != "ACTIVE"
            for queued_record in self._found.values()
        )

    def next_due(self) -> float | None:
        """Seconds until an ACTIVE one has reached the end of its run; None: there is none."""
        ends = [
            end
            for queued_record in self._found.values()
            if queued_record.state == "ACTIVE" and (end := _end(queued_record))
        ]
        return max(0.0, (min(ends) - self._now()).total_seconds()) if ends else None

    def states(self) -> dict[str, str]:
        return {path: queued.state for path, queued in self._found.items()}

    def step(self) -> list[EmulatedOperation]:
        begun: list[EmulatedOperation] = []
        for queued in list(self._found.values()):
            begun += self._steps[queued.state](queued)
        return begun

    def _created(self, queued: QueuedRecord) -> list[EmulatedOperation]:
        queued.state = "ACCEPTED" if self._is_early(queued) else "WAITING_FOR_RESOURCES"
        try:
            for spec in queued.specs:
                self._model.limits.check_quota(
                    queued.zone, accelerator_type(spec.type), spec.node.tier, count=0
                )
        except api_errors.ApiError as error:
            self._fail(queued, error.code, error.message)
        self._complete(queued)
        return []

    def _accepted(self, queued: QueuedRecord) -> list[EmulatedOperation]:
        if not self._expired(queued) and not self._is_early(queued):
            queued.state = "WAITING_FOR_RESOURCES"
        return []

    def _waiting(self, queued: QueuedRecord) -> list[EmulatedOperation]:
        if self._expired(queued):
            return []
        if self._nodes(queued):  # from before it was reset
            return self._delete_nodes(queued)
        first = queued.specs[0]
        if self._model.limits.lacks_capacity(
            queued.zone, accelerator_type(first.type), first.node.tier, count=len(queued.specs)
        ):
            return []
        try:
            self._model.check_host_capacity(_hosts(queued))
            for path in map(queued.node_path, queued.specs):
                if path in self._model.nodes:
                    raise api_errors.exists(path)
        except api_errors.ApiError as error:
            self._fail(queued, error.code, error.message)
            return []
        queued.state = "PROVISIONING"
        nodes = [
            self._model.add_node(
                queued.project, queued.zone, spec.name, spec.type, spec.node, queued.path
            )
            for spec in queued.specs
        ]
        if queued.multislice:
            coordinator = nodes[0].hosts[0].internal
            for number, node in enumerate(nodes):
                node.slice = SliceRecord(number=number, count=len(nodes), coordinator=coordinator)
        return [self._model.operations.begin("create", node.path) for node in nodes]

    def _provisioning(self, queued: QueuedRecord) -> list[EmulatedOperation]:
        if self._lost(queued):
            return []
        if all(node.state == "READY" for node in self._nodes(queued)):
            queued.state, queued.active_since = "ACTIVE", rfc3339(self._now())
        return []

    def _active(self, queued: QueuedRecord) -> list[EmulatedOperation]:
        end = _end(queued)
        if not self._lost(queued) and end is not None and end <= self._now():
            queued.state, queued.initiator = "SUSPENDING", "SERVICE"
        return []

    def _suspending(self, queued: QueuedRecord) -> list[EmulatedOperation]:
        if self._nodes(queued):
            return self._delete_nodes(queued)
        queued.state = "SUSPENDED"
        return []

    def _settled(self, queued: QueuedRecord) -> list[EmulatedOperation]:
        return self._delete_nodes(queued)

    def _deleting(self, queued: QueuedRecord) -> list[EmulatedOperation]:
        if self._nodes(queued):
            return self._delete_nodes(queued)
        del self._found[queued.path]
        self._complete(queued)
        return []

    # ---- internals ------------------------------------------------------------------------------

    def _lost(self, queued: QueuedRecord) -> bool:
        """Moves *queued* on if one of its TPUs is no longer there; whether it did."""
        for spec in queued.specs:
            path = queued.node_path(spec)
            node = self._model.nodes.get(path)
            last = self._model.operations.last(path)
            by_user = node is not None and node.state == "DELETING"
            if node is None and last is not None and last.verb == "create" and last.error:
                self._fail(queued, last.error.code, last.error.message)
            elif node is None or by_user:
                queued.state, queued.initiator = "SUSPENDING", "USER"
            elif node.state in ("PREEMPTED", "TERMINATED"):
                queued.state, queued.initiator = "SUSPENDING", "SERVICE"
            else:
                continue
            return True
        return False

    def _nodes(self, queued: QueuedRecord) -> list[NodeRecord]:
        """The TPUs that it has made and that are still there."""
        nodes = self._model.nodes.values()
        return [node for node in nodes if node.queued_resource == queued.path]

    def _delete_nodes(self, queued: QueuedRecord) -> list[EmulatedOperation]:
        nodes = [node for node in self._nodes(queued) if node.state != "DELETING"]
        return [self._model.begin_delete(node) for node in nodes]

    def _is_used(self, path: str) -> bool:
        return path in self._model.nodes or any(
            path == queued.node_path(spec)
            for queued in self._found.values()
            for spec in queued.specs
        )

    def _complete(self, queued: QueuedRecord) -> None:
        """What was asked for is done: its operations end, with it as the answer."""
        for operation in self._model.operations.in_progress(queued.path):
            operation.queued = msgspec.convert(msgspec.to_builtins(queued), QueuedRecord)
            self._model.operations.end(operation, None)

    def _expired(self, queued: QueuedRecord) -> bool:
        """Fails *queued* if its valid-until has passed; whether it has."""
        if not queued.valid_until or self._now() < datetime.fromisoformat(queued.valid_until):
            return False
        self._fail(queued, api_errors.DEADLINE_EXCEEDED, api_errors.valid_until_text())
        return True

    def _is_early(self, queued: QueuedRecord) -> bool:
        return bool(queued.valid_after) and self._now() < datetime.fromisoformat(queued.valid_after)

    @staticmethod
    def _fail(queued: QueuedRecord, code: int, message: str) -> None:
        queued.state, queued.error = "FAILED", OperationFailure(code=code, message=message)


def _end(queued: QueuedRecord) -> datetime | None:
    """When an ACTIVE one has run for as long as it may; None: it has no limit."""
    if not queued.max_run_seconds or not queued.active_since:
        return None
    run = timedelta(seconds=queued.max_run_seconds)
    return datetime.fromisoformat(queued.active_since) + run


def _hosts(queued: QueuedRecord) -> int:
    return sum(accelerator_type(spec.type).hosts for spec in queued.specs)


def _in_its_tier(node: NodeRequest, request: QueuedRequest) -> NodeRequest:
    """*node* as the queued resource has it made: the tier is the whole request's."""
    return msgspec.structs.replace(
        node,
        spot=node.spot or request.tier == "spot",
        reserved=node.reserved or request.reserved or bool(request.reservation_name),
        reservation_name=node.reservation_name or request.reservation_name,
        provisioning_model=node.provisioning_model or request.provisioning_model,
    )
