"""The rows of the store, each with what is needed to continue."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from ...catalog import API
from ...cloud import NodeName
from ...cloud.models import Tier
from ..models import (
    Budget,
    ConnectTPU,
    CreateTPU,
    Environment,
    Grant,
    Guard,
    GuardReason,
    GuardStop,
    HuntAttempt,
    JobAttempt,
    KeepWarm,
    OpenTunnel,
    Operation,
    Plan,
    PriceList,
    Problem,
    QueueTPU,
    SetGuard,
    ShareFolder,
    StartHunt,
    StartJob,
    SyncProject,
)


class EnvironmentRecord(Struct, kw_only=True):
    """An environment, and how it was asked for."""

    node_id: str  # of the TPU it is on
    request: ConnectTPU = field(name="wanted")
    environment: Environment
    hosts: int = 1  # of the TPU
    #: None: as configured.
    warm: KeepWarm | None = None
    #: Of its packages on host 0 that its request has, and that all hosts have.
    revision: int = 0

    @property
    def is_existing(self) -> bool:
        """Whether it was on the hosts before: it is never changed or deleted."""
        return self.request.python_path is not None

    @property
    def host_python(self) -> str:
        """The path of its Python on the hosts."""
        return self.environment.python_path or f"{self.environment.path}/bin/python"


class NodeClaim(Struct, kw_only=True):
    """Which node an operation creates or deletes, and how far that is.

    Saved before Google is asked and after each answer; see ``lifecycle/provisioning.py``.
    """

    want: Literal["present", "absent"]
    #: When the user asked for it; seconds since the epoch.
    since: float
    #: The value of our label on a node that this operation creates; "" for a deletion.
    label: str = ""
    #: Google's id of the node; "" while it is not known.
    node_id: str = ""
    #: When CreateNode was last sent, seconds since the epoch; 0 for never.
    sent: float = 0.0
    #: Whether that call may still take effect without an answer.
    in_doubt: bool = False
    #: Google's operations that create and delete it, while they may run.
    creating: str = ""
    deleting: str = ""
    #: Whether a DeleteNode was accepted, or may have been.
    delete_sent: bool = False
    #: When a DeleteNode was sent that may still take effect unheard; seconds since the epoch, 0 for
    #: never.
    delete_in_doubt: float = 0.0
    #: Why Google has not deleted it; None while nothing stands in the way.
    refusal: Problem | None = None
    #: Whether a user has ended the attempts to delete it: it stays.
    given_up: bool = False
    #: What the creation failed with, while what is left of the node is removed.
    failure: Problem | None = None
    #: Whether a node that will not be READY is removed, too.
    tidy: bool = False
    #: From when on what still waits for room is taken back; seconds since the epoch, 0 for never.
    withdraw_at: float = 0.0
    #: Whether it is being taken back. What got room meanwhile stays.
    withdrawing: bool = False
    #: From when on no one wants it any more; seconds since the epoch, 0 for never.
    until: float = 0.0

    def take_over(self, now: float) -> None:
        """Another process drove this, by a clock that may have been another one: what it has sent
        may still be on its way. *now*: seconds since the epoch.
        """
        self.since = min(self.since, now)
        if self.in_doubt:
            self.sent = now
        if self.delete_in_doubt:
            self.delete_in_doubt = now


class QueuedOrigin(Struct, frozen=True, kw_only=True):
    """The queued resource that a TPU came from, while the TPU is deleted."""

    name: str
    #: When it was created, which is its id: it is deleted, too. "": it stays.
    created: str = ""


class Candidate(Struct, kw_only=True):
    """A zone, type, tier and control plane of a hunt, and what was learned of it. Times: seconds
    since the epoch.

    Read and changed by ``hunts/planner.py``.
    """

    zone: str
    type: str
    tier: Tier
    api: API = "tpu"
    #: Whether it is tried without the queue, in a hunt that waits in it. Of flex-start, which only
    #: Compute Engine has without a queue: for what is available at once.
    direct: bool = False
    version: str = ""
    attempts: int = 0
    #: In a row, of the kind that time may mend.
    failures: int = 0
    #: When it may be tried again.
    retry_at: float = 0.0
    #: Why the last attempt failed, or why it is not tried.
    problem: Problem | None = None
    ruled_out: bool = False


class AwaitedTPU(Struct, kw_only=True):
    """The TPU whose preemption a hunt waits for."""

    zone: str
    node_id: str
    #: Whether Google has: what is left of it is deleted, and the hunt begins.
    taken: bool = False
    #: Whether it is deleted without waiting for that: a user has it replaced.
    replace: bool = False


class RestoredEnvironment(Struct, kw_only=True):
    """An environment of a TPU that is replaced."""

    connect: ConnectTPU
    warm: KeepWarm | None = None
    #: The groups of host 0's chips that have kernels of their own.
    chips: list[list[int]] = []


class FolderShare(Struct, kw_only=True):
    """A folder that is shared. tpu: whose host 0 has it."""

    tpu: str
    request: ShareFolder


class Belongings(Struct, kw_only=True):
    """What a TPU that is replaced had, and the new one gets."""

    #: The first is also in the request for the TPU.
    environments: list[RestoredEnvironment] = []
    tunnels: list[OpenTunnel] = []
    #: The folders that are watched.
    syncs: list[SyncProject] = []
    shares: list[FolderShare] = []


class HuntRecord(Struct, kw_only=True):
    """What a hunt has to know to continue. Its current attempt is the operation's claim."""

    request: StartHunt
    candidates: list[Candidate]
    #: The last ones, the oldest first.
    attempts: list[HuntAttempt] = []
    attempted: int = 0
    #: No attempt begins before; seconds since the epoch.
    retry_at: float = 0.0
    #: How often in a row the way to Google was what failed.
    failures: int = 0
    #: No attempt begins later; None: no limit. Seconds since the epoch.
    deadline: float | None = None
    #: Whether its attempts are queued resources, but for those of a candidate that is *direct*.
    #: Those of flex-start always are.
    queued: bool = False
    #: Of a hunt that begins when a TPU is preempted; None while it continues.
    awaited: AwaitedTPU | None = None
    #: Of a TPU that it replaces.
    belongings: Belongings | None = None

    def waits(self, candidate: Candidate) -> bool:
        """Whether *candidate* waits in Google's queue. Compute Engine's is for flex-start only."""
        if candidate.tier == "flex-start":
            return not candidate.direct
        return self.queued and not candidate.direct and candidate.api == "tpu"


class PlanTerms(Struct, frozen=True, kw_only=True):
    """The plan by which an operation creates a TPU: the limits at which the TPU is deleted."""

    plan: str
    who: str
    #: Seconds that the TPU may exist.
    time: float
    max_cost: float | None = None
    #: USD that a person has agreed to for this plan, beside all budgets; 0: none has.
    approved: float = 0.0


class SpendRecord(Struct, kw_only=True):
    """A TPU in the ledger. Times: seconds since the epoch. Amounts: USD."""

    #: The value of our label on the node.
    id: str
    who: str
    plan: str = ""
    project: str
    zone: str
    tpu: str
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

    @property
    def name(self) -> NodeName:
        return NodeName(self.project, self.zone, self.tpu)


class AgentTPURecord(Struct, kw_only=True, frozen=True):
    """A TPU of a person on which coding agents may run commands."""

    project: str
    zone: str
    tpu: str
    #: Google's id of the node: a later one of the same name is another TPU.
    node_id: str

    @property
    def name(self) -> NodeName:
        return NodeName(self.project, self.zone, self.tpu)


#: What users ask of an operation that runs, in whichever process.
OperationRequest = Literal["cancel", "stop-trying"]


class OperationRecord(Struct, kw_only=True):
    """An operation, what it needs to continue, and the process that runs it."""

    operation: Operation
    project: str
    owner: str
    create: CreateTPU | None = None
    connect: ConnectTPU | None = None
    guard: SetGuard | None = None
    #: Why a guard has a TPU stopped; None: a user has.
    guard_reason: GuardReason | None = None
    #: Of a creation or deletion, or of a hunt's current attempt.
    claim: NodeClaim | None = None
    hunt: HuntRecord | None = None
    #: Of a new queued resource, also that of a hunt's attempt.
    queue: QueueTPU | None = None
    #: Of a TPU that is deleted; *for_hunt*: by a hunt that has waited for its preemption.
    origin: QueuedOrigin | None = None
    for_hunt: bool = False
    #: Google's operation that starts or stops the TPU, once that was accepted.
    accepted: str = ""
    #: Google's id of the node that is meant; "" where *claim* says it.
    node_id: str = ""
    #: The id of the job that a connection starts; "": of the operation's own.
    job: str = ""
    #: Of a connection to a TPU that replaces another one: the first environment is its own, the
    #: others and the shared folders follow.
    belongings: Belongings | None = None
    #: Of a folder that is watched.
    sync: SyncProject | None = None
    #: Of a creation or hunt that carries out a plan.
    terms: PlanTerms | None = None

    def has_claim(self) -> bool:
        return self.claim is not None

    @property
    def own_job(self) -> str:
        """The id of the job that is started because of it, if one is: on each TPU of a hunt that
        begins again, another one.
        """
        id, hunt = self.operation.id[:8], self.hunt
        return f"{id}-{hunt.attempted}" if hunt is not None and hunt.request.repeats else id

    @property
    def name(self) -> NodeName:
        """The TPU that it is about."""
        return NodeName(self.project, self.operation.zone, self.operation.tpu)


class TunnelRecord(Struct, kw_only=True, frozen=True):
    """A tunnel that should be there, and the process that runs it."""

    id: str
    project: str
    zone: str
    tpu: str
    node_id: str  # of the TPU that was meant
    host: int
    port: int
    local_port: int
    address: str
    created: str
    owner: str
    keep: bool = True  # False: it ends with that process

    @property
    def name(self) -> NodeName:
        return NodeName(self.project, self.zone, self.tpu)


class JobRecord(Struct, kw_only=True):
    """A job, as it was asked for and as its hosts last reported it."""

    id: str
    project: str
    zone: str
    tpu: str
    created: str
    hosts: list[int]
    #: With its environment filled in. The values of its variables are kept only while they are
    #: needed to start it.
    request: StartJob
    #: The last is the current one.
    attempts: list[JobAttempt] = []
    #: Whether someone wants it to end, and how many seconds from SIGTERM to SIGKILL.
    stopped: bool = False
    patience: float = 10.0
    #: Its TPU was preempted, or terminated by Google.
    taken: bool = False

    @property
    def name(self) -> NodeName:
        return NodeName(self.project, self.zone, self.tpu)


class RunRecord(Struct, kw_only=True, frozen=True):
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
    runs: dict[NodeName, RunRecord]
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
    agent_tpus: list[AgentTPURecord]
