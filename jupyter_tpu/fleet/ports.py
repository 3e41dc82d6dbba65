"""What is asked of the fleet about ports of hosts (tunnels, apps, TensorBoard), and done with
them; a part of :class:`Fleet`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..cloud import Node, NodeName
from ..errors import Reason, TPUError
from .forwarding.ports import check_host
from .kernels import FleetKernels
from .models import (
    App,
    AppVisit,
    OpenApp,
    OpenTensorBoard,
    OpenTunnel,
    Operation,
    ProfileKernel,
    Tunnel,
    VisitApp,
)
from .models.requests import validated
from .operations.tensorboard import TensorBoardService, check_profile, check_tensorboard

if TYPE_CHECKING:
    from ..apps import Site


class FleetPorts(FleetKernels):
    """The open ports of the fleet's hosts."""

    _boards: TensorBoardService

    # ---- asking ----

    async def tunnels(self, ref: str) -> list[Tunnel]:
        name = await self._find(ref)
        return [tunnel for tunnel in await self.all_tunnels() if _leads_to(tunnel, name)]

    async def all_tunnels(self) -> list[Tunnel]:
        self._state.tunnels.reload()
        return self._state.tunnels.all()

    async def apps(self) -> list[App]:
        return self._state.apps.all()

    async def visit_app(self, id: str, wanted: VisitApp | None = None) -> AppVisit:
        return self._state.apps.visit(id, wanted or VisitApp())

    # ---- changing ----

    async def open_tunnel(self, ref: str, wanted: OpenTunnel, *, keep: bool = True) -> Tunnel:
        """keep: whether it should be there after this process, too."""
        wanted = validated(wanted)
        name = await self._find(ref)
        node = self._ready(name, "tunnels lead to")
        return await self._state.tunnels.open(node, wanted, keep=keep)

    async def close_tunnel(self, ref: str, id: str) -> None:
        await self._state.tunnels.remove(await self._find(ref), id)

    async def open_app(self, ref: str, wanted: OpenApp) -> App:
        wanted = validated(wanted)
        node = self._ready(await self._find(ref), "apps are on")
        return await self._state.apps.open(node, wanted)

    async def site(self, ref: str, host: int, port: int, begin: bool) -> Site:
        """See `Apps.site`."""
        node = self._ready(await self._find(ref), "apps are on")
        return await self._state.apps.site(node, host, port, begin)

    def set_path_under_server(self, where: Callable[[App], str]) -> None:
        """The server says where beneath its own address it shows an app; "" for nowhere."""
        self._state.apps.path_under_server = where

    async def close_app(self, id: str) -> None:
        await self._state.apps.remove(id)

    async def open_tensorboard(self, ref: str, wanted: OpenTensorBoard) -> Operation:
        wanted = validated(wanted)
        check_tensorboard(wanted)
        name = await self._find(ref)
        node = self._ready(name, "TensorBoard runs on")
        check_host(node, wanted.host)
        operations = self._state.operations
        record = operations.new_record("tensorboard", name)
        return operations.start(
            record, lambda progress: self._boards.tensorboard(node, wanted, progress)
        )

    async def profile(
        self, ref: str, kernel_id: str, wanted: ProfileKernel | None = None
    ) -> Operation:
        wanted = validated(wanted or ProfileKernel())
        check_profile(wanted)
        name = await self._find(ref)
        node = self._ready(name, "kernels run on")
        kernels = {kernel.id: kernel for kernel in await self.kernels(ref)}
        kernel = kernels.get(kernel_id)
        if kernel is None or kernel.state == "dead":
            raise TPUError(f"There is no kernel {kernel_id!r} on {name.node}.", Reason.NOT_FOUND)
        operations = self._state.operations
        return operations.start(
            operations.new_record("profile", name),
            lambda progress: self._boards.profile(node, kernel, wanted, progress),
        )

    # ---- inside ----

    def _ready(self, name: NodeName, what: str) -> Node:
        """The node of a TPU whose hosts can be reached; raises CONFLICT."""
        node = self._state.observer.nodes.get(name)
        if node is None or node.state != "READY":
            raise TPUError(
                f"{name.node} is {node.state if node else 'not there yet'}; {what} a TPU that is "
                "READY.",
                Reason.CONFLICT,
                "Start it first." if node and node.state == "STOPPED" else "",
            )
        return node


def _leads_to(tunnel: Tunnel, name: NodeName) -> bool:
    return (tunnel.tpu, tunnel.zone) == (name.node, name.zone)
