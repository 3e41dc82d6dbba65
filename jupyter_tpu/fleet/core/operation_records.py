"""The stored operations: each with what its kind needs to continue."""

from __future__ import annotations

from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct, field

from ...catalog import API
from ...cloud import NodeName
from ...cloud.models import Tier
from ..models import (
    BeforeEnd,
    ConnectTPU,
    CreateTPU,
    GuardReason,
    HuntAttempt,
    KeepWarm,
    OpenTunnel,
    Operation,
    Problem,
    QueueTPU,
    SetGuard,
    ShareFolder,
    StartHunt,
    SyncProject,
)


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
    #: From when on what waits for capacity is withdrawn; seconds since the epoch, 0 for never.
    withdraw_at: float = 0.0
    #: Whether it is being withdrawn. What got capacity meanwhile stays.
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


class FinalSave(Struct, frozen=True, kw_only=True):
    """That kernels, or home folders, are saved before their TPU ends.

    A process that continues the operation waits no longer than this one would have.
    """

    #: Whether the TPU ends only if all were saved.
    required: bool = False
    #: Whether this computer gets what is saved on a disk: the TPU ends with that.
    copies: bool = False
    #: Seconds since the epoch.
    until: float


class PlanTerms(Struct, frozen=True, kw_only=True):
    """The plan by which an operation creates a TPU: the limits at which the TPU is deleted."""

    plan: str
    who: str
    #: Seconds that the TPU may exist.
    time: float
    max_cost: float | None = None
    #: USD that a person has agreed to for this plan, beside all budgets; 0: none has.
    approved: float = 0.0


class Creation(Struct, kw_only=True, tag="create"):
    """A TPU that is created, by an operation of its own or as an attempt of a hunt."""

    request: CreateTPU = field(name="create")
    claim: NodeClaim
    #: The queued resource that it is created as; None: it is not.
    queue: QueueTPU | None = None
    #: The terms of the plan that is carried out.
    terms: PlanTerms | None = None


class Deletion(Struct, kw_only=True, tag="delete"):
    """A TPU that is deleted. for_hunt: by a hunt that has waited for its preemption."""

    claim: NodeClaim
    origin: QueuedOrigin | None = None
    for_hunt: bool = False
    sessions: FinalSave | None = None
    home: FinalSave | None = None


class QueuedCreation(Struct, kw_only=True, tag="queue"):
    """A queued resource that Google is asked for."""

    request: QueueTPU = field(name="queue")
    claim: NodeClaim


class QueuedDeletion(Struct, kw_only=True, tag="unqueue"):
    """A queued resource that is deleted."""

    claim: NodeClaim


class StateChange(Struct, kw_only=True, tag="change"):
    """A TPU that is started or stopped, or of which a host is reported."""

    node_id: str
    #: Google's operation that does it, once that was accepted.
    accepted: str = ""
    #: Why a guard has the TPU stopped; None: a user has.
    guard_reason: GuardReason | None = None
    sessions: FinalSave | None = None
    home: FinalSave | None = None


class TPUConnection(Struct, kw_only=True, tag="connect"):
    """A TPU that is connected."""

    request: ConnectTPU = field(name="connect")
    node_id: str
    #: The id of the job that it starts; "": of the operation's own.
    job: str = ""
    #: What it gets of the TPU that it replaces: the first environment is this connection's own, the
    #: others and the shared folders follow.
    belongings: Belongings | None = None


class ServerStart(Struct, kw_only=True, tag="serve"):
    """A server of a model that starts: the id of its job."""

    job: str


class GuardSetting(Struct, kw_only=True, tag="guard"):
    """A guard that is set as soon as its host answers."""

    request: SetGuard = field(name="guard")
    node_id: str


class WatchedFolder(Struct, kw_only=True, tag="sync"):
    """A folder that is watched, and copied to a TPU."""

    request: SyncProject = field(name="sync")
    node_id: str


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
    #: What is left of it is deleted then, and the hunt begins.
    preempted: bool = field(default=False, name="taken")
    #: Whether it is deleted without waiting for that: a user has it replaced.
    replace: bool = False
    #: Whether its kernels are saved before.
    sessions: BeforeEnd = "skip"


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
    #: The folders that were copied to it, or are watched.
    syncs: list[SyncProject] = []
    shares: list[FolderShare] = []


class HuntRecord(Struct, kw_only=True, tag="hunt"):
    """What a hunt has to know to continue."""

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
    #: The TPU at whose preemption the hunt begins; None while it continues.
    awaited: AwaitedTPU | None = None
    #: What belongs to the TPU that it replaces.
    belongings: Belongings | None = None
    #: The terms of the plan that is carried out.
    terms: PlanTerms | None = None
    #: Its current attempt, or the TPU that it has found.
    current: Creation | None = None

    def waits(self, candidate: Candidate) -> bool:
        """Whether *candidate* waits in Google's queue. Compute Engine's is for flex-start only."""
        if candidate.tier == "flex-start":
            return not candidate.direct
        return self.queued and not candidate.direct and candidate.api == "tpu"


OperationContent = (
    Creation
    | Deletion
    | QueuedCreation
    | QueuedDeletion
    | StateChange
    | TPUConnection
    | HuntRecord
    | GuardSetting
    | WatchedFolder
    | ServerStart
)
_Content = TypeVar("_Content", bound=OperationContent)
#: What users ask of an operation that runs, in whichever process.
OperationRequest = Literal["cancel", "stop-trying"]


class OperationRecord(Struct, kw_only=True):
    """An operation, what it needs to continue, and the process that runs it."""

    operation: Operation
    project: str
    owner: str
    #: None: nothing continues it.
    content: OperationContent | None = None

    def of(self, kind: type[_Content]) -> _Content:
        """Its content, which is of this *kind*; raises TypeError for another one."""
        if not isinstance(self.content, kind):
            raise TypeError(f"a {self.operation.kind} operation with {self.content!r}")
        return self.content

    @property
    def creation(self) -> Creation | None:
        """The TPU that it creates now."""
        content = self.content
        if isinstance(content, HuntRecord):
            return content.current
        return content if isinstance(content, Creation) else None

    @property
    def claim(self) -> NodeClaim | None:
        """What it creates or deletes now."""
        content = self.creation or self.content
        if isinstance(content, Creation | Deletion | QueuedCreation | QueuedDeletion):
            return content.claim
        return None

    @property
    def own_job(self) -> str:
        """The id of the job that is started because of it, if one is: on each TPU of a hunt that
        begins again, another one.
        """
        id, hunt = self.operation.id[:8], self.content
        if isinstance(hunt, HuntRecord) and hunt.request.repeats:
            return f"{id}-{hunt.attempted}"
        return id

    @property
    def name(self) -> NodeName:
        """The TPU that it is about."""
        return NodeName(self.project, self.operation.zone, self.operation.tpu)


#: What operations of each kind had until version 9, when each had the fields of all kinds.
_CONTENTS: dict[str, type[OperationContent]] = {
    "create": Creation,
    "hunt": HuntRecord,
    "queue": QueuedCreation,
    "unqueue": QueuedDeletion,
    "delete": Deletion,
    **dict.fromkeys(("start", "stop", "report"), StateChange),
    "connect": TPUConnection,
    "guard": GuardSetting,
    "sync": WatchedFolder,
}


def read_operation(row: bytes) -> OperationRecord:
    """Also one of version 9: money depends on what it was about. Raises msgspec.DecodeError."""
    record = msgspec.json.decode(row, type=OperationRecord)
    kind = _CONTENTS.get(record.operation.kind)
    if record.content is not None or kind is None or b',"claim":' not in row:
        return record
    fields: dict[str, Any] = msgspec.json.decode(row)
    if kind is HuntRecord:
        current = fields if fields.get("claim") is not None else None
        fields = {**fields, **(fields.get("hunt") or {}), "current": current}
    if kind is not WatchedFolder or fields.get("sync") is not None:
        record.content = msgspec.convert(fields, kind)
    return record
