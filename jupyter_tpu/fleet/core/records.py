"""The rows of the store, apart from operations: each with what is needed to continue."""

from __future__ import annotations

from msgspec import Struct, field

from ...cloud import NodeName
from ...cloud.models import Tier
from ..models import (
    Budget,
    ConnectTPU,
    Environment,
    Grant,
    Guard,
    GuardStop,
    Home,
    JobAttempt,
    KeepWarm,
    Plan,
    PriceList,
    ServingSettings,
    Session,
    SessionSetting,
    StartJob,
    SyncProject,
)
from .operation_records import OperationRecord, OperationRequest


class RecordOfTPU(Struct, kw_only=True):
    """What is stored of a TPU, or about it."""

    project: str
    zone: str
    tpu: str

    @property
    def name(self) -> NodeName:
        return NodeName(self.project, self.zone, self.tpu)


class EnvironmentRecord(Struct, kw_only=True):
    """An environment, and how it was asked for."""

    node_id: str  # of the TPU it is on
    request: ConnectTPU = field(name="wanted")
    environment: Environment
    hosts: int = 1  # of the TPU
    #: None: as configured.
    warm: KeepWarm | None = None
    #: The revision of its packages on host 0 that its request has, and that all hosts have.
    revision: int = 0

    @property
    def is_existing(self) -> bool:
        """Whether it was on the hosts before: it is never changed or deleted."""
        return self.request.python_path is not None

    @property
    def has_pod_kernel(self) -> bool:
        """Whether it has a kernel that runs on all hosts."""
        return self.hosts > 1 and not self.environment.has_torch

    @property
    def host_python(self) -> str:
        """The path of its Python on the hosts."""
        return self.environment.python_path or f"{self.environment.path}/bin/python"


class SpendRecord(RecordOfTPU, kw_only=True):
    """A TPU in the ledger. Times: seconds since the epoch. Amounts: USD."""

    #: The value of our label on the node.
    id: str
    who: str
    plan: str = ""
    type: str
    tier: Tier = "on-demand"
    usd_per_hour: float
    most: float
    asked: float
    #: When its guard deletes it; None: a person without a budget has removed the guard.
    ends: float | None
    #: A person has agreed to it, so it does not count for a budget.
    approved: bool = False
    #: Its budget was lowered, or is used up, so it ends sooner than was planned.
    shortened: bool = False
    #: Google's id of the node; "" until it is known.
    node_id: str = ""
    #: Since when it is READY; None if it is not.
    since: float | None = None
    #: How many seconds it was READY before that, by the day in UTC.
    days: dict[str, float] = {}
    ended: bool = False


class CodingAgentTPURecord(RecordOfTPU, kw_only=True):
    """A TPU of a person on which coding agents may run commands."""

    #: Google's id of the node: a later one of the same name is another TPU.
    node_id: str


class TunnelRecord(RecordOfTPU, kw_only=True):
    """A tunnel that should be there, and the process that runs it."""

    id: str
    node_id: str  # of the TPU that was meant
    host: int
    port: int
    local_port: int
    address: str
    created: str
    owner: str
    keep: bool = True  # False: it ends with that process


class JobRecord(RecordOfTPU, kw_only=True):
    """A job, as it was asked for and as its hosts last reported it."""

    id: str
    created: str
    hosts: list[int]
    #: With its environment filled in. The values of its variables are kept only while they are
    #: needed to start it.
    request: StartJob
    #: Of a server of a model.
    serving: ServingSettings | None = None
    #: The local port of a server, or None; and the id of the node to which it leads. A node that is
    #: created in place of that gets the port again.
    local_port: int | None = None
    port_node: str = ""
    #: The last is the current one.
    attempts: list[JobAttempt] = []
    #: The folders of this computer that its TPU had: another TPU gets them before it starts.
    projects: list[SyncProject] = []
    #: Whether someone wants it to end, and how many seconds from SIGTERM to SIGKILL.
    stopped: bool = False
    patience: float = 10.0
    #: Its TPU was preempted, or terminated by Google.
    preempted: bool = field(default=False, name="taken")


class ReadyTimeRecord(Struct, kw_only=True, frozen=True):
    """How long a node was READY."""

    node_id: str
    #: Since when it is; seconds since the epoch, None if it is not READY.
    since: float | None = None
    #: How long it was before that; None if that is not known.
    seconds: float | None = 0.0
    #: When it was first seen that it no longer is; seconds since the epoch, None if it was not.
    ended: float | None = None


class GuardRecord(Struct, kw_only=True, frozen=True):
    """What the guard of a TPU last said, and what became of the TPU then."""

    node_id: str
    #: None: it was never set, and this program has acted for it.
    guard: Guard | None
    #: When it said that; seconds since the epoch.
    heard: float
    #: Whether it is known who has stopped the TPU since then: *stop*, or someone else.
    known: bool = False
    stop: GuardStop | None = None
    #: Whether it was seen stopped since then.
    down: bool = False


class SessionRecord(RecordOfTPU, kw_only=True):
    """A session that a kernel has saved, as it or a host last said it."""

    session: Session
    #: Google's id of the node whose kernel has saved it: its disk goes with that node.
    node_id: str
    #: For so many days it is kept since it was saved; None: nobody has chosen that, so it stays.
    keep_days: int | None = None
    #: Seconds since the epoch.
    saved: float = 0.0


class HomeRecord(RecordOfTPU, kw_only=True):
    """The home folders of the TPUs of a name. *zone*: of the one that has, or had, them."""

    home: Home
    #: Google's id of the node that has them; "": none has yet.
    node_id: str = ""
    #: The hash of what that node's host was told; what it says of another setting does not count.
    told: str = ""

    @property
    def id(self) -> str:
        return f"{self.project}/{self.tpu}"


class Snapshot(Struct, kw_only=True):
    """All that is stored, at one moment."""

    version: tuple[int, int]
    #: The TPUs that should be connected, with the ids of the nodes that are meant.
    connected: dict[NodeName, str]
    #: By TPU and name.
    environments: dict[NodeName, dict[str, EnvironmentRecord]]
    #: Running and lately ended ones, newest first.
    operations: list[OperationRecord]
    #: What is asked of running operations, by their ids.
    requests: dict[str, OperationRequest]
    #: The oldest first.
    tunnels: list[TunnelRecord]
    jobs: list[JobRecord]
    #: How long each node was READY.
    ready_times: dict[NodeName, ReadyTimeRecord]
    #: What the guard of each node last said.
    guards: dict[NodeName, GuardRecord]
    grants: list[Grant]
    #: As last read from Google; None: never.
    prices: PriceList | None
    budgets: list[Budget]
    #: The oldest first.
    spending: list[SpendRecord]
    plans: list[Plan]
    #: The TPUs of people on which coding agents may run commands.
    agent_tpus: list[CodingAgentTPURecord]
    sessions: list[SessionRecord]
    #: Where the kernels of TPUs are saved, and when.
    session_settings: dict[NodeName, SessionSetting]
    homes: list[HomeRecord]
