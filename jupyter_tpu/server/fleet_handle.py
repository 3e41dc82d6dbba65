"""The way from the server's loop to the fleet on the core thread; opened when first needed.

Operations that need no TPU are beside the fleet: to ask for them and to end them never opens it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import Reason, TPUError
from ..links import core_thread
from ..paths import data_dir

if TYPE_CHECKING:
    from ..cloud import Target
    from ..fleet import Fleet
    from ..fleet.models import App, Change, Operation
    from ..fleet.operations.local import LocalOperations

#: What is asked of one operation, whoever runs it.
_OF_ONE = ("operation", "cancel")


class FleetHandle:
    """target: says (on the core thread) which cloud; changed: told of changes, over there too;
    take_over_kernel: see `Fleet.take_over_kernel`; beneath: see `Fleet.set_path_under_server`.
    """

    def __init__(
        self,
        target: Callable[[], Awaitable[Target]],
        changed: Callable[[Change], None],
        take_over_kernel: Callable[[str, str, str, str], Awaitable[None]] | None = None,
        *,
        warm_kernels: bool | None = None,
        beneath: Callable[[App], str] | None = None,
    ) -> None:
        self._beneath = beneath
        self._take_over_kernel = take_over_kernel
        self._warm_kernels = warm_kernels
        self._target = target
        self._changed = changed
        self._local: LocalOperations | None = None
        self._fleet: Fleet | None = None
        self._opening: asyncio.Lock | None = None
        self._closed = False

    async def call(self, method: str, *arguments: Any) -> Any:
        """The fleet's answer; raises what it raises, or why there is no fleet (TPUError)."""
        return await core_thread().call(self._call(method, arguments))

    async def open(self) -> None:
        """Opens the fleet without asking it anything; raises TPUError."""
        await core_thread().call(self._open())

    def refresh_kernels(self) -> None:
        """A kernel of this server was started or ended."""
        if self._fleet is not None:
            core_thread().loop.call_soon_threadsafe(self._fleet.refresh_kernels)

    async def close(self) -> None:
        self._closed = True
        await core_thread().call(self._close())

    # ---- on the core thread ----

    def local(self) -> LocalOperations:
        """The operations that need no TPU."""
        if self._closed:
            raise TPUError("The server is stopping.", Reason.INTERRUPTED)
        if self._local is None:
            from ..fleet.operations.local import LocalOperations

            self._local = LocalOperations(_local_file())
            self._local.subscribe(self._changed)
        return self._local

    def _known_local(self) -> LocalOperations | None:
        """Where there are any, of this server or of an earlier one."""
        if self._local is None and not self._closed and _local_file().exists():
            return self.local()
        return self._local

    async def _call(self, method: str, arguments: tuple[Any, ...]) -> Any:
        local = self._known_local() if method in _OF_ONE else None
        if local is not None and local.has(arguments[0]):
            return await getattr(local, method)(*arguments)
        if method == "operations":
            return await self._operations()
        fleet = await self._open()
        return await getattr(fleet, method)(*arguments)

    async def _operations(self) -> list[Operation]:
        try:
            of_tpus = await (await self._open()).operations()
        except TPUError:
            of_tpus = []  # no cloud, no operations there; the list of TPUs says why
        local = self._known_local()
        here = local.all() if local is not None else []
        return sorted(here + of_tpus, key=lambda o: o.created, reverse=True)

    async def _open(self) -> Fleet:
        if self._opening is None:
            self._opening = asyncio.Lock()
        async with self._opening:
            if self._fleet is None and not self._closed:
                self._fleet = await self._make()
        if self._fleet is None:
            raise asyncio.CancelledError("the server is stopping")
        return self._fleet

    async def _make(self) -> Fleet:
        # Imported here: a server that never uses a TPU does not wait for them at its start.
        from ..fleet import Fleet
        from ..kernels import KernelSpecs
        from ..links import default_links

        links = default_links(await self._target())
        fleet = await Fleet.open(links, KernelSpecs(), warm_kernels=self._warm_kernels)
        fleet.subscribe(self._changed)
        fleet.set_take_over(self._take_over_kernel)
        if self._beneath is not None:
            fleet.set_path_under_server(self._beneath)
        return fleet

    async def _close(self) -> None:
        if self._local is not None:
            await self._local.close()
        if self._opening is None:
            return
        async with self._opening:
            fleet, self._fleet = self._fleet, None
        if fleet is not None:
            await fleet.close()


def _local_file() -> Path:
    return data_dir() / "local.sqlite"
