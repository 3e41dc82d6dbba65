"""A TPU for one script: what counts as a preemption, what another attempt may cost, who uses it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest
from msgspec import structs

from jupyter_tpu.commands import once_tpu as once
from jupyter_tpu.commands.once_tpu import HeldTPU, OnceTPU, Wish
from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.fleet.models import TPU, Guard, Operation
from jupyter_tpu.terminal.session import FleetSession

MADE = TPU(name="once-run", zone="us-west4-a", project="p", id="7", state="READY")
OPERATION = Operation(id="op", kind="create", tpu="once-run", zone="us-west4-a", state="done")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("JUPYTER_TPU_DATA_DIR", str(tmp_path))
    monkeypatch.setattr(once, "QUIET_SECONDS", 0.0)
    return tmp_path


def session(**parts: Any) -> Any:
    """A session whose fleet answers with these *parts*; what is not given answers nothing."""
    fleet = AsyncMock()
    fleet.kernels.list.return_value = fleet.jobs.list.return_value = []
    fleet.runs.list.return_value = []
    fleet.guards.get.return_value = Guard(action="delete", busy=[])
    for name, answer in parts.items():
        part, _, method = name.partition("_")
        call = getattr(getattr(fleet, part), method) if method else getattr(fleet, part)
        if (isinstance(answer, list) and method not in ("list",)) or isinstance(answer, Exception):
            call.side_effect = answer
        else:
            call.return_value = answer
    return FleetSession(fleet, None)


def held(spent: float = 0.0) -> HeldTPU:
    return HeldTPU(MADE, -1, None, spent)


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (structs.replace(MADE), ""),
        (structs.replace(MADE, state="REPAIRING"), ""),
        (structs.replace(MADE, state="PREEMPTED"), "preempted"),
        (structs.replace(MADE, state="TERMINATED"), "ended"),
        (structs.replace(MADE, state="DELETING"), "ended"),  # by a person, or by its guard
        (structs.replace(MADE, state="STOPPED"), "ended"),
        (structs.replace(MADE, id="8"), "gone"),
        (TPUError("The TPU does not exist.", Reason.NOT_FOUND), "gone"),
        (TPUError("Google does not answer.", Reason.UNAVAILABLE), ""),
    ],
)
def test_only_what_google_calls_a_preemption_is_one(seen, why):
    assert once.how_ended(session(tpu=seen), held()) == why


def test_another_attempt_may_cost_what_is_left():
    line = SimpleNamespace(tpu="once-run", zone="us-west4-a", usd=1.5)
    other = SimpleNamespace(tpu="once-run", zone="us-east5-a", usd=9.0)
    spending = session(budgets_show=SimpleNamespace(spending=[line, other]))
    left = once.for_next_attempt(spending, OnceTPU(type="v6e-1", max_cost=2.0), held())
    assert left.max_cost == pytest.approx(0.5)
    # One that was kept has cost something before.
    left = once.for_next_attempt(spending, OnceTPU(type="v6e-1", max_cost=2.0), held(1.0))
    assert left.max_cost == pytest.approx(1.5)
    with pytest.raises(TPUError, match=r"Nothing is left of \$1.50"):
        once.for_next_attempt(spending, OnceTPU(type="v6e-1", max_cost=1.5), held())
    assert once.for_next_attempt(spending, OnceTPU(type="v6e-1"), held()).max_cost is None


@pytest.mark.parametrize(
    ("parts", "free"),
    [
        ({}, True),
        ({"kernels_list": [SimpleNamespace(state="idle")]}, False),
        ({"kernels_list": [SimpleNamespace(state="dead")]}, True),
        ({"jobs_list": [SimpleNamespace(state="running")]}, False),
        ({"jobs_list": [SimpleNamespace(state="waiting")]}, False),
        ({"jobs_list": [SimpleNamespace(state="ended")]}, True),
        ({"runs_list": [SimpleNamespace(state="running")]}, False),
        ({"guards_get": Guard(action="delete", busy=["a terminal of ana"])}, False),
        ({"guards_get": Guard(action="delete", busy=None)}, False),
    ],
)
def test_a_tpu_that_somebody_uses_is_not_taken(parts, free):
    assert once.is_free(session(**parts), "us-west4-a~once-run") == free


def test_what_is_left_of_the_last_command_has_ended_when_its_guard_says_so(monkeypatch):
    monkeypatch.setattr(once, "QUIET_SECONDS", 30.0)
    monkeypatch.setattr(once, "ASK_SECONDS", 0.0)
    looks = [Guard(action="delete", busy=busy) for busy in (None, ["its processors"], [])]
    assert once.is_free(session(guards_get=looks), "us-west4-a~once-run")


# ---- what a command leaves -----------------------------------------------------------------------


def settled(fleet_parts: dict[str, Any]) -> tuple[Any, list[str]]:
    """The fleet that was asked by the next command, and what that said."""
    said: list[str] = []
    finished = session(**fleet_parts)
    once.settle_left(finished, lambda _, __: None, said.append)
    return finished.fleet, said


def test_the_next_command_deletes_what_one_has_left_that_was_killed(folder):
    wish = Wish("1a2b")
    begun = {
        "plans_get": SimpleNamespace(operation="op", state="done"),
        "plans_answer": TPUError("It is done already.", Reason.CONFLICT),
        "operations_get": OPERATION,
        "delete": OPERATION,
    }
    fleet, said = settled(begun)
    assert said == [], "its command still runs"
    wish.close()  # as at the end of its process
    in_use = {**begun, "jobs_list": [SimpleNamespace(state="running")]}
    fleet, said = settled(in_use)
    assert said == ["once-run is in use. Its guard deletes it later."]
    fleet.delete.assert_not_awaited()
    Wish("1a2b").close()
    fleet, said = settled(begun)
    assert said == ["Deleting once-run, which an earlier command has left."]
    fleet.delete.assert_awaited_once()
    assert list((folder / "once").glob("*.plan")) == []


def test_a_plan_whose_request_was_lost_is_refused_and_begins_nothing_later(folder):
    Wish("1a2b").close()
    answers = [SimpleNamespace(operation="", state=state) for state in ("done", "refused")]
    fleet, said = settled({"plans_get": answers})
    assert fleet.plans.answer.await_args.args[0] == "1a2b"
    assert fleet.plans.answer.await_args.args[1].approve is False
    assert (said, list((folder / "once").glob("*.plan"))) == ([], [])


def test_what_can_not_be_deleted_now_is_tried_by_the_command_after(folder):
    Wish("1a2b").close()
    _, said = settled({"plans_get": TPUError("Google does not answer.", Reason.UNAVAILABLE)})
    assert "not deleted yet: Google does not answer." in said[0]
    assert [path.name for path in (folder / "once").glob("*.plan")] == ["1a2b.plan"]
