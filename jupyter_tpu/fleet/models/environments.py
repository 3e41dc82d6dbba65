"""Environments, how a TPU is connected, the kernels on TPUs and their interruptions."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from ...environment import EnvironmentContent, EnvironmentSpec
from ...options import option
from .core import Problem
from .jobs import Text

#: Why PyTorch's environments have no kernel on all hosts, and what there is.
POD_KERNEL_NEEDS_JAX = (
    "A kernel on all hosts needs JAX: PyTorch on TPUs needs one process for each device, and such "
    "a kernel has one for each host."
)
POD_KERNEL_HINT = (
    "Start a job with torchrun instead: jupyter tpu job start NAME --env ENV -- torchrun FILE"
)


class ConnectTPU(EnvironmentSpec, kw_only=True, forbid_unknown_fields=True):
    """How a TPU is connected: one environment for kernels, the same on all its hosts."""

    #: A Python or virtual environment that is on the hosts, such as ~/venv, to be used as it is.
    python_path: str | None = None
    #: Whether ipykernel may be installed there if it is missing; nothing else is changed there.
    install_ipykernel: bool = False
    #: By default, `setup` is added to it.
    replace_setup: Annotated[
        bool,
        option(
            "Forget the apt packages, time zone, setup script and oh-my-zsh of earlier commands. "
            "What the hosts have stays.",
            rare=True,
        ),
    ] = False
    #: "": none.
    then_run: Annotated[
        Text,
        Meta(max_length=100_000),
        option(
            "A shell command to start as a job on all hosts when the environment is ready (see "
            "`job`).",
            metavar="CMD",
        ),
    ] = ""


class EnvironmentLock(EnvironmentContent, kw_only=True):
    """What an environment has exactly, so that another TPU can get the same."""

    environment: str
    #: Its packages with their versions, as a requirements file.
    text: str
    python: str  # "3.12.4"
    #: The TPU that it is from, its type, and when it was locked.
    tpu: str
    type: str
    time: str
    emulated: bool = False
    #: What was asked for and can't be imported there.
    problem: Problem | None = None


class ChangePackages(Struct, kw_only=True, forbid_unknown_fields=True):
    """Packages to add to an environment, and to remove from it, on all hosts."""

    #: PEP 508 requirements.
    add: list[str] = []
    #: Names.
    remove: list[str] = []


class RemoveEnvironment(Struct, kw_only=True, forbid_unknown_fields=True):
    """How an environment is removed; `end_kernels` is required while its kernels run."""

    end_kernels: bool = False


class DisconnectTPU(Struct, kw_only=True, forbid_unknown_fields=True):
    """How a TPU is disconnected; `end_kernels` is required while kernels run there."""

    end_kernels: bool = False


class KeepWarm(Struct, kw_only=True, forbid_unknown_fields=True):
    """Whether an environment has a warm kernel: one that was started ahead, for the next notebook.

    It has only imported ipykernel and holds no chip. It uses the memory that is shown.
    """

    #: None: as configured (``c.JupyterTPU.warm_kernels``).
    wanted: bool | None = None
    imports: Annotated[
        list[str],
        option(
            "Modules to import in it, too. They must not use the chips.",
            "--import",
            metavar="MODULE...",
        ),
    ] = []


class WarmKernel(Struct, kw_only=True):
    """A kernel on host 0 that was started ahead, for the next notebook."""

    state: Literal["off", "starting", "ready", "failed"]
    memory: int = 0  # bytes on the host
    imports: list[str] = []
    problem: str = ""  # why it failed


class HostDifference(Struct, kw_only=True, frozen=True):
    """How the versions on a host differ from those on host 0."""

    host: int
    #: Such as "numpy 2.1.0 instead of 2.3.1".
    versions: str


class HostVersions(Struct, kw_only=True, frozen=True):
    """Whether the hosts of a TPU had the same versions when that was last checked."""

    time: str
    #: Hosts with other versions than host 0; empty if there are none.
    different: list[HostDifference] = []
    #: Hosts that could not be checked.
    unchecked: list[int] = []


class Environment(EnvironmentContent, kw_only=True):
    """A Python virtual environment on all hosts of a TPU, from which kernels run."""

    name: str
    tpu: str
    zone: str
    state: Literal["making", "ready", "failed"]
    python: str = ""  # "3.12.4"
    jax: str = ""  # the version of JAX
    torch: str = ""  # the version of PyTorch, where TorchTPU is installed, too
    path: str = ""  # on the hosts
    #: Its Python, if it was found on the hosts: nothing is changed there. "" if it was created.
    python_path: str = ""
    #: Whether its hosts have the same versions; None for one host, and before the first check.
    versions: HostVersions | None = None
    #: What was asked for when creating or changing it failed.
    asked: ConnectTPU | None = None
    #: What JAX or PyTorch lists on one host, and on which platform ("tpu"; "cpu" if emulated).
    devices: int = 0
    platform: str = ""
    kernelspec: str = ""  # its name in Jupyter
    display_name: str = ""  # "Python 3.12 · my-tpu"
    #: The kernelspec whose kernel runs each cell on all hosts of a pod; "" for a TPU of one host.
    pod_kernelspec: str = ""
    pod_display_name: str = ""  # "Python 3.12 · my-tpu (all 4 hosts)"
    warm: WarmKernel = field(default_factory=lambda: WarmKernel(state="off"))
    problem: Problem | None = None

    @property
    def has_torch(self) -> bool:
        """Whether PyTorch uses the chips in it, and not JAX."""
        return self.framework == "torch"

    @property
    def framework_version(self) -> str:
        """ "JAX 0.12.0" or "PyTorch 2.13.0": what uses the chips; "" if it is not installed."""
        name, version = ("PyTorch", self.torch) if self.has_torch else ("JAX", self.jax)
        return f"{name} {version}" if version else ""


class Kernel(Struct, kw_only=True):
    """A kernel that runs on a host of a TPU."""

    id: str
    tpu: str
    zone: str
    host: int = 0
    environment: str
    state: str  # "starting", "idle", "busy", "dead"
    pid: int = 0
    started: str = ""
    last_activity: str = ""
    attached: bool = False  # a client is connected to it
    holder: str = ""  # which client that is, or was last
    chips: bool = False  # it, or what it started, holds the host's chips
    #: The chips of the host that only it gets; []: all, together with others, or none.
    booked: list[int] = []
    #: What each host of a pod kernel does: "starting", "idle", "busy", "waiting" (for the others),
    #: "stuck" (it does not react to interrupts), "dead"; []: the kernel runs on *host* only.
    hosts: list[str] = []
    notebook: str = ""
    #: The id of the notebook's cell that runs now, or that was running when it died; "": none, or
    #: its client does not say which.
    cell: str = ""
    #: Why it died, unless it was shut down. It is shown until it is dismissed.
    problem: Problem | None = None


class EnvironmentKernelspec(Struct, kw_only=True):
    """By which a kernel is started in an environment."""

    tpu: str
    zone: str
    environment: str
    kernelspec: str


class AddSlicesKernel(Struct, kw_only=True, forbid_unknown_fields=True):
    """One kernel on all hosts of several TPUs, which are the slices of one job."""

    #: Names of TPUs, or ["queued"]: the other TPUs of the queued resource.
    slices: Annotated[list[Text], Meta(min_length=1, max_length=64)]
    environment: Text = "default"


class SlicesKernel(Struct, kw_only=True):
    """A kernel in the kernel pickers that runs each cell on all hosts of several TPUs."""

    tpu: str
    zone: str
    environment: str
    #: The TPUs, in the order of the slices' numbers.
    slices: list[str]
    hosts: int  # of all of them
    kernelspec: str
    display_name: str


class Checkpoint(Struct, frozen=True, kw_only=True):
    """What the user lets run when a host is about to be stopped, to save what must not be lost."""

    host: int
    what: str  # "save()"
    notebook: str = ""  # whose kernel runs it
    state: Literal["running", "done", "failed"]
    seconds: float | None = None  # that it took; null while it runs
    error: str = ""


class Interruption(Struct, frozen=True, kw_only=True):
    """Google is about to stop hosts of a TPU, within seconds or minutes, and has notified them."""

    #: "preemption": Google reclaims the TPU. "maintenance": the hosts start again afterwards.
    kind: Literal["maintenance", "preemption"]
    #: The hosts that say it.
    hosts: list[int]
    #: When the first of them heard of it.
    noticed: str
    checkpoints: list[Checkpoint] = []
