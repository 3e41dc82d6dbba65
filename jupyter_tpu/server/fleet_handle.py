"""Access to the fleet, which runs on the core thread, from the server's loop.

The fleet is opened on first use. Operations that need no TPU are kept apart: listing or cancelling
them does not open it.
"""

from __future__ import annotations

import asyncio
import contextlib
import operator
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..concurrency import SharedCalls
from ..errors import Reason, TPUError
from ..links import core_thread
from ..paths import data_dir
from .languages import encoded_aside

if TYPE_CHECKING:
    from ..cloud import Target
    from ..fleet import Fleet
    from ..fleet.models import App, Change, Operation
    from ..fleet.reconcile.operations import LocalOperations

#: Calls about one operation, of the fleet or local.
_OPERATION_CALLS = ("operations.get", "operations.cancel", "operations.stop_trying")


class FleetHandle:
    """The fleet of this server, as a thread-safe handle.

    target: returns the cloud to use; called on the core thread.
    changed: called with each change, on the core thread.
    take_over_kernel: see `KernelService.take_over_here`.
    restart_kernel: see `SessionService.restart_here`.
    environment_defaults: as `EnvironmentDefaults.read` takes them.
    path_under_server: see `Apps.path_under_server`.
    agent_folder: see `AgentAccess.folder`.
    """

    def __init__(
        self,
        target: Callable[[], Awaitable[Target]],
        changed: Callable[[Change], None],
        take_over_kernel: Callable[[str, str, str, str], Awaitable[None]] | None = None,
        restart_kernel: Callable[[str], Awaitable[None]] | None = None,
        *,
        warm_kernels: bool | None = None,
        environment_defaults: Mapping[str, Any] | None = None,
        path_under_server: Callable[[App], str] | None = None,
        agent_folder: str = "",
    ) -> None:
        self._agent_folder = agent_folder
        self._path_under_server = path_under_server
        self._take_over_kernel = take_over_kernel
        self._restart_kernel = restart_kernel
        self._warm_kernels = warm_kernels
        self._environment_defaults = environment_defaults or {}
        self._target = target
        self._changed = changed
        self._local: LocalOperations | None = None
        self._fleet: Fleet | None = None
        self._opening = asyncio.Lock()
        self._opening_local = asyncio.Lock()
        self._closed = False
        self._lists = SharedCalls[tuple[str, str, bytes], bytes]()

    async def call(self, method: str, *arguments: Any) -> Any:
        """The result of a method of the fleet, or of one of its parts ("tunnels.open").

        Raises what that raises, or TPUError (no fleet).
        """
        return await core_thread().call(self._call(method, arguments))

    async def encoded_list(self, language: str, method: str, *arguments: Any) -> bytes:
        """As `call`, as JSON in *language*, a catalogue. Clients that ask for the same list at the
        same time share the work: each call takes turns of two threads.
        """

        import msgspec

        async def encoded() -> bytes:
            return await encoded_aside(await self.call(method, *arguments), language)

        key = language, method, msgspec.json.encode(arguments)
        return await self._lists.get(key, encoded)

    async def open(self) -> None:
        """Opens the fleet. Raises TPUError."""
        await core_thread().call(self._open())

    async def close(self) -> None:
        self._closed = True
        await self._lists.close()
        await core_thread().call(self._close())

    # ---- on the core thread ----

    async def local(self) -> LocalOperations:
        """The operations that need no TPU."""
        if self._closed:
            raise TPUError("The server is stopping.", Reason.INTERRUPTED)
        if self._local is None:
            from ..fleet.reconcile.operations import LocalOperations

            async with self._opening_local:
                if self._local is None:
                    local = await LocalOperations.open(_local_file())
                    local.subscribe(self._changed)
                    self._local = local
        return self._local

    async def _known_local(self) -> LocalOperations | None:
        """Local operations of this server or of an earlier one; None if there are none."""
        if self._local is None and not self._closed and _local_file().exists():
            return await self.local()
        return self._local

    async def _call(self, method: str, arguments: tuple[Any, ...]) -> Any:
        local = await self._known_local() if method in _OPERATION_CALLS else None
        if local is not None and await local.has(arguments[0]):
            return await getattr(local, method.removeprefix("operations."))(*arguments)
        if method == "operations.list":
            return await self._operations()
        fleet = await self._open()
        return await operator.attrgetter(method)(fleet)(*arguments)

    async def _operations(self) -> Sequence[Operation]:
        of_tpus: Sequence[Operation] = ()
        with contextlib.suppress(TPUError):  # no cloud can be used; the list of TPUs reports why
            of_tpus = await (await self._open()).operations.list()
        local = await self._known_local()
        here = await local.list() if local is not None else ()
        return sorted([*here, *of_tpus], key=lambda o: o.created, reverse=True)

    async def _open(self) -> Fleet:
        async with self._opening:
            if self._fleet is None and not self._closed:
                self._fleet = await self._open_fleet()
        if self._fleet is None:
            raise TPUError("The server is stopping.", Reason.INTERRUPTED)
        return self._fleet

    async def _open_fleet(self) -> Fleet:
        # Imported here, so that a server that uses no TPU starts faster.
        from ..fleet import EnvironmentDefaults, Fleet
        from ..kernels import KernelSpecs
        from ..links import default_links

        links = default_links(await self._target())
        fleet = await Fleet.open(
            links,
            KernelSpecs(),
            warm_kernels=self._warm_kernels,
            defaults=EnvironmentDefaults.read(self._environment_defaults),
        )
        fleet.subscribe(self._changed)
        fleet.kernels.take_over_here = self._take_over_kernel
        fleet.sessions.restart_here = self._restart_kernel
        if self._agent_folder:
            fleet.agents.folder = Path(self._agent_folder)
        if self._path_under_server is not None:
            fleet.apps.path_under_server = self._path_under_server
        return fleet

    async def _close(self) -> None:
        async with self._opening_local:
            if self._local is not None:
                await self._local.close()
        async with self._opening:
            fleet, self._fleet = self._fleet, None
        if fleet is not None:
            await fleet.close()


def _local_file() -> Path:
    return data_dir() / "local.sqlite"
