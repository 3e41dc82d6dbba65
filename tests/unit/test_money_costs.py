"""What TPUs cost: how long they ran, the price of that, and how both are said."""

import pytest

from jupyter_tpu.cloud.models import Node, NodeName, NodeState
from jupyter_tpu.commands.approval import approve_start
from jupyter_tpu.fleet.core.store import Store
from jupyter_tpu.fleet.models import TPU, Cost
from jupyter_tpu.fleet.models.money import cost_of, running_cost
from jupyter_tpu.fleet.money.owners import ReadyTimes
from jupyter_tpu.terminal.costs import hourly, so_far

NAME = NodeName("p", "us-west4-a", "my-tpu")
CREATED = 1_800_000_000.0  # 2027-01-15T08:00:00Z
HOUR = 3600.0


def node(state: str, id: str = "7") -> Node:
    return Node(
        name=NAME, id=id, type="v4-8", state=NodeState(state), created="2027-01-15T08:00:00Z"
    )


def hours(runs: ReadyTimes, seen: Node, now: float) -> float | None:
    seconds = runs.seconds(seen, now)
    return None if seconds is None else seconds / HOUR


def test_a_ready_tpu_that_is_new_here_has_run_since_its_creation(store):
    runs = ReadyTimes(store)
    runs.observe([node("READY")], CREATED + 3 * HOUR)
    assert runs.since(node("READY")) == CREATED
    assert hours(runs, node("READY"), CREATED + 4 * HOUR) == 4


def test_time_before_it_is_ready_and_while_it_is_stopped_does_not_count(store):
    runs = ReadyTimes(store)
    for state, hour in {"CREATING": 0, "READY": 1, "STOPPING": 3, "STOPPED": 4}.items():
        runs.observe([node(state)], CREATED + hour * HOUR)
    assert runs.since(node("STOPPED")) is None
    assert runs.ended(node("STOPPED")) == CREATED + 3 * HOUR
    assert hours(runs, node("STOPPED"), CREATED + 9 * HOUR) == 2
    runs.observe([node("READY")], CREATED + 10 * HOUR)
    assert runs.since(node("READY")) == CREATED + 10 * HOUR
    assert runs.ended(node("READY")) is None
    assert hours(runs, node("READY"), CREATED + 11 * HOUR) == 3


async def test_the_next_process_goes_on_counting(store, tmp_path):
    first = ReadyTimes(store)
    for state, hour in {"READY": 0, "STOPPED": 2, "STARTING": 5}.items():
        first.observe([node(state)], CREATED + hour * HOUR)
    await store.close()
    next_store = await Store.open(tmp_path / "fleet.sqlite", "google")
    second = ReadyTimes(next_store)
    second.observe([node("READY")], CREATED + 6 * HOUR)
    assert hours(second, node("READY"), CREATED + 7 * HOUR) == 3
    await next_store.close()


def test_how_long_a_tpu_ran_that_is_found_stopped_is_not_known(store):
    runs = ReadyTimes(store)
    runs.observe([node("STOPPED")], CREATED + 9 * HOUR)
    assert hours(runs, node("STOPPED"), CREATED + 9 * HOUR) is None
    runs.observe([node("READY")], CREATED + 10 * HOUR)
    assert hours(runs, node("READY"), CREATED + 11 * HOUR) is None
    assert runs.since(node("READY")) == CREATED + 10 * HOUR


def test_another_tpu_of_the_name_starts_at_nothing(store):
    runs = ReadyTimes(store)
    runs.observe([node("READY")], CREATED + 9 * HOUR)
    assert runs.since(node("READY", id="8")) is None
    runs.observe([node("CREATING", id="8")], CREATED + 9 * HOUR)
    assert hours(runs, node("CREATING", id="8"), CREATED + 9 * HOUR) == 0
    runs.forget([(NAME, "7")])  # the one before
    assert runs.tpus() == [(NAME, "8")]
    runs.forget([(NAME, "8")])
    assert runs.tpus() == []


def test_what_it_has_cost_is_its_hours_by_their_price():
    price = cost_of("v4-8", "us-central2-b", "on-demand", emulated=False)
    cost = running_cost(price, since=CREATED, seconds=2.55 * HOUR)
    assert (cost.usd_per_hour, cost.since) == (12.88, "2027-01-15T08:00:00Z")
    assert cost.usd == round(2.5 * 12.88, 2)
    # Not another sum, and so another event, at each look.
    assert running_cost(price, since=CREATED, seconds=2.51 * HOUR) == cost
    assert running_cost(price, since=None, seconds=None).usd is None


@pytest.mark.parametrize(
    ("type", "zone", "tier", "emulated", "words"),
    [
        ("v4-8", "us-central2-b", "on-demand", False,
         "about $12.88 an hour (us-central2, on demand, list price of 2024-12-23)"),
        ("v6e-256", "us-east5-b", "spot", False,
         "about $359.24 an hour (us-east5, spot, list price of 2026-08)"),
        ("v5p-12288", "us-east5-a", "on-demand", False,
         "about $25,805 an hour (us-east5, on demand, list price of 2026)"),
        ("v4-8", "us-central2-b", "spot", False,
         "price for spot not known, see https://cloud.google.com/tpu/pricing"),
        ("v4-8", "us-central2-b", "reserved", False,
         "price for reservations not known, see https://cloud.google.com/tpu/pricing"),
        ("v9-8", "mars-north1-a", "on-demand", False,
         "price not known, see https://cloud.google.com/tpu/pricing"),
        ("v4-8", "us-central2-b", "on-demand", True,
         "emulated: costs nothing. A real one: about $12.88 an hour (us-central2, on demand, "
         "list price of 2024-12-23)"),
    ],
)  # fmt: skip
def test_a_price_is_shown_with_its_region_tier_and_date(type, zone, tier, emulated, words):
    assert hourly(cost_of(type, zone, tier, emulated=emulated), tier) == words


def test_tpus_of_one_name_in_two_zones_are_started_each_at_its_own_price(capsys):
    tpus = [
        TPU(name="t", zone=zone, project="p", cost=cost_of(type, zone, "on-demand", emulated=False))
        for type, zone in (("v4-8", "us-central2-b"), ("v5p-12288", "us-east5-a"))
    ]
    approve_start(tpus, yes=True, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(" (")[0] for line in lines] == [
        "t: About $12.88 an hour",
        "t: About $25,805 an hour",
    ]


def test_a_sum_that_is_not_known_is_not_made_up():
    def tpu(**cost: float | None) -> TPU:
        return TPU(name="t", zone="z", project="p", cost=Cost(**cost))

    assert so_far(tpu(usd_per_hour=1.0, usd=12.5)) == "about $12.50"
    assert so_far(tpu(usd_per_hour=1.0, usd=None)) == "not known"
    assert so_far(tpu(usd_per_hour=None, usd=None)) == "not known"
