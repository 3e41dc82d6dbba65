"""What the fleet offers, in this process (`Fleet`) or through a running server (`client`).

A reference (``ref``) to a TPU is its name, or ``zone~name`` (``zone/name``) where two zones have
the same one. All methods raise :class:`~jupyter_tpu.errors.TPUError`: NOT_FOUND for an unknown
reference or id, CONFLICT for an ambiguous one and for what the TPU's state or an operation that
runs on it does not allow, INVALID for a request that cannot be meant, and what Google answers.

What would end kernels (delete, stop, disconnect) is refused with KERNELS_RUNNING unless the
request says ``end_kernels``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from .models import (
    TPU,
    App,
    AppVisit,
    Catalog,
    Change,
    ChipHolder,
    ConnectTPU,
    CreateTPU,
    DeleteTPU,
    DisconnectTPU,
    Environment,
    KeepWarm,
    Kernel,
    OpenApp,
    OpenTensorBoard,
    OpenTunnel,
    Operation,
    ProfileKernel,
    StopTPU,
    TPUList,
    Tunnel,
    VisitApp,
)


class FleetAPI(Protocol):
    """The fleet's methods; REST has the same ones."""

    async def catalog(self, zone: str | None = None) -> Catalog:
        """Types, zones and versions; of one *zone*, what it offers. Never fails for Google's
        sake: what could not be asked is said in ``problem``.
        """

    async def tpus(self) -> TPUList:
        """All TPUs of the project and those connected; cheap: from the one shared poll."""

    async def tpu(self, ref: str) -> TPU:
        """One TPU, as the poll last saw it."""

    async def create(self, wanted: CreateTPU) -> Operation:
        """Starts creating a TPU; what is wrong with *wanted* is said at once (INVALID, EXISTS)."""

    async def start(self, ref: str) -> Operation:
        """Starts a stopped TPU."""

    async def stop(self, ref: str, how: StopTPU | None = None) -> Operation:
        """Stops a TPU; its disk stays. Kernels there end with it."""

    async def delete(self, ref: str, how: DeleteTPU | None = None) -> Operation:
        """Deletes a TPU, its environments' kernelspecs, and its kernels if *how* allows it."""

    async def connect(self, ref: str, wanted: ConnectTPU | None = None) -> Operation:
        """Makes an environment on all hosts and registers its kernel; keeps the links up."""

    async def disconnect(self, ref: str, how: DisconnectTPU | None = None) -> Operation:
        """Removes the kernelspecs and lets the links go; the environment stays on the hosts."""

    async def environments(self, ref: str) -> list[Environment]:
        """The environments made on a TPU."""

    async def keep_warm(self, ref: str, environment: str, how: KeepWarm) -> Environment:
        """Decides whether an environment has a warm kernel while its TPU is connected."""

    async def kernels(self, ref: str) -> list[Kernel]:
        """The kernels that run on a TPU now, asked of its agent; UNREACHABLE if it can't be."""

    async def chips(self, ref: str) -> list[ChipHolder]:
        """The processes that have chips of a TPU's host 0, asked of its agent."""

    async def end_kernel(self, ref: str, id: str) -> None:
        """Ends one kernel, its journal too."""

    async def take_over_kernel(self, ref: str, id: str) -> None:
        """Makes the Jupyter server the master of a kernel, whoever has it now: that client is told.

        CONFLICT where there is no server, EXISTS where this server has it.
        """

    async def tunnels(self, ref: str) -> list[Tunnel]:
        """The tunnels to a TPU, the oldest first, with what goes through them."""

    async def all_tunnels(self) -> list[Tunnel]:
        """The tunnels to all TPUs."""

    async def open_tunnel(self, ref: str, wanted: OpenTunnel) -> Tunnel:
        """Opens a tunnel, which stays through breaks of the link and restarts of the server.

        INVALID for what can't be a port or host, CONFLICT for a local port that is taken.
        """

    async def close_tunnel(self, ref: str, id: str) -> None:
        """Closes a tunnel for good."""

    async def apps(self) -> list[App]:
        """The pages of hosts that are open here, the oldest first."""

    async def open_app(self, ref: str, wanted: OpenApp) -> App:
        """Opens what listens on a host's port on an origin of its own, until this process ends.

        INVALID for what can't be a port, host or path. That nothing listens there is said in the
        browser, where it is looked for again.
        """

    async def visit_app(self, id: str, wanted: VisitApp | None = None) -> AppVisit:
        """A URL with which one browser opens an app; each use needs a new one."""

    async def close_app(self, id: str) -> None:
        """Closes an app for all browsers; a TensorBoard that was started for it ends."""

    async def open_tensorboard(self, ref: str, wanted: OpenTensorBoard) -> Operation:
        """Opens TensorBoard for a folder of a host, installing and starting it where needed.

        The operation's ``app`` is what it has opened; the same folder gives the same one.
        """

    async def profile(
        self, ref: str, kernel_id: str, wanted: ProfileKernel | None = None
    ) -> Operation:
        """Traces what a kernel does for some seconds and opens the trace in TensorBoard."""

    async def operations(self) -> list[Operation]:
        """Running operations and those that ended lately, newest first."""

    async def operation(self, id: str) -> Operation:
        """One operation, with its log."""

    async def cancel(self, id: str) -> Operation:
        """Cancels an operation; a cancelled create deletes the half-made TPU.

        Waits a moment for its end; cleaning up may take longer, and it is "running" until then.
        One that has ended is returned as it is.
        """

    def subscribe(self, callback: Callable[[Change], None]) -> Callable[[], None]:
        """Calls *callback* at each change, on the loop the fleet runs on; gives the way to stop."""

    async def close(self) -> None:
        """Ends what this object runs; desired state stays."""
