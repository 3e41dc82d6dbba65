"""`CloudTPU`: the one place that calls Google, or the emulator in its place."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from weakref import WeakValueDictionary

from msgspec import structs

from ...errors import Reason, TPUError
from ..auth import emulator_client, google_client, grpc_works, load_grpc
from ..errors import call_error
from ..google_apis import GoogleAPIs
from ..models import (
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
    check_zone,
)
from ..protocol import Cloud
from ..target import EmulatorAddress, Place, Target
from .maintenance import list_maintenance
from .nodes import has_ssh_key, node_message, node_path, parse_guest_attributes, parse_node
from .operations import operation_status, wait_for_operation
from .queued import begin_flex_start, parse_queued, queued_message, queued_path

if TYPE_CHECKING:
    from google.cloud.tpu_v2 import TpuAsyncClient

log = logging.getLogger(__name__)

_T = TypeVar("_T")

#: Deadlines of single calls, in seconds.
_READ_SECONDS = 20.0
_WRITE_SECONDS = 60.0

#: For how long reads are repeated, in seconds; an emulator is there or it is not.
_READ_RETRY_LIMIT = 6.0
_EMULATOR_RETRY_LIMIT = 1.5
#: Seconds before a field is replaced again, after someone else has changed the node.
_UPDATE_PAUSES = (0.3, 0.7, 1.5, 3.0, 5.0, 8.0, 10.0, 15.0, 15.0)


class CloudTPU(Cloud):
    """Cloud TPU of one target.

    Cheap to construct: files are read and the client is made at the first call. Belongs to the
    event loop of that call. All coroutines raise :class:`~jupyter_tpu.errors.TPUError` and nothing
    else: NO_CREDENTIALS, NO_PROJECT, PERMISSION, NOT_FOUND, EXISTS, INVALID, CONFLICT, QUOTA,
    RATE_LIMITED, NO_CAPACITY, UNAVAILABLE, TIMEOUT (each call has a deadline), INTERNAL (an answer
    that can't be read: it says nothing about the TPU).
    """

    def __init__(self, target: Target | None = None) -> None:
        self.target = target if target is not None else Target.from_environment()
        self._place = Place(self.target)
        self._connected: TpuAsyncClient | None = None
        self._connected_to: EmulatorAddress | None = None
        self._lock: asyncio.Lock | None = None  # so that one client is made at a time
        self._updates: WeakValueDictionary[NodeName, asyncio.Lock] = WeakValueDictionary()

    # ---- identity ----------------------------------------------------------------------

    @property
    def emulated(self) -> bool:
        """Whether the TPUs are emulated."""
        return self.target.emulator is not None

    @property
    def identity(self) -> str:
        """ "google", or "emulator:ID"; UNAVAILABLE where the emulator's file is missing."""
        return self._place.identity

    @property
    def project(self) -> str:
        """The project of new TPUs and of lists; NO_PROJECT where none is set."""
        return self._place.project

    @property
    def _known_project(self) -> str:
        """As :attr:`project`; "" where none is set."""
        with contextlib.suppress(TPUError):
            return self.project
        return ""

    @property
    def zone(self) -> str | None:
        """The default zone, if one is set."""
        return self._place.zone

    def in_project(self, project: str) -> CloudTPU:
        """Cloud TPU of another project."""
        return CloudTPU(structs.replace(self.target, project=project))

    # ---- nodes ---------------------------------------------------------------------------

    async def list_nodes(self, zone: str = "-") -> NodeList:
        """The nodes of *zone*, "-" for all zones, with the zones that did not answer."""
        nodes: list[Node] = []
        unreachable: set[str] = set()
        async for page in self._pages("list_nodes", zone):
            nodes += [self._parse(parse_node, node) for node in page.nodes]
            unreachable.update(path.rpartition("/")[2] for path in page.unreachable)
        return NodeList(nodes=tuple(nodes), unreachable=tuple(sorted(unreachable)))

    async def get_node(self, name: NodeName) -> Node:
        """The node as it is now; NOT_FOUND where there is none."""
        if not grpc_works():
            return await self._read_over_rest(parse_node, "GET", node_path(name))
        return self._parse(parse_node, await self._read("get_node", {"name": node_path(name)}))

    async def maintenance(self) -> dict[str, Maintenance]:
        """What Google announces or does, by `Node.id`."""
        with self._readable("upcomingMaintenance"):
            return await list_maintenance(self._apis(), self.project)

    async def begin_create(self, name: NodeName, spec: NodeSpec) -> str:
        """Asks for a node, and returns the name of Google's operation without waiting for it.

        A lack of quota shows at once (QUOTA), of capacity in the operation (NO_CAPACITY).
        Of an error, :func:`~jupyter_tpu.cloud.errors.never_sent` tells whether Google may have
        heard the request all the same.
        """
        request = {
            "parent": f"projects/{name.project}/locations/{name.zone}",
            "node_id": name.node,
            "node": node_message(spec),
        }
        return await self._begin("create_node", request)

    async def begin_delete(self, name: NodeName) -> str:
        """As :meth:`begin_create`, for the deletion of whichever node has the name now."""
        return await self._begin("delete_node", {"name": node_path(name)})

    async def begin_start(self, name: NodeName) -> str:
        """As :meth:`begin_create`; NO_CAPACITY shows in the operation here, too."""
        return await self._begin("start_node", {"name": node_path(name)})

    async def begin_stop(self, name: NodeName) -> str:
        """As :meth:`begin_create`; the disk stays."""
        return await self._begin("stop_node", {"name": node_path(name)})

    # ---- queued resources ------------------------------------------------------------------

    async def list_queued(self, zone: str = "-") -> QueuedList:
        """The queued resources of *zone*, "-" for all, with the zones that did not answer."""
        queued: list[QueuedTPUs] = []
        unreachable: set[str] = set()
        async for page in self._pages("list_queued_resources", zone):
            queued += [self._parse(parse_queued, resource) for resource in page.queued_resources]
            unreachable.update(path.rpartition("/")[2] for path in page.unreachable)
        return QueuedList(queued=tuple(queued), unreachable=tuple(sorted(unreachable)))

    async def get_queued(self, name: NodeName) -> QueuedTPUs:
        """The queued resource as it is now; NOT_FOUND where there is none."""
        resource = await self._read("get_queued_resource", {"name": queued_path(name)})
        return self._parse(parse_queued, resource)

    async def begin_queue(self, name: NodeName, spec: QueuedSpec) -> str:
        """As :meth:`begin_create`: asks for TPUs that are created when there is capacity."""
        if spec.node.tier == "flex-start":
            with self._readable("CreateQueuedResource"):
                return await begin_flex_start(self._apis(), name, spec)
        request = {
            "parent": f"projects/{name.project}/locations/{name.zone}",
            "queued_resource_id": name.node,
            "queued_resource": queued_message(name, spec),
        }
        return await self._begin("create_queued_resource", request)

    async def begin_delete_queued(self, name: NodeName, *, force: bool) -> str:
        """As :meth:`begin_delete`; with its TPUs where *force*, else CONFLICT if it has some."""
        request = {"name": queued_path(name), "force": force}
        return await self._begin("delete_queued_resource", request)

    async def begin_reset_queued(self, name: NodeName) -> str:
        """Puts a failed or suspended one back into the queue; CONFLICT in other states."""
        return await self._begin("reset_queued_resource", {"name": queued_path(name)})

    async def operation(self, operation: str) -> OperationStatus:
        """How far one of Google's operations is; NOT_FOUND for one that Google has forgotten."""
        answer = await self._read("get_operation", {"name": operation})
        return operation_status(answer, project=self._known_project)

    async def add_ssh_key(self, name: NodeName, user: str, public_key: str) -> bool:
        """Lets *public_key* ("ssh-ed25519 AAAA…") log in as *user*, as gcloud does it.

        Adds a line to the node's metadata ``ssh-keys``; other lines stay. Returns False if the key
        was there already. Waits up to a minute for another change of the node to end (409).
        """
        kind, blob = public_key.split()[:2]
        line = f"{user}:{kind} {blob} {user}"

        def with_key(node: Node) -> dict[str, str] | None:
            if has_ssh_key(node, user, public_key):
                return None
            lines = [*filter(None, node.metadata.get("ssh-keys", "").splitlines()), line]
            return {**node.metadata, "ssh-keys": "\n".join(lines)}

        return await self._update(name, "metadata", with_key, "adding a key to")

    async def set_label(self, node: Node, key: str, value: str) -> None:
        """Sets a label of *node*; as :meth:`add_ssh_key`."""

        def with_label(now: Node) -> dict[str, str] | None:
            _require_same(now, node)
            return None if now.labels.get(key) == value else {**now.labels, key: value}

        await self._update(node.name, "labels", with_label, "labelling")

    async def remove_metadata(self, node: Node, key: str) -> None:
        """Removes one entry of *node*; as :meth:`add_ssh_key`."""

        def without(now: Node) -> dict[str, str] | None:
            _require_same(now, node)
            left = {name: value for name, value in now.metadata.items() if name != key}
            return left if left != now.metadata else None

        await self._update(node.name, "metadata", without, "changing the metadata of")

    async def _update(
        self,
        name: NodeName,
        field: Literal["labels", "metadata"],
        change: Callable[[Node], dict[str, str] | None],
        what: str,
    ) -> bool:
        """Replaces a field of a node by what *change* makes of the node; False if that is None."""
        # Google replaces the whole field: of two changes made from one state, one would be lost.
        lock = self._updates.setdefault(name, asyncio.Lock())
        async with lock:
            return await self._update_alone(name, field, change, what)

    async def _update_alone(
        self,
        name: NodeName,
        field: Literal["labels", "metadata"],
        change: Callable[[Node], dict[str, str] | None],
        what: str,
    ) -> bool:
        from google.cloud import tpu_v2

        for pause in (*_UPDATE_PAUSES, None):
            value = change(await self.get_node(name))
            if value is None:
                return False
            request = {
                "node": tpu_v2.Node(name=node_path(name), **{field: value}),
                "update_mask": {"paths": [field]},
            }
            try:
                started = await self._call("update_node", request, _WRITE_SECONDS)
                await wait_for_operation(
                    started.operation,
                    self._poll,
                    what=f"{what} {name.node}",
                    project=name.project,
                )
            except TPUError as error:
                if error.reason is not Reason.CONFLICT or pause is None:
                    raise
                await asyncio.sleep(pause)
            else:
                return True
        raise AssertionError  # the last attempt returns or raises

    async def guest_attributes(self, name: NodeName) -> list[GuestAttributes]:
        """What the hosts published about themselves, one dictionary per worker, in order."""
        if not grpc_works():
            path = f"{node_path(name)}:getGuestAttributes"
            return await self._read_over_rest(parse_guest_attributes, "POST", path)
        answer = await self._read("get_guest_attributes", {"name": node_path(name)})
        return self._parse(parse_guest_attributes, answer)

    # ---- what can be created -------------------------------------------------------------------

    async def locations(self) -> tuple[str, ...]:
        """The zones in which Google offers Cloud TPU to the project, sorted."""
        names: list[str] = []
        token = ""
        while True:
            request = {"name": f"projects/{self.project}", "page_token": token}
            page = await self._read("list_locations", request)
            names += (location.location_id for location in page.locations)
            token = page.next_page_token
            if not token:
                return tuple(sorted(names))

    async def accelerator_types(self, zone: str) -> tuple[str, ...]:
        """The types offered in *zone*, in Google's order."""
        return await self._all("list_accelerator_types", zone, "accelerator_types", "type_")

    async def runtime_versions(self, zone: str) -> tuple[str, ...]:
        """The runtime images offered in *zone*, in Google's order."""
        return await self._all("list_runtime_versions", zone, "runtime_versions", "version")

    async def _all(self, method: str, zone: str, field: str, attribute: str) -> tuple[str, ...]:
        names: list[str] = []
        async for page in self._pages(method, zone):
            names += (getattr(item, attribute) for item in getattr(page, field))
        return tuple(names)

    # ---- calls -----------------------------------------------------------------------------

    async def close(self) -> None:
        """Closes the channel; a later call would open another."""
        client, self._connected = self._connected, None
        if client is not None:
            await client.transport.close()

    def _apis(self) -> GoogleAPIs:
        """For what only the REST interface has."""
        return GoogleAPIs(self.target, self.project)

    def _parent(self, zone: str) -> str:
        check_zone(zone)
        return f"projects/{self.project}/locations/{zone}"

    async def _client(self) -> TpuAsyncClient:
        if not grpc_works():
            raise TPUError(
                "This process was forked from one that had used Google Cloud. It can start kernels "
                "on TPUs, but can't manage TPUs.",
                Reason.CONFLICT,
                'Start such processes with multiprocessing.get_context("spawn").',
            )
        address = self._place.emulator
        if self._connected is not None and address is self._connected_to:
            return self._connected
        if self._lock is None:
            self._lock = asyncio.Lock()
        async with self._lock:
            if address is not self._connected_to:
                await self.close()  # the emulator was started again, on other ports
            if self._connected is None:
                self._connected = (
                    emulator_client(address) if address is not None else await google_client()
                )
                self._connected_to = address
            return self._connected

    async def _call(self, method: str, request: Any, timeout: float) -> Any:
        load_grpc()
        from google.api_core.exceptions import GoogleAPICallError

        with self._readable(method):
            client = await self._client()
            try:
                answer = await getattr(client, method)(request=request, timeout=timeout, retry=None)
            except GoogleAPICallError as error:
                problem = call_error(
                    error,
                    timeout=timeout,
                    project=self._known_project,
                    emulated=self.emulated,
                )
                if problem.reason is Reason.NO_CREDENTIALS and self._connected is client:
                    self._connected = None  # so that a login since then is seen by the next call
                raise problem from error
            if answer is None:  # what gRPC makes of bytes that are no message, and logs
                raise ValueError("it is damaged")
            return answer

    def _parse(self, parse: Callable[[dict[str, Any]], _T], message: Any) -> _T:
        """What *message* says, read from the JSON form that REST has, too."""
        from google.protobuf.json_format import MessageToDict

        with self._readable(type(message).__name__):
            return parse(MessageToDict(type(message).pb(message)))

    @contextlib.contextmanager
    def _readable(self, what: str) -> Iterator[None]:
        """The one place where an answer that can't be read, such as one whose details do not fit
        its status, becomes a TPUError.
        """
        try:
            yield
        except TPUError:
            raise
        except Exception as error:
            log.exception("The answer of Google Cloud could not be read: %s", what)
            raise self._unreadable(f"{type(error).__name__}: {error}") from error

    def _unreadable(self, why: str) -> TPUError:
        return TPUError(
            f"The answer of {'the emulator' if self.emulated else 'Google Cloud'} could not be "
            f"read: {why}.",
            Reason.INTERNAL,
            "Try again. The log has the details.",
        )

    async def _read(self, method: str, request: Any) -> Any:
        """A call that changes nothing: repeated for a few seconds where that may help."""
        load_grpc()
        from google.api_core.exceptions import RetryError
        from google.api_core.retry_async import AsyncRetry

        retry = AsyncRetry(
            predicate=_may_repeat,
            initial=0.2,
            maximum=2.0,
            timeout=_EMULATOR_RETRY_LIMIT if self.emulated else _READ_RETRY_LIMIT,
        )
        try:
            return await retry(self._call)(method, request, _READ_SECONDS)
        except RetryError as error:
            raise error.cause or error from None

    async def _read_over_rest(
        self, parse: Callable[[dict[str, Any]], _T], method: str, path: str
    ) -> _T:
        """What a kernel needs to know of its TPU, for a fork in which gRPC does not work."""
        answer = await self._apis().call(
            method, "tpu", f"/v2/{path}", {} if method == "POST" else None
        )
        with self._readable(path):
            return parse(answer)

    async def _pages(self, method: str, zone: str) -> AsyncIterator[Any]:
        """The pages of a list of *zone*, "-" for all zones. Each is a call that is repeated."""
        token = ""
        while True:
            request = {"parent": self._parent(zone), "page_token": token}
            page = await anext((await self._read(method, request)).pages)
            if page is None:
                raise self._unreadable("it is damaged")
            yield page
            token = page.next_page_token
            if not token:
                return

    async def _begin(self, method: str, request: Any) -> str:
        started = await self._call(method, request, _WRITE_SECONDS)
        return started.operation.name

    async def _poll(self, operation: str) -> Any:
        return await self._call("get_operation", {"name": operation}, _READ_SECONDS)


def _may_repeat(error: Exception) -> bool:
    """Whether a read that failed may succeed soon."""
    if not isinstance(error, TPUError):
        return False
    passing = error.reason in (Reason.UNAVAILABLE, Reason.RATE_LIMITED)
    return passing and (error.retry_after or 0.0) < 1.0  # else Google has said when


def _require_same(now: Node, meant: Node) -> None:
    """Raises CONFLICT if the name is another TPU's now."""
    if now.id != meant.id:
        raise TPUError(
            f"{meant.name.node} was deleted. A new TPU has the same name.",
            Reason.CONFLICT,
            "Check it first.",
        )
