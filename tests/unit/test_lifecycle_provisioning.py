"""Creation and deletion of a node against a model of Google that loses answers, forgets and lies
in wait; with cancels, killed processes and other people in between. No I/O, a clock of its own.
"""

import copy
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_tpu.cloud import NodeState
from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.fleet.core.operation_records import NodeClaim
from jupyter_tpu.fleet.lifecycle.provisioning import (
    SETTLE_SECONDS,
    NextCall,
    ObservedNode,
    Provisioning,
    ProvisioningResult,
)
from jupyter_tpu.fleet.models import Problem

#: What a call may meet before the model behaves; "late": in SETTLE_SECONDS, unanswered.
FATES = [
    "well",
    "lost before",
    "lost after",
    "late",
    Reason.NO_CREDENTIALS,
    Reason.PERMISSION,
    Reason.INTERNAL,
    Reason.QUOTA,
    Reason.RATE_LIMITED,
    Reason.CONFLICT,
    "operation fails",
    "operation forgotten",
]


@dataclass
class Google:
    """One name at Google: a node or none, operations, and calls that are still on their way."""

    now: float = 1000.0
    node: ObservedNode | None = None
    operations: dict[str, tuple[float, str, ObservedNode, TPUError | None]] = field(
        default_factory=dict
    )
    late: list[tuple[float, str, str]] = field(default_factory=list)
    ids: int = 0
    deleted: list[ObservedNode] = field(default_factory=list)

    def wait(self, seconds: float) -> None:
        self.now += seconds
        for at, verb, label in list(self.late):
            if at <= self.now:
                self.late.remove((at, verb, label))
                if verb == "create" and self.node is None:
                    self.create(label)
                elif verb == "delete" and self.node is not None and self.node.id == label:
                    self.delete()

    def heeds(self, about: str) -> bool:
        """Whether a creation that is still on its way would take effect."""
        return True

    def create(self, label: str, error: TPUError | None = None) -> str:
        if self.node is not None:
            raise TPUError("There is one.", Reason.EXISTS)
        self.ids += 1
        self.node = ObservedNode(id=str(self.ids), state=NodeState.CREATING, label=label)
        return self._begin("create", error)

    def delete(self) -> str:
        if self.node is None:
            raise TPUError("There is none.", Reason.NOT_FOUND)
        self.node = ObservedNode(id=self.node.id, state=NodeState.DELETING, label=self.node.label)
        return self._begin("delete", None)

    def _begin(self, verb: str, error: TPUError | None) -> str:
        name = f"operation-{len(self.operations)}"
        assert self.node is not None
        self.operations[name] = (self.now + 30, verb, self.node, error)
        return name

    def settle(self) -> None:
        """Operations end when their time has come."""
        for name, (at, verb, meant, error) in list(self.operations.items()):
            if at > self.now or verb == "ended":
                continue
            self.operations[name] = (at, "ended", meant, error)
            node = self.node
            if node is None or node.id != meant.id:
                continue
            if verb == "delete":
                self.deleted.append(node)
                self.node = None
            elif error is not None:
                self.node = None if int(node.id) % 2 else self._now(node, NodeState.TERMINATED)
            elif node.state == "CREATING":
                self.node = self._now(node, NodeState.READY)

    @staticmethod
    def _now(node: ObservedNode, state: NodeState) -> ObservedNode:
        return ObservedNode(id=node.id, state=state, label=node.label)


#: The parts of a slice: a template, a policy, and the group, without which nothing is billed.
PARTS = 3
#: How long the same request is taken for one that was carried out before; seconds.
REPEATED = 60.0


@dataclass
class SlicesOfGoogle(Google):
    """The name is one of a slice: each call makes or deletes one part of it.

    Parts are made in their order, the last one only from the others, and the same request is
    carried out once. Strangers have all of theirs at once.
    """

    parts: int = 0
    heard: dict[tuple[str, int], str] = field(default_factory=dict)  # requests and operations

    def wait(self, seconds: float) -> None:
        self.now += seconds
        for at, verb, about in list(self.late):
            if at <= self.now:
                self.late.remove((at, verb, about))
                label, _, part = about.partition(" ")
                if verb == "create" and self.heeds(about):
                    self.make(label, int(part), None)
                elif verb == "delete" and self.node is not None and self.node.id == label:
                    self.delete()

    def heeds(self, about: str) -> bool:
        label, _, text = about.partition(" ")
        part = int(text)
        if (label, part) in self.heard or part != self.parts + 1:
            return False  # the same request, or one for which something is missing
        return self.node is None if part == 1 else bool(self.node and self.node.label == label)

    def create(self, label: str, error: TPUError | None = None) -> str:
        if not label:
            self.parts = PARTS
            return super().create(label)
        if self.node is not None and (self.node.label != label or not self.node.unfinished):
            raise TPUError("There is one.", Reason.EXISTS)
        part = self.parts + 1
        if (label, part) in self.heard:
            begun = self.operations[self.heard[label, part]][0] - 30
            if self.now - begun < REPEATED:
                return self.heard[label, part]
        return self.make(label, part, error)

    def make(self, label: str, part: int, error: TPUError | None) -> str:
        if error is None or part == PARTS:  # a group is there, and its instances never are
            self.parts = part
            problem = Problem.of(error) if error is not None else None
            self.node = ObservedNode(
                id=label,
                state=NodeState.CREATING,
                label=label,
                unfinished=part < PARTS,
                problem=problem,
            )
            error = None
        elif self.node is None:
            raise error
        self.heard[label, part] = self._begin("create", error)
        return self.heard[label, part]

    def delete(self) -> str:
        if self.node is None or not self.node.label or self.parts == PARTS:
            return super().delete()
        self.remove_part()
        name = f"operation-{len(self.operations)}"
        self.operations[name] = (self.now, "ended", ObservedNode(id="", state="DELETING"), None)
        return name

    def remove_part(self) -> None:
        self.parts -= 1
        if not self.parts:
            self.deleted.append(self.node)
        label = self.node.label
        part = ObservedNode(id=label, state=NodeState.CREATING, label=label, unfinished=True)
        self.node = part if self.parts else None

    def settle(self) -> None:
        for name, (at, verb, meant, error) in list(self.operations.items()):
            if at > self.now or verb == "ended":
                continue
            self.operations[name] = (at, "ended", meant, error)
            node = self.node
            if node is None or node.id != meant.id:
                continue
            if verb == "delete" and node.label and self.parts == PARTS:
                self.remove_part()
            elif verb == "delete" and not node.label:
                self.deleted.append(node)
                self.node, self.parts = None, 0
            elif verb == "create" and node.state == "CREATING" and not node.unfinished:
                going = node.problem is not None
                self.node = node if going else self._now(node, NodeState.READY)


LOST = TPUError("No answer.", Reason.UNAVAILABLE)


class Process:
    """What drives a claim in the product, without its I/O; it can be killed and begun again."""

    def __init__(self, google: Google, claim: NodeClaim, draw) -> None:
        self.google = google
        self.saved = copy.copy(claim)
        self.draw = draw
        self.begin()

    def begin(self) -> None:
        """A process reads the claim that was saved last."""
        self.life = Provisioning(copy.copy(self.saved), "my-tpu")

    def save(self) -> None:
        self.saved = copy.copy(self.life.claim)

    def step(self, fate: object) -> ProvisioningResult | None:
        google, life = self.google, self.life
        google.wait(life.pause)
        google.settle()
        ask = life.next(google.now)
        if isinstance(ask, ProvisioningResult):
            return ask
        if ask is NextCall.CREATE:
            life.sending(google.now)
            self.save()
        elif ask is NextCall.DELETE:
            life.sending_delete(google.now)
            self.save()
        try:
            answer = self.call(ask, fate)
        except TPUError as error:
            self.failed(ask, error)
        else:
            self.heard(ask, answer)
        if fate != "killed":
            self.save()
        return None

    def call(self, ask: NextCall, fate: object):
        google = self.google
        if isinstance(fate, Reason):
            raise TPUError("Refused.", fate)
        if fate == "lost before":
            raise LOST
        if fate == "late" and ask in (NextCall.CREATE, NextCall.DELETE):
            about = self.life.claim.label if ask is NextCall.CREATE else self.life.claim.node_id
            if ask is NextCall.CREATE and isinstance(google, SlicesOfGoogle):
                about = f"{about} {google.parts + 1}"
            google.late.append((google.now + SETTLE_SECONDS / 2, ask.value, about))
            raise LOST
        if ask is NextCall.CREATE:
            fails = TPUError("No capacity.", Reason.NO_CAPACITY)
            done = google.create(
                self.life.claim.label, fails if fate == "operation fails" else None
            )
        elif ask is NextCall.DELETE:
            done = google.delete()
        elif ask is NextCall.NODE:
            if google.node is None:
                raise TPUError("There is none.", Reason.NOT_FOUND)
            done = google.node
        else:
            name = (
                self.life.claim.creating if ask is NextCall.CREATING else self.life.claim.deleting
            )
            if fate == "operation forgotten" or name not in google.operations:
                raise TPUError("No such operation.", Reason.NOT_FOUND)
            done = google.operations[name]
        if fate == "lost after":
            raise LOST
        return done

    def heard(self, ask: NextCall, answer) -> None:
        life = self.life
        if ask is NextCall.CREATE:
            life.create_accepted(answer)
        elif ask is NextCall.DELETE:
            life.delete_accepted(answer)
        elif ask is NextCall.NODE:
            life.node_seen(answer)
        else:
            _, verb, _, error = answer
            if verb != "ended":
                life.operation_runs()
            elif ask is NextCall.CREATING:
                life.create_ended(error)
            else:
                life.delete_ended(error)

    def failed(self, ask: NextCall, error: TPUError) -> None:
        life = self.life
        if ask is NextCall.CREATE:
            life.create_failed(error, self.google.now)
        elif ask is NextCall.DELETE:
            life.delete_failed(error, self.google.now)
        elif error.reason is not Reason.NOT_FOUND:
            life.unanswered(error)
        elif ask is NextCall.NODE:
            life.node_missing()
        else:
            life.operation_forgotten()


def run(
    process: Process,
    cancel_at: int | None,
    fates: list,
    strangers: dict[int, str],
    give_up_at: int | None = None,
) -> ProvisioningResult:
    google = process.google
    for turn in range(2000):
        fate = fates[turn] if turn < len(fates) else "well"
        if turn == cancel_at:
            process.life.cancel()
            process.save()
        if give_up_at is not None and turn >= give_up_at:
            process.life.give_up()
            process.save()
        if strangers.get(turn) == "creates" and google.node is None:
            google.create("")
        elif strangers.get(turn) == "deletes" and google.node is not None:
            google.delete()
        end = process.step(fate)
        if fate == "killed":
            process.begin()
        if end is not None:
            return end
    pytest.fail("it never ends")


ours = "op-1"
turns = st.integers(0, 30)
fates = st.lists(st.sampled_from([*FATES, "killed"]), max_size=30)
strangers = st.dictionaries(turns, st.sampled_from(["creates", "deletes"]), max_size=3)


@settings(max_examples=750)
@given(
    data=st.data(),
    cancel_at=st.none() | turns,
    fates=fates,
    strangers=strangers,
    give_up_at=st.none() | turns,
)
@pytest.mark.parametrize("kind", [Google, SlicesOfGoogle])
def test_a_creation_ends_with_what_is_true_at_google(
    kind, data, cancel_at, fates, strangers, give_up_at
):
    google = kind()
    claim = NodeClaim(want="present", since=google.now, label=ours)
    process = Process(google, claim, data.draw)
    end = run(process, cancel_at, fates, strangers, give_up_at)
    google.settle()
    node = google.node
    is_ours = node is not None and node.label == ours and node.state != "DELETING"
    if is_ours and node.unfinished:  # parts of which nothing is billed
        by_others = end.how == "failed" and "deletes" in strangers.values()
        assert by_others or end.how == "kept", "they are left, and nobody did that"
        return
    coming = [about for _, verb, about in google.late if verb == "create" and google.heeds(about)]
    if end.how == "ready":
        ready = is_ours and node.state == "READY"
        assert ready or "deletes" in strangers.values(), "it was deleted in that moment"
        assert process.life.claim.want != "absent"
    elif end.how == "gone":
        assert cancel_at is not None, "only a cancel makes a creation end without a node"
        assert not is_ours, "it was cancelled, and bills"
    else:
        if end.how == "kept":
            assert_kept(google, node, strangers)
        # What is there although it "failed" must be said to be there; it may be READY since.
        said = end.error.message.replace("is CREATING", "is CREATING or READY")
        assert not is_ours or node.state in said
    assert not coming, "it may still appear, and nobody watches it"
    assert all(gone.label == ours or strangers for gone in google.deleted)


def assert_kept(google: Google, node: ObservedNode | None, strangers: dict[int, str]) -> None:
    """It is there, and goes on being there, unless it never came into being."""
    failed = any(error is not None for _, _, _, error in google.operations.values())
    assert node is not None or failed or "deletes" in strangers.values()
    going = [id for _, verb, id in google.late if verb == "delete"]
    assert node is None or node.id not in going, "said to be kept, and deleted later"


@settings(max_examples=400)
@given(data=st.data(), fates=fates, strangers=strangers, give_up_at=st.none() | turns)
def test_a_deletion_is_of_the_node_that_was_meant(data, fates, strangers, give_up_at):
    google = Google()
    google.create("")
    google.wait(60)
    google.settle()
    meant = google.node
    process = Process(
        google, NodeClaim(want="absent", since=google.now, node_id=meant.id), data.draw
    )
    end = run(process, None, fates, strangers, give_up_at)
    google.settle()
    there = google.node is not None and google.node.id == meant.id
    if end.how == "gone":
        assert not there
    else:
        if end.how == "kept":
            assert give_up_at is not None
            assert_kept(google, google.node if there else None, strangers)
        unchanged = there and google.node.state != "DELETING"
        assert unchanged or "deletes" in strangers.values(), "it said that nothing changed"
    by_us = [gone for gone in google.deleted if gone.id != meant.id]
    assert not by_us or "deletes" in strangers.values()


def test_another_ones_node_of_the_name_is_neither_taken_over_nor_deleted():
    google = Google()
    google.create("")  # a colleague's
    process = Process(google, NodeClaim(want="present", since=google.now, label=ours), None)
    end = run(process, None, [], {})
    assert end.how == "failed"
    assert end.error.reason is Reason.EXISTS
    process = Process(google, NodeClaim(want="present", since=google.now, label=ours), None)
    assert run(process, 1, ["lost before"], {}).how == "gone"
    assert google.node is not None
    assert not google.deleted


@pytest.mark.parametrize("part", [2, 3])
@pytest.mark.parametrize("renewed", [True, False])
def test_a_login_that_expires_between_two_parts_is_waited_for_but_not_for_ever(part, renewed):
    google = SlicesOfGoogle()
    process = Process(google, NodeClaim(want="present", since=google.now, label=ours), None)
    while google.parts < part - 1:
        process.step("well")
    for _ in range(20 if renewed else 400):
        if process.step(Reason.NO_CREDENTIALS) is not None:
            pytest.fail("nobody knows what is there")
        if renewed:
            assert google.parts == part - 1
    end = run(process, None, [], {})
    assert (end.how, google.parts) == (("ready", PARTS) if renewed else ("failed", 0))


def test_a_part_that_is_refused_takes_back_the_others_and_says_why():
    google = SlicesOfGoogle()
    process = Process(google, NodeClaim(want="present", since=google.now, label=ours), None)
    while google.parts < 1:
        process.step("well")
    while process.life.next(google.now) is not NextCall.CREATE:
        process.step("well")
    process.step(Reason.QUOTA)
    end = run(process, None, ["lost before", "lost after", "killed"], {})
    assert (end.how, end.error.reason, google.parts) == ("failed", Reason.QUOTA, 0)


def test_a_name_that_became_another_ones_while_a_part_was_refused_is_looked_at_again():
    google = SlicesOfGoogle()
    process = Process(google, NodeClaim(want="present", since=google.now, label=ours), None)
    while not (google.parts == 1 and process.life.next(google.now) is NextCall.CREATE):
        process.step("well")
    google.node, google.parts = None, 0
    google.create("")
    process.step(Reason.PERMISSION)
    assert process.life.next(google.now) is NextCall.NODE
    end = run(process, None, [], {})
    assert (end.how, google.deleted, google.node.label) == ("failed", [], "")


def test_what_nobody_expects_any_more_is_not_created():
    google = Google()
    process = Process(google, NodeClaim(want="present", since=google.now, label=ours), None)
    process.step("lost before")
    google.wait(3 * 24 * 3600.0)  # the laptop was closed
    process.begin()
    end = run(process, None, [], {})
    assert end.error.reason is Reason.INTERRUPTED
    assert google.node is None


def test_a_refused_undo_goes_on_and_says_why():
    google = Google()
    process = Process(google, NodeClaim(want="present", since=google.now, label=ours), None)
    process.step("well")
    process.life.cancel()
    for _ in range(50):
        ask = process.life.next(google.now)
        assert process.step(Reason.PERMISSION if ask is NextCall.DELETE else "well") is None
    assert run(process, None, [Reason.PERMISSION], {}).how == "gone"
    assert google.node is None


@pytest.mark.parametrize("tidy", [False, True])
def test_a_node_that_was_taken_away_at_once_is_deleted_only_for_a_hunt(tidy):
    google = Google()
    claim = NodeClaim(want="present", since=google.now, label=ours, tidy=tidy)
    process = Process(google, claim, None)
    while google.node is None or google.node.state != "READY":
        process.step("well")
    google.node = google._now(google.node, "PREEMPTED")
    process.begin()
    end = run(process, None, [], {})
    assert end.how == "failed"
    assert end.error.message == "my-tpu was created and is now PREEMPTED."
    assert (google.node is None) == tidy


@pytest.mark.parametrize("way", ["refused", "lost", "late"])
def test_a_deletion_that_is_given_up_ends_when_nothing_can_delete_the_node_any_more(way):
    google = Google()
    google.create("")
    google.wait(60)
    google.settle()
    claim = NodeClaim(want="absent", since=google.now, node_id=google.node.id)
    process = Process(google, claim, None)
    fate = {"refused": Reason.CONFLICT, "lost": "lost before", "late": "late"}[way]
    while not process.life.refused:
        asked = google.now
        process.step(fate if process.life.next(google.now) is NextCall.DELETE else "well")
    process.life.give_up()
    process.save()
    process.begin()  # the next process knows it, too
    end = run(process, None, [], {})
    if way == "late":
        assert (end.how, google.node) == ("gone", None)
    else:
        assert (end.how, google.node.state) == ("kept", "READY")
        assert (google.now - asked >= SETTLE_SECONDS) == (way == "lost")
        assert "my-tpu is READY. Trying to delete it was stopped." in end.error.message


@pytest.mark.parametrize("meanwhile", ["waits", "has room", "is asked for", "is cancelled"])
def test_what_waits_at_the_end_of_its_turn_is_taken_back_and_what_has_got_room_stays(meanwhile):
    claim = NodeClaim(want="present", since=1.0, label=ours, tidy=True, withdraw_at=100.0)
    waits = ObservedNode(id="1", state=NodeState.CREATING, label=ours, waiting=True)
    life = Provisioning(claim, "my-tpu", "queued resource")
    life.sending(1.0)
    life.create_accepted("")
    life.node_seen(waits)
    assert life.next(99.0) is NextCall.NODE
    life.node_seen(waits)
    assert life.next(100.0) is NextCall.DELETE
    assert life.claim.withdrawing, "it must not be forced"
    life.sending_delete(100.0)
    if meanwhile == "is cancelled":
        life.cancel()
        assert not life.claim.withdrawing
        life.delete_failed(TPUError("It has TPUs.", Reason.CONFLICT), 100.0)
        life.node_seen(ObservedNode(id="1", state=NodeState.READY, label=ours))
        assert life.next(101.0) is NextCall.DELETE, "with its TPUs, now"
        return
    if meanwhile == "waits":
        life.delete_accepted("operation")
        life.node_seen(waits)
        assert life.next(101.0) is NextCall.DELETING
        life.delete_ended(None)
        life.node_missing()
        end = life.next(102.0)
        assert (end.how, end.error.reason) == ("failed", Reason.NO_CAPACITY)
        return
    error = TPUError("It has TPUs.", Reason.CONFLICT)
    if meanwhile == "has room":
        life.delete_failed(error, 100.0)
    else:
        life.delete_accepted("operation")
        life.node_seen(waits)
        life.next(101.0)
        life.delete_ended(error)
    life = Provisioning(copy.copy(life.claim), "my-tpu", "queued resource")  # the next process
    assert life.next(102.0) is NextCall.NODE
    life.node_seen(waits)
    assert life.next(103.0) is NextCall.NODE, "it is not asked for again and again"
    life.node_seen(ObservedNode(id="1", state=NodeState.READY, label=ours))
    assert life.next(104.0) == ProvisioningResult("ready")


def test_a_refused_repetition_does_not_settle_what_the_first_request_may_still_do():
    """The parts of a slice are asked for again: the first request may only be late."""
    claim = NodeClaim(want="present", since=0.0, label="ours")
    life = Provisioning(claim, "my-tpu")
    part = ObservedNode(id="ours", state=NodeState.CREATING, label="ours", unfinished=True)
    life.sending(1.0)
    life.create_failed(LOST, 2.0)
    life.node_seen(part)
    life.sending(3.0)
    life.create_failed(TPUError("No.", Reason.PERMISSION), 4.0)
    life.node_missing()
    assert life.next(5.0) is NextCall.NODE, "it may still appear"
    life.node_missing()
    end = life.next(3.0 + SETTLE_SECONDS)
    assert end.how == "failed"
