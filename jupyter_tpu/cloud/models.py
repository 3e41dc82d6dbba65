"""What a cloud has, in this project's own words: the same for every cloud and transport."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any, Literal

from msgspec import Struct

from ..catalog import API
from ..errors import InvalidInput, TPUError
from ..options import option

Tier = Literal["on-demand", "spot", "reserved", "flex-start"]

#: The boot disk of a host of Compute Engine: the 10 GB of its image are too few for JAX.
DISK_GB = 200
#: For how long flex-start of Compute Engine waits for capacity at most; seconds.
LONGEST_WAIT = 7200.0
#: What the keys of this program's own labels begin with.
OWN_LABELS = "jupyter-tpu-"
#: The label that a TPU carries for the operation which creates it.
OPERATION_LABEL = "jupyter-tpu-operation"
#: The label of an instance of Compute Engine whose end time this program has set.
END_LABEL = "jupyter-tpu-end"

_ZONE = re.compile(r"-|[a-z]([a-z0-9-]{0,61}[a-z0-9])?")


def check_zone(zone: str) -> None:
    """Raises INVALID for what can't be a zone's name; "-" stands for all zones."""
    if not _ZONE.fullmatch(zone):
        shown = zone if len(zone) < 50 else f"{zone[:50]}…"
        raise InvalidInput(
            f"{shown!r} is not a zone.", "Zones have names such as us-central1-a or europe-west4-b."
        )


class NodeName(Struct, frozen=True, order=True):
    """The full name of a TPU. How an API spells it, its cloud knows."""

    project: str
    zone: str
    node: str

    @property
    def path(self) -> str:
        """``PROJECT/ZONE/NODE``."""
        return f"{self.project}/{self.zone}/{self.node}"


class NodeState(StrEnum):
    """What a TPU does, whichever cloud it is in. A cloud's own word is in `cloud_state`."""

    CREATING = "CREATING"
    READY = "READY"  # its hosts answer
    STARTING = "STARTING"
    STOPPING = "STOPPING"
    STOPPED = "STOPPED"  # can be started again
    RESTARTING = "RESTARTING"
    REPAIRING = "REPAIRING"
    HIDDEN = "HIDDEN"  # kept by the cloud for itself; may come back
    DELETING = "DELETING"
    PREEMPTED = "PREEMPTED"  # ended by the cloud, which needs its capacity, for good
    TERMINATED = "TERMINATED"  # ended by the cloud, for good
    FAILED = "FAILED"  # broken, and does not recover
    UNKNOWN = "UNKNOWN"  # not said, or by a word that we don't know

    @property
    def changing(self) -> bool:
        """Whether it leads to another state without a request."""
        return self in _CHANGING

    @property
    def gone(self) -> bool:
        """Whether the TPU was preempted or terminated: it can only be deleted."""
        return self in (NodeState.PREEMPTED, NodeState.TERMINATED)


_CHANGING = frozenset(
    {
        NodeState.CREATING,
        NodeState.STARTING,
        NodeState.STOPPING,
        NodeState.RESTARTING,
        NodeState.REPAIRING,
        NodeState.DELETING,
    }
)


class Endpoint(Struct, frozen=True, kw_only=True):
    """Where one host (worker) is reached."""

    internal: str
    external: str = ""  # "" where the host has no external address
    #: "USER@ALIAS" of a host whose address the user's OpenSSH knows; "": its cloud does.
    ssh: str = ""
    #: The name of its VM; "" where only its TPU has a name. Not in the order of worker numbers.
    instance: str = ""
    id: str = ""  # Google's number of that VM; another one of the same name has another
    #: Google's worker number, which is its place in the list. None: not known yet (see
    #: `host_numbers`), or its place says it.
    number: int | None = None


class DataDisk(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A persistent disk that each host gets in addition to its boot disk."""

    #: Its name, for a disk in the TPU's project and zone, or projects/P/zones/Z/disks/NAME.
    source: str
    mode: Literal["read-write", "read-only"] = "read-write"


class NodeOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a new TPU has beyond its type, image and network."""

    topology: Annotated[
        str,
        option(
            "Shape of the slice, such as 2x2x4; the type may then be v4, v5litepod, v5p or v6e."
        ),
    ] = ""
    internal_ips: Annotated[
        bool,
        option(
            "No external addresses. Connecting then uses IAP, or a machine in the same network."
        ),
    ] = False
    service_account: Annotated[
        str,
        option(
            "Email of the account with which programs on the hosts call Google.",
            metavar="EMAIL",
            default="the project's",
        ),
    ] = ""
    scopes: Annotated[
        list[str],
        option(
            "What that account may do, such as storage-ro.",
            metavar="SCOPE,…",
            default="cloud-platform",
            typed="words",
        ),
    ] = []
    data_disks: Annotated[
        list[DataDisk],
        option(
            "A persistent disk to attach.",
            "--data-disk",
            metavar="source=DISK[,mode=read-only]",
            typed="disk",
            typing_hint="Repeatable.",
        ),
    ] = []
    tags: Annotated[
        list[str], option("Network tags, for firewall rules.", metavar="TAG,…", typed="words")
    ] = []
    #: The hosts' metadata server gives it to programs there.
    metadata: Annotated[
        dict[str, str],
        option(
            "Metadata of the hosts.",
            typing_hint="Not for secrets: other users of this computer see commands.",
        ),
    ] = {}
    #: Its text.
    startup_script: Annotated[
        str,
        option("A script that each host runs as root at each start.", typed="file"),
    ] = ""
    description: Annotated[str, option("A description, for people.", metavar="TEXT")] = ""
    secure_boot: Annotated[bool, option("Boot with Secure Boot.", "--shielded-secure-boot")] = False


class NodeSpec(Struct, frozen=True, kw_only=True):
    """What to create."""

    type: str
    version: str
    tier: Tier = "on-demand"
    api: API = "tpu"
    network: str | None = None
    subnetwork: str | None = None
    labels: dict[str, str] = {}
    metadata: dict[str, str] = {}  # in place of those in *options*
    options: NodeOptions = NodeOptions()
    # Compute Engine only:
    disk_gb: int = DISK_GB  # the boot disk of each host
    #: NAME, or projects/P/reservations/NAME, or a block of it; for the tier "reserved".
    reservation: str = ""
    #: Seconds after which Google deletes it, even if this program does not run; 0: never.
    run_for: float = 0.0
    #: For how long flex-start waits for capacity, seconds; 0: what is not there is refused at once.
    wait_for: float = LONGEST_WAIT


class Node(Struct, frozen=True, kw_only=True):
    """One TPU, as its cloud last described it."""

    name: NodeName
    id: str  # the cloud's number of it; another one of the same name has another
    type: str
    state: NodeState
    cloud_state: str = ""  # the cloud's own word, where it is not that of `state`
    health: str = ""
    health_description: str = ""
    version: str = ""
    tier: Tier = "on-demand"
    #: For how many seconds a flex-start TPU runs before its cloud deletes it.
    run_for: float | None = None
    endpoints: tuple[Endpoint, ...] = ()
    #: The chips of all its hosts, where they were counted there; None: its type says it.
    chips: int | None = None
    created: str = ""  # RFC 3339
    metadata: dict[str, str] = {}
    labels: dict[str, str] = {}
    #: The name of the queued resource that it came from; "" for one that did not.
    queued: str = ""
    #: Whether it is a TPU Node: of the retired architecture, without hosts to log in to.
    retired: bool = False
    api: API = "tpu"  # which of Google's control planes made it, and alone can change it
    #: Whether it waits for capacity. Nothing is billed until there is some.
    waiting: bool = False
    #: Whether it is several resources at its cloud, of which some are not made yet, or are deleted
    #: already: another `begin_create` or `begin_delete` continues with the next one.
    unfinished: bool = False
    #: Why it will not be READY, while its cloud goes on trying; None for one that is not so.
    problem: TPUError | None = None
    #: When its cloud deletes it; RFC 3339, "" for never.
    ends: str = ""
    #: What asks for the same again, as far as its cloud says it.
    request: NodeSpec = NodeSpec(type="", version="")
    #: All else that the cloud says of it, by the names and in the JSON of its API.
    details: dict[str, Any] = {}


class Maintenance(Struct, frozen=True, kw_only=True):
    """Maintenance of a TPU by its cloud, which ends all that runs there."""

    #: It is in progress; otherwise it is announced.
    ongoing: bool = False
    #: Announced days before, such as Google's seven; else it is urgent.
    scheduled: bool = False
    #: When it begins and is over, RFC 3339; "" where that is not said.
    start: str = ""
    end: str = ""
    #: Whether it can be done earlier, at a time of your choice.
    can_reschedule: bool = False


class QueuedSpec(Struct, frozen=True, kw_only=True):
    """TPUs to ask for: they are created when there is capacity for all of them."""

    node: NodeSpec
    #: The name of the TPU; of several, what their names begin with.
    node_id: str
    node_count: int = 1
    reservation: str = ""
    valid_until: str = ""  # RFC 3339; "": no limit
    run_for: float = 0.0  # seconds, of flex-start only


class QueuedState(StrEnum):
    """What a queued resource does, whichever cloud it is in."""

    CREATING = "CREATING"  # the cloud is checking it
    ACCEPTED = "ACCEPTED"  # waits for its time to begin
    WAITING_FOR_RESOURCES = "WAITING_FOR_RESOURCES"  # waits for capacity
    PROVISIONING = "PROVISIONING"  # its TPUs are being created
    ACTIVE = "ACTIVE"  # its TPUs exist
    SUSPENDING = "SUSPENDING"  # its TPUs are being preempted
    SUSPENDED = "SUSPENDED"  # its TPUs are gone
    FAILED = "FAILED"
    DELETING = "DELETING"
    UNKNOWN = "UNKNOWN"  # not said, or by a word that we don't know


class QueuedTPUs(Struct, frozen=True, kw_only=True):
    """A request that waits until there is capacity for its TPUs, as its cloud last described it."""

    name: NodeName  # of the request, not of its TPUs
    state: QueuedState
    id: str = ""  # the cloud's number of it; "": the time of its creation is its id
    initiator: str = ""  # of a suspension: "USER" or "SERVICE"
    error: TPUError | None = None  # why it failed
    created: str = ""  # RFC 3339; another one of the same name has another
    nodes: tuple[str, ...] = ()  # the names of its TPUs, which may not exist yet
    type: str = ""
    version: str = ""
    tier: Tier = "on-demand"
    run_for: float | None = None  # as of a `Node`
    reservation: str = ""
    valid_until: str = ""  # RFC 3339
    labels: dict[str, str] = {}
    unfinished: bool = False  # as of a `Node`


class QueuedList(Struct, frozen=True, kw_only=True):
    """The queued resources of a zone or of all, and the zones that did not answer."""

    queued: tuple[QueuedTPUs, ...]
    unreachable: tuple[str, ...] = ()
    unanswered: dict[API, TPUError] = {}  # as of a `NodeList`
    refused: dict[API, TPUError] = {}  # as of a `NodeList`

    @property
    def not_listed(self) -> dict[API, TPUError]:
        """As of a `NodeList`."""
        return {**self.refused, **self.unanswered}


class NodeList(Struct, frozen=True, kw_only=True):
    """The nodes of one zone or of all, and the zones that did not answer."""

    nodes: tuple[Node, ...]
    unreachable: tuple[str, ...] = ()
    #: Why there are only the attached machines in it: their cloud did not answer.
    problem: TPUError | None = None
    #: Control planes that did not answer, and why: TPUs of theirs are missing.
    unanswered: dict[API, TPUError] = {}
    #: Control planes that don't list TPUs for these credentials, and why. None of their TPUs was
    #: ever seen, but other people's or earlier ones may be there, and be billed.
    refused: dict[API, TPUError] = {}

    @property
    def not_listed(self) -> dict[API, TPUError]:
        """The control planes of which TPUs may be missing, and why."""
        return {**self.refused, **self.unanswered}


class OperationStatus(Struct, frozen=True):
    """Whether something that a cloud was asked to do has ended, and with which error."""

    done: bool
    error: TPUError | None = None
    waiting: bool = False  # for capacity


#: What is wrong with a host: errors of its chips; slow; wrong results.
Fault = Literal["chip-error", "slow", "wrong-results"]


class Reservation(Struct, frozen=True, kw_only=True):
    """Capacity that a project has, or will have for some days (calendar mode)."""

    name: str
    zone: str
    #: "v6e", or a machine type; "" where it is not said.
    type: str = ""
    chips: int | None = None
    used: int | None = None
    #: Google's word, such as READY, or PENDING_APPROVAL of one that is still to come.
    state: str = ""
    #: Whether it is of calendar mode and not there yet: `start` and `end` are its dates.
    future: bool = False
    start: str = ""  # RFC 3339
    end: str = ""
    #: What a new TPU names to use it; "" while it can't.
    use: str = ""


class ReservationSpec(Struct, frozen=True, kw_only=True):
    """Chips to have for some days: calendar mode."""

    name: str
    zone: str
    generation: str
    chips: int
    start: str  # RFC 3339
    seconds: int
    workload: Literal["batch", "serving"] = "batch"


#: What one host published about itself: (namespace, key) -> value; ("hostkeys", "ssh-ed25519").
GuestAttributes = dict[tuple[str, str], str]
