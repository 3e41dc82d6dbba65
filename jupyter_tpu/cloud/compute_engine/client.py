"""`ComputeEngine`: the one place that calls Compute Engine for TPUs, or the emulator for it."""

from __future__ import annotations

import asyncio
import uuid
from datetime import datetime
from typing import Any

from msgspec import structs

from ... import catalog
from ...errors import InvalidInput, Reason, TPUError
from ..models import (
    LONGEST_WAIT,
    OPERATION_LABEL,
    Fault,
    GuestAttributes,
    Maintenance,
    Node,
    NodeList,
    NodeName,
    NodeSpec,
    NodeState,
    OperationStatus,
    QueuedList,
    QueuedSpec,
    QueuedTPUs,
    Reservation,
    ReservationSpec,
    check_zone,
)
from ..protocol import Cloud
from ..target import Place, Target
from . import hosts, reservations
from .calls import ComputeCalls, name_of, path_of, readable
from .machines import accelerator_of, instance_body
from .nodes import (
    TPU_FILTER,
    group_labels,
    group_of,
    is_slice,
    is_tpu,
    maintenance_of,
    parse_group,
    parse_instance,
    parse_queued,
)
from .slices import Slices

Body = dict[str, Any]

_REQUESTS = uuid.UUID("b6f1b3f4-0f0c-4c27-8f0a-5a3b7a1f5d3e")
_GROUPS = "instanceGroupManagers"
#: Machine types with TPUs that can't be created, for lists.
_REFUSED = ("ct5lp-",)  # of v5e: listed for GKE, and refused by `instances.insert`
_FAULTS: dict[Fault, str] = {
    "chip-error": "CHIP_ERROR",
    "slow": "PERFORMANCE",
    "wrong-results": "SILENT_DATA_CORRUPTION",
}
_TYPE_FILTER = 'name eq "(ct[0-9]|tpu).*"'


class ComputeEngine(Cloud):
    """TPUs of Compute Engine, of one target: one host is an instance, several are a `Slices`.

    Cheap to construct: files are read at the first call. Raises as `CloudTPU` does. The names of
    its operations begin with "compute/".
    """

    def __init__(self, target: Target | None = None) -> None:
        self.target = target if target is not None else Target.from_environment()
        self._place = Place(self.target)
        self._calls = ComputeCalls(self.target)
        self._slices = Slices(self._calls)

    @property
    def emulated(self) -> bool:
        return self.target.emulator is not None

    @property
    def identity(self) -> str:
        return self._place.identity

    @property
    def project(self) -> str:
        return self._place.project

    @property
    def zone(self) -> str | None:
        return self._place.zone

    def in_project(self, project: str) -> ComputeEngine:
        return ComputeEngine(structs.replace(self.target, project=project))

    # ---- TPUs -----------------------------------------------------------------------------------

    async def list_nodes(self, zone: str = "-") -> NodeList:
        """Two calls, whatever *zone* is. A slice is in the list when its group exists."""
        check_zone(zone)
        (instances, silent), (groups, mute) = await asyncio.gather(
            self._calls.aggregated(self.project, "instances", filter=TPU_FILTER),
            self._calls.aggregated(self.project, _GROUPS),
        )
        with readable("instances and groups"):
            nodes = _nodes([instance for instance in instances if is_tpu(instance)], groups)
        silent |= mute
        return NodeList(
            nodes=tuple(node for node in nodes if zone in ("-", node.name.zone)),
            unreachable=tuple(
                sorted(silent_zone for silent_zone in silent if zone in ("-", silent_zone))
            ),
        )

    async def get_node(self, name: NodeName) -> Node:
        """Also one of which only a part exists (`Node.unfinished`). NOT_FOUND where there is none;
        CONFLICT where two share the name, so that none of them can be meant.
        """
        instance, node = await asyncio.gather(self._instance(name), self._slices.find(name))
        if instance is not None and node is not None:
            raise TPUError(
                f"An instance and a group of instances are both called {name.node}.",
                Reason.CONFLICT,
                "Delete the one that is not needed in the Google Cloud console.",
            )
        if node is not None:
            return node
        if instance is None:
            raise _not_found(name)
        with readable("an instance"):
            return parse_instance(instance)

    async def maintenance(self) -> dict[str, Maintenance]:
        instances, _ = await self._calls.aggregated(self.project, "instances", filter=TPU_FILTER)
        with readable("upcomingMaintenance"):
            coming = {
                instance["name"]: event
                for instance in instances
                if (event := maintenance_of(instance))
            }
        if not coming:
            return {}
        return {
            node.id: coming[endpoint.instance]
            for node in (await self.list_nodes()).nodes
            for endpoint in node.endpoints
            if endpoint.instance in coming
        }

    async def begin_create(self, name: NodeName, spec: NodeSpec) -> str:
        if accelerator_of(spec.type).hosts > 1:
            return await self._slices.create(name, spec)
        label = spec.labels.get(OPERATION_LABEL, "")
        id = uuid.uuid5(_REQUESTS, f"{label} {name.path}") if label else uuid.uuid4()
        path = _instance(name).rpartition("/")[0]
        body = instance_body(name, spec)
        return name_of(await self._calls.write("POST", path, body, id=str(id)))

    async def begin_delete(self, name: NodeName) -> str:
        if await self._instance(name) is not None:
            return await self._on_instance("DELETE", name)
        return await self._slices.delete(name)

    async def begin_start(self, name: NodeName) -> str:
        """An end that a guard had before it was stopped does not count any more."""
        await self._require_alone(name, "started")
        await hosts.set_end(self._calls, _instance(name), None)
        return await self._on_instance("POST", name, "/start")

    async def begin_stop(self, name: NodeName) -> str:
        """INVALID for what Google does not start again."""
        node = await self._require_alone(name, "stopped")
        if node.tier not in ("on-demand", "reserved"):
            raise InvalidInput(
                f"{name.node} is a {node.tier} TPU, which Google does not start again.",
                "Delete it instead.",
            )
        return await self._on_instance("POST", name, "/stop")

    async def begin_report_fault(self, node: Node, host: int, fault: Fault, about: str) -> str:
        """`instances.reportHostAsFaulty`, which Google may offer for some reservations only."""
        await self._require_same(node)
        reason = {"behavior": _FAULTS[fault]} | ({"description": about} if about else {})
        body = {"disruptionSchedule": "IMMEDIATE", "faultReasons": [reason]}
        path = f"{_host_paths(node)[host]}/reportHostAsFaulty"
        return name_of(await self._calls.write("POST", path, body, id=str(uuid.uuid4())))

    async def set_end(self, node: Node, ends: float | None) -> Node:
        """Sets the end of each host: Google has none for a group."""
        await self._require_same(node)
        asked = [hosts.set_end(self._calls, path, ends) for path in _host_paths(node)]
        await asyncio.gather(*asked)
        return await self.get_node(node.name)

    async def _on_instance(self, method: str, name: NodeName, verb: str = "") -> str:
        path = _instance(name) + verb
        return name_of(await self._calls.write(method, path, id=str(uuid.uuid4())))

    async def operation(self, operation: str) -> OperationStatus:
        return await self._calls.operation(operation)

    # ---- flex-start -----------------------------------------------------------------------------

    async def list_queued(self, zone: str = "-") -> QueuedList:
        """The flex-start TPUs that wait, or are being made."""
        listed = await self.list_nodes(zone)
        return QueuedList(
            queued=tuple(
                parse_queued(node)
                for node in listed.nodes
                if node.tier == "flex-start" and node.state is NodeState.CREATING
            ),
            unreachable=listed.unreachable,
        )

    async def get_queued(self, name: NodeName) -> QueuedTPUs:
        """The flex-start TPU, as a request: it waits, or it is there."""
        node = await self.get_node(name)
        if node.tier != "flex-start":
            raise _not_found(name)
        return parse_queued(node)

    async def begin_queue(self, name: NodeName, spec: QueuedSpec) -> str:
        """Asks for a flex-start TPU. As `begin_create`: a slice is several calls."""
        if spec.node.tier != "flex-start" or spec.node_count != 1:
            raise InvalidInput(
                "Compute Engine has a queue for single flex-start TPUs only.",
                "Choose the tier flex-start, or create the TPU without the queue.",
            )
        wait = LONGEST_WAIT
        if spec.valid_until:
            await self._instance(structs.replace(name, node=spec.node_id))  # to know Google's clock
            wait = (datetime.fromisoformat(spec.valid_until) - self._calls.now()).total_seconds()
        node = structs.replace(
            spec.node,
            run_for=spec.run_for or spec.node.run_for,
            wait_for=min(wait, spec.node.wait_for),
        )
        return await self.begin_create(structs.replace(name, node=spec.node_id), node)

    async def begin_delete_queued(self, name: NodeName, *, force: bool) -> str:
        node = await self.get_node(name)
        if not force and not (node.waiting or node.unfinished):
            raise TPUError(
                f"{name.node} has capacity now. It is {node.cloud_state or node.state}.",
                Reason.CONFLICT,
                "Delete the TPU.",
            )
        return await self.begin_delete(name)

    async def begin_reset_queued(self, name: NodeName) -> str:
        raise TPUError(
            "Compute Engine does not put a request back into its queue.",
            Reason.CONFLICT,
            "Create the TPU again.",
        )

    # ---- what it says of itself -----------------------------------------------------------------

    async def set_label(self, node: Node, key: str, value: str) -> None:
        if await self._is_instance(node):

            def with_label(now: Body) -> Body | None:
                labels = now.get("labels", {})
                if labels.get(key) == value:
                    return None
                return {
                    "labels": {**labels, key: value},
                    "labelFingerprint": now.get("labelFingerprint", ""),
                }

            await hosts.change(self._calls, _instance(node.name), "setLabels", with_label)
        elif (group := await self._slices.find_group(node.name)) is not None:
            await self._slices.set_all(group, "labels", {**group_labels(group), key: value})

    async def remove_metadata(self, node: Node, key: str) -> None:
        """A slice's template keeps it, for hosts that Google makes again."""
        await self._require_same(node)

        def without(now: dict[str, str]) -> dict[str, str] | None:
            left = {name: value for name, value in now.items() if name != key}
            return left if left != now else None

        await hosts.change_metadata(self._calls, _host_paths(node), without)

    async def add_ssh_key(self, name: NodeName, user: str, public_key: str) -> bool:
        """Adds a line to the metadata ``ssh-keys`` of each host; other lines stay."""
        kind, blob = public_key.split()[:2]
        line = f"{user}:{kind} {blob} {user}"

        def with_key(now: dict[str, str]) -> dict[str, str] | None:
            lines = [*filter(None, now.get("ssh-keys", "").splitlines())]
            if any(line.startswith(f"{user}:") and blob in line.split() for line in lines):
                return None
            return {**now, "ssh-keys": "\n".join([*lines, line])}

        node = await self.get_node(name)
        changed = await hosts.change_metadata(self._calls, _host_paths(node), with_key)
        if changed and not await self._is_instance(node):
            group = await self._slices.find_group(name)
            if group is not None:  # hosts that it makes again have it, too
                key = with_key(node.metadata)
                keys = {"ssh-keys": key["ssh-keys"]} if key else {}
                await self._slices.set_all(group, "metadata", keys)
        return changed

    async def guest_attributes(self, name: NodeName) -> list[GuestAttributes]:
        """In the order of `Node.endpoints`."""
        node = await self.get_node(name)
        # An emulated host publishes its port, too.
        prefix = "" if self.emulated else "hostkeys/"
        asked = [hosts.published(self._calls, path, prefix) for path in _host_paths(node)]
        return [*await asyncio.gather(*asked)]

    # ---- what can be created --------------------------------------------------------------------

    async def locations(self) -> tuple[str, ...]:
        """The zones that list a machine type with TPUs. Not all of them make one."""
        machine_types, _ = await self._calls.aggregated(
            self.project, "machineTypes", filter=_TYPE_FILTER
        )
        with readable("machine types"):
            made = [
                machine_type
                for machine_type in machine_types
                if not str(machine_type["name"]).startswith(_REFUSED)
            ]
            return tuple(sorted({machine_type["zone"].rpartition("/")[2] for machine_type in made}))

    async def accelerator_types(self, zone: str) -> tuple[str, ...]:
        """The catalog's types that are made of the machine types listed in *zone*, and the names of
        machine types that the catalog does not know.
        """
        check_zone(zone)
        path = f"projects/{self.project}/zones/{zone}/machineTypes"
        calls = await self._calls.items(path, filter=_TYPE_FILTER)
        with readable("machine types"):
            names = [str(call["name"]) for call in calls]
            listed = {name: None for name in names if not name.startswith(_REFUSED)}
        types = [
            type_.name
            for type_ in catalog.types("compute")
            if type_.machine is not None and type_.machine.machine_type in listed
        ]
        unknown = [name for name in listed if not catalog.is_machine_type(name)]
        return (*types, *unknown)

    async def runtime_versions(self, zone: str) -> tuple[str, ...]:
        """The families of images that exist, in the order of the catalog."""
        images = f"projects/{catalog.IMAGE_PROJECT}/global/images/family"
        families = catalog.IMAGE_FAMILIES
        statuses = await asyncio.gather(
            *(self._calls.find(f"{images}/{family}") for family in families)
        )
        return tuple(
            name for name, image in zip(families, statuses, strict=True) if image is not None
        )

    async def reservations(self) -> tuple[Reservation, ...]:
        return await reservations.all_of(self._calls, self.project)

    async def reserve(self, spec: ReservationSpec) -> Reservation:
        return await reservations.reserve(self._calls, self.project, spec)

    async def sweep(self) -> list[str]:
        """Deletes what slices of ours have left in the project, and nothing uses; see `Slices`."""
        return await self._slices.sweep(self.project)

    async def close(self) -> None:
        """Each call has a connection of its own."""

    # ---- internals ------------------------------------------------------------------------------

    async def _instance(self, name: NodeName) -> Body | None:
        """The TPU's only instance; None where there is none, or it is not a TPU by itself."""
        instance = await self._calls.find(_instance(name))
        with readable("an instance"):
            alone = instance is not None and is_tpu(instance) and not group_of(instance)
        return instance if alone else None

    async def _is_instance(self, node: Node) -> bool:
        """Whether *node* is one host; raises CONFLICT if its name is another TPU's now."""
        await self._require_same(node)
        return await self._instance(node.name) is not None

    async def _require_same(self, meant: Node) -> None:
        if (await self.get_node(meant.name)).id != meant.id:
            raise TPUError(
                f"{meant.name.node} was deleted. A new TPU has the same name.",
                Reason.CONFLICT,
                "Check it first.",
            )

    async def _require_alone(self, name: NodeName, act: str) -> Node:
        instance = await self._instance(name)
        if instance is not None:
            with readable("an instance"):
                return parse_instance(instance)
        await self.get_node(name)
        raise InvalidInput(
            f"{name.node} is a slice of several hosts, which can't be {act}.",
            "Delete it, and create it again when you need it.",
        )


def _nodes(instances: list[Body], groups: list[Body]) -> list[Node]:
    """Instances that are alone, and groups with theirs."""
    members: dict[str, list[Body]] = {}
    for instance in instances:
        members.setdefault(group_of(instance), []).append(instance)
    nodes = []
    for group in groups:
        path = path_of(group)
        mine = members.get(path.split("/", 2)[2], [])
        if not is_slice(group, mine):
            continue
        zone = str(mine[0]["zone"] if mine else group.get("zone", "")).rpartition("/")[2]
        if zone:
            nodes.append(parse_group(group, mine, zone))
    names = {node.name for node in nodes}
    alone = map(parse_instance, members.get("", ()))
    return [*nodes, *(node for node in alone if node.name not in names)]


def _host_paths(node: Node) -> list[str]:
    names = [endpoint.instance for endpoint in node.endpoints]
    return [_instance(structs.replace(node.name, node=name)) for name in names]


def _instance(name: NodeName) -> str:
    return f"projects/{name.project}/zones/{name.zone}/instances/{name.node}"


def _not_found(name: NodeName) -> TPUError:
    return TPUError(
        f"There is no TPU called {name.node} in {name.zone}.",
        Reason.NOT_FOUND,
        "Look at the list of TPUs; it may have been deleted.",
    )
