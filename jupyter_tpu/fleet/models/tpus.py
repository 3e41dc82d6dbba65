"""TPUs, attached machines, and TPUs that wait in a queue; requests to make and end them."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from msgspec import Meta, Struct, field

from ...catalog import API
from ...cloud.models import Fault, Maintenance, NodeOptions, NodeState, Tier
from ...links import LinkState
from ...options import option
from .core import Problem
from .environments import ConnectTPU, Environment, Interruption
from .files import MirroredProject, SharedFolders
from .guard import Guard, GuardStop, SetGuard
from .homes import Home, SetHome
from .money import Cost
from .sessions import BeforeEnd, SessionSetting, SetSessions

#: What Google accepts as a node's id. "(?!\n)" as in
#: EnvironmentName.
TPUName = Annotated[
    str,
    Meta(
        pattern=r"^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$(?!\n)",
        description="1–40 lower-case letters, digits and hyphens, starting with a letter "
        "and not ending with a hyphen",
    ),
]


class CreateTPU(Struct, kw_only=True, forbid_unknown_fields=True):
    """A TPU to create. The zone defaults to gcloud's, the version to the type's usual image."""

    name: TPUName
    #: The accelerator type, such as v5litepod-8. With a topology also a generation, such as v4.
    type: str
    #: By default gcloud's, or the nearest one that offers the type.
    zone: str | None = None
    version: Annotated[
        str | None,
        option(
            "Runtime version (OS image).",
            "--version",
            "--runtime-version",
            default="depends on the type",
        ),
    ] = None
    #: spot is cheaper, and Google may preempt it; flex-start runs for a limited time.
    tier: Tier = "on-demand"
    #: A TPU that one of Google's control planes made can't be managed by the other.
    api: Annotated[
        API | None,
        option(
            "What makes it: the Cloud TPU API (tpu) or Compute Engine (compute).",
            "--api",
            default="what has the type, and quota for it",
        ),
    ] = None
    #: Required for flex-start, not allowed otherwise.
    run_for: Annotated[
        float | None,
        option(
            "How long a flex-start TPU runs before Google deletes it: 1 minute to 7 days.",
            "--run-for",
            "--max-run-duration",
            typed="duration",
        ),
    ] = None
    #: It can't be chosen with the Cloud TPU API.
    disk_gb: Annotated[
        Annotated[int, Meta(ge=10, le=65536)] | None,
        option(
            "Size of each host's boot disk. Compute Engine only.",
            "--boot-disk-size",
            rare=True,
            unit="GB",
            default="200",
        ),
    ] = None
    reservation: Annotated[
        str,
        option(
            "The reservation to use: NAME, projects/PROJECT/reservations/NAME or a block of it. "
            "Compute Engine only.",
            "--reservation",
            metavar="NAME",
            rare=True,
        ),
    ] = ""
    network: Annotated[str | None, option("VPC network.", default="the project's")] = None
    subnetwork: Annotated[str | None, option("Subnetwork of the VPC network.")] = None
    labels: Annotated[dict[str, str], option("Labels.")] = {}
    #: For `run --once` and functions on a TPU: the same for those that can use it in turn.
    once: Annotated[str, Meta(pattern=r"^[-_a-z0-9]{0,63}$(?!\n)")] = ""
    #: What costs something is created only if its price was confirmed: any price, or one of at most
    #: *max_price* USD an hour. What is inside a grant needs neither.
    confirm_price: bool = False
    #: The most that an hour may cost, in USD; otherwise it is not created.
    max_price: Annotated[float, Meta(ge=0)] | None = None
    options: NodeOptions = NodeOptions()
    #: Connect as soon as it is ready.
    connect: ConnectTPU | None = None
    #: Let it stop or delete itself.
    guard: SetGuard | None = None
    #: Save the variables of its kernels.
    sessions: SetSessions | None = None
    #: Keep folders of its home; what an earlier TPU of the name has saved there comes back.
    home: SetHome | None = None


class Quote(Struct, kw_only=True):
    """What a request would create, and what that costs."""

    name: str
    zone: str
    type: str
    #: The type in words; "" if the catalog does not know it.
    meaning: str = ""
    version: str = ""
    tier: Tier = "on-demand"
    chips: int = 0
    hosts: int = 0
    emulated: bool = False
    cost: Cost
    #: The price that has to be confirmed before it is created, in a sentence; "" if it is free.
    question: str = ""
    #: What would not work with it: the runtime version is for another generation. "" if nothing.
    warning: str = ""
    #: Why no grant covers it; "" if one does, or there is none.
    uncovered: str = ""
    #: Why it is not the default zone, where no zone was asked for; "" otherwise.
    zone_reason: str = ""
    #: What makes it, and why that, where the other control plane can make it, too.
    api: API = "tpu"
    api_reason: str = ""
    #: Another type with as many chips on another number of hosts, in a sentence; "" if none is
    #: offered there.
    other_form: str = ""


class DeleteTPU(Struct, kw_only=True, forbid_unknown_fields=True):
    """How a TPU is deleted; each is required while such run there."""

    end_kernels: bool = False
    end_jobs: bool = False
    #: If sessions are on for it.
    sessions: BeforeEnd = "save"
    #: Its name, which is required where it is another person's.
    confirm_name: str = ""


class AdoptTPU(Struct, kw_only=True, forbid_unknown_fields=True):
    """How a TPU is adopted. Its name is required where it is another person's."""

    confirm_name: str = ""


class StartTPU(Struct, kw_only=True, forbid_unknown_fields=True):
    """What a stopped TPU may cost when it is started again."""

    #: Whether the user agrees to what it costs. Required outside of grants, if `max_price` is not
    #: given.
    confirm_price: bool = False
    #: Agree to at most so many USD an hour, whatever `confirm_price` is.
    max_price: Annotated[float, Meta(ge=0)] | None = None
    #: Its name, which is required where it is another person's.
    confirm_name: str = ""


class StopTPU(Struct, kw_only=True, forbid_unknown_fields=True):
    """How a TPU is stopped; each is required while such run there."""

    end_kernels: bool = False
    end_jobs: bool = False
    #: If sessions are on for it.
    sessions: BeforeEnd = "save"
    #: Its name, which is required where it is another person's.
    confirm_name: str = ""


class ReportFault(Struct, kw_only=True, forbid_unknown_fields=True):
    """What is wrong with a host of a TPU of Compute Engine. The host ends at once."""

    #: Its number.
    host: Annotated[Annotated[int, Meta(ge=0)], option("The number of the host.")] = 0
    fault: Annotated[
        Fault, option("What is wrong: chip-error, slow or wrong-results.", metavar="FAULT")
    ] = "chip-error"
    #: What was seen, for Google.
    about: Annotated[
        Annotated[str, Meta(max_length=1000)],
        option("What you have seen, for Google.", metavar="TEXT"),
    ] = ""
    #: Each is required while such run there.
    end_kernels: bool = False
    end_jobs: bool = False
    #: The TPU's name, which is required where it is another person's.
    confirm_name: str = ""


class LinkStatus(Struct, kw_only=True):
    state: LinkState
    since: str = ""
    problem: Problem | None = None


class Host(Struct, kw_only=True):
    """One VM of a TPU, numbered from 0."""

    index: int
    internal_address: str = ""
    external_address: str = ""
    link: LinkStatus = field(default_factory=lambda: LinkStatus(state=LinkState.DOWN))


class ConnectionState(StrEnum):
    """Whether a TPU is connected."""

    DISCONNECTED = "disconnected"
    CONNECTING = "connecting"
    CONNECTED = "connected"
    RECONNECTING = "reconnecting"
    NEEDS_ATTENTION = "needs-attention"


class TPU(Struct, kw_only=True):
    """A Cloud TPU node: one TPU VM, or a pod slice of several."""

    name: str
    zone: str
    project: str
    id: str = ""
    type: str = ""
    #: The type in words: "8 chips · 1 host · 128 GB HBM".
    meaning: str = ""
    state: NodeState = NodeState.UNKNOWN
    #: The word of its cloud for the state, where that is another one: REIMAGING, for example.
    cloud_state: str = ""
    health: str = ""
    version: str = ""
    tier: Tier = "on-demand"
    #: How many seconds it runs before Google deletes it: of flex-start, and of Compute Engine also
    #: where its guard has a limit. null for other TPUs, and for those of the Cloud TPU API that
    #: jupyter-tpu did not create.
    run_for: float | None = None
    #: When that time ends, as Google says it or counted from its creation; "" if it is not known.
    run_ends: str = ""
    emulated: bool = False
    #: A machine that is reached by SSH alone: it can't be started, stopped or deleted here.
    attached: bool = False
    created: str = ""
    #: When this program first saw that it is no longer READY; "" if it is, or if that was not seen.
    ended: str = ""
    cost: Cost = field(default_factory=Cost)
    chips: int = 0
    hosts: list[Host] = []
    connection: ConnectionState = ConnectionState.DISCONNECTED
    environments: list[Environment] = []
    kernels: int = 0  # running kernels, as far as known
    #: Projects of this server's kernels, which are copied to its hosts automatically.
    projects: list[MirroredProject] = []
    #: What its hosts said when this server last asked them; null: it did not.
    shares: SharedFolders | None = None
    #: What its guard last said to this server; null: it has none, or this server has not asked.
    guard: Guard | None = None
    #: How its guard has stopped it; null: it is not stopped, or was stopped otherwise.
    guard_stop: GuardStop | None = None
    #: Maintenance that Google has announced, or does now; null: none that is known.
    maintenance: Maintenance | None = None
    #: What its hosts said of an end that is near; null: nothing, or this server does not ask them.
    interruption: Interruption | None = None
    #: Where the variables of its kernels are saved, and when; null: nowhere.
    sessions: SessionSetting | None = None
    #: Its home folders that are kept in a bucket; null: none.
    home: Home | None = None
    problem: Problem | None = None
    #: What its state means, and what can be done now.
    advice: str = ""
    #: Who created it; "" if that is not known.
    owner: str = ""
    #: Whether that is another person: to start, stop or delete it, or to change its guard, its name
    #: must be confirmed.
    not_yours: bool = False
    #: Whether it is yours, READY for hours, not connected here, and nothing runs on it.
    forgotten: bool = False
    #: Whether coding agents may run commands there: an agent has created it, or a person allows it.
    agents_may_use: bool = False
    #: By whose plan it was created: "agent", or the person's who uses this program. "": by none.
    planned_by: str = ""
    #: The ids of operations that run on it now, newest first.
    operations: list[str] = []
    labels: dict[str, str] = {}
    #: The name of the queued resource that it came from; "" for one that did not.
    queued: str = ""
    #: Which of Google's control planes made it.
    api: API = "tpu"
    #: Their paths; "" where Google does not say it.
    network: str = ""
    subnetwork: str = ""
    #: As it was created. Metadata and scripts are left out.
    options: NodeOptions = NodeOptions()
    #: All else that Google says of it, by the names of its API: disks, symptoms, and what this
    #: program does not know.
    details: dict[str, Any] = {}


class ListQuery(Struct, kw_only=True):
    """How new a list has to be."""

    #: Whether to ask now. Otherwise the answer is that of the last shared poll.
    fresh: bool = False


class TPUList(Struct, kw_only=True):
    tpus: list[TPU]
    #: Why the list may be incomplete (no credentials, a zone that did not answer).
    problem: Problem | None = None


class AttachMachine(Struct, kw_only=True, forbid_unknown_fields=True):
    """Machines to attach as one TPU: what the user of the server gives to `ssh`."""

    #: One for each host, host 0 first: an entry of ~/.ssh/config, or [USER@]HOST.
    ssh: Annotated[list[str], Meta(min_length=1, max_length=256)]
    name: Annotated[
        TPUName | None,
        option("The name of the TPU. Required for several machines.", default="from SSH_ALIAS"),
    ] = None
    #: Each must be shown by one of the machines.
    host_keys: Annotated[
        list[str],
        option(
            "Trust the host key with this fingerprint (SHA256:…) without asking, if your known "
            "hosts do not have it.",
            "--host-key",
            metavar="FINGERPRINT",
            typing_hint="Repeatable.",
        ),
    ] = []


class MachineHost(Struct, kw_only=True):
    """One machine that would be connected to."""

    ssh: str
    address: str
    port: int
    user: str
    #: The fingerprint of the host key that it shows now.
    host_key: str
    #: Whether the known hosts of the server's user have this key. If not, it has to be among
    #: `host_keys`.
    known: bool


class MachineCheck(Struct, kw_only=True):
    """What attaching machines would connect to."""

    name: str
    hosts: list[MachineHost]


class DetachMachine(Struct, kw_only=True, forbid_unknown_fields=True):
    """How a machine is forgotten.

    `end_kernels` and `end_jobs` are required while kernels or jobs run there.
    """

    end_kernels: bool = False
    end_jobs: bool = False


class QueueTPU(Struct, kw_only=True, forbid_unknown_fields=True):
    """Request TPUs. They are created when there is capacity for all of them, perhaps after days."""

    #: What is created, and how. Its name is also that of the queued resource; several TPUs are
    #: called NAME-0, NAME-1, …
    tpu: CreateTPU
    node_count: Annotated[
        int,
        Meta(ge=1, le=256),
        option("Number of TPUs: NAME-0, NAME-1 …, as slices of one job.", metavar="N"),
    ] = 1
    reservation: Annotated[str, option("The name of the reservation.", default="the project's")] = (
        ""
    )
    #: RFC 3339, such as "2026-07-01T08:00:00Z".
    valid_until: Annotated[
        str,
        option("When to give up.", "--valid-until-duration", default="never", typed="time"),
    ] = ""


class DeleteQueued(Struct, kw_only=True, forbid_unknown_fields=True):
    """How it is deleted. `force` is required while it has TPUs: they are deleted, too."""

    force: bool = False
    #: Its name, which is required where it is another person's.
    confirm_name: str = ""


class ResetQueued(Struct, kw_only=True, forbid_unknown_fields=True):
    """How it is put back into the queue."""

    #: Its name, which is required where it is another person's.
    confirm_name: str = ""


class QueuedResource(Struct, kw_only=True):
    """A request for TPUs that waits until there is capacity for them."""

    name: str
    zone: str
    project: str
    emulated: bool = False
    #: CREATING, ACCEPTED, WAITING_FOR_RESOURCES, PROVISIONING, ACTIVE, SUSPENDING, SUSPENDED,
    #: FAILED, DELETING or UNKNOWN.
    state: str
    #: What its state means, and what can be done now.
    meaning: str
    #: The names of its TPUs, which exist when it is ACTIVE.
    tpus: list[str] = []
    type: str = ""
    version: str = ""
    tier: Tier = "on-demand"
    #: As `run_for` of a TPU.
    run_for: float | None = None
    reservation: str = ""
    created: str = ""
    valid_until: str = ""
    #: Whether it can be put back into the queue.
    can_reset: bool = False
    #: Whether it has TPUs, or may have some: deleting it then needs `force`.
    has_tpus: bool = False
    #: As `owner` of a TPU.
    owner: str = ""
    not_yours: bool = False
    #: Whether it is yours, uses quota for nothing, and nothing here is about to delete it.
    forgotten: bool = False
    problem: Problem | None = None


class QueuedResources(Struct, kw_only=True):
    queued: list[QueuedResource]
    #: Why the list may be incomplete.
    problem: Problem | None = None
