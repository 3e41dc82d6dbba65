"""What the fleet offers, in this process (`Fleet`) or through a running server (`client`).

A reference (``ref``) to a TPU is its name, or ``zone~name`` (``zone/name``) where two zones have
the same one. All methods raise :class:`~jupyter_tpu.errors.TPUError`: NOT_FOUND for an unknown
reference or id, CONFLICT for an ambiguous one and for what the TPU's state or a running operation
does not allow, INVALID for a wrong request, and what Google answers.

Delete, stop, disconnect and detach shut kernels down. While kernels run they raise KERNELS_RUNNING
unless the request has ``end_kernels``. Delete, stop and detach end jobs, too: they raise
JOBS_RUNNING unless the request has ``end_jobs``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from . import models


class TunnelsAPI(Protocol):
    """Local ports that lead to ports of hosts."""

    async def list(self, ref: str) -> Sequence[models.Tunnel]:
        """The tunnels to a TPU, the oldest first."""

    async def all(self) -> Sequence[models.Tunnel]:
        """The tunnels to all TPUs."""

    async def open(self, ref: str, request: models.OpenTunnel) -> models.Tunnel:
        """Opens a tunnel. It survives interruptions of the link and restarts of the server.

        Asking twice for a tunnel to the same port, without a local port, gives the first one.
        Raises INVALID for a wrong port, host or address, CONFLICT for a local port that is in use,
        PERMISSION for one that only the system may use.
        """

    async def close(self, ref: str, id: str) -> None:
        """Closes a tunnel for good."""


class JobsAPI(Protocol):
    """Commands on hosts that go on without link, server or this machine."""

    async def list(self, ref: str) -> Sequence[models.Job]:
        """The jobs of a TPU, the oldest first."""

    async def all(self) -> Sequence[models.Job]:
        """The jobs of all TPUs."""

    async def get(self, ref: str, id: str) -> models.Job:
        """One job."""

    async def start(self, ref: str, request: models.StartJob) -> models.Job:
        """Starts a job on hosts of a READY TPU.

        A host that can't be reached now starts it when it can. One that can't start it is named in
        the answer; if that is so on all hosts, this raises why: NO_FOLDER, DISK_FULL, …. Raises
        INVALID for a host that does not exist, NOT_FOUND for such an environment.
        """

    async def stop(self, ref: str, id: str, options: models.StopJob | None = None) -> models.Job:
        """Begins to stop a job: SIGTERM, after a while SIGKILL, for all that it started.

        A host that can't be reached stops it when it can.
        """

    async def remove(self, ref: str, id: str) -> None:
        """Deletes a job that has ended, with its output. Raises CONFLICT if it may be running."""

    async def log(
        self, ref: str, id: str, query: models.JobLogQuery | None = None
    ) -> models.JobLog:
        """A part of a job's output on one host.

        Waits for a line if there is none yet. With *search*: only lines that have that text, in any
        case; there may be more from `JobLog.next` on even if there is none in this part.
        """


class HuntsAPI(Protocol):
    """Searches for a TPU over zones, types and tiers. A hunt is named by its id, or by its TPU."""

    async def list(self) -> Sequence[models.Hunt]:
        """Running and recent hunts, newest first."""

    async def quote(self, request: models.StartHunt) -> Sequence[models.HuntCandidate]:
        """What :meth:`start` would try, and what that costs; raises what it raises."""

    async def start(self, request: models.StartHunt) -> models.Hunt:
        """Starts a hunt: attempts, one after the other, until there is a TPU.

        Raises INVALID where there is nothing to try, EXISTS for the name of a TPU in one of the
        zones, and while there is a hunt for this name.
        """

    async def get(self, id: str) -> models.Hunt:
        """One hunt, with its last attempts."""

    async def stop(self, id: str) -> models.Hunt:
        """Stops a hunt, and deletes what its current attempt has made.

        Waits a moment for its end; it is "stopping" until then. One that has ended is returned as
        it is.
        """


class QueuedAPI(Protocol):
    """Queued resources. One is named by its name, or by zone~name where two zones have the same."""

    async def list(self) -> models.QueuedResources:
        """All of the project, the oldest first, as Google describes them now."""

    async def create(self, request: models.QueueTPU) -> models.Operation:
        """Asks for TPUs that Google creates when there is room; ends when Google has accepted that.

        To cancel the operation deletes what it has asked for. Raises EXISTS for a name in use, and
        PRICE for what costs something without a confirmation.
        """

    async def get(self, ref: str) -> models.QueuedResource: ...

    async def delete(
        self, ref: str, options: models.DeleteQueued | None = None
    ) -> models.Operation:
        """Deletes one. Raises CONFLICT if it has TPUs, unless *options* allow to delete them."""

    async def reset(self, ref: str) -> models.QueuedResource:
        """Puts a failed or suspended one back into the queue; CONFLICT in other states."""


class AppsAPI(Protocol):
    """The web apps of hosts that are open here."""

    async def list(self) -> Sequence[models.App]:
        """The oldest first."""

    async def open(self, ref: str, request: models.OpenApp) -> models.App:
        """Opens the web app on a host's port on an origin of its own, until this process ends.

        The same port and path of a host give the same app. Raises INVALID for a wrong port, host
        or path. If nothing listens there, the browser shows that and tries again.
        """

    async def visit(self, id: str, request: models.VisitApp | None = None) -> models.AppVisit:
        """A URL with which one browser opens an app once."""

    async def close(self, id: str) -> None:
        """Closes an app for all browsers, and the TensorBoard that was started for it.

        A host that can't be reached keeps that: it is found again, or ends at a disconnect.
        """


class TensorBoardAPI(Protocol):
    """TensorBoards of hosts."""

    async def open(self, ref: str, request: models.OpenTensorBoard) -> models.Operation:
        """Opens TensorBoard for a folder of a host, installing and starting it where needed.

        The operation's ``app`` is the app that it opened; the same folder gives the same one.
        Raises INVALID for what can't be a folder or a host. The operation fails with NO_FOLDER for
        a folder that does not exist, unless ``allow_missing``.
        """

    async def profile(
        self, ref: str, kernel_id: str, request: models.ProfileKernel | None = None
    ) -> models.Operation:
        """Traces a kernel for some seconds and opens the trace in TensorBoard."""


class DoctorAPI(Protocol):
    """What keeps JAX from the chips of a TPU, and a TPU from being created."""

    async def preflight(self, request: models.CheckSetup | None = None) -> models.Diagnosis:
        """Checks login, API, permissions, quota, key and firewall before there is a TPU.

        Changes nothing. What can't be asked is a finding, too.
        """

    async def check(self, ref: str) -> models.Diagnosis:
        """Checks all hosts at once, and JAX in each environment; changes nothing.

        Takes as long as JAX takes to start in each environment. A host that can't be checked is a
        finding. Raises CONFLICT for a TPU that is not READY.
        """


class ChipsAPI(Protocol):
    """The chips of a TPU's hosts, and what holds them."""

    async def list(self, ref: str, hosts: str | None = None) -> models.ChipUse:
        """Asks *hosts* ("0,2-5"; None: all) of a READY TPU; one that can't be asked says why.

        Raises INVALID for a host that does not exist.
        """

    async def free(self, ref: str, request: models.FreeChips) -> models.FreedChips:
        """Ends processes that hold chips, waits until they have ended, and looks again.

        Kernels are shut down, jobs and runs are stopped on all their hosts; other processes get
        SIGTERM, and SIGKILL if they hold chips after a while. Each is looked at again before each
        signal.
        """


class ChipKernelsAPI(Protocol):
    """Kernels that get some chips of a TPU's host each, so that several notebooks share it."""

    async def split(self, ref: str, request: models.SplitChips) -> models.ChipKernels:
        """Puts one for each group of chips into Jupyter's kernel pickers, and removes those with
        other groups. Running kernels keep their chips.

        Raises NOT_FOUND for an environment that is not connected, INVALID for a number of chips
        that no kernel can have.
        """


class MetricsAPI(Protocol):
    """Memory and load of chips. Hosts are sampled every few seconds while somebody looks, and
    once a minute otherwise.
    """

    async def get(self, ref: str, query: models.LoadQuery | None = None) -> models.TPULoad:
        """Those of a READY TPU; a host that can't be asked says why.

        Waits a few seconds for a recent sample of each host. Raises INVALID for a host that does
        not exist.
        """

    async def list(self) -> Sequence[models.TPULoad]:
        """Those of all connected TPUs, the latest sample of each host. Does not wait, and does not
        count as a look.
        """


class GuardAPI(Protocol):
    """A TPU that stops or deletes itself, from its host 0, while every computer of its user is off.

    All methods raise CONFLICT for a TPU that is not READY.
    """

    async def get(self, ref: str) -> models.Guard:
        """The guard of a TPU, as its host describes it now. Raises NOT_FOUND if it has none."""

    async def set(self, ref: str, request: models.SetGuard) -> models.Guard:
        """Sets or replaces the guard. Raises INVALID for what can't be done with this TPU.

        The host first asks Google whether it may act. If not, the answer has the reason, and a
        Jupyter server acts in its place while it runs.
        """

    async def keep(self, ref: str, request: models.KeepTPU | None = None) -> models.Guard:
        """Nothing is stopped or deleted for some time, and then after a new notice only."""

    async def remove(self, ref: str) -> None:
        """Removes the guard: the TPU runs until somebody stops it."""


class PythonsAPI(Protocol):
    """Pythons that were on the hosts of a TPU before it was connected."""

    async def list(self, ref: str, path: str | None = None) -> models.FoundPythons:
        """Those in the usual places, and the one at *path*.

        Asks all hosts; UNREACHABLE if none answers. One of these becomes an environment, as it is,
        by `connect` with its ``python_path``.
        """


class RunsAPI(Protocol):
    """Commands on hosts, which end with the process that started them."""

    async def list(self, ref: str) -> Sequence[models.Run]:
        """Those that run on a TPU and the last ones that ended, the oldest first."""

    async def start(self, ref: str, request: models.StartRun) -> models.Run:
        """Starts a command on hosts of a TPU; returns at once.

        INVALID for hosts that the TPU has not got, NOT_FOUND for an environment that does not
        exist. What a host says against it is in its state.
        """

    async def get(self, ref: str, id: str) -> models.Run:
        """Its state on each host."""

    async def output(
        self, ref: str, id: str, start: str | None = None, wait: str | None = None
    ) -> models.RunOutput:
        """Its output from the offset *start* on (a number; None: 0).

        Waits up to *wait* seconds (at most, and by default, 20) for some, for a host on which it
        has begun or ended, or for the end. What is before *start* may be forgotten then.
        """

    async def write(self, ref: str, id: str, request: models.RunInput) -> models.Run:
        """Writes to the standard input of all hosts; returns when the slowest has taken it."""

    async def stop(self, ref: str, id: str) -> models.Run:
        """Ends it on all hosts: with SIGINT, then SIGTERM, then SIGKILL.

        Returns when it has ended. A host that does not answer in time is in the state "unknown".
        """


class SyncAPI(Protocol):
    """Folders that are the same here and on the hosts of a TPU."""

    async def start(self, ref: str, request: models.SyncProject) -> models.Operation:
        """Copies what has changed to all hosts, or from one; nothing is overwritten unseen.

        The operation's result is a :class:`~models.SyncResult`, also where it fails because some
        hosts could not be reached. Raises INVALID for a wrong path, NOT_FOUND for a wrong host.
        The operation fails with NO_FOLDER where the source does not exist, and INVALID where it
        is too large.
        """


class TokensAPI(Protocol):
    """Tokens of this computer that TPUs get, such as HF_TOKEN. Their values are never answered."""

    async def list(self) -> Sequence[models.Token]:
        """In the order of choice, and where each is found now."""

    async def pass_on(self, request: models.PassTokens) -> Sequence[models.Token]:
        """What is started on TPUs from now on gets these, too; the answer has all.

        Raises INVALID for what is not a variable's name, or one that hosts have themselves.
        """

    async def remove(self, name: str) -> None:
        """What is started from now on does not get it; what runs keeps it."""


class CopiesAPI(Protocol):
    """Copies of files and folders to hosts and from them."""

    async def start(self, ref: str, request: models.CopyFiles) -> models.Operation:
        """Copies to hosts, which send the files on to each other, or from one host.

        The operation's result is a :class:`~models.CopyResult`, also where it fails. Raises INVALID
        for a wrong path or host. The operation fails with EXISTS where files would be overwritten
        unseen, NOT_FOUND, NO_FOLDER, DISK_FULL, and where something was not copied.
        """


class SharesAPI(Protocol):
    """Folders that hosts of a TPU, or of several of a zone, share over NFS."""

    async def list(self, ref: str) -> models.SharedFolders:
        """The shared folders of a TPU, and whether each host has them. Asks all hosts."""

    async def start(self, ref: str, request: models.ShareFolder) -> models.Operation:
        """Shares a folder of host 0 with the other hosts, or ends that.

        The operation's result is a :class:`~models.ShareResult`, also where it fails. Raises
        INVALID for a folder that can't be shared and for TPUs of several zones. The operation fails
        with CONFLICT, and changes nothing, where a host can't share it; with NOT_FOUND to remove
        what is not shared.
        """


class GrantsAPI(Protocol):
    """What may be used at no charge; outside of it a price has to be confirmed."""

    async def list(self) -> Sequence[models.GrantUse]:
        """The grants, those that end first first, and how much of each is in use."""

    async def add(self, request: models.Grant) -> Sequence[models.GrantUse]:
        """Adds a grant; the answer has all. Raises INVALID, and EXISTS for a name in use."""

    async def remove(self, name: str) -> None:
        """Forgets a grant. TPUs that are inside it go on, and count as charged from then on."""


class PricesAPI(Protocol):
    """What chips cost, by region, with the date of each price."""

    async def list(self) -> models.PriceList:
        """The prices that are used now."""

    async def refresh(self) -> models.PriceList:
        """Reads them from Google's Cloud Billing Catalog. If that fails, the earlier ones stay.

        Raises NO_CREDENTIALS, PERMISSION where the API is disabled, and what the network does.
        """


class NetworksAPI(Protocol):
    """The VPC networks of the project, and whom their firewall rules let in."""

    async def set_up(self, request: models.SetUpNetwork) -> models.NetworkSetup:
        """Creates what a network lacks: itself, a subnetwork, narrow firewall rules.

        Waits until that is done, about a minute for a new network. Doing it again continues with
        what is missing. With `dry_run` it changes nothing. Raises INVALID for a wrong address or
        zone, PERMISSION, and what the network does.
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
        """What :meth:`attach` would connect to, and which host key it shows. It changes nothing.

        Raises INVALID for what `ssh` does not know, UNREACHABLE, and HOST_KEY where the user's
        known hosts have another key of the machine.
        """

    async def attach(self, request: models.AttachMachine) -> models.TPU:
        """Connects to a machine, asks whether it has TPU chips, and remembers it.

        Our key is added there to the keys that may log in, through the user's own `ssh`. Raises
        what :meth:`check` does, HOST_KEY for a key that nobody has confirmed, EXISTS for a name in
        use, PERMISSION if `ssh` can't log in without a question, NO_PYTHON.
        """

    async def detach(
        self, ref: str, options: models.DetachMachine | None = None
    ) -> models.Operation:
        """Shuts down what we run on an attached machine, and forgets it. Its files stay.

        Raises CONFLICT for a TPU of the cloud.
        """


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
    def prices(self) -> PricesAPI: ...

    @property
    def usage(self) -> UsageAPI: ...

    async def status(self) -> models.FleetStatus:
        """The health of the loops behind this interface; makes no call to Google or a host."""

    async def catalog(self, zone: str | None = None) -> models.Catalog:
        """Types, zones and versions; with *zone*, those that it offers.

        Does not fail if Google can't be asked: ``problem`` has the reason then.
        """

    async def tpus(self) -> models.TPUList:
        """All TPUs of the project and those connected, from the last shared poll."""

    async def tpu(self, ref: str) -> models.TPU:
        """One TPU, as last polled."""

    async def quote(self, request: models.CreateTPU) -> models.Quote:
        """What `create` would create for a request, and its cost; raises what `create` raises."""

    async def create(self, request: models.CreateTPU) -> models.Operation:
        """Starts creating a TPU; raises INVALID and EXISTS at once.

        Raises PRICE for what costs something, unless the request confirms its price.
        """

    async def start(self, ref: str, options: models.StartTPU | None = None) -> models.Operation:
        """Starts a stopped TPU. Raises PRICE for what costs something without a confirmation."""

    async def stop(self, ref: str, options: models.StopTPU | None = None) -> models.Operation:
        """Stops a TPU; its disk is kept, its kernels are shut down."""

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
