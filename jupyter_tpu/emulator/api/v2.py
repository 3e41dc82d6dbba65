"""The API's calls by their gRPC names, each a message in and a message out; no transport.

Both transports end here: gRPC by the call's name, REST by the table in ``rest.py``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from google.cloud import tpu_v2
from google.cloud.location import locations_pb2
from google.longrunning import operations_pb2
from google.protobuf import empty_pb2
from msgspec import Struct

from ..engine import Engine
from ..model import api_errors
from ..model.model import paginate
from . import messages

T = TypeVar("T")

TPU = "google.cloud.tpu.v2.Tpu"
OPERATIONS = "google.longrunning.Operations"
LOCATIONS = "google.cloud.location.Locations"

_PATH = re.compile(
    r"projects/(?P<project>[^/]+)"
    r"(?:/locations(?:/(?P<zone>[^/]+)(?:/(?P<collection>[A-Za-z]+)(?:/(?P<id>[^/]*))?)?)?)?"
)


class Path(Struct, frozen=True):
    """``projects/P/locations/Z/COLLECTION/ID``, its later parts "" where they are missing."""

    project: str
    zone: str
    collection: str
    id: str

    @property
    def parent(self) -> str:
        return f"projects/{self.project}/locations/{self.zone}"

    @classmethod
    def parse(cls, text: str) -> Path:
        match = _PATH.fullmatch(text)
        if match is None:
            raise api_errors.invalid_field(f"the resource name {text!r} is invalid")
        return cls(*(match[part] or "" for part in ("project", "zone", "collection", "id")))


class Calls:
    """All calls; `table` gives service → call → (class of the request, what answers it).

    Both transports go through `call`, which applies the faults that tests inject.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._model = engine.model
        v2 = tpu_v2
        self.table: dict[str, dict[str, tuple[Any, Callable[[Any], Any]]]] = {
            TPU: {
                "ListNodes": (v2.ListNodesRequest.pb(), self.list_nodes),
                "GetNode": (v2.GetNodeRequest.pb(), self.get_node),
                "CreateNode": (v2.CreateNodeRequest.pb(), self.create_node),
                "DeleteNode": (v2.DeleteNodeRequest.pb(), self.delete_node),
                "StopNode": (v2.StopNodeRequest.pb(), self.stop_node),
                "StartNode": (v2.StartNodeRequest.pb(), self.start_node),
                "UpdateNode": (v2.UpdateNodeRequest.pb(), self.update_node),
                "ListAcceleratorTypes": (v2.ListAcceleratorTypesRequest.pb(), self.list_types),
                "GetAcceleratorType": (v2.GetAcceleratorTypeRequest.pb(), self.get_type),
                "ListRuntimeVersions": (v2.ListRuntimeVersionsRequest.pb(), self.list_versions),
                "GetRuntimeVersion": (v2.GetRuntimeVersionRequest.pb(), self.get_version),
                "GetGuestAttributes": (v2.GetGuestAttributesRequest.pb(), self.guest_attributes),
            },
            OPERATIONS: {
                "ListOperations": (operations_pb2.ListOperationsRequest, self.list_operations),
                "GetOperation": (operations_pb2.GetOperationRequest, self.get_operation),
                "CancelOperation": (operations_pb2.CancelOperationRequest, self.cancel_operation),
                "DeleteOperation": (operations_pb2.DeleteOperationRequest, self.delete_operation),
            },
            LOCATIONS: {
                "ListLocations": (locations_pb2.ListLocationsRequest, self.list_locations),
                "GetLocation": (locations_pb2.GetLocationRequest, self.get_location),
            },
        }

    @property
    def names(self) -> frozenset[str]:
        """The names of all calls."""
        return frozenset({"PerformMaintenance"}.union(*self.table.values()))

    async def call(self, name: str, answer: Callable[[Any], Any], request: Any) -> Any:
        """What *answer* returns for *request*, unless a fault hits calls of that *name*."""
        faults, zone = self._model.faults, _zone(request)
        if silent := faults.consume("silent", zone, name):
            await faults.wait_silence(silent)
        if failing := faults.consume("error", zone, name):
            raise failing.error()
        result = answer(request)
        if lost := faults.consume("lost-answer", zone, name):
            raise lost.error()
        return result

    # ---- nodes ----------------------------------------------------------------------------------

    def list_nodes(self, request: Any) -> Any:
        at = Path.parse(request.parent)
        nodes, unreachable = self._model.list_nodes(at.project, at.zone)
        page = _page(tpu_v2.ListNodesResponse.pb(), "nodes", nodes, messages.node_message, request)
        page.unreachable.extend(unreachable)
        return page

    def get_node(self, request: Any) -> Any:
        at = Path.parse(request.name)
        return messages.node_message(self._model.get_node(at.project, at.zone, at.id))

    def create_node(self, request: Any) -> Any:
        at = Path.parse(request.parent)
        wanted = messages.node_request(request.node)
        return self._begin(self._model.create_node(at.project, at.zone, request.node_id, wanted))

    def delete_node(self, request: Any) -> Any:
        return self._do(self._model.delete_node, request)

    def stop_node(self, request: Any) -> Any:
        return self._do(self._model.stop_node, request)

    def start_node(self, request: Any) -> Any:
        return self._do(self._model.start_node, request)

    def maintain_node(self, request: Any) -> Any:
        return self._do(self._model.maintain_node, request)

    def update_node(self, request: Any) -> Any:
        at = Path.parse(request.node.name)
        mask = list(request.update_mask.paths)
        wanted = messages.node_request(request.node)
        return self._begin(self._model.update_node(at.project, at.zone, at.id, mask, wanted))

    def guest_attributes(self, request: Any) -> Any:
        at = Path.parse(request.name)
        found = self._model.guest_attributes(
            at.project, at.zone, at.id, request.query_path, request.worker_ids
        )
        answer = tpu_v2.GetGuestAttributesResponse.pb()()
        for items in found:
            worker = answer.guest_attributes.add(query_path=request.query_path)
            worker.query_value.SetInParent()
            for namespace, key, value in items:
                worker.query_value.items.add(namespace=namespace, key=key, value=value)
        return answer

    # ---- what is offered ------------------------------------------------------------------------

    def list_types(self, request: Any) -> Any:
        at = Path.parse(request.parent)
        return _page(
            tpu_v2.ListAcceleratorTypesResponse.pb(),
            "accelerator_types",
            self._model.accelerator_types(at.zone),
            partial(messages.accelerator_type_message, at.parent),
            request,
        )

    def get_type(self, request: Any) -> Any:
        at = Path.parse(request.name)
        accelerator = self._model.accelerator_type(at.parent, at.zone, at.id)
        return messages.accelerator_type_message(at.parent, accelerator)

    def list_versions(self, request: Any) -> Any:
        at = Path.parse(request.parent)
        return _page(
            tpu_v2.ListRuntimeVersionsResponse.pb(),
            "runtime_versions",
            self._model.runtime_versions(at.zone),
            partial(messages.runtime_version_message, at.parent),
            request,
        )

    def get_version(self, request: Any) -> Any:
        at = Path.parse(request.name)
        name = self._model.runtime_version(at.parent, at.zone, at.id)
        return messages.runtime_version_message(at.parent, name)

    def list_locations(self, request: Any) -> Any:
        at = Path.parse(request.name.removesuffix("/locations"))
        return _page(
            locations_pb2.ListLocationsResponse,
            "locations",
            self._model.zones(),
            partial(self._location, at.project),
            request,
        )

    def get_location(self, request: Any) -> Any:
        at = Path.parse(request.name)
        self._model.check_zone(at.zone)
        return self._location(at.project, at.zone)

    @staticmethod
    def _location(project: str, zone: str) -> Any:
        return locations_pb2.Location(
            name=f"projects/{project}/locations/{zone}", location_id=zone, display_name=zone
        )

    # ---- operations -----------------------------------------------------------------------------

    def list_operations(self, request: Any) -> Any:
        at = Path.parse(request.name)
        return _page(
            operations_pb2.ListOperationsResponse,
            "operations",
            self._model.list_operations(at.project, at.zone),
            messages.operation_message,
            request,
        )

    def get_operation(self, request: Any) -> Any:
        return messages.operation_message(self._model.get_operation(request.name))

    def cancel_operation(self, request: Any) -> Any:
        self._model.cancel_operation(request.name)
        return empty_pb2.Empty()

    def delete_operation(self, request: Any) -> Any:
        self._model.delete_operation(request.name)
        return empty_pb2.Empty()

    def _do(self, what: Callable[[str, str, str], Any], request: Any) -> Any:
        at = Path.parse(request.name)
        return self._begin(what(at.project, at.zone, at.id))

    def _begin(self, operation: Any) -> Any:
        self._engine.begin(operation)
        return messages.operation_message(operation)


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


def _zone(request: Any) -> str:
    """The zone that a request is about; "" if there is none in it."""
    path = getattr(request, "parent", "") or getattr(request, "name", "") or request.node.name
    match = _PATH.fullmatch(path)
    return (match["zone"] or "") if match else ""
