"""The calls of one version of the API by their gRPC names, a message in and a message out.

Both transports end here: gRPC by the call's name, REST by the table in ``rest.py``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

from google.cloud.location import locations_pb2
from google.longrunning import operations_pb2
from google.protobuf import empty_pb2
from msgspec import Struct

from ..engine import Engine
from ..model import api_errors
from ..model.operations import paginate
from ..model.records import EmulatedOperation
from .messages import Messages
from .schema import VERSIONS
from .services import project_number

T = TypeVar("T")

OPERATIONS = "google.longrunning.Operations"
LOCATIONS = "google.cloud.location.Locations"

_PATH = re.compile(
    r"projects/(?P<project>[^/]+)"
    r"(?:/locations(?:/(?P<zone>[^/]+)(?:/(?P<collection>[A-Za-z]+)(?:/(?P<id>[^/]*))?)?)?)?"
)


class ResourcePath(Struct, frozen=True):
    """``projects/P/locations/Z/COLLECTION/ID``, its later parts "" where they are missing."""

    project: str
    zone: str
    collection: str
    id: str

    @property
    def parent(self) -> str:
        return f"projects/{self.project}/locations/{self.zone}"

    @classmethod
    def parse(cls, text: str) -> ResourcePath:
        match = _PATH.fullmatch(text)
        if match is None:
            raise api_errors.invalid_field(f"the resource name {text!r} is invalid")
        return cls(*(match[part] or "" for part in ("project", "zone", "collection", "id")))


class Api:
    """The versions of the API; each is made when it is first asked for."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._versions: dict[str, Calls] = {}

    def version(self, name: str) -> Calls | None:
        """The calls of that version; None if there is none of that name."""
        if name in VERSIONS and name not in self._versions:
            self._versions[name] = Calls(self._engine, name)
        return self._versions.get(name)

    def version_of(self, operation: str) -> str:
        """The version whose call has begun the operation of that name."""
        emulated_operations = [
            emulated_operation
            for emulated_operation in self._engine.model.operations.all()
            if emulated_operation.name == operation
        ]
        return emulated_operations[0].api_version if emulated_operations else VERSIONS[0]

    def has_call(self, name: str) -> bool:
        """Whether any version has a call of that gRPC name."""
        return any(calls and name in calls.names for calls in map(self.version, VERSIONS))


class Calls:
    """All calls of *version*; which both transports send through `call`."""

    def __init__(self, engine: Engine, version: str) -> None:
        self._engine = engine
        self._model = engine.model
        self.messages = Messages(version)
        self._tables: dict[str, dict[str, Callable[[Any], Any]]] = {
            self.messages.schema.service: {
                "ListNodes": self.list_nodes,
                "GetNode": self.get_node,
                "CreateNode": self.create_node,
                "DeleteNode": self.delete_node,
                "StopNode": self.stop_node,
                "StartNode": self.start_node,
                "UpdateNode": self.update_node,
                "ListQueuedResources": self.list_queued,
                "GetQueuedResource": self.get_queued,
                "CreateQueuedResource": self.create_queued,
                "DeleteQueuedResource": self.delete_queued,
                "ResetQueuedResource": self.reset_queued,
                "ListAcceleratorTypes": self.list_types,
                "GetAcceleratorType": self.get_type,
                "ListRuntimeVersions": self.list_versions,
                "GetRuntimeVersion": self.get_version,
                "GetGuestAttributes": self.guest_attributes,
                "GenerateServiceIdentity": self.service_identity,
            },
            OPERATIONS: {
                "ListOperations": self.list_operations,
                "GetOperation": self.get_operation,
                "CancelOperation": self.cancel_operation,
                "DeleteOperation": self.delete_operation,
            },
            LOCATIONS: {
                "ListLocations": self.list_locations,
                "GetLocation": self.get_location,
            },
        }
        if version == "v2alpha1":
            self._tables[self.messages.schema.service] |= {
                "PerformMaintenance": self.maintain_node,
                "SimulateMaintenanceEvent": self.maintain_node,
                "PerformMaintenanceQueuedResource": self.maintain_queued,
                "ListReservations": self.list_reservations,
            }

    @property
    def names(self) -> frozenset[str]:
        """The names of all calls."""
        return frozenset().union(*self._tables.values())

    def request_class(self, service: str, name: str) -> Any:
        """The class of a call's request; None: this version has no such call."""
        if name not in self._tables.get(service, {}):
            return None
        if service == self.messages.schema.service:
            return self.messages.schema.message(f"{name}Request")
        module = operations_pb2 if service == OPERATIONS else locations_pb2
        return getattr(module, f"{name}Request")

    async def call(self, service: str, name: str, request: Any) -> Any:
        """The answer to *request*, unless a fault hits calls of that *name*."""
        faults, zone = self._model.faults, _zone(request)
        if faults.consume("api-disabled", zone, name):
            raise api_errors.api_disabled(project_number(_project(request)))
        if silent := faults.consume("silent", zone, name):
            await faults.wait_silence(silent)
        if failing := faults.consume("error", zone, name):
            raise failing.error()
        result = self._tables[service][name](request)
        if lost := faults.consume("lost-answer", zone, name):
            raise lost.error()
        return result

    # ---- nodes ----------------------------------------------------------------------------------

    def list_nodes(self, request: Any) -> Any:
        at = ResourcePath.parse(request.parent)
        nodes, unreachable = self._model.list_nodes(at.project, at.zone)
        page = self._page("Nodes", nodes, self.messages.node, request)
        page.unreachable.extend(unreachable)
        return page

    def get_node(self, request: Any) -> Any:
        at = ResourcePath.parse(request.name)
        return self.messages.node(self._model.get_node(at.project, at.zone, at.id))

    def create_node(self, request: Any) -> Any:
        at = ResourcePath.parse(request.parent)

        def create() -> EmulatedOperation:
            node_request = self.messages.node_request(request.node)
            return self._model.create_node(at.project, at.zone, request.node_id, node_request)

        return self._begin(create, request, f"{at.parent}/nodes/{request.node_id}")

    def delete_node(self, request: Any) -> Any:
        return self._do(self._model.delete_node, request)

    def stop_node(self, request: Any) -> Any:
        return self._do(self._model.stop_node, request)

    def start_node(self, request: Any) -> Any:
        return self._do(self._model.start_node, request)

    def maintain_node(self, request: Any) -> Any:
        return self._do(self._model.maintain_node, request)

    def update_node(self, request: Any) -> Any:
        at = ResourcePath.parse(request.node.name)
        mask = list(request.update_mask.paths)
        node_request = self.messages.node_request(request.node)
        return self._begin(
            lambda: self._model.update_node(at.project, at.zone, at.id, mask, node_request), request
        )

    def guest_attributes(self, request: Any) -> Any:
        at = ResourcePath.parse(request.name)
        attributes = self._model.guest_attributes(
            at.project, at.zone, at.id, request.query_path, request.worker_ids
        )
        answer = self.messages.schema.message("GetGuestAttributesResponse")()
        for items in attributes:
            worker = answer.guest_attributes.add(query_path=request.query_path)
            worker.query_value.SetInParent()
            for namespace, key, value in items:
                worker.query_value.items.add(namespace=namespace, key=key, value=value)
        return answer

    def service_identity(self, request: Any) -> Any:
        at = ResourcePath.parse(request.parent)
        self._model.check_zone(at.zone)
        answer = self.messages.schema.message("GenerateServiceIdentityResponse")()
        number = project_number(at.project)
        answer.identity.email = f"service-{number}@cloud-tpu.iam.gserviceaccount.com"
        return answer

    # ---- queued resources -----------------------------------------------------------------------

    def list_queued(self, request: Any) -> Any:
        at = ResourcePath.parse(request.parent)
        queued_records, unreachable = self._engine.queue.list_in(at.project, at.zone)
        page = self._page("QueuedResources", queued_records, self.messages.queued, request)
        page.unreachable.extend(unreachable)
        return page

    def get_queued(self, request: Any) -> Any:
        at = ResourcePath.parse(request.name)
        return self.messages.queued(self._engine.queue.get(at.project, at.zone, at.id))

    def create_queued(self, request: Any) -> Any:
        at, name = ResourcePath.parse(request.parent), request.queued_resource_id

        def create() -> EmulatedOperation:
            queued_request = self.messages.queued_request(
                request.queued_resource, name, datetime.now(UTC)
            )
            return self._engine.queue.create(at.project, at.zone, name, queued_request)

        return self._begin(create, request, f"{at.parent}/queuedResources/{name}")

    def delete_queued(self, request: Any) -> Any:
        at = ResourcePath.parse(request.name)

        def delete() -> EmulatedOperation:
            return self._engine.queue.delete(at.project, at.zone, at.id, force=request.force)

        return self._begin(delete, request, request.name)

    def reset_queued(self, request: Any) -> Any:
        return self._do(self._engine.queue.reset, request)

    def maintain_queued(self, request: Any) -> Any:
        """Maintenance of the nodes that are named, or all; the answer is the last operation."""
        at = ResourcePath.parse(request.name)
        queued = self._engine.queue.get(at.project, at.zone, at.id)
        names = [name.rpartition("/")[2] for name in request.node_names]
        operation = None
        for spec in queued.specs:
            if not names or spec.name in names:
                operation = self._begin(
                    partial(self._model.maintain_node, at.project, at.zone, spec.name), request
                )
        if operation is None:
            raise api_errors.invalid_field("the queued resource has no such node")
        return operation

    # ---- what is offered ------------------------------------------------------------------------

    def list_types(self, request: Any) -> Any:
        at = ResourcePath.parse(request.parent)
        return self._page(
            "AcceleratorTypes",
            self._model.accelerator_types(at.zone),
            partial(self.messages.accelerator_type, at.parent),
            request,
        )

    def get_type(self, request: Any) -> Any:
        at = ResourcePath.parse(request.name)
        accelerator = self._model.accelerator_type(at.parent, at.zone, at.id)
        return self.messages.accelerator_type(at.parent, accelerator)

    def list_versions(self, request: Any) -> Any:
        at = ResourcePath.parse(request.parent)
        return self._page(
            "RuntimeVersions",
            self._model.runtime_versions(at.zone),
            partial(self.messages.runtime_version, at.parent),
            request,
        )

    def get_version(self, request: Any) -> Any:
        at = ResourcePath.parse(request.name)
        name = self._model.runtime_version(at.parent, at.zone, at.id)
        return self.messages.runtime_version(at.parent, name)

    def list_reservations(self, request: Any) -> Any:
        """None: a reservation is made with Google's sales, not by a call."""
        self._model.check_zone(ResourcePath.parse(request.parent).zone)
        return self.messages.schema.message("ListReservationsResponse")()

    def list_locations(self, request: Any) -> Any:
        at = ResourcePath.parse(request.name.removesuffix("/locations"))
        return _page(
            locations_pb2.ListLocationsResponse,
            "locations",
            self._model.zones(),
            partial(self._location, at.project),
            request,
        )

    def get_location(self, request: Any) -> Any:
        at = ResourcePath.parse(request.name)
        self._model.check_zone(at.zone)
        return self._location(at.project, at.zone)

    @staticmethod
    def _location(project: str, zone: str) -> Any:
        return locations_pb2.Location(
            name=f"projects/{project}/locations/{zone}", location_id=zone, display_name=zone
        )

    # ---- operations -----------------------------------------------------------------------------

    def list_operations(self, request: Any) -> Any:
        at = ResourcePath.parse(request.name)
        return _page(
            operations_pb2.ListOperationsResponse,
            "operations",
            self._model.operations.list_in(at.project, at.zone),
            self.messages.operation,
            request,
        )

    def get_operation(self, request: Any) -> Any:
        return self.messages.operation(self._model.operations.get(request.name))

    def cancel_operation(self, request: Any) -> Any:
        self._model.operations.request_cancel(request.name)
        return empty_pb2.Empty()

    def delete_operation(self, request: Any) -> Any:
        self._model.operations.delete(request.name)
        return empty_pb2.Empty()

    def _do(self, what: Callable[[str, str, str], EmulatedOperation], request: Any) -> Any:
        at = ResourcePath.parse(request.name)
        return self._begin(lambda: what(at.project, at.zone, at.id), request, request.name)

    def _begin(self, what: Callable[[], EmulatedOperation], request: Any, target: str = "") -> Any:
        """The operation that *what* begins, unless *request* repeats one on *target*."""
        request_id = getattr(request, "request_id", "")
        operation = self._model.operations.repeated(request_id, target)
        if operation is None:
            operation = what()
            operation.api_version, operation.request_id = self.messages.version, request_id
            self._engine.begin(operation)
        return self.messages.operation(operation)

    def _page(
        self, what: str, items: Sequence[T], message: Callable[[T], Any], request: Any
    ) -> Any:
        kind = self.messages.schema.message(f"List{what}Response")
        return _page(kind, _snake(what), items, message, request)


def _page(
    kind: Any,
    field: str,
    items: Sequence[T],
    message: Callable[[T], Any],
    request: Any,
) -> Any:
    """An answer of *kind* with the items that *request* asks for in its *field*."""
    shown, token = paginate(items, request.page_size, request.page_token)
    return kind(**{field: [message(item) for item in shown]}, next_page_token=token)


def _snake(name: str) -> str:
    return re.sub("(?<!^)(?=[A-Z])", "_", name).lower()


def _zone(request: Any) -> str:
    """The zone that a request is about; "" if there is none in it."""
    return _part("zone", request)


def _project(request: Any) -> str:
    return _part("project", request)


def _part(name: str, request: Any) -> str:
    path = getattr(request, "parent", "") or getattr(request, "name", "") or request.node.name
    match = _PATH.fullmatch(path)
    return (match[name] or "") if match else ""
