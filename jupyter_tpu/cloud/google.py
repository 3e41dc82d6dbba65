"""`GoogleCloud`: TPUs of both of Google's control planes, the Cloud TPU API and Compute Engine.

Each call goes to the one that has the TPU, or is to make it. Names are unique over both: if others
have made two TPUs of one name in one zone, the one that is not known longer is called NAME@compute
or NAME@tpu, and every call understands that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from msgspec import structs

from .. import catalog
from ..catalog import API
from ..errors import Reason, TPUError
from .errors import APIDisabled
from .host_numbers import HostNumbers, in_order_of, numbered
from .known_apis import KnownAPIs
from .models import (
    Fault,
    GuestAttributes,
    Maintenance,
    Node,
    NodeList,
    NodeName,
    NodeSpec,
    OperationStatus,
    QueuedList,
    QueuedSpec,
    QueuedTPUs,
    Reservation,
    ReservationSpec,
)
from .protocol import Cloud
from .target import Target
from .tpu import CloudTPU

log = logging.getLogger(__name__)

_T = TypeVar("_T")

#: How `ComputeEngine` names its operations.
COMPUTE_OPERATION = "compute/"
#: What a control plane answers that has no such zone, or is not used by the project.
_NOT_THERE = (Reason.NOT_FOUND, Reason.INVALID, Reason.PERMISSION)
_OTHER: dict[API, API] = {"tpu": "compute", "compute": "tpu"}
_ENDINGS: dict[str, API] = {"tpu": "tpu", "compute": "compute"}


class GoogleCloud(Cloud):
    """Both control planes of one target; as :class:`CloudTPU`."""

    def __init__(
        self, target: Target | None = None, *, clouds: dict[API, Cloud] | None = None
    ) -> None:
        self.target = target if target is not None else Target.from_environment()
        self._tpu = clouds["tpu"] if clouds is not None else CloudTPU(self.target)
        self._made = clouds
        self._apis: KnownAPIs | None = None
        self._numbers = HostNumbers()
        # Where TPUs, and requests for some, were when they were last seen.
        self._seen: dict[NodeName, API] = {}
        self._seen_queued: dict[NodeName, API] = {}

    @property
    def _clouds(self) -> dict[API, Cloud]:
        if self._made is None:
            # What it needs is loaded at the first call, and not when the server starts.
            from .compute_engine import ComputeEngine

            self._made = {"tpu": self._tpu, "compute": ComputeEngine(self.target)}
        return self._made

    # ---- identity ----

    @property
    def emulated(self) -> bool:
        return self._tpu.emulated

    @property
    def identity(self) -> str:
        return self._tpu.identity

    @property
    def project(self) -> str:
        return self._tpu.project

    @property
    def zone(self) -> str | None:
        return self._tpu.zone

    def in_project(self, project: str) -> GoogleCloud:
        return GoogleCloud(
            structs.replace(self.target, project=project),
            clouds={api: cloud.in_project(project) for api, cloud in self._clouds.items()},
        )

    @property
    def apis(self) -> tuple[API, ...]:
        return ("tpu", "compute")

    def of_api(self, api: API) -> Cloud:
        return self._clouds[api]

    # ---- TPUs ----

    async def list_nodes(self, zone: str = "-") -> NodeList:
        """TPUs of both. A control plane that does not answer is in `NodeList.unanswered`, or in
        `NodeList.refused`; an error is raised if none does.
        """
        answers = await self._ask_all(lambda cloud: cloud.list_nodes(zone), zone)
        lists, unanswered, refused = await self._split(answers, zone)
        nodes: dict[NodeName, Node] = {}
        for node_list in lists.values():
            for node in node_list.nodes:
                if (twin := nodes.get(node.name)) is not None:
                    nodes |= await self._named_apart(twin, node)
                else:
                    nodes[node.name] = node
        await self._note(nodes.values())
        known = await asyncio.to_thread(self._numbers.all)
        return NodeList(
            nodes=tuple(numbered(node, known) for node in nodes.values()),
            unreachable=_united(node_list.unreachable for node_list in lists.values()),
            unanswered=unanswered,
            refused=refused,
        )

    async def get_node(self, name: NodeName) -> Node:
        plain, api = split_name(name)
        if api is not None:
            node = structs.replace(await self._clouds[api].get_node(plain), name=name)
            return numbered(node, await asyncio.to_thread(self._numbers.all))
        node, _ = await self._find(name, self._seen, lambda cloud: cloud.get_node(name))
        await self._note([node])
        return numbered(node, await asyncio.to_thread(self._numbers.all))

    async def maintenance(self) -> dict[str, Maintenance]:
        maintenances = dict(await self._tpu.maintenance())
        try:
            maintenances |= await self._clouds["compute"].maintenance()
        except TPUError as error:
            if error.reason is not Reason.PERMISSION:
                raise
        return maintenances

    async def begin_create(self, name: NodeName, spec: NodeSpec) -> str:
        """On the control plane of *spec*. EXISTS if the other one has a TPU of the name."""
        await self._claim(name, spec.api)
        return await self._clouds[spec.api].begin_create(name, spec)

    async def begin_delete(self, name: NodeName) -> str:
        return await self._where(name, lambda cloud, plain: cloud.begin_delete(plain))

    async def begin_start(self, name: NodeName) -> str:
        return await self._where(name, lambda cloud, plain: cloud.begin_start(plain))

    async def begin_stop(self, name: NodeName) -> str:
        return await self._where(name, lambda cloud, plain: cloud.begin_stop(plain))

    async def set_label(self, node: Node, key: str, value: str) -> None:
        await self._clouds[node.api].set_label(_plain(node), key, value)

    async def remove_metadata(self, node: Node, key: str) -> None:
        await self._clouds[node.api].remove_metadata(_plain(node), key)

    async def begin_report_fault(self, node: Node, host: int, fault: Fault, about: str) -> str:
        cloud = self._clouds[node.api]
        return await cloud.begin_report_fault(_plain(node), host, fault, about)

    async def set_end(self, node: Node, ends: float | None) -> Node:
        changed = await self._clouds[node.api].set_end(_plain(node), ends)
        known = await asyncio.to_thread(self._numbers.all)
        return numbered(structs.replace(changed, name=node.name), known)

    async def operation(self, operation: str) -> OperationStatus:
        api: API = "compute" if operation.startswith(COMPUTE_OPERATION) else "tpu"
        return await self._clouds[api].operation(operation)

    # ---- requests that wait for capacity ----

    async def list_queued(self, zone: str = "-") -> QueuedList:
        """As `list_nodes`. Compute Engine has no names of its own for requests."""
        answers = await self._ask_all(lambda cloud: cloud.list_queued(zone), zone)
        lists, unanswered, refused = await self._split(answers, zone)
        queued = [
            queued_tpus for queued_list in lists.values() for queued_tpus in queued_list.queued
        ]
        for api, queued_list in lists.items():
            self._seen_queued |= {queued_tpus.name: api for queued_tpus in queued_list.queued}
        return QueuedList(
            queued=tuple(queued),
            unreachable=_united(queued_list.unreachable for queued_list in lists.values()),
            unanswered=unanswered,
            refused=refused,
        )

    async def get_queued(self, name: NodeName) -> QueuedTPUs:
        return (await self._find(name, self._seen_queued, lambda cloud: cloud.get_queued(name)))[0]

    async def begin_queue(self, name: NodeName, spec: QueuedSpec) -> str:
        """As `begin_create`."""
        api = spec.node.api
        await self._claim(structs.replace(name, node=spec.node_id), api)
        self._seen_queued[name] = api
        return await self._clouds[api].begin_queue(name, spec)

    async def begin_delete_queued(self, name: NodeName, *, force: bool) -> str:
        cloud = await self._queued_where(name)
        return await cloud.begin_delete_queued(name, force=force)

    async def begin_reset_queued(self, name: NodeName) -> str:
        return await (await self._queued_where(name)).begin_reset_queued(name)

    async def _queued_where(self, name: NodeName) -> Cloud:
        if name not in self._seen_queued:
            await self.get_queued(name)
        return self._clouds[self._seen_queued[name]]

    # ---- its hosts ----

    async def add_ssh_key(self, name: NodeName, user: str, public_key: str) -> bool:
        return await self._where(
            name, lambda cloud, plain: cloud.add_ssh_key(plain, user, public_key)
        )

    async def guest_attributes(self, name: NodeName) -> list[GuestAttributes]:
        """In the order of `Node.endpoints`."""
        where = await self._where(name, lambda cloud, plain: cloud.guest_attributes(plain))
        if len(where) < 2 or self._seen.get(name) == "tpu":
            return where
        listed = await self._where(name, lambda cloud, plain: cloud.get_node(plain))
        known = await asyncio.to_thread(self._numbers.all)
        return in_order_of(numbered(listed, known), listed, where)

    # ---- what can be created ----

    async def locations(self) -> tuple[str, ...]:
        return await self._all_of(lambda cloud: cloud.locations(), "-")

    async def accelerator_types(self, zone: str) -> tuple[str, ...]:
        return await self._all_of(lambda cloud: cloud.accelerator_types(zone), zone)

    async def runtime_versions(self, zone: str) -> tuple[str, ...]:
        return await self._all_of(lambda cloud: cloud.runtime_versions(zone), zone)

    async def reservations(self) -> tuple[Reservation, ...]:
        return await self._clouds["compute"].reservations()

    async def reserve(self, spec: ReservationSpec) -> Reservation:
        return await self._clouds["compute"].reserve(spec)

    async def sweep(self) -> list[str]:
        """Sweeps Compute Engine, if the project has ever had TPUs there."""
        if not await self._known(lambda apis: apis.any_in(self.project, "compute")):
            return []
        return await self._clouds["compute"].sweep()

    async def close(self) -> None:
        for cloud in (self._made or {"tpu": self._tpu}).values():
            await cloud.close()

    # ---- both ----

    async def _ask_all(
        self, ask: Callable[[Cloud], Awaitable[_T]], zone: str
    ) -> dict[API, _T | TPUError]:
        answers = await asyncio.gather(*(_or_error(ask, cloud) for cloud in self._clouds.values()))
        return dict(zip(self._clouds, answers, strict=True))

    async def _split(
        self, answers: dict[API, _T | TPUError], zone: str
    ) -> tuple[dict[API, _T], dict[API, TPUError], dict[API, TPUError]]:
        """What answered, what did not, and what refused though no TPU of it is known. Raises if
        none answered.
        """
        answered: dict[API, _T] = {}
        failed: dict[API, TPUError] = {}
        for api, answer in answers.items():
            if isinstance(answer, TPUError):
                failed[api] = answer
            else:
                answered[api] = answer
        if not answered:
            raise failed["tpu"]
        refused: dict[API, TPUError] = {}
        if (error := failed.get("compute")) is not None and error.reason in _NOT_THERE:
            used = await self._known(lambda apis: apis.any_in(self.project, "compute"))
            if not used:
                del failed["compute"]
                # A project that does not use Compute Engine's API has no TPU there.
                if not isinstance(error, APIDisabled):
                    refused["compute"] = error
        error = failed.get("tpu")
        if error is not None and zone != "-" and error.reason in _NOT_THERE:
            may_not = error.reason is Reason.PERMISSION and catalog.is_zone(zone, "tpu")
            if not may_not:
                del failed["tpu"]  # of a zone that only Compute Engine has
        return answered, failed, refused

    async def _all_of(
        self, ask: Callable[[Cloud], Awaitable[tuple[str, ...]]], zone: str
    ) -> tuple[str, ...]:
        """The names that both give, each once."""
        answers = await self._ask_all(ask, zone)
        tpu = answers["tpu"]
        if isinstance(tpu, TPUError) and (zone == "-" or tpu.reason not in _NOT_THERE):
            raise tpu
        lists, _, _ = await self._split(answers, zone)
        return tuple(dict.fromkeys(name for names in lists.values() for name in names))

    # ---- names ----

    async def _find(
        self, name: NodeName, seen: dict[NodeName, API], ask: Callable[[Cloud], Awaitable[_T]]
    ) -> tuple[_T, API]:
        """The answer of the control plane that has it. The one that had it is asked first; another
        process may have made one of the name on the other one.
        """
        known: API = await self._known(lambda apis: apis.get(name))
        first = seen.get(name, known)
        problem: TPUError | None = None
        both: tuple[API, API] = (first, _OTHER[first])
        for api in both:
            try:
                resource = await ask(self._clouds[api])
            except TPUError as error:
                if not await self._means_absent(error, api, name):
                    raise
                if problem is None or error.reason is Reason.NOT_FOUND:
                    problem = error
            else:
                seen[name] = api
                return resource, api
        seen.pop(name, None)
        assert problem is not None
        raise problem

    async def _means_absent(self, error: TPUError, api: API, name: NodeName) -> bool:
        """Whether *api* certainly has no TPU of that name."""
        if error.reason is not Reason.PERMISSION:
            return error.reason in _NOT_THERE
        # Who may not ask does not know, unless there can be none.
        if api == "tpu":
            return not catalog.is_zone(name.zone, "tpu")
        return not await self._known(lambda apis: apis.any_in(name.project, "compute"))

    async def _where(self, name: NodeName, act: Callable[[Cloud, NodeName], Awaitable[_T]]) -> _T:
        """*act* on the control plane that has the TPU; NOT_FOUND if none has."""
        plain, api = split_name(name)
        if api is None:
            api = self._seen.get(name) or (await self.get_node(name)).api
        return await act(self._clouds[api], plain)

    async def _claim(self, name: NodeName, api: API) -> None:
        """*api* is about to make a TPU of that name; EXISTS if the other one has one."""
        if self._seen.get(name) == api:
            return
        try:
            await self._clouds[_OTHER[api]].get_node(name)
        except TPUError as error:
            # One that does not answer keeps nobody from the other: the names can be told apart.
            log.info("No TPU called %s is known of the other control plane: %s", name.node, error)
        else:
            raise TPUError(
                f"A TPU called {name.node} already exists in {name.zone}.",
                Reason.EXISTS,
                "Choose another name.",
                field="name",
            )
        await asyncio.to_thread(self._known_apis().put, {name: api})
        self._seen[name] = api

    async def _named_apart(self, one: Node, other: Node) -> dict[NodeName, Node]:
        """Two TPUs of one name, of which one keeps it."""
        name = one.name
        kept = self._seen.get(name) or await self._known(lambda apis: apis.get(name, fresh=True))
        return {
            (called := name if node.api == kept else _called(name, node.api)): structs.replace(
                node, name=called
            )
            for node in (one, other)
        }

    async def _note(self, nodes: Iterable[Node]) -> None:
        """Keeps where they are."""
        seen = {node.name: node.api for node in nodes if split_name(node.name)[1] is None}
        self._seen |= seen
        try:
            await asyncio.to_thread(self._known_apis().put, seen)
        except TPUError as error:  # it decides in rare cases only
            log.warning("%s", error)

    async def _known(self, ask: Callable[[KnownAPIs], _T]) -> _T:
        return await asyncio.to_thread(lambda: ask(self._known_apis()))

    def _known_apis(self) -> KnownAPIs:
        if self._apis is None:
            self._apis = KnownAPIs(self.identity)
        return self._apis


def split_name(name: NodeName) -> tuple[NodeName, API | None]:
    """The name at Google, and the control plane of one that is called NAME@compute or NAME@tpu."""
    node, _, ending = name.node.partition("@")
    api = _ENDINGS.get(ending)
    return (structs.replace(name, node=node) if api else name), api


def _called(name: NodeName, api: API) -> NodeName:
    return structs.replace(name, node=f"{name.node}@{api}")


def _plain(node: Node) -> Node:
    """With the name that it has at Google."""
    return structs.replace(node, name=split_name(node.name)[0])


def _united(lists: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(sorted({name for names in lists for name in names}))


async def _or_error(ask: Callable[[Cloud], Awaitable[_T]], cloud: Cloud) -> _T | TPUError:
    try:
        return await ask(cloud)
    except TPUError as error:
        return error
