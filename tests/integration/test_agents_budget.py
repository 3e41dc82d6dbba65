"""Budgets in a real server: what agents may spend, and what is spent by them."""

import asyncio
import time
from typing import Any

import pytest
from agent_client import ZONE, tpu_request
from waiting import eventually

from jupyter_tpu.fleet.agents import budgets
from jupyter_tpu.fleet.models.core import timestamp
from jupyter_tpu.fleet.money import ledger

pytest_plugins = ["pytest_jupyter.jupyter_server"]


@pytest.fixture
def jp_server_config(budgets_server: dict[str, Any]) -> dict[str, Any]:
    return budgets_server


async def test_an_agent_creates_inside_its_budget_and_deletes_only_its_own(
    person, agent, new_name, emulator
):
    await person("POST", "budgets", {"who": "agent", "day": 2})
    own, others = new_name(), new_name()
    _, operation = await person("POST", "tpus", tpu_request(others))
    assert (await person.done(operation["id"]))["state"] == "done"

    status, plan = await agent.plan(own, max_cost=1.0)
    assert (status, plan["usd_per_hour"], plan["most"]) == (201, 1.2, 1.0)
    assert plan["outside"] == ""
    status, done = await agent("POST", f"plans/{plan['id']}/create")
    assert (status, done["state"]) == (202, "done"), done
    assert (await agent.done(done["operation"]))["state"] == "done"
    status, again = await agent("POST", f"plans/{plan['id']}/create")
    assert (status, again["reason"]) == (409, "CONFLICT")

    async def guard() -> Any:
        status, reported = await agent("GET", f"tpus/{own}/guard")
        return reported if status == 200 else None

    rule = await eventually(guard, 60)
    assert rule["action"] == "delete"
    assert rule["until"]
    _, overview = await person("GET", "budgets")
    use, line = overview["budgets"][0], overview["spending"][0]
    assert (line["tpu"], line["who"], line["state"]) == (own, "agent", "ready")
    assert line["most"] == pytest.approx(1.0, abs=0.01)
    assert use["spent_today"] + use["committed"] == pytest.approx(1.0, abs=0.01)
    assert use["text"] == "spent $0.00 of $2.00 today" or use["spent_today"] > 0

    for method, path in (
        ("DELETE", f"tpus/{others}"),
        ("POST", f"tpus/{others}/stop"),
        ("POST", f"tpus/{own}/guard/keep"),
        ("DELETE", f"tpus/{own}/guard"),
    ):
        status, answer = await agent(method, path)
        assert (status, answer["reason"]) == (403, "PERMISSION"), path
    assert (
        "was not created by a coding agent"
        in (await agent("DELETE", f"tpus/{others}"))[1]["message"]
    )
    status, operation = await agent("DELETE", f"tpus/{own}")
    assert status == 202, operation
    assert (await agent.done(operation["id"]))["state"] == "done"

    async def closed() -> Any:
        _, overview = await person("GET", "budgets")
        line = next(entry for entry in overview["spending"] if entry["tpu"] == own)
        return (line, overview["budgets"][0]) if line["state"] == "ended" else None

    line, use = await eventually(closed, 60)
    bill = emulator.request("GET", "/emulator/v1/bill")["lines"]
    billed = next(charge for charge in bill if charge["node"].endswith(f"/{own}"))
    assert billed["usdPerHour"] == line["usd_per_hour"]
    assert line["usd"] == pytest.approx(billed["usd"], abs=0.005)
    assert billed["usd"] > 0
    assert use["committed"] == 0


async def test_a_person_who_keeps_a_tpu_moves_its_end_in_the_ledger_which_is_the_bill_to_a_cent(
    person, agent, new_name, emulator
):
    await person("POST", "budgets", {"who": "agent", "total": 1})
    own = new_name()
    _, plan = await agent.plan(own, time=300)
    _, begun = await agent("POST", f"plans/{plan['id']}/create")
    assert (await agent.done(begun["operation"]))["state"] == "done"

    async def line() -> Any:
        _, overview = await person("GET", "budgets")
        return next(line for line in overview["spending"] if line["tpu"] == own)

    async def kept() -> Any:
        status, guard = await person("POST", f"tpus/{own}/guard/keep", {"seconds": 1800})
        return guard if status == 200 else None

    planned = await line()
    guard = await eventually(kept, 60)
    now = await line()
    assert guard["ends"] > planned["ends"]
    assert now["ends"] >= guard["ends"]
    assert now["most"] == pytest.approx(1.2 * (1800 + 120) / 3600, abs=0.1)
    for method, path, body in (
        ("POST", "guard/keep", {"seconds": 5 * 3600}),
        ("POST", "guard", {"idle": 3600}),
        ("DELETE", "guard", None),
    ):
        status, answer = await person(method, f"tpus/{own}/{path}", body)
        assert (status, answer["reason"]) == (409, "BUDGET"), answer
        assert (await line())["ends"] == now["ends"]
    sooner = {"action": "delete", "until": timestamp("seconds", at=time.time() + 600)}
    status, guard = await person("POST", f"tpus/{own}/guard", sooner)
    assert status == 200, guard
    assert (await line())["ends"] == guard["ends"]
    assert (await line())["most"] < now["most"]
    _, deleting = await person("DELETE", f"tpus/{own}")
    assert (await person.done(deleting["id"]))["state"] == "done"

    async def ended() -> Any:
        now = await line()
        return now if now["state"] == "ended" else None

    spent = await eventually(ended, 60)
    bill = emulator.request("GET", "/emulator/v1/bill")["lines"]
    billed = next(one for one in bill if one["node"].endswith(f"/{own}"))
    assert round(spent["usd"], 2) == pytest.approx(round(billed["usd"], 2), abs=0.01)


async def test_a_budget_that_is_lowered_ends_a_running_tpu_by_its_guard_which_tells_before(
    person, agent, new_name, emulator, monkeypatch, caplog
):
    monkeypatch.setattr(budgets, "LOOK_SECONDS", 0.5)
    monkeypatch.setattr(ledger, "NOTICE_SECONDS", 20.0)
    monkeypatch.setattr(budgets, "NOTICE_SECONDS", 20.0)
    await person("POST", "budgets", {"who": "agent", "day": 5})
    own = new_name()
    _, plan = await agent.plan(own, max_cost=1.0)
    _, begun = await agent("POST", f"plans/{plan['id']}/create")
    assert (await agent.done(begun["operation"]))["state"] == "done"

    async def guard() -> Any:
        status, guard = await agent("GET", f"tpus/{own}/guard")
        return guard if status == 200 else None

    planned = await eventually(guard, 60)
    _, overview = await person("POST", "budgets", {"who": "agent", "total": 0.001})
    line = overview["spending"][0]
    assert line["shortened"]
    assert line["ends"] < planned["until"]
    assert f"does not cover {own} any more" in caplog.text

    async def announced() -> Any:
        now = await guard()
        return now if now is not None and now["until"] == line["ends"] else None

    assert (await eventually(announced, 60))["action"] == "delete"

    async def gone() -> bool:
        nodes = f"/v2/projects/emulated/locations/{ZONE}/nodes"
        listed = emulator.request("GET", nodes).get("nodes", [])
        return not any(node["name"].endswith(f"/{own}") for node in listed)

    await eventually(gone, 120)


async def test_two_agents_at_once_can_not_overspend(person, agent, new_name):
    await person("POST", "budgets", {"who": "agent", "total": 1.5})
    plans = [(await agent.plan(new_name(), max_cost=1.0))[1] for _ in range(3)]
    answers = await asyncio.gather(*(agent("POST", f"plans/{plan['id']}/create") for plan in plans))
    assert sorted(status for status, _ in answers) == [202, 409, 409]
    refused = [answer for status, answer in answers if status == 409]
    assert {answer["reason"] for answer in refused} == {"BUDGET"}
    _, overview = await person("GET", "budgets")
    assert overview["budgets"][0]["committed"] <= 1.0
    # One plan is carried out once, however many ask at once.
    begun = next(answer for status, answer in answers if status == 202)
    assert (await agent.done(begun["operation"]))["state"] == "done"
    _, answer = await agent("DELETE", f"tpus/{begun['name']}")
    await agent.done(answer["id"])
    _, plan = await agent.plan(new_name(), max_cost=0.5)
    answers = await asyncio.gather(*(agent("POST", f"plans/{plan['id']}/create") for _ in range(4)))
    assert sorted(status for status, _ in answers) == [202, 409, 409, 409]


async def test_outside_of_its_budget_a_person_is_asked_and_decides(person, agent, new_name, caplog):
    first, second = new_name(), new_name()
    plans = [(await agent.plan(tpu))[1] for tpu in (first, second)]
    assert plans[0]["outside"] == "There is no budget for coding agents."
    for plan in plans:
        status, answer = await agent("POST", f"plans/{plan['id']}/create")
        assert (status, answer["reason"]) == (409, "BUDGET")
        assert "A person was asked" in answer["message"]
        assert f"jupyter tpu budget approve {plan['id']}" in caplog.text
    _, overview = await person("GET", "budgets")
    assert [question["id"] for question in overview["questions"]] == [plan["id"] for plan in plans]

    await person("POST", f"plans/{plans[0]['id']}/answer", {"approve": True})
    await person("POST", f"plans/{plans[1]['id']}/answer", {"approve": False})
    assert (await person("GET", "budgets"))[1]["questions"] == []
    status, answer = await agent("POST", f"plans/{plans[1]['id']}/create", {"approve": True})
    assert (status, answer["reason"]) == (409, "BUDGET")
    assert "refused" in answer["message"]
    status, done = await agent("POST", f"plans/{plans[0]['id']}/create")
    assert status == 202, done
    assert (await agent.done(done["operation"]))["state"] == "done"
    status, answer = await agent("DELETE", f"tpus/{first}")
    assert status == 202


async def test_a_price_that_is_not_known_needs_the_most_that_an_hour_may_cost(
    agent, person, new_name
):
    reserved = {"tier": "reserved"}
    status, answer = await agent.plan(new_name(), tpu=reserved)
    assert (status, answer["reason"]) == (409, "PRICE")
    assert "is not known" in answer["message"]
    assert "--max-price" in answer["hint"]
    status, plan = await agent.plan(new_name(), tpu={**reserved, "max_price": 3})
    assert (status, plan["usd_per_hour"]) == (201, 3)
    # An agent does not say what something costs: a person is asked, whatever the budget is.
    await person("POST", "budgets", {"who": "agent", "day": 100})
    status, answer = await agent("POST", f"plans/{plan['id']}/create")
    assert (status, answer["reason"]) == (409, "BUDGET"), answer
    assert "is not known" in answer["message"]
    status, answer = await agent.plan(new_name(), tpu={"max_price": 1})
    assert (status, answer["reason"]) == (409, "PRICE")
    assert "$1.20 an hour. You allowed at most $1.00" in answer["message"]
    status, answer = await agent.plan(new_name(), max_cost=0.01)
    assert (status, answer["reason"]) == (400, "INVALID")


async def test_a_hunt_of_an_agent_is_inside_its_budget_too(person, agent, new_name, faults):
    await person("POST", "budgets", {"who": "agent", "day": 1, "zones": [ZONE]})
    faults(kind="no-capacity", zone=ZONE, count=1)
    tpu = new_name()
    _, plan = await agent.plan(tpu, zones=[ZONE, "us-central1-a"], max_cost=0.8)
    assert plan["hunt"]
    status, done = await agent("POST", f"plans/{plan['id']}/create")
    assert status == 202, done
    assert done["operation"]

    async def refused_and_tried() -> Any:
        _, hunt = await person("GET", f"hunts/{done['operation']}")
        reasons = {
            attempt["problem"]["reason"] for attempt in hunt["attempts"] if attempt["problem"]
        }
        return reasons >= {"BUDGET", "NO_CAPACITY"}

    await eventually(refused_and_tried, 60)
    _, overview = await person("GET", "budgets")
    assert overview["budgets"][0]["committed"] <= 0.8
    status, _ = await agent("DELETE", f"hunts/{done['operation']}")
    assert status == 200
