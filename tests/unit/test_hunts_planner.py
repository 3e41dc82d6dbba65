"""What a hunt tries next, and when: no I/O, a clock and a chance of the test."""

import copy
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from jupyter_tpu import catalog
from jupyter_tpu.cloud import NodeName
from jupyter_tpu.cloud.compute_engine.errors import first_error
from jupyter_tpu.errors import InvalidInput, Reason, TPUError
from jupyter_tpu.fleet.core.checks import check_run
from jupyter_tpu.fleet.core.operation_records import Candidate, HuntRecord
from jupyter_tpu.fleet.hunts import candidates
from jupyter_tpu.fleet.hunts.planner import Attempt, Exhausted, Wait, learn, next_step, turn
from jupyter_tpu.fleet.models import CreateTPU, StartHunt

NO_CAPACITY = TPUError("There is no more capacity in the zone.", Reason.NO_CAPACITY)
DAY = 86_400.0


def hunt(
    *places: str, types: tuple[str, ...] = ("v5litepod-8",), deadline: float | None = None
) -> HuntRecord:
    """*places*: "us-west4-a", or "us-west4-a spot"."""
    candidates = []
    for type in types:
        for place in places:
            zone, _, tier = place.partition(" ")
            candidates.append(Candidate(zone=zone, type=type, tier=tier or "on-demand"))
    request = StartHunt(tpu=CreateTPU(name="my-tpu", type=types[0]))
    return HuntRecord(request=request, candidates=candidates, deadline=deadline)


def tried(record: HuntRecord, now: float, error: TPUError, chance: float = 0.5) -> Candidate:
    """The candidate that is tried now, and fails with *error*."""
    step = next_step(record, now)
    assert isinstance(step, Attempt), step
    learn(record, step.candidate, error, now, chance)
    return step.candidate


def quota(limit: int, scope: str) -> TPUError:
    return TPUError(f"Quota exceeded. Limit: {limit} in {scope}.", Reason.QUOTA, scope=scope)


def test_without_capacity_each_place_is_tried_before_any_is_tried_again():
    record = hunt("us-west4-a", "us-west4-a spot", "us-east5-b", "europe-west4-b")
    first = [tried(record, 1000.0 + i, NO_CAPACITY) for i in range(4)]
    assert [(candidate.zone, candidate.tier) for candidate in first] == [
        ("us-west4-a", "on-demand"),
        ("us-west4-a", "spot"),
        ("us-east5-b", "on-demand"),
        ("europe-west4-b", "on-demand"),
    ]
    step = next_step(record, 1004.0)
    assert tried(record, step.until, NO_CAPACITY) is first[0]


def test_pauses_double_up_to_five_minutes_and_differ_by_chance():
    record, now, pauses = hunt("us-west4-a"), 0.0, []
    for _ in range(8):
        tried(record, now, NO_CAPACITY)
        step = next_step(record, now)
        pauses.append(step.until - now)
        now = step.until
    assert pauses == [20, 40, 80, 160, 300, 300, 300, 300]
    longer = hunt("us-west4-a")
    tried(longer, 0.0, NO_CAPACITY, chance=1.0)
    assert next_step(longer, 0.0) == Wait(25.0)


def test_a_limit_of_the_region_is_about_the_region_and_no_other():
    record = hunt("us-east5-a", "us-east5-b", "us-west4-a", types=("v6e-8", "v6e-4", "v4-8"))
    tried(record, 0.0, quota(0, "region"))
    left = [
        (candidate.type, candidate.zone)
        for candidate in record.candidates
        if not candidate.ruled_out
    ]
    assert left == [
        ("v6e-8", "us-west4-a"),
        ("v6e-4", "us-west4-a"),
        ("v4-8", "us-east5-a"),
        ("v4-8", "us-east5-b"),
        ("v4-8", "us-west4-a"),
    ]


def test_a_quota_of_one_tier_says_nothing_of_another():
    record = hunt("us-east5-a", "us-east5-a spot")
    tried(record, 0.0, quota(0, "zone"))
    assert [candidate.ruled_out for candidate in record.candidates] == [True, False]


def test_a_quota_that_is_all_used_is_tried_again_later():
    record = hunt("us-east5-a", "us-east5-b")
    tried(record, 0.0, quota(32, "region"))
    assert next_step(record, 0.0) == Wait(120.0)


def test_a_rate_limit_lets_all_wait_as_long_as_google_says_and_rules_out_nothing():
    record = hunt("us-east5-a", "us-west4-a")
    tried(record, 0.0, TPUError("Slow down.", Reason.RATE_LIMITED, retry_after=70))
    assert next_step(record, 0.0) == Wait(70.0)
    assert tried(record, 70.0, NO_CAPACITY).zone == "us-east5-a"


def test_a_name_that_is_in_use_rules_out_its_zone():
    record = hunt("us-east5-a", "us-east5-a spot", "us-west4-a")
    tried(record, 0.0, TPUError("It exists.", Reason.EXISTS))
    assert [candidate.ruled_out for candidate in record.candidates] == [True, True, False]


def test_it_is_over_with_every_reason_when_nothing_is_left():
    record = hunt("us-east5-a", "us-west4-a")
    tried(record, 0.0, TPUError("Permission denied.", Reason.PERMISSION))
    tried(record, 0.0, TPUError("Not offered.", Reason.INVALID))
    step = next_step(record, 0.0)
    assert step.error.message == (
        "my-tpu can't be created anywhere. v5litepod-8 (on-demand) in us-east5-a: Permission "
        "denied. v5litepod-8 (on-demand) in us-west4-a: Not offered."
    )


def test_a_grant_that_is_in_use_is_tried_again_later():
    record = hunt("us-east5-a")
    tried(record, 0.0, TPUError("The grant has 0 of its 32 chips left.", Reason.PRICE))
    assert next_step(record, 0.0) == Wait(120.0)


def test_nothing_begins_after_the_deadline():
    record = hunt("us-east5-a", deadline=30.0)
    tried(record, 0.0, NO_CAPACITY)
    tried(record, 20.0, NO_CAPACITY)
    assert next_step(record, 20.0) == Wait(30.0)
    step = next_step(record, 30.0)
    assert step.error.reason is Reason.TIMEOUT


def test_turns_in_the_queue_double_up_to_half_an_hour_and_the_last_one_has_no_end():
    record = hunt("us-east5-a", "us-west4-a")
    here, other = record.candidates
    turns = []
    for failures in range(6):
        here.failures = failures
        turns.append(turn(record, here))
    assert turns == [120, 240, 480, 960, 1800, 1800]
    other.ruled_out = True
    assert turn(record, here) is None


def test_a_clock_that_is_set_back_keeps_nobody_waiting_for_a_day():
    record = hunt("us-east5-a")
    tried(record, DAY, NO_CAPACITY)
    step = next_step(record, 0.0)
    assert step.until <= 3600


async def offered(request: CreateTPU) -> tuple[CreateTPU, NodeName]:
    """Zones offer what the catalog says; the first is gcloud's."""
    check_run(request)
    accelerator = catalog.accelerator_type(request.type)
    zone = request.zone or accelerator.zones[0]
    if zone not in accelerator.zones:
        raise InvalidInput(f"{request.type} is not offered in {zone}.")
    resolved = structs.replace(request, zone=zone, version=accelerator.version)
    return resolved, NodeName("p", zone, request.name)


def only_spot(candidate: Candidate) -> None:
    if candidate.tier != "spot":
        raise TPUError("It costs about $9.60 an hour.", Reason.PRICE)


async def planned(
    *tiers: Any,
    zones: Sequence[str] = ("us-west4-a", "us-central2-b"),
    run_for: float | None = None,
    **options: Any,
) -> HuntRecord:
    request = StartHunt(
        tpu=CreateTPU(name="my-tpu", type="v5litepod-8", run_for=run_for),
        types=["v5litepod-8", "v4-8"],
        zones=[*zones],
        tiers=[*tiers],
        **options,
    )
    return await candidates.plan(request, offered, only_spot, now=0.0)


async def test_only_what_is_offered_and_agreed_to_is_tried_in_the_order_of_the_request():
    record = await planned("on-demand", "spot")
    assert [
        (candidate.type, candidate.tier, candidate.zone)
        for candidate in record.candidates
        if not candidate.ruled_out
    ] == [("v5litepod-8", "spot", "us-west4-a"), ("v4-8", "spot", "us-central2-b")]
    reasons = [candidate.problem.reason for candidate in record.candidates if candidate.problem]
    assert sorted(reasons) == ["INVALID"] * 4 + ["PRICE"] * 2
    everywhere = await planned("spot", zones=["-"])
    zones = {candidate.zone for candidate in everywhere.candidates}
    assert {"us-west4-a", "us-central1-a", "us-central2-b"} <= zones


async def test_over_night_it_waits_in_the_queue_unless_the_request_says_otherwise():
    after = {hours: f"1970-01-01T{hours:02}:00:00Z" for hours in (4, 5)}
    assert not (await planned("spot")).queued
    assert not (await planned("spot", deadline=after[4])).queued
    assert (await planned("spot", deadline=after[5])).queued
    assert not (await planned("spot", deadline=after[5], queued=False)).queued
    assert (await planned("spot", queued=True)).queued


async def test_what_is_also_tried_without_the_queue_comes_first_and_knows_nothing_of_it():
    record = await planned("spot", queued=True, direct=True)
    left = [candidate for candidate in record.candidates if not candidate.ruled_out]
    assert [(candidate.zone, record.waits(candidate)) for candidate in left] == [
        ("us-west4-a", False),
        ("us-central2-b", False),
        ("us-west4-a", True),
        ("us-central2-b", True),
    ]
    for now, candidate in enumerate(left):
        assert tried(record, float(now), NO_CAPACITY) is candidate
    quota_is_gone = quota(0, "zone")
    assert tried(record, 60.0, quota_is_gone) is left[0]
    assert [candidate.ruled_out for candidate in left] == [True, False, True, False]
    plain = await planned("spot", direct=True)
    assert not any(map(plain.waits, plain.candidates))


async def test_flex_start_waits_in_the_queue_in_every_hunt_and_has_its_time_to_run():
    record = await planned("spot", "flex-start", run_for=3600.0, queued=True, direct=True)
    assert sorted((candidate.tier, record.waits(candidate)) for candidate in record.candidates) == [
        *[("flex-start", True)] * 4,
        *[("spot", False)] * 4,
        *[("spot", True)] * 4,
    ]
    plain = await planned("spot", "flex-start", run_for=3600.0)
    assert {(candidate.tier, plain.waits(candidate)) for candidate in plain.candidates} == {
        ("spot", False),
        ("flex-start", True),
    }
    asked = [candidates.request_of(plain.request, candidate) for candidate in plain.candidates]
    assert {(request.tier, request.run_for) for request in asked} == {
        ("spot", None),
        ("flex-start", 3600),
    }
    assert (await planned("spot", "flex-start", zones=[], run_for=3600.0)).candidates
    with pytest.raises(TPUError, match="needs a run time"):
        await planned("spot", "flex-start")
    with pytest.raises(TPUError, match="Only a flex-start TPU"):
        await planned("spot", run_for=3600.0)


# ---- both control planes ---------------------------------------------------------------------


def both(*places: str) -> HuntRecord:
    record = hunt(*places, types=("v6e-8",))
    record.candidates = [
        structs.replace(candidate, api=api)
        for candidate in record.candidates
        for api in ("tpu", "compute")
    ]
    return record


def test_what_one_control_plane_lacks_the_other_may_have():
    record = both("us-east5-a", "us-east5-b")
    assert tried(record, 0.0, NO_CAPACITY).api == "tpu"
    other = tried(record, 0.0, quota(0, "region"))
    assert (other.api, other.zone) == ("compute", "us-east5-a")
    assert [
        (candidate.zone, candidate.api)
        for candidate in record.candidates
        if not candidate.ruled_out
    ] == [
        ("us-east5-a", "tpu"),
        ("us-east5-b", "tpu"),
    ]
    assert tried(record, 0.0, NO_CAPACITY).zone == "us-east5-b"


def test_compute_engines_words_for_no_quota_are_understood():
    error = first_error(
        [
            {
                "code": "QUOTA_EXCEEDED",
                "message": "Quota 'TPUS_PER_TPU_FAMILY' exceeded.  Limit: 0.0 in region us-east5.",
            }
        ]
    )
    assert (error.reason, error.scope) == (Reason.QUOTA, "region")
    record = both("us-east5-a", "us-east5-b", "us-central1-b")
    record.candidates = [candidate for candidate in record.candidates if candidate.api == "compute"]
    tried(record, 0.0, error)
    assert [candidate.zone for candidate in record.candidates if not candidate.ruled_out] == [
        "us-central1-b"
    ]


def test_an_internal_error_after_minutes_counts_as_no_capacity():
    error = first_error([{"code": "INTERNAL_ERROR", "message": "Internal error."}])
    assert error is not None
    record = both("us-east5-a")
    for _ in range(2):
        tried(record, 0.0, error)
    assert next_step(record, 0.0) == Wait(20.0)
    assert [candidate.failures for candidate in record.candidates] == [1, 1]


def test_a_request_that_is_slow_to_delete_has_a_longer_turn():
    record = both("us-east5-a", "us-east5-b")
    tpu, compute, *_ = record.candidates
    assert (turn(record, tpu), turn(record, compute)) == (120.0, 1800.0)


async def test_a_hunt_tries_each_control_plane_that_offers_the_type():
    asked: list[CreateTPU] = []

    async def by_quota(request: CreateTPU) -> tuple[CreateTPU, NodeName]:
        asked.append(request)
        offer, name = await offered(request)
        return structs.replace(offer, api=request.api or "compute"), name

    async def planned(type: str, **options: Any) -> list[tuple[str, str]]:
        tpu = CreateTPU(name="t", type=type, **options)
        request = StartHunt(tpu=tpu, zones=[tpu.zone or "us-east5-a"])
        record = await candidates.plan(request, by_quota, lambda _: None, now=0.0)
        first = candidates.request_of(request, record.candidates[0])
        assert first.api == record.candidates[0].api
        return [(candidate.type, candidate.api) for candidate in record.candidates]

    # What the quota allows comes first.
    assert await planned("v6e-8") == [("v6e-8", "compute"), ("v6e-8", "tpu")]
    assert await planned("v6e-8", api="tpu") == [("v6e-8", "tpu")]
    assert await planned("v6e-8", zone="us-south1-ai1b") == [("v6e-8", "compute")]
    assert await planned("v6e-8", version="v2-alpha-tpuv6e") == [("v6e-8", "compute")]


async def test_flex_start_is_first_asked_for_what_is_there_at_once():
    async def compute(request: CreateTPU) -> tuple[CreateTPU, NodeName]:
        offer, name = await offered(request)
        return structs.replace(offer, api="compute"), name

    async def planned(type: str, zones: list[str]) -> list[tuple[str, bool]]:
        tpu = CreateTPU(name="t", type=type, api="compute", run_for=3600.0, tier="flex-start")
        request = StartHunt(tpu=tpu, zones=zones, tiers=["flex-start"])
        record = await candidates.plan(request, compute, lambda _: None, now=0.0)
        return [(candidate.zone, record.waits(candidate)) for candidate in record.candidates]

    zones = ["us-east5-a", "us-east5-b"]
    assert await planned("v6e-8", zones) == [
        *[(zone, False) for zone in zones],
        *[(zone, True) for zone in zones],
    ]
    # Where nothing else can be tried, it waits at once. A slice always waits.
    assert await planned("v6e-8", zones[:1]) == [("us-east5-a", True)]
    assert await planned("v6e-16", zones) == [(zone, True) for zone in zones]


async def test_a_hunt_for_what_nobody_has_agreed_to_pay_does_not_begin():
    with pytest.raises(TPUError, match=r"about \$9.60 an hour") as refused:
        await planned("on-demand", zones=["us-west4-a"])
    assert refused.value.reason is Reason.PRICE, "what a confirmation would mend"


ERRORS = st.builds(
    lambda reason, scope, limit, again: TPUError(
        f"Limit: {limit}.", reason, retry_after=again, scope=scope
    ),
    st.sampled_from(list(Reason)),
    st.sampled_from(["", "zone", "region", "project"]),
    st.sampled_from([0, 32]),
    st.sampled_from([None, 5.0, 300.0]),
)


@given(st.data())
def test_whatever_fails_it_goes_on_until_nothing_is_left(data):
    zones = data.draw(
        st.lists(
            st.sampled_from(["us-east5-a", "us-east5-b", "us-west4-a spot", "us-west4-a"]),
            min_size=1,
            unique=True,
        )
    )
    record, now = hunt(*zones, types=("v6e-8", "v4-8")), 1e9
    for _ in range(data.draw(st.integers(0, 30))):
        before = copy.deepcopy(record)
        step = next_step(record, now)
        assert record == before, "to look changes nothing"
        if isinstance(step, Exhausted):
            assert all(candidate.ruled_out for candidate in record.candidates)
            assert all(candidate.problem is not None for candidate in record.candidates)
            return
        if isinstance(step, Wait):
            assert now < step.until <= now + 3600
            now = step.until
            continue
        assert not step.candidate.ruled_out
        gone = {id(candidate) for candidate in record.candidates if candidate.ruled_out}
        learn(record, step.candidate, data.draw(ERRORS), now, data.draw(st.floats(0, 1)))
        assert gone <= {id(candidate) for candidate in record.candidates if candidate.ruled_out}
        again = next_step(record, now)
        if isinstance(again, Attempt):
            assert again.candidate is not step.candidate, "not twice without a pause"
