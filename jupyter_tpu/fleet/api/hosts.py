"""What is on the hosts of a TPU and runs there, from environments to files and open ports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from .. import models


class KernelsAPI(Protocol):
    """The kernels of TPUs."""

    async def list(
        self, ref: str, query: models.ListQuery | None = None
    ) -> Sequence[models.Kernel]:
        """The kernels of a TPU, as its hosts last reported, which they do when one changes.

        They are asked if that is wished, or if one does not report: UNREACHABLE if it does not
        answer.
        """

    async def shut_down(self, ref: str, id: str) -> None:
        """Shuts one kernel down and deletes its journal."""

    async def take_over(self, ref: str, id: str) -> None:
        """Makes the Jupyter server the client of a kernel; the client that had it is notified.

        CONFLICT if there is no server, EXISTS if this server already has the kernel.
        """


class JobsAPI(Protocol):
    """Commands on hosts that continue without link, server or this machine."""

    async def list(self, ref: str) -> Sequence[models.Job]:
        """The jobs of a TPU, the oldest first."""

    async def all(self) -> Sequence[models.Job]:
        """The jobs of all TPUs."""

    async def get(self, ref: str, id: str) -> models.Job:
        """One job."""

    async def why(self, ref: str, id: str) -> models.JobWhere:
        """Where the job is on each of its hosts: the Python stacks of its processes that hold
        chips. A host that can't be asked says why. Changes nothing; takes a second or two.
        """

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


class RunsAPI(Protocol):
    """Commands on hosts, which end with the process that started them."""

    async def list(self, ref: str) -> Sequence[models.Run]:
        """Those that run on a TPU and the last ones that ended, the oldest first."""

    async def start(self, ref: str, request: models.StartRun) -> models.Run:
        """Starts a command on hosts of a TPU; returns at once.

        INVALID for hosts that the TPU does not have, NOT_FOUND for an environment that does not
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


class PythonsAPI(Protocol):
    """Pythons that were on the hosts of a TPU before it was connected."""

    async def list(self, ref: str, path: str | None = None) -> models.FoundPythons:
        """Those in the usual places, and the one at *path*.

        Asks all hosts; UNREACHABLE if none answers. One of these becomes an environment, as it is,
        by `connect` with its ``python_path``.
        """


class DoctorAPI(Protocol):
    """What keeps JAX from the chips of a TPU, and a TPU from being created."""

    async def preflight(self, request: models.CheckSetup | None = None) -> models.Diagnosis:
        """Checks login, API, permissions, quota, key and firewall before there is a TPU.

        Changes nothing. What can't be asked is a finding, too.
        """

    async def log(self, query: models.OwnLogQuery | None = None) -> models.OwnLog:
        """What jupyter-tpu itself has done: its links, operations, hunts, guards and kernels."""

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


class SliceKernelsAPI(Protocol):
    """Kernels on all hosts of several TPUs. One for the TPUs of a queued resource is added when the
    last of them is connected.
    """

    async def add(self, ref: str, request: models.AddSlicesKernel) -> models.SlicesKernel:
        """Puts one into Jupyter's kernel pickers. It goes away with the first of its TPUs that is
        disconnected or deleted.

        Raises NOT_FOUND for a TPU without such an environment, CONFLICT if their Pythons differ,
        INVALID for TPUs of different zones, and if there is no other TPU.
        """


class MetricsAPI(Protocol):
    """Memory and load of chips. Hosts are sampled every few seconds while a client looks, and
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

    All methods raise CONFLICT for a TPU that is not READY. Those that change something raise
    NOT_YOURS for another person's, unless its name is confirmed.
    """

    async def get(self, ref: str) -> models.Guard:
        """The guard of a TPU, as its host describes it now. Raises NOT_FOUND if it has none, or has
        not got that of its creation yet, with the reason.
        """

    async def set(self, ref: str, request: models.SetGuard) -> models.Guard:
        """Sets or replaces the guard. Raises INVALID for what can't be done with this TPU.

        The host first asks Google whether it may act. If not, the answer has the reason, and a
        Jupyter server acts in its place while it runs.
        """

    async def keep(self, ref: str, request: models.KeepTPU | None = None) -> models.Guard:
        """Nothing is stopped or deleted for some time, and then after a new notice only."""

    async def remove(self, ref: str, options: models.RemoveGuard | None = None) -> None:
        """Removes the guard: the TPU runs until it is stopped or deleted."""


class EnvironmentsAPI(Protocol):
    """The environments of TPUs. `FleetAPI.connect` creates them."""

    async def list(self, ref: str) -> Sequence[models.Environment]:
        """The environments of a TPU."""

    async def keep_warm(
        self, ref: str, environment: str, options: models.KeepWarm
    ) -> models.Environment:
        """Decides whether an environment has a warm kernel while its TPU is connected."""

    async def list_packages(self, ref: str, environment: str) -> Sequence[models.InstalledPackage]:
        """What is installed in an environment, as host 0 reports it."""

    async def get_lock(self, ref: str, environment: str) -> models.EnvironmentLock:
        """The exact versions of an environment, as host 0 reports them.

        They are kept: a new environment of that name on another TPU gets the same, unless the name
        is "default".
        """

    async def get_kernelspec(self, ref: str, environment: str) -> models.EnvironmentKernelspec:
        """By which a kernel is started in an environment. A coding agent asks before each cell."""

    async def change_packages(
        self, ref: str, environment: str, request: models.ChangePackages
    ) -> models.Operation:
        """Adds packages to an environment and removes some, on all hosts.

        INVALID for a name that is not a package's, and to remove a package that kernels need.
        """

    async def sync_packages(self, ref: str, environment: str) -> models.Operation:
        """Gives all hosts exactly the packages that host 0 has.

        `doctor.check` says which hosts have others.
        """

    async def remove(
        self, ref: str, environment: str, options: models.RemoveEnvironment | None = None
    ) -> models.Operation:
        """Removes an environment from the hosts, and its kernel from Jupyter."""


class RayAPI(Protocol):
    """One Ray cluster for each TPU, on all its hosts. It runs as a job: see `JobsAPI`."""

    async def get(self, ref: str) -> models.Ray:
        """The cluster of a TPU, as its host 0 says it now."""

    async def start(self, ref: str, request: models.StartRay) -> models.Operation:
        """Starts Ray on all hosts of a READY TPU and opens its dashboard, the operation's ``app``.

        A cluster that runs is kept. Raises NOT_FOUND for an environment that is not there. The
        operation fails with ENVIRONMENT if Ray is not installed there, and ``install`` is false.
        """

    async def open_dashboard(self, ref: str) -> models.App:
        """Opens the dashboard; its pages need no token. CONFLICT if Ray does not run."""

    async def stop(self, ref: str) -> models.Ray:
        """Begins to stop Ray, and what runs on it."""


class ProfilesAPI(Protocol):
    """Profiles of a READY TPU; others raise CONFLICT."""

    async def start(self, ref: str, request: models.ProfileTPU | None = None) -> models.Operation:
        """Traces the programs that use JAX, on all hosts at once, and opens TensorBoard (xprof).

        The operation's result is a :class:`~models.Profile`, also where it fails; its ``app`` is
        the TensorBoard. It is done if one program was traced: the result says what became of the
        others. Raises INVALID for a wrong request, NOT_FOUND for an unknown kernel.
        """

    async def memory(
        self, ref: str, query: models.MemoryQuery | None = None
    ) -> models.MemoryProfiles:
        """What fills the memory of the devices, by the lines of each kernel's program.

        A kernel or host that can't be asked says why. Takes some seconds.
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
