"""The fleet's methods, and its parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from .. import models
from .capacity import GrantsAPI, HuntsAPI, LogsAPI, NetworksAPI, PricesAPI, QueuedAPI, SSHKeyAPI
from .files import CopiesAPI, SharesAPI, SyncAPI, TokensAPI
from .forwarding import AppsAPI, TensorBoardAPI, TunnelsAPI
from .hosts import (
    ChipKernelsAPI,
    ChipsAPI,
    DoctorAPI,
    GuardAPI,
    JobsAPI,
    MetricsAPI,
    PythonsAPI,
    RunsAPI,
)
from .inventory import AttachedAPI, UsageAPI
from .profiles import ProfilesAPI


class FleetAPI(Protocol):
    """The fleet's methods, and its parts; REST has the same ones."""

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
    def profiles(self) -> ProfilesAPI: ...

    @property
    def doctor(self) -> DoctorAPI: ...

    @property
    def chips(self) -> ChipsAPI: ...

    @property
    def chip_kernels(self) -> ChipKernelsAPI: ...

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

    async def connect(self, ref: str, request: models.ConnectTPU | None = None) -> models.Operation:
        """Creates an environment on all hosts, registers its kernel and keeps the links up."""

    async def disconnect(
        self, ref: str, options: models.DisconnectTPU | None = None
    ) -> models.Operation:
        """Removes the kernelspecs and closes the links; the environments stay on the hosts."""

    async def environments(self, ref: str) -> list[models.Environment]:
        """The environments of a TPU."""

    async def keep_warm(
        self, ref: str, environment: str, options: models.KeepWarm
    ) -> models.Environment:
        """Decides whether an environment has a warm kernel while its TPU is connected."""

    async def packages(self, ref: str, environment: str) -> list[models.InstalledPackage]:
        """What is installed in an environment, as host 0 reports it."""

    async def environment_lock(self, ref: str, environment: str) -> models.EnvironmentLock:
        """The exact versions of an environment, as host 0 reports them.

        They are kept: a new environment of that name on another TPU gets the same, unless the name
        is "default".
        """

    async def change_packages(
        self, ref: str, environment: str, request: models.ChangePackages
    ) -> models.Operation:
        """Adds packages to an environment and removes some, on all hosts.

        INVALID for a name that is not a package's, and to remove a package that kernels need.
        """

    async def sync_environment(self, ref: str, environment: str) -> models.Operation:
        """Gives all hosts exactly the packages that host 0 has.

        `doctor.check` says which hosts have others.
        """

    async def remove_environment(
        self, ref: str, environment: str, options: models.RemoveEnvironment | None = None
    ) -> models.Operation:
        """Removes an environment from the hosts, and its kernel from Jupyter."""

    async def kernels(self, ref: str) -> list[models.Kernel]:
        """The kernels that run on a TPU now. UNREACHABLE if its agent does not answer."""

    async def end_kernel(self, ref: str, id: str) -> None:
        """Shuts one kernel down and deletes its journal."""

    async def take_over_kernel(self, ref: str, id: str) -> None:
        """Makes the Jupyter server the client of a kernel; the client that had it is notified.

        CONFLICT if there is no server, EXISTS if this server already has the kernel.
        """

    async def operations(self) -> list[models.Operation]:
        """Running and recent operations, newest first."""

    async def operation(self, id: str) -> models.Operation:
        """One operation, with its log."""

    async def cancel(self, id: str) -> models.Operation:
        """Cancels an operation; cancelling a create deletes the TPU.

        Waits a moment for its end. Cleaning up may take longer; it is "running" until then. One
        that another process runs is cancelled by that process within a second or two. An operation
        that has ended is returned as it is.
        """

    async def stop_trying(
        self, id: str, options: models.StopTrying | None = None
    ) -> models.Operation:
        """Ends the attempts to delete a TPU that Google refuses to delete: the TPU stays.

        Raises CONFLICT where Google does not refuse it, STILL_BILLED unless the request has
        ``keep_tpu``. What Google has begun to delete meanwhile is deleted all the same.
        """

    def subscribe(self, callback: Callable[[models.Change], None]) -> Callable[[], None]:
        """Calls *callback* at each change, on the fleet's loop. Returns a function to end it."""

    async def close(self) -> None:
        """Ends what this object runs; desired state is kept."""
