"""The fleet's methods and its parts, with operations, attached machines and who has which TPUs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from .. import models
from .capacity import (
    BudgetsAPI,
    GrantsAPI,
    HuntsAPI,
    LogsAPI,
    NetworksAPI,
    PlansAPI,
    PricesAPI,
    QueuedAPI,
    ReservationsAPI,
    SSHKeyAPI,
)
from .homes import HomesAPI
from .hosts import (
    AppsAPI,
    ChipKernelsAPI,
    ChipsAPI,
    CopiesAPI,
    DoctorAPI,
    EnvironmentsAPI,
    GuardAPI,
    JobsAPI,
    KernelsAPI,
    MetricsAPI,
    ProfilesAPI,
    PythonsAPI,
    RayAPI,
    RunsAPI,
    SharesAPI,
    SliceKernelsAPI,
    SyncAPI,
    TensorBoardAPI,
    TokensAPI,
    TunnelsAPI,
)
from .serving import ServingAPI
from .sessions import SessionsAPI


class OperationsAPI(Protocol):
    """Operations of all processes."""

    async def list(self) -> Sequence[models.Operation]:
        """Running and recent operations, newest first."""

    async def get(self, id: str) -> models.Operation:
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


class UsageAPI(Protocol):
    """Who has which TPUs."""

    async def show(self, projects: str | None = None) -> models.Usage:
        """Every TPU and queued resource of *projects* ("a,b"; None: the fleet's own).

        Does not fail if a project or a zone does not answer: ``problems`` says so. Raises INVALID
        for what is not a project's ID, and NO_PROJECT.
        """

    async def adopt(self, ref: str, request: models.AdoptTPU | None = None) -> models.UsedTPU:
        """Makes a TPU yours: its label says so from then on.

        Raises NOT_YOURS for another person's, unless *request* has its name.
        """


class AttachedAPI(Protocol):
    """Machines that are reached by SSH alone, as TPUs in the zone "attached"."""

    async def check(self, request: models.AttachMachine) -> models.MachineCheck:
        """What :meth:`attach` would connect to, and which host keys are shown. It changes nothing.

        Raises INVALID for what `ssh` does not know, and for a machine that is there twice,
        UNREACHABLE, and HOST_KEY where the user's known hosts have another key of the machine, or
        an expected key is not shown.
        """

    async def attach(self, request: models.AttachMachine) -> models.TPU:
        """Connects to machines, asks whether they have TPU chips, and remembers them as one TPU.

        Our key is added there to the keys that may log in, through the user's own `ssh`. Raises
        what :meth:`check` does, HOST_KEY for a key that was not confirmed, EXISTS for a name in
        use, PERMISSION if `ssh` can't log in without a question, NO_PYTHON, and INVALID for several
        machines that can't be the hosts of one TPU. If one of several fails, none is attached.
        """

    async def detach(
        self, ref: str, options: models.DetachMachine | None = None
    ) -> models.Operation:
        """Shuts down what we run on an attached machine, and forgets it. Its files stay.

        Raises CONFLICT for a TPU of the cloud.
        """


class FleetAPI(Protocol):
    """The fleet's methods, and its parts; REST has the same ones."""

    environments: EnvironmentsAPI
    kernels: KernelsAPI
    operations: OperationsAPI
    attached: AttachedAPI
    tunnels: TunnelsAPI
    apps: AppsAPI
    jobs: JobsAPI
    tensorboard: TensorBoardAPI
    ray: RayAPI
    serving: ServingAPI
    profiles: ProfilesAPI
    doctor: DoctorAPI
    chips: ChipsAPI
    chip_kernels: ChipKernelsAPI
    slice_kernels: SliceKernelsAPI
    metrics: MetricsAPI
    guards: GuardAPI
    pythons: PythonsAPI
    runs: RunsAPI
    sessions: SessionsAPI
    homes: HomesAPI
    sync: SyncAPI
    tokens: TokensAPI
    hunts: HuntsAPI
    queued: QueuedAPI
    copies: CopiesAPI
    shares: SharesAPI
    grants: GrantsAPI
    networks: NetworksAPI
    ssh_key: SSHKeyAPI
    logs: LogsAPI
    prices: PricesAPI
    reservations: ReservationsAPI
    budgets: BudgetsAPI
    plans: PlansAPI
    usage: UsageAPI

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

    async def consequences(self, ref: str, query: models.ConsequencesQuery) -> models.Consequences:
        """What stopping, deleting … a TPU would end and take away. It changes nothing."""

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
