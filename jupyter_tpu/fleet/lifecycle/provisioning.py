"""A node's creation and deletion, without I/O: from what Google answered to what to ask it next.

One :class:`NodeClaim` per operation says which node is meant and how far it is. It is saved before
Google is asked for anything and after each answer, so that a process may be killed at any line and
the next one continues from the claim alone. :class:`Provisioning` reads the claim and the answers:
:meth:`~Provisioning.next` says what to ask, the caller asks it and passes on what it heard.

Which node is meant
    A node that this operation created carries its label (:data:`LABEL`); once seen, its id is
    known. A deletion is for the id that the user saw. Nothing else is deleted or taken over, even
    if it has the name.

What is not known
    A CreateNode whose answer was lost may take effect until :data:`SETTLE_SECONDS` after it was
    given up. Until then a missing node proves nothing; the claim is *in doubt*. No answer about an
    operation is final either (a token expires, Google forgets old operations): the node itself is.

=======================  =====================================================================
what should be, and is   what is asked next
=======================  =====================================================================
present, never sent      CREATE, if the user asked for it not long ago, and it is not too late
                         (`claim.until`); else it has failed
present, accepted        Google's operation, until it ends
  … which succeeded      the node, until it is READY (done) or in a state it does not leave: then it
                         has failed; with `claim.tidy`, as below
  … which failed         as *absent*, then failed with Google's words
  … and is queued        the node, until `claim.withdraw_at`; then DELETE, which is refused if it
                         has capacity meanwhile: then the node again, until it is READY
  … and is unfinished    CREATE once more, which takes the next step; if that is refused, or no one
                         expects it any longer, as *absent*, then failed
  … and has a problem    as *absent*, then failed: Google would go on trying
present, in doubt        the node: ours, continue; another's, failed (EXISTS); missing, wait
                         until it is settled and CREATE once more
absent, node is ours     DELETE at once, since that goes by the name, which someone else may have
                         soon; then the operation, then the node again, for as long as it is there
  … and given up         the node, until no DELETE can take effect any more: then it is kept
absent, node missing     wait for Google's operation that creates it and for what is in doubt;
                         then it is gone
absent, another's node   gone: ours is not there
=======================  =====================================================================

Cancelling a creation turns *present* into *absent*, at any time; nothing turns it back. What Google
refuses to delete is asked for until it does, or until a user gives it up.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from msgspec import Struct

from ...backoff import POLLING, Backoff
from ...cloud import OPERATION_LABEL, NodeState
from ...errors import Reason, TPUError
from ..core.operation_records import NodeClaim
from ..models import Problem

#: The label that a node carries for the operation which creates it.
LABEL = OPERATION_LABEL
#: How long a CreateNode without an answer may still take effect; twice its deadline. Seconds.
SETTLE_SECONDS = 120.0
#: How long after the user asked for it a node is still created (or started, or stopped); later,
#: no one expects it. Seconds.
EXPECTED_SECONDS = 900.0
#: States after which it may still become READY.
_ON_ITS_WAY = frozenset(
    map(NodeState, ["CREATING", "STARTING", "RESTARTING", "REPAIRING", "UNKNOWN"])
)
#: Answers after which it is not known whether a change was made.
_UNHEARD = frozenset({Reason.UNAVAILABLE, Reason.TIMEOUT, Reason.INTERNAL, Reason.CANCELLED})
#: And those that are given while another change of the node continues.
_UNKNOWN = _UNHEARD | {Reason.CONFLICT}
#: Seconds until Google is asked again to take back what it did not take back.
_RETRY_SECONDS = 60.0
#: Between questions while it waits for capacity, or something stands in the way; else POLLING.
_POLLING_BLOCKED = Backoff(POLLING.first, 30.0, POLLING.factor)


class NextCall(StrEnum):
    """What to ask Google next."""

    CREATE = "create"  # call `sending` and save the claim first
    DELETE = "delete"
    NODE = "node"
    CREATING = "creating"  # the operation `claim.creating`
    DELETING = "deleting"


class ProvisioningResult(Struct, frozen=True):
    """How it ended; *error* with "failed", and with "kept": it should be gone, and stays."""

    how: Literal["ready", "failed", "gone", "kept"]
    error: TPUError | None = None


class ObservedNode(Struct, frozen=True, kw_only=True):
    """What matters of a node that Google described."""

    id: str
    state: NodeState
    label: str = ""  # the value of LABEL
    waiting: bool = False  # for capacity: there is nothing yet that could be used
    problem: Problem | None = None  # why it is not on its way to READY, where that is known
    unfinished: bool = False  # a part of it is not made yet, or is deleted already


class Provisioning:
    """Drives *claim*, of the node that messages call *what*; *thing*: what that is.

    pause: seconds to wait before the next question.
    problem: what stands in the way now, for people; None where nothing does.
    """

    def __init__(self, claim: NodeClaim, what: str, thing: str = "TPU") -> None:
        self.claim = claim
        self.pause = 0.0
        self._unanswered: TPUError | None = None  # the last question
        # `delete_in_doubt` before the last DELETE; `sent` of a CREATE in doubt before the last one.
        self._doubted = self._create_doubted = 0.0
        self._what = what
        self._thing = thing
        self._node: ObservedNode | Literal["missing"] | None = None  # None: to be looked at
        self._end: ProvisioningResult | None = None
        self._waiting = False  # what is being created, for capacity

    @property
    def problem(self) -> TPUError | None:
        refusal = self.claim.refusal if not self.claim.given_up else None
        return refusal.to_error() if refusal is not None else self._unanswered

    @property
    def refused(self) -> bool:
        """Whether Google refuses to delete the node, and has not begun with it."""
        return self.claim.refusal is not None and not self.claim.deleting

    # ---- what next ----

    def next(self, now: float) -> NextCall | ProvisioningResult:
        """What to ask Google, or how it ended. *now*: seconds since the epoch."""
        if self._end is not None:
            return self._end
        claim = self.claim
        if claim.want == "absent" or claim.failure is not None:
            return self._remove(now)
        if claim.creating:
            overdue = self._waiting and 0 < claim.withdraw_at <= now
            return self._withdraw(now) if overdue else NextCall.CREATING
        if not claim.sent:
            return self._create(now)
        node = self._node
        if node is None:
            return NextCall.NODE
        if self._may_appear(now, node):
            return self._refresh_node()
        if node == "missing":
            if claim.in_doubt:
                return self._create(now)
            problem = Problem(
                message=f"Google has no {self._thing} called {self._what} now.",
                reason=Reason.CONFLICT,
                hint="Create it again.",
            )
            return self._failed(now, problem)
        if not self._is_ours(node):
            problem = Problem(
                message=f"Another person or program created a {self._thing} named {self._what}.",
                reason=Reason.EXISTS,
                hint="Choose another name.",
            )
            return self._failed(now, problem)
        if node.unfinished:
            return self._create(now)
        if node.state is NodeState.READY:
            return self._ended(ProvisioningResult("ready"))
        if node.state in _ON_ITS_WAY and node.problem is None:
            overdue = node.waiting and 0 < claim.withdraw_at <= now
            return self._withdraw(now) if overdue else self._refresh_node()
        message = f"{self._what} was created and is now {node.state}."
        problem = node.problem or Problem(message=message, reason=Reason.CONFLICT)
        return self._failed(now, problem, tidy=claim.tidy or node.problem is not None)

    def _withdraw(self, now: float) -> NextCall | ProvisioningResult:
        claim = self.claim
        claim.withdrawing = True
        claim.withdraw_at = now + _RETRY_SECONDS  # where that is refused
        claim.failure = Problem(
            message=f"There was no capacity for {self._what} while it waited.",
            reason=Reason.NO_CAPACITY,
        )
        return self._remove(now)

    def _remove(self, now: float) -> NextCall | ProvisioningResult:
        claim, node = self.claim, self._node
        if not (claim.sent or claim.node_id):
            return self._removed()  # Google was never asked for it
        if node is None:
            return NextCall.NODE
        if isinstance(node, ObservedNode) and self._is_ours(node):
            if claim.deleting:
                return NextCall.DELETING
            if node.state is NodeState.DELETING:
                return self._refresh_node()
            return self._kept(now, node) if claim.given_up else NextCall.DELETE
        if claim.creating:
            return NextCall.CREATING  # it may still appear
        return self._refresh_node() if self._may_appear(now, node) else self._removed()

    def _kept(self, now: float, node: ObservedNode) -> NextCall | ProvisioningResult:
        """A user has given it up: it stays, unless a DELETE is still on its way."""
        claim, refusal = self.claim, self.claim.refusal
        if now - claim.delete_in_doubt < SETTLE_SECONDS:
            return self._refresh_node()
        error = TPUError(
            f"{self._what} is {node.state}. Trying to delete it was stopped.",
            refusal.reason if refusal is not None else Reason.CONFLICT,
            "Delete it when that is possible.",
        )
        for why in (claim.failure, refusal):
            error.message += f" {why.message}" if why is not None else ""
        return self._ended(ProvisioningResult("kept", error))

    def _removed(self) -> ProvisioningResult:
        failure = self.claim.failure
        if self.claim.want == "absent" or failure is None:
            return self._ended(ProvisioningResult("gone"))
        return self._ended(ProvisioningResult("failed", failure.to_error()))

    def is_too_late(self, now: float) -> bool:
        """Whether the time has passed until which it is wanted."""
        return 0 < self.claim.until <= now

    def _create(self, now: float) -> NextCall | ProvisioningResult:
        too_late = self.is_too_late(now)
        if not too_late and now - self.claim.since <= EXPECTED_SECONDS:
            return NextCall.CREATE
        reason = f" {self._unanswered.message}" if self._unanswered else ""
        minutes = EXPECTED_SECONDS / 60
        problem = Problem(
            message=f"{self._what} was not created in time."
            if too_late
            else f"{self._what} was not created within {minutes:.0f} minutes.{reason}",
            reason=Reason.TIMEOUT if too_late else Reason.INTERRUPTED,
            hint="Create it again.",
        )
        return self._failed(now, problem, tidy=bool(self.claim.node_id))  # a part of it is there

    def _refresh_node(self) -> NextCall:
        self._node = None
        return NextCall.NODE

    def _may_appear(self, now: float, node: ObservedNode | Literal["missing"]) -> bool:
        """Whether ours may still come, though *node* was seen in its place."""
        claim = self.claim
        ours = isinstance(node, ObservedNode) and self._is_ours(node)
        return claim.in_doubt and not ours and now - claim.sent < SETTLE_SECONDS

    def _is_ours(self, node: ObservedNode) -> bool:
        claim = self.claim
        if claim.node_id:
            return node.id == claim.node_id
        return bool(claim.label) and node.label == claim.label

    def _failed(
        self, now: float, problem: Problem, *, tidy: bool = False
    ) -> NextCall | ProvisioningResult:
        """tidy: what is there of it is removed first."""
        if not tidy:
            return self._ended(ProvisioningResult("failed", problem.to_error()))
        self.claim.failure = problem
        return self._remove(now)

    def _ended(self, end: ProvisioningResult) -> ProvisioningResult:
        self._end = end
        return end

    # ---- what was heard ----

    def cancel(self) -> None:
        """The user no longer wants the node: it is to be absent, whatever was asked for."""
        self.claim.want = "absent"
        self.claim.withdrawing = False
        self._progress()

    def give_up(self) -> None:
        """The user no longer wants a deletion that Google refuses to be tried."""
        if self.claim.refusal is not None and not self.claim.given_up:
            self.claim.given_up = True
            self._progress()

    def sending(self, now: float) -> None:
        """CreateNode is about to be sent."""
        self._create_doubted = self.claim.sent if self.claim.in_doubt else 0.0
        self.claim.sent = now
        self.claim.in_doubt = True

    def not_sent(self, error: TPUError | None = None) -> None:
        """CreateNode was not sent after all: *error*, or it is too late."""
        self._take_back_sending()
        if error is not None:
            self.unanswered(error)

    def clock_set(self, seconds: float) -> None:
        """The clock was set by so many seconds: what was counted from earlier times still counts
        from the same moments.
        """
        claim = self.claim
        claim.since += seconds
        for field in ("sent", "delete_in_doubt", "withdraw_at"):
            if (before := getattr(claim, field)) > 0:
                setattr(claim, field, before + seconds)
        self._doubted += seconds if self._doubted else 0.0
        self._create_doubted += seconds if self._create_doubted else 0.0

    def create_accepted(self, operation: str) -> None:
        self.claim.in_doubt = False
        self.claim.creating = operation
        self._progress_on_creation()

    def create_failed(self, error: TPUError, now: float, *, sent: bool = True) -> None:
        """CreateNode raised *error*; *sent*: False where it certainly did not reach Google."""
        claim = self.claim
        if sent and error.reason in _UNKNOWN:
            claim.sent = now  # a computer that slept meanwhile may have sent it just now
            self.unanswered(error)
            return
        claim.in_doubt = False
        if error.reason is Reason.EXISTS:
            self._progress()  # it may be ours, from an answer that was lost
            return
        self._take_back_sending()  # there is nothing of it, or no more than before
        # A login that expires between two parts is renewed soon: what is there is kept until then.
        renewed = bool(claim.node_id) and error.reason is Reason.NO_CREDENTIALS
        if error.reason is Reason.RATE_LIMITED or renewed:
            self.unanswered(error)
        else:
            claim.failure = Problem.of(error)
            self._node = None  # the name may be another one's since it was seen

    def _take_back_sending(self) -> None:
        """CreateNode had no effect. One that was sent before may still have some."""
        self.claim.sent, self.claim.in_doubt = self._create_doubted, self._create_doubted > 0

    def sending_delete(self, now: float) -> None:
        """DeleteNode is about to be sent."""
        self._doubted = self.claim.delete_in_doubt
        self.claim.delete_in_doubt = now

    def delete_accepted(self, operation: str) -> None:
        self.claim.delete_sent = True
        self.claim.deleting = operation
        self.claim.refusal = None
        self._progress()

    def delete_failed(self, error: TPUError, now: float, *, sent: bool = True) -> None:
        """DeleteNode raised *error*; *sent*: as of `create_failed`. A creation's cancelling goes
        on; a deletion that was refused has changed nothing, and ends.
        """
        claim = self.claim
        unheard = sent and error.reason in _UNHEARD
        claim.delete_in_doubt = now if unheard else self._doubted
        if claim.withdrawing and error.reason is Reason.CONFLICT:
            self._keep()
            return
        claim.delete_sent |= error.reason in _UNKNOWN
        if error.reason is Reason.NOT_FOUND:
            self._node = None
        elif claim.label or claim.delete_sent or error.reason is Reason.RATE_LIMITED:
            claim.refusal = Problem.of(error)
            self.unanswered(error)
        else:
            self._end = ProvisioningResult("failed", error)

    def operation_runs(self, *, waiting: bool = False) -> None:
        """The operation that was asked for has not ended. *waiting*: for capacity."""
        self._unanswered = None
        self._node = None
        self._waiting = waiting
        self._wait()

    def create_ended(self, error: TPUError | None) -> None:
        """Google's operation that creates the node ended, with *error* or well."""
        self.claim.creating = ""
        self._waiting = False
        if error is not None:
            self.claim.failure = Problem.of(error)
        self._progress_on_creation()

    def delete_ended(self, error: TPUError | None) -> None:
        """Google's operation that deletes the node ended, with *error* or well."""
        self.claim.deleting = ""
        if error is None:
            self._progress()
        elif self.claim.withdrawing and error.reason is Reason.CONFLICT:
            self._keep()
        else:
            self.claim.refusal = Problem.of(error)
            self.unanswered(error)

    def _keep(self) -> None:
        """It got capacity before it could be withdrawn."""
        claim = self.claim
        claim.withdrawing, claim.failure, claim.refusal = False, None, None
        self._progress()

    def operation_forgotten(self) -> None:
        """Google does not know the operation (any more): what became of it, the node tells."""
        claim = self.claim
        claim.in_doubt |= bool(claim.creating and not claim.node_id)
        claim.creating = claim.deleting = ""
        self._node = None
        self._wait()

    def node_seen(self, node: ObservedNode) -> None:
        self._unanswered = None
        self._node = node
        if self._is_ours(node):
            self.claim.node_id = node.id
            self.claim.in_doubt &= node.unfinished  # the next part may still come
            if node.state is NodeState.DELETING:
                self.claim.refusal = None
        self._wait()

    def node_missing(self) -> None:
        self._unanswered = None
        self._node = "missing"
        self._wait()

    def unanswered(self, error: TPUError) -> None:
        """A question brought no answer, or one that says nothing about the node."""
        self._unanswered = error
        self._node = None
        self._wait()
        if error.reason in (Reason.PERMISSION, Reason.NO_CREDENTIALS, Reason.RATE_LIMITED):
            self.pause = max(self.pause, error.retry_after or POLLING.longest)

    def _progress(self) -> None:
        self._unanswered = None
        self._node = None
        self.pause = POLLING.first

    def _progress_on_creation(self) -> None:
        pause = self.pause
        self._progress()
        if self.claim.node_id:  # a further part; if none ever comes of it, it is asked for slowly
            self.pause = POLLING.next(pause)

    def _wait(self) -> None:
        waiting = self._waiting or (isinstance(self._node, ObservedNode) and self._node.waiting)
        pauses = _POLLING_BLOCKED if waiting or self.problem else POLLING
        self.pause = pauses.next(self.pause)
