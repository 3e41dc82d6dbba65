"""Queued resources between the API's JSON and our models.

Flex-start is a field that v2alpha1 has, and the client library in no version: it is asked for over
REST (cloud.google.com/tpu/docs/request-using-flex-start).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import structs

from ...errors import InvalidInput, Reason, TPUError
from ..errors import status_error
from ..google_apis import GoogleAPIs
from ..models import NodeName, QueuedSpec, QueuedState, QueuedTPUs
from .nodes import FLEX_START, node_message, parse_tier

if TYPE_CHECKING:
    from google.cloud import tpu_v2


def queued_path(name: NodeName) -> str:
    """``projects/P/locations/Z/queuedResources/Q``, as the API spells it."""
    return f"projects/{name.project}/locations/{name.zone}/queuedResources/{name.node}"


def parse_queued(data: Mapping[str, Any]) -> QueuedTPUs:
    """Raises as `parse_node` does."""
    _, project, _, zone, _, name = data["name"].split("/")
    specs = data.get("tpu", {}).get("nodeSpec", ())
    node = specs[0].get("node", {}) if specs else {}
    state = data.get("state", {})
    failure = state.get("failedData", {}).get("error")
    policy = data.get("queueingPolicy", {})
    tier, run_for = parse_tier(node)
    if "spot" in data:
        tier = "spot"
    reservation = data.get("reservationName", "")
    return QueuedTPUs(
        name=NodeName(project, zone, name),
        state=parse_state(state.get("state", "")),
        initiator=str(state.get("stateInitiator", "")),
        error=None if failure is None else status_error(failure, project=project),
        created=data.get("createTime", ""),
        nodes=tuple(id_ for spec in specs for id_ in _node_ids(spec, name)),
        type=node.get("acceleratorType", ""),
        version=node.get("runtimeVersion", ""),
        tier="reserved" if reservation and tier == "on-demand" else tier,
        run_for=run_for,
        reservation=reservation.rpartition("/")[2],
        valid_until=policy.get("validUntilTime", "")
        or policy.get("validInterval", {}).get("endTime", ""),
        labels=dict(node.get("labels", {})),
    )


def parse_state(word: str) -> QueuedState:
    """From the API's word, a name of google.cloud.tpu_v2.QueuedResourceState.State."""
    return QueuedState.__members__.get(word, QueuedState.UNKNOWN)


def _node_ids(spec: Mapping[str, Any], queued: str) -> Iterator[str]:
    """The TPUs of a node spec: a multislice has as many as it says, numbered from 0."""
    several = spec.get("multisliceParams")
    if several is None:
        yield spec.get("nodeId", "")
        return
    prefix = several.get("nodeIdPrefix") or queued
    for number in range(int(several.get("nodeCount", 0))):
        yield f"{prefix}-{number}"


def queued_message(name: NodeName, spec: QueuedSpec) -> tpu_v2.QueuedResource:
    """The API's message that asks for *spec* in the project and zone of *name*."""
    from google.cloud import tpu_v2
    from google.protobuf.timestamp_pb2 import Timestamp

    node = spec.node
    if node.tier == "flex-start":
        node = structs.replace(node, labels={**node.labels, FLEX_START: f"{spec.run_for:.0f}"})
    node_spec = tpu_v2.QueuedResource.Tpu.NodeSpec(
        parent=f"projects/{name.project}/locations/{name.zone}", node=node_message(node)
    )
    if spec.node_count == 1:
        node_spec.node_id = spec.node_id
    else:
        node_spec.multislice_params = tpu_v2.QueuedResource.Tpu.NodeSpec.MultisliceParams(
            node_count=spec.node_count, node_id_prefix=spec.node_id
        )
    message = tpu_v2.QueuedResource(tpu=tpu_v2.QueuedResource.Tpu(node_spec=[node_spec]))
    if spec.node.tier == "spot":
        message.spot = tpu_v2.QueuedResource.Spot()
    elif spec.node.tier == "reserved":
        message.guaranteed = tpu_v2.QueuedResource.Guaranteed()
    if spec.reservation:
        message.reservation_name = spec.reservation
    if spec.valid_until:
        until = Timestamp()
        until.FromJsonString(spec.valid_until)
        message.queueing_policy = tpu_v2.QueuedResource.QueueingPolicy(valid_until_time=until)
    return message


async def begin_flex_start(apis: GoogleAPIs, name: NodeName, spec: QueuedSpec) -> str:
    """Asks for *spec* in the tier flex-start; the name of Google's operation.

    Raises what `GoogleAPIs` raises apart from NOT_FOUND, and EXISTS, INVALID, QUOTA or CONFLICT.
    """
    from google.protobuf.json_format import MessageToDict

    message = queued_message(name, spec)
    body = MessageToDict(type(message).pb(message))
    for node_spec in body["tpu"]["nodeSpec"]:
        if "multisliceParams" in node_spec:  # its name in v2alpha1
            node_spec["multiNodeParams"] = node_spec.pop("multisliceParams")
    body |= {
        "provisioningModel": "FLEX_START",
        "runDuration": {"maxRunDuration": f"{spec.run_for:.0f}s"},
    }
    path = f"/v2alpha1/projects/{name.project}/locations/{name.zone}/queuedResources"
    try:
        answer = await apis.call("POST", "tpu", path, body, queuedResourceId=name.node)
    except TPUError as error:
        # A preview that this project can't see answers as if it, or its fields, did not exist.
        unseen = error.reason is Reason.NOT_FOUND or getattr(error.__cause__, "code", None) == 501
        if unseen or (error.reason is Reason.INVALID and not error.hint):
            hint = f"Google may not offer flex-start in {name.zone}. Try another zone or tier."
            raise InvalidInput(error.message, hint) from error
        raise
    return str(answer["name"])
