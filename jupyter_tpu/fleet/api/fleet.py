"""The fleet's methods, and its parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from .. import models
from .budgets import BudgetsAPI, PlansAPI
from .capacity import (
    GrantsAPI,
    HuntsAPI,
    LogsAPI,
    NetworksAPI,
    PricesAPI,
    QueuedAPI,
    ReservationsAPI,
    SSHKeyAPI,
)
from .environments import EnvironmentsAPI
from .files import CopiesAPI, SharesAPI, SyncAPI, TokensAPI
from .forwarding import AppsAPI, TensorBoardAPI, TunnelsAPI
from .hosts import (
    ChipKernelsAPI,
    ChipsAPI,
    DoctorAPI,
    GuardAPI,
    JobsAPI,
    KernelsAPI,
    MetricsAPI,
    PythonsAPI,
    RunsAPI,
    SliceKernelsAPI,
)
from .inventory import AttachedAPI, UsageAPI
from .operations import OperationsAPI
from .profiles import ProfilesAPI
from .ray import RayAPI


class FleetAPI(Protocol):
    """The fleet's methods, and its parts; REST has the same ones."""

    @property
    def environments(self) -> EnvironmentsAPI: ...

    @property
    def kernels(self) -> KernelsAPI: ...

    @property
    def operations(self) -> OperationsAPI: ...

    @property
    def attached(self) -> AttachedAPI: ...

    @property
    def tunnels(self) -> TunnelsAPI: ...

    @property
    def apps(self) -> AppsAPI: ...

    @property
    def jobs(self) -> JobsAPI: ...

    @property
    def tensorboard(self) -> TensorBoardAPI: ...

    @property
    def ray(self) -> RayAPI: ...

    @property
    def profiles(self) -> ProfilesAPI: ...

    @property
    def doctor(self) -> DoctorAPI: ...

    @property
    def chips(self) -> ChipsAPI: ...

    @property
    def chip_kernels(self) -> ChipKernelsAPI: ...

    @property
    def slice_kernels(self) -> SliceKernelsAPI: ...

    @property
    def metrics(self) -> MetricsAPI: ...

    @property
    def guards(self) -> GuardAPI: ...

    @property
    def pythons(self) -> PythonsAPI: ...

    @property
    def runs(self) -> RunsAPI: ...

    @property
    def sync(self) -> SyncAPI: ...

    @property
    def tokens(self) -> TokensAPI: ...

    @property
    def hunts(self) -> HuntsAPI: ...

    @property
    def queued(self) -> QueuedAPI: ...

    @property
    def copies(self) -> CopiesAPI: ...

    @property
    def shares(self) -> SharesAPI: ...

    @property
    def grants(self) -> GrantsAPI: ...

    @property
    def networks(self) -> NetworksAPI: ...

    @property
    def ssh_key(self) -> SSHKeyAPI: ...

    @property
    def logs(self) -> LogsAPI: ...

    @property
    def prices(self) -> PricesAPI: ...

    @property
    def reservations(self) -> ReservationsAPI: ...

    @property
    def budgets(self) -> BudgetsAPI: ...

    @property
    def plans(self) -> PlansAPI: ...

    @property
    def usage(self) -> UsageAPI: ...

    async def status(self) -> models.FleetStatus:
        """The health of the loops behind this interface; makes no call to Google or a host."""

    async def catalog(self, zone: str | None = None) -> models.Catalog:
        """Types, zones and versions; with *zone*, those that it offers.

        Does not fail if Google can't be asked: ``problem`` has the reason then.
        """

    async def tpus(self, query: models.ListQuery | None = None) -> models.TPUList:
        """All TPUs of the project and those connected, from the last shared poll, or a new one."""

    async def tpu(self, ref: str) -> models.TPU:
        """One TPU, as last polled."""

    async def quote(self, request: models.CreateTPU) -> models.Quote:
        """What `create` would create for a request, and its cost; raises what `create` raises."""

    async def create(self, request: models.CreateTPU) -> models.Operation:
        """Starts creating a TPU; raises INVALID and EXISTS at once.

        Raises PRICE for what costs something, unless the request confirms its price.
        """

    async def start(self, ref: str, options: models.StartTPU | None = None) -> models.Operation:
        """Starts a stopped TPU.

        Raises PRICE for what costs something without a confirmation, NOT_YOURS as `delete`.
        """

    async def stop(self, ref: str, options: models.StopTPU | None = None) -> models.Operation:
        """Stops a TPU; its disk is kept, its kernels are shut down.

        Raises NOT_YOURS as `delete`.
        """

    async def delete(self, ref: str, options: models.DeleteTPU | None = None) -> models.Operation:
        """Deletes a TPU and its kernelspecs, and shuts its kernels down.

        Raises NOT_YOURS for another person's, unless *options* have its name.
        """

    async def report_fault(
        self, ref: str, request: models.ReportFault | None = None
    ) -> models.Operation:
        """Tells Google that the machine under a host is broken. The host ends at once.

        Of Compute Engine only. Raises INVALID for another TPU or host, NOT_YOURS as `delete`.
        """

    async def connect(self, ref: str, request: models.ConnectTPU | None = None) -> models.Operation:
        """Creates an environment on all hosts, registers its kernel and keeps the links up."""

    async def disconnect(
        self, ref: str, options: models.DisconnectTPU | None = None
    ) -> models.Operation:
        """Removes the kernelspecs and closes the links; the environments stay on the hosts."""

    def subscribe(self, callback: Callable[[models.Change], None]) -> Callable[[], None]:
        """Calls *callback* at each change, on the fleet's loop. Returns a function to end it."""

    async def close(self) -> None:
        """Ends what this object runs; desired state is kept."""
