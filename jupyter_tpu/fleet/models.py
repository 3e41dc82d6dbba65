"""What crosses the border of the fleet: REST bodies, CLI ``--json``, events, SQLite rows.

Each is defined here once; the OpenAPI document and the frontend's TypeScript types are made from
these classes. Times are RFC 3339 in UTC, sizes in bytes unless a name says otherwise.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from ..catalog import AcceleratorType
from ..errors import Reason
from ..links import LinkState

Tier = Literal["on-demand", "spot", "reserved"]

# Python's "$" also matches in front of a last newline; "(?!\n)" makes it mean the end, as it does
# in the OpenAPI document and in JavaScript.

#: What Google accepts as a node's id (and what we can show in a kernel's name).
TPUName = Annotated[
    str,
    Meta(
        pattern=r"^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$(?!\n)",
        description="1–40 lower-case letters, digits and hyphens, starting with a letter "
        "and not ending with a hyphen",
    ),
]
EnvironmentName = Annotated[
    str,
    Meta(
        pattern=r"^[a-z0-9]([-._a-z0-9]{0,38}[a-z0-9])?$(?!\n)",
        description="1–40 lower-case letters, digits, hyphens, dots and underscores",
    ),
]


class Problem(Struct, kw_only=True):
    """The body of every error answer, and why something needs the user."""

    message: str
    reason: Reason
    hint: str = ""


# ---- what may be asked for -------------------------------------------------------------------


class CreateTPU(Struct, kw_only=True, forbid_unknown_fields=True):
    """A TPU to create. The zone defaults to gcloud's, the version to the type's usual image."""

    name: TPUName
    type: str
    zone: str | None = None
    version: str | None = None
    tier: Tier = "on-demand"
    network: str | None = None
    subnetwork: str | None = None
    labels: dict[str, str] = {}
    #: Connect as soon as it is ready.
    connect: ConnectTPU | None = None


class ConnectTPU(Struct, kw_only=True, forbid_unknown_fields=True):
    """How a TPU is made ready for kernels: one environment, the same on all its hosts."""

    environment: EnvironmentName = "default"
    #: "3.12", say; None: the newest that the hosts have and JAX supports.
    python: str | None = None
    #: PEP 508 requirements beside JAX and ipykernel.
    packages: list[str] = []
    #: The text of a requirements file.
    requirements: str | None = None


class DeleteTPU(Struct, kw_only=True, forbid_unknown_fields=True):
    """How a TPU is deleted; `end_kernels` is required while kernels run there."""

    end_kernels: bool = False


class StopTPU(Struct, kw_only=True, forbid_unknown_fields=True):
    """How a TPU is stopped; `end_kernels` is required while kernels run there."""

    end_kernels: bool = False


class DisconnectTPU(Struct, kw_only=True, forbid_unknown_fields=True):
    """How a TPU is disconnected; `end_kernels` is required while kernels run there."""

    end_kernels: bool = False


class KeepWarm(Struct, kw_only=True, forbid_unknown_fields=True):
    """Whether an environment has a warm kernel: one that is started already, ready to be the next.

    It has imported ipykernel only and holds no chip; it costs the memory that is shown.
    """

    #: None: as configured (``c.JupyterTPU.warm_kernels``).
    wanted: bool | None = None
    #: Modules to import besides, such as numpy; not such that take the chips.
    imports: list[str] = []


class OpenTunnel(Struct, kw_only=True, forbid_unknown_fields=True):
    """A tunnel to open: a port of this machine that leads to a port of a host."""

    #: On the host, 1 to 65535.
    port: int
    #: On this machine; None: the same number if it is free, any free one if not.
    local_port: int | None = None
    #: Which host of the TPU.
    host: int = 0
    #: What to listen on. Others than loopback have to be allowed first
    #: (``JUPYTER_TPU_TUNNEL_ADDRESSES``).
    address: str = "127.0.0.1"


class OpenApp(Struct, kw_only=True, forbid_unknown_fields=True):
    """A web application of a host to open in the browser, on an origin of its own."""

    #: On the host, 1 to 65535.
    port: int
    #: Which host of the TPU.
    host: int = 0
    #: Where it begins.
    path: str = "/"
    #: What it is called; "" for "Port 6006".
    name: Annotated[str, Meta(max_length=80)] = ""
    #: Lets its pages connect and send forms to anywhere, not to itself alone: to other programs
    #: that listen on the browser's machine, too, which may take what they are sent.
    anywhere: bool = False


class VisitApp(Struct, kw_only=True, forbid_unknown_fields=True):
    """Who will show an app."""

    #: The origin of the page that frames it ("http://localhost:8888"); "": a window of its own.
    framed_by: str = ""


class OpenTensorBoard(Struct, kw_only=True, forbid_unknown_fields=True):
    """A TensorBoard to open, with the xprof plug-in."""

    #: The folder on the host with the logs; below the home if it is relative. Or gs://….
    logdir: Annotated[str, Meta(max_length=4096)]
    #: Which host of the TPU.
    host: int = 0


class ProfileKernel(Struct, kw_only=True, forbid_unknown_fields=True):
    """A trace of what a kernel does to take, and to show in TensorBoard."""

    seconds: float = 3.0
    #: Where on the host it goes; "": a folder of ours that all traces share.
    logdir: Annotated[str, Meta(max_length=4096)] = ""


# ---- what there is ---------------------------------------------------------------------------


class Link(Struct, kw_only=True):
    state: LinkState
    since: str = ""
    problem: Problem | None = None


class Host(Struct, kw_only=True):
    """One VM of a TPU, numbered from 0."""

    index: int
    internal_address: str = ""
    external_address: str = ""
    link: Link = field(default_factory=lambda: Link(state=LinkState.DOWN))


class Connection(str, Enum):
    """Whether a TPU is connected: what was asked for, and how far it is."""

    DISCONNECTED = "disconnected"
    CONNECTING = "connecting"
    CONNECTED = "connected"
    RECONNECTING = "reconnecting"
    NEEDS_YOU = "needs-you"


class WarmKernel(Struct, kw_only=True):
    """A kernel on host 0 that is started already, ready to be the next one there."""

    state: Literal["off", "starting", "ready", "failed"]
    memory: int = 0  # bytes on the host
    imports: list[str] = []
    problem: str = ""  # why it failed


class Environment(Struct, kw_only=True):
    """A Python virtual environment on all hosts of a TPU, from which kernels run."""

    name: str
    tpu: str
    zone: str
    state: Literal["making", "ready", "failed"]
    python: str = ""  # "3.12.4"
    jax: str = ""  # the version of JAX
    path: str = ""  # on the hosts
    packages: list[str] = []
    #: What jax.devices() lists on one host, and on which platform ("tpu"; "cpu" if emulated).
    devices: int = 0
    platform: str = ""
    kernelspec: str = ""  # its name in Jupyter
    display_name: str = ""  # "Python 3.12 · my-tpu"
    warm: WarmKernel = field(default_factory=lambda: WarmKernel(state="off"))
    problem: Problem | None = None


class Kernel(Struct, kw_only=True):
    """A kernel that runs on host 0 of a TPU."""

    id: str
    tpu: str
    zone: str
    environment: str
    state: str  # "starting", "idle", "busy", "dead"
    pid: int = 0
    started: str = ""
    last_activity: str = ""
    attached: bool = False  # a client is connected to it
    holder: str = ""  # who that is, or was last
    chips: bool = False  # it, or what it started, holds the host's chips
    notebook: str = ""
    #: Why it is dead, if that was nobody's wish; it is shown until it is ended.
    problem: Problem | None = None


class ChipHolder(Struct, kw_only=True):
    """A process that has chips of a TPU's host 0; nobody else can use these until it ends."""

    pid: int
    user: str
    command: str  # shortened
    devices: list[str] = []  # [] where only libtpu's lock tells
    kernel: str = ""  # the id of the kernel that it belongs to
    notebook: str = ""


class Tunnel(Struct, kw_only=True):
    """A local port that leads to a port on a host; it stays through link breaks and restarts."""

    id: str
    tpu: str
    zone: str
    host: int
    port: int  # on the host
    local_port: int  # the same as long as the tunnel is there
    address: str = "127.0.0.1"
    #: "waiting" for the link to heal; "taken": another program has the local port, and it is tried
    #: again; "elsewhere": another server of yours runs it.
    state: Literal["open", "waiting", "taken", "needs-you", "elsewhere"]
    since: str = ""
    #: Why it is not open; on an open one, why the last connection failed.
    problem: Problem | None = None
    connections: int = 0  # open now
    #: Bytes to and from the host since this server opened it.
    sent: int = 0
    received: int = 0
    #: The line is slow and the data shrink: new connections are compressed.
    compressed: bool = False


class App(Struct, kw_only=True):
    """A web application of a host that is open here; it ends with the server."""

    id: str
    tpu: str
    zone: str
    host: int
    port: int  # on the host
    path: str
    name: str
    kind: Literal["port", "tensorboard"] = "port"
    logdir: str = ""  # of a TensorBoard
    anywhere: bool = False  # its pages may connect and send forms to anywhere
    #: "waiting" for the link to heal: who asks meanwhile waits.
    state: Literal["open", "waiting", "needs-you"]
    problem: Problem | None = None
    created: str = ""
    #: Bytes to and from the host.
    sent: int = 0
    received: int = 0


class AppVisit(Struct, kw_only=True):
    """What one browser opens an app with."""

    #: Good for one use within 30 seconds; don't keep it.
    url: str
    #: Answers 204 to who can reach the app's port at all.
    probe: str
    #: Where it is beneath the Jupyter server's base URL, if the server's options allow that: for a
    #: browser that does not reach the app's port. "" if not.
    beneath: str = ""


class TPU(Struct, kw_only=True):
    """A Cloud TPU node: one TPU VM, or a pod slice of several."""

    name: str
    zone: str
    project: str
    id: str = ""
    type: str = ""
    #: The type in words: "8 chips · 1 host · 128 GB HBM".
    meaning: str = ""
    state: str = ""  # Google's word: CREATING, READY, STOPPED, …
    health: str = ""
    version: str = ""
    tier: Tier = "on-demand"
    emulated: bool = False
    created: str = ""
    chips: int = 0
    hosts: list[Host] = []
    connection: Connection = Connection.DISCONNECTED
    environments: list[Environment] = []
    kernels: int = 0  # kernels running there, as far as known
    problem: Problem | None = None
    #: Operations that run on it now, newest first.
    operations: list[str] = []


class TPUList(Struct, kw_only=True):
    tpus: list[TPU]
    #: Why the list may be incomplete (no credentials, a zone that did not answer).
    problem: Problem | None = None


class Step(Struct, kw_only=True):
    """One part of an operation, in words a user understands."""

    title: str
    state: Literal["waiting", "running", "done", "failed", "skipped"] = "waiting"
    #: Hosts that are through with it, of all.
    hosts_done: int = 0
    hosts: int = 0


class Operation(Struct, kw_only=True):
    """Anything that takes longer than a second: progress, log lines, an end, can be cancelled."""

    id: str
    kind: Literal[
        "create",
        "start",
        "stop",
        "delete",
        "connect",
        "disconnect",
        "environment",
        "tensorboard",
        "profile",
        "compile",
    ]
    #: The TPU it is about; "" if it needs none.
    tpu: str = ""
    zone: str = ""
    state: Literal["running", "done", "failed", "cancelled"] = "running"
    #: What it is doing now, in a short sentence.
    message: str = ""
    #: 0 to 1; None while it can't be told.
    progress: float | None = None
    steps: list[Step] = []
    #: The last lines of its log (at most 1000).
    log: list[str] = []
    #: The id of the app that it has opened.
    app: str = ""
    problem: Problem | None = None
    #: What it found, if it was started to find something: as the route that starts it says.
    result: dict[str, Any] | None = None
    created: str = ""
    ended: str = ""


class Catalog(Struct, kw_only=True):
    types: list[AcceleratorType]
    zones: list[str]
    versions: list[str]
    project: str
    default_zone: str
    emulated: bool
    #: "google", or "emulator:<id>": tells a process beside whether it is the same cloud.
    cloud: str = ""
    #: Why it may be incomplete or old.
    problem: Problem | None = None


class Change(Struct, kw_only=True):
    """What an event says: the new state of one thing, or that it is gone."""

    what: Literal["tpu", "operation", "kernel", "tunnel", "app"]
    id: str  # zone/name of a TPU, id of an operation, kernel, tunnel or app
    gone: bool = False
    tpu: TPU | None = None
    operation: Operation | None = None
    kernel: Kernel | None = None
    tunnel: Tunnel | None = None
    app: App | None = None
