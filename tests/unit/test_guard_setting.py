"""What a guard may be, and when a TPU will have cost its limit."""

import asyncio
import pickle
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, MagicMock

import pytest
from core_parts import core_of
from refusals import raises

from jupyter_tpu.cloud import Node, NodeName, NodeState, attached_name
from jupyter_tpu.cloud.models import Endpoint
from jupyter_tpu.errors import InvalidInput, Reason, TPUError
from jupyter_tpu.fleet.core.observer import ObservedState
from jupyter_tpu.fleet.jobs.guard import Guards, limit_passed
from jupyter_tpu.fleet.jobs.guard_stops import GoogleEnds
from jupyter_tpu.fleet.models import Cost, Guard, KeepTPU, Problem, RemoveGuard, SetGuard
from jupyter_tpu.fleet.money.owners import TPUOwners
from jupyter_tpu.links import HostName
from jupyter_tpu.on_host.agent.protocol import requests
from jupyter_tpu.on_host.agent.protocol.declarations import ProtocolRequest

NAME = NodeName("p", "us-west4-a", "my-tpu")
DAY = "2099-01-01T00:00:00Z"


class Host:
    """Answers as host 0's agent does that has not looked yet."""

    def __init__(self, unreachable: int = -1) -> None:
        self.rule: dict[str, Any] = {}
        self.asked: list[str] = []
        self.others: dict[int, Any] = {}  # what the other hosts were asked last
        self.unreachable = unreachable
        self.refused_op = ""

    async def request(
        self, name: NodeName, request: ProtocolRequest[Any], timeout: float
    ) -> dict[str, Any]:
        self.asked.append(request.op)
        if self.unreachable == 0 or request.op == self.refused_op:
            raise TPUError("The link is down.", Reason.UNREACHABLE)
        if isinstance(request, requests.SetGuardRequest):
            self.rule = request.params
        fields = {"phase": "watching", "reason": "", "ends": None, "busy": None, "problem": None}
        return {"guard": {"rule": self.rule, "host": True, "refused": None, **fields}}

    async def request_host(self, host: HostName, request: ProtocolRequest[Any]) -> dict[str, Any]:
        if host.number == self.unreachable:
            raise TPUError("The link is down.", Reason.UNREACHABLE)
        self.others[host.number] = request.op, request.params
        return {"guard": None}


class Finder:
    def __init__(self, name: NodeName, hosts: int, owner: str, node: Node | None) -> None:
        endpoints = tuple(Endpoint(internal=f"10.0.0.{n}") for n in range(hosts))
        self.node = node or Node(
            name=name,
            id="7",
            type="v4-16",
            state=NodeState.READY,
            endpoints=endpoints,
            labels={"owner": owner} if owner else {},
        )

    async def find_ready(self, ref: str) -> Node:
        return self.node


def guards(
    host: Host,
    *,
    name: NodeName = NAME,
    hosts: int = 1,
    cost: Cost | None = None,
    owner: str = "",
    node: Node | None = None,
    ledger: Any = None,
    act: Callable[[NodeName, str, str], Awaitable[None]] | None = None,
) -> Guards:
    finder, observed = Finder(name, hosts, owner, node), ObservedState()
    observed.nodes[name] = finder.node
    tpus = SimpleNamespace(tpu=lambda _: SimpleNamespace(cost=cost or Cost()))
    core = core_of(finder=finder, connections=host, observed=observed, tpus=tpus)
    stops: Any = SimpleNamespace(heard=lambda *_: None)
    ends = GoogleEnds(AsyncMock(), MagicMock())  # asked of Compute Engine's only
    part = Guards(core, TPUOwners(), stops, ends, ledger or MagicMock())
    part.act = act or AsyncMock()
    return part


async def test_a_cost_is_a_time_by_the_price_and_what_it_has_cost(monkeypatch):
    monkeypatch.setattr("jupyter_tpu.fleet.jobs.guard.time.time", lambda: 1000.0)
    host = Host()
    part = guards(host, cost=Cost(usd_per_hour=10.0, usd=5.0))
    guard = await part.set("my-tpu", SetGuard(max_cost=20.0, idle=120.0))
    assert host.rule["cost_until"] == 1000.0 + 1.5 * 3600
    assert host.rule["notice"] == 120.0, "not longer than the idle limit"
    assert host.rule["node"] == "projects/p/locations/us-west4-a/nodes/my-tpu"
    assert guard == Guard(action="stop", idle=120.0, max_cost=20.0, notice=120.0)


async def test_an_emulated_tpu_reaches_its_cost_limit_at_the_price_of_a_real_one(monkeypatch):
    monkeypatch.setattr("jupyter_tpu.fleet.jobs.guard.time.time", lambda: 7200.0)
    host = Host()
    cost = Cost(usd_per_hour=0.0, usd=0.0, list_usd_per_hour=10.0, since="1970-01-01T01:00:00Z")
    await guards(host, cost=cost).set("my-tpu", SetGuard(max_cost=20.0))
    assert host.rule["cost_until"] == 7200.0 + 3600, "$10 of it are spent"
    assert limit_passed(SetGuard(max_cost=9.0), cost, 7200.0) == "cost"
    assert limit_passed(SetGuard(max_cost=11.0), cost, 7200.0) == ""


@pytest.mark.parametrize(
    ("rule", "hosts", "cost", "message", "field"),
    [
        (SetGuard(), 1, Cost(), "needs a limit", ""),
        (SetGuard(until=DAY), 2, Cost(), "several hosts can't be stopped", "action"),
        (
            SetGuard(max_cost=1.0),
            1,
            Cost(usd_per_hour=0.0, usd=0.0, list_usd_per_hour=9.0, grant="trc"),
            "costs nothing",
            "max_cost",
        ),
        (SetGuard(max_cost=1.0), 1, Cost(), "not known", "max_cost"),
        (
            SetGuard(max_cost=1.0),
            1,
            Cost(usd_per_hour=9.0, usd=2.0),
            r"cost \$2.00 already",
            "max_cost",
        ),
        (SetGuard(until="2020-01-01T00:00:00Z"), 1, Cost(), "has passed", "until"),
        (SetGuard(until="2099-01-01T00:00:00"), 1, Cost(), "no time zone", "until"),
        (SetGuard(until="soon"), 1, Cost(), "not a time", "until"),
        (SetGuard(idle=5.0), 1, Cost(), "idle", "idle"),
    ],
)
async def test_what_can_not_be_done_is_refused_before_a_host_is_asked(
    rule, hosts, cost, message, field
):
    host = Host()
    with pytest.raises(InvalidInput, match=message) as refused:
        await guards(host, hosts=hosts, cost=cost).set("my-tpu", rule)
    assert refused.value.field == field
    assert Problem.of(pickle.loads(pickle.dumps(refused.value))).to_error().field == field
    assert host.rule == {}


async def test_a_pod_can_be_deleted_at_a_time():
    host = Host()
    await guards(host, hosts=2).set("my-tpu", SetGuard(action="delete", until=DAY))
    assert host.rule["action"] == "delete"


async def test_the_other_hosts_of_a_pod_say_whether_they_are_idle_and_never_act():
    host = Host()
    part = guards(host, hosts=3)
    await part.set("my-tpu", SetGuard(action="delete", idle=600.0, until=DAY))
    assert (host.rule["idle"], host.rule["hosts"], host.rule.get("worker")) == (600.0, 3, None)
    assert sorted(host.others) == [1, 2]
    for number, (op, rule) in host.others.items():
        assert (op, rule["worker"], rule["hosts"], rule["node_id"]) == ("set_guard", number, 3, "7")
        assert rule["idle"] is rule["until"] is rule["cost_until"] is None
    # Without an idle limit nobody has to say anything.
    await part.set("my-tpu", SetGuard(action="delete", until=DAY))
    assert {op for op, _ in host.others.values()} == {"remove_guard"}
    assert "hosts" not in host.rule


async def test_a_host_that_can_not_say_whether_it_is_idle_is_named_and_nothing_is_set():
    host = Host(unreachable=2)
    with raises(Reason.UNREACHABLE, "because of host 2: The link is down"):
        await guards(host, hosts=3).set("my-tpu", SetGuard(action="delete", idle=600.0))
    assert host.rule == {}


async def test_a_keep_is_at_least_a_minute():
    with pytest.raises(InvalidInput):
        await guards(Host()).keep("my-tpu", KeepTPU(seconds=1.0))


async def test_why_a_tpu_that_is_due_is_not_stopped_is_logged_once_while_that_is_so(caplog):
    tried: asyncio.Queue[None] = asyncio.Queue()
    refusals = ["A connect runs.", "A connect runs.", "It is reset.", "It is reset.", ""]

    async def act(name: NodeName, action: str, reason: str) -> None:
        assert reason == "time"
        tried.put_nowait(None)
        if why := refusals.pop(0):
            raise TPUError(why, Reason.CONFLICT)

    part = guards(Host(), act=act)
    rule = {"action": "stop", "idle": None, "notice": 0.0, "limits": {}, "node_id": "7"}
    due = {
        **{"rule": rule, "host": False, "refused": None, "phase": "due", "reason": "time"},
        **{"ends": None, "busy": [], "problem": None},
    }
    acting = asyncio.create_task(part.run())
    for report in (due, due, due, {**due, "phase": "watching"}, due, due):
        part.update(NAME, report)
        if report is due:
            await tried.get()
    acting.cancel()
    assert [record.getMessage() for record in caplog.records] == [
        "The guard can't stop my-tpu: A connect runs.",
        "The guard can't stop my-tpu: It is reset.",
        "The guard can't stop my-tpu: It is reset.",
    ]


async def test_the_guard_of_another_persons_tpu_is_changed_only_by_the_tpus_name():
    host = Host()
    part = guards(host, owner="bob")
    changes = [
        lambda name: part.set("my-tpu", SetGuard(until=DAY, confirm_name=name)),
        lambda name: part.keep("my-tpu", KeepTPU(confirm_name=name)),
        lambda name: part.remove("my-tpu", RemoveGuard(confirm_name=name)),
    ]
    for change in changes:
        for name in ("", "other-tpu"):
            with raises(Reason.NOT_YOURS, "my-tpu belongs to bob") as refused:
                await change(name)
            assert "To continue, confirm its name" in refused.value.hint
        assert host.asked == [], "no host is asked"
        await change("my-tpu")
        assert host.asked
        host.asked.clear()
    assert await part.get("my-tpu"), "everybody may look"


async def test_an_attached_machine_has_no_guard():
    with pytest.raises(InvalidInput, match="attached machine"):
        await guards(Host(), name=attached_name("box")).set("box", SetGuard(until=DAY))
