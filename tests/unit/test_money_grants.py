"""Grants: what is inside one, what is left of it, and that nothing outside is created unasked."""

from types import SimpleNamespace
from typing import Any

import pytest
from core_parts import core_of, nothing
from refusals import raises

from jupyter_tpu.cloud.models import Node, NodeName, NodeState
from jupyter_tpu.commands.grant import grant_table
from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.fleet.core.known_operations import Demand
from jupyter_tpu.fleet.core.observer import ObservedState
from jupyter_tpu.fleet.core.store import Store
from jupyter_tpu.fleet.models import Grant
from jupyter_tpu.fleet.money import pricing
from jupyter_tpu.fleet.money.grants import Grants
from jupyter_tpu.fleet.money.prices import Prices
from jupyter_tpu.fleet.money.pricing import PriceDecision
from jupyter_tpu.terminal.costs import hourly

ZONE = "us-west4-a"
TODAY = "2026-11-22"


def grant(name: str = "trc", **more: Any) -> Grant:
    fields = {"types": ["v5e"], "zones": [ZONE], "tiers": ["spot"], "chips": 16, "project": "p"}
    return Grant(name=name, **{**fields, **more})


def demand(type: str = "v5litepod-8", **more: Any) -> Demand:
    return Demand(**{"project": "p", "type": type, "zone": ZONE, "tier": "spot", **more})


def decide(*grants: Grant, used: list[Demand] | None = None, **more: Any) -> PriceDecision:
    request = demand(**more)
    return pricing.decide(request, grants, [] if used is None else used, today=TODAY)


def test_inside_a_grant_nothing_has_to_be_confirmed():
    decision = decide(grant(until=TODAY))
    assert (decision.cost.grant, decision.cost.usd_per_hour) == ("trc", 0)
    assert decision.question == ""
    decision.require()
    assert hourly(decision.cost, "spot") == (
        "in the grant trc: $0.00 an hour plus network traffic. Otherwise about $4.08 an hour "
        "(us-west4, spot, list price of 2024-12-23)"
    )


@pytest.mark.parametrize(
    ("more", "of_grant", "why"),
    [
        ({"tier": "on-demand"}, {}, "The grant trc is for spot, not for on-demand."),
        ({"zone": "us-central1-a"}, {}, "The grant trc is for us-west4-a."),
        ({"type": "v4-8"}, {}, "The grant trc is for v5e."),
        ({"type": "v5litepod-16"}, {"types": ["v5litepod-8"]}, "The grant trc is for v5litepod-8."),
        ({"project": "q"}, {}, "The grant trc is for the project p."),
        ({}, {"until": "2026-11-21"}, "The grant trc ended on 2026-11-21."),
        ({"type": "v5litepod-32"}, {},
         "The grant trc has 16 of its 16 chips left, and it needs 32."),
        ({"type": "v9-8"}, {}, "The grant trc is for v5e."),
        ({"type": "v4-8", "zone": "us-central2-b"}, {}, "No grant covers it."),
    ],
)  # fmt: skip
def test_outside_a_grant_the_price_has_to_be_confirmed(more, of_grant, why):
    decision = decide(grant(**of_grant), **more)
    assert decision.uncovered == why
    assert decision.cost.grant == ""
    with raises(Reason.PRICE, r"--max-price") as refused:
        decision.require()
    assert why in refused.value.message
    decision.require(confirm_price=True)


def test_a_price_limit_is_kept_also_where_the_price_is_confirmed_or_not_known():
    dear = decide(tier="on-demand")
    assert dear.question == (
        "v5litepod-8 (8 chips · 1 host · 128 GB HBM) costs about $9.60 an hour (us-west4, "
        "on-demand, list price of 2024-12-23)."
    )
    dear.require(max_price=9.6)
    with pytest.raises(TPUError, match=r"at most \$9\.50 an hour"):
        dear.require(confirm_price=True, max_price=9.5)
    unknown = decide(type="v4-8", zone="us-central2-b")
    assert "its price is not known" in unknown.question
    with pytest.raises(TPUError, match=r"at most \$900\.00"):
        unknown.require(max_price=900)
    unknown.require(confirm_price=True)


def test_what_runs_or_is_asked_for_uses_a_grant_up_the_oldest_first():
    big, small = demand("v5litepod-16"), demand("v5litepod-8")
    other = demand(tier="on-demand")
    small_grant, rest = grant("a", chips=8), grant("b", chips=16)
    assert pricing.assign([other, big, small, small], [small_grant, rest], today=TODAY) == [
        "", "b", "a", "",
    ]  # fmt: skip
    assert decide(small_grant, rest, used=[big]).cost.grant == "a"
    assert decide(small_grant, rest, used=[big, small]).uncovered == (
        "The grant a has 0 of its 8 chips left, and it needs 8."
    )


def test_a_grant_covers_nothing_while_it_is_not_known_what_of_it_is_in_use():
    decision = pricing.decide(demand(), [grant()], None, today=TODAY)
    assert "how many of them are in use is not known now" in decision.uncovered
    assert decision.question


def test_an_emulated_tpu_costs_nothing_with_or_without_a_grant():
    for grants in ([], [grant()]):
        decision = pricing.decide(demand(), grants, None, today=TODAY, emulated=True)
        assert (decision.cost.usd_per_hour, decision.cost.grant, decision.question) == (0, "", "")


class World:
    """Grants, and what they know: the list of Google's that the test writes."""

    def __init__(self, store: Store) -> None:
        self.observed = ObservedState()
        self.observed.unreachable = frozenset()
        self.asked: dict[NodeName, Demand] = {}
        self.changed: list[NodeName] = []
        known = SimpleNamespace(demands=lambda: self.asked, starting=set)
        core = core_of(
            cloud=SimpleNamespace(project="p", emulated=False),
            store=store,
            observed=self.observed,
            observer=SimpleNamespace(ensure_recent=nothing),
            runner=SimpleNamespace(known=known),
        )
        self.prices = Prices(core)
        core.changes.mark_tpus_changed = self.changed.extend
        self.grants = Grants(core, self.prices)

    def node(self, name: str, state: str = "READY", type: str = "v5litepod-8") -> Node:
        node = Node(
            name=NodeName("p", ZONE, name), id=name, type=type, state=NodeState(state), tier="spot",
            created=f"2026-11-22T0{len(self.observed.nodes)}:00:00Z",
        )  # fmt: skip
        self.observed.nodes[node.name] = node
        return node


async def test_a_grant_counts_what_has_chips_and_is_shown_for_each_tpu(store):
    world = World(store)
    first = world.node("first")
    stopped = world.node("stopped", "STOPPED")
    assert world.grants.cost(first).usd_per_hour == 4.08
    (use,) = await world.grants.add(grant(types=["v5e-8"], chips=16, project=""))
    assert use.grant.types == ["v5litepod-8"]
    assert (use.grant.project, use.used) == ("p", 8)
    assert world.changed == [first.name, stopped.name]
    assert world.grants.cost(first).grant == world.grants.cost(stopped).grant == "trc"
    assert world.grants.decide("v5litepod-8", ZONE, "spot").question == ""

    world.asked[NodeName("p", ZONE, "soon")] = demand()
    assert (
        "has 0 of its 16 chips left" in world.grants.decide("v5litepod-8", ZONE, "spot").uncovered
    )
    soon = world.node("soon", "CREATING")  # the same one: it is not counted twice
    ((use),) = await world.grants.list()
    assert use.used == 16
    assert world.grants.cost(soon).grant == "trc"
    assert world.grants.cost(stopped).grant == ""  # if it were started, it would cost
    assert "16     16" in grant_table([use])

    world.observed.unreachable = frozenset({ZONE})
    ((use),) = await world.grants.list()
    assert use.used is None
    assert "not known" in grant_table([use])


async def test_grants_are_kept_and_forgotten_on_disk(store, tmp_path):
    grants = World(store).grants
    for name in ("trc", "company"):
        await grants.add(grant(name))
    with raises(Reason.EXISTS, "A grant called trc already exists"):
        await grants.add(grant())
    await grants.remove("company")
    with raises(Reason.NOT_FOUND, "The grant company does not exist"):
        await grants.remove("company")

    other = await Store.open(tmp_path / "fleet.sqlite", "google")
    assert other.snapshot.grants == [grant()]
    emulated = await Store.open(tmp_path / "fleet.sqlite", "emulator:1")
    assert emulated.snapshot.grants == []
    await other.close()
    await emulated.close()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"types": ["v5e-3"]}, "The TPU type v5litepod-3 does not exist"),
        ({"zones": []}, "The grant needs at least one of its zones."),
        ({"zones": ["Mars"]}, "'Mars' is not a zone"),
        ({"tiers": ["free"]}, "The field tiers"),
        ({"chips": 0}, "The field chips is wrong"),
        ({"until": "soon"}, "The until is not allowed: it must be a day"),
        ({"until": "2026-02-30"}, "2026-02-30 is not a day."),
        ({"name": "a b"}, "The name is not allowed"),
    ],
)
async def test_a_grant_that_would_cover_nothing_is_refused(store, more, message):
    with raises(Reason.INVALID, message):
        await World(store).grants.add(grant(**more))
