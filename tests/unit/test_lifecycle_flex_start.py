"""Flex-start: what can be asked for, and how it is recognized."""

from typing import Any
from urllib.error import URLError

import pytest
from msgspec import structs

from jupyter_tpu.cloud.errors import never_sent
from jupyter_tpu.cloud.tpu.nodes import FLEX_START, parse_node
from jupyter_tpu.errors import InvalidInput, Reason, TPUError
from jupyter_tpu.fleet.core.checks import check_run
from jupyter_tpu.fleet.models import TPU, CreateTPU, TPUList
from jupyter_tpu.fleet.models.money import cost_of
from jupyter_tpu.terminal.tables import tpu_table
from jupyter_tpu.terminal.times import local_time, run_text


def request(**options: Any) -> CreateTPU:
    return CreateTPU(name="my-tpu", **{"type": "v6e-8", "tier": "flex-start", **options})


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({}, "needs a run time"),
        ({"tier": "spot", "run_for": 3600.0}, "Only a flex-start TPU"),
        ({"run_for": 7 * 86_400.0 + 1}, "must be 1 minute to 7 days"),
        ({"run_for": 59.0}, "must be 1 minute to 7 days"),
        (
            {"type": "v4-8", "run_for": 3600.0},
            "Google offers flex-start for v5e, v6e, v5p and tpu7x, not for",
        ),
    ],
)
def test_flex_start_needs_a_time_to_run_and_a_type_that_google_offers(options, complaint):
    with pytest.raises(InvalidInput, match=complaint):
        check_run(request(**options))
    check_run(request(run_for=7 * 86_400.0))
    check_run(request(type="v9-newer-than-this", run_for=3600.0))


@pytest.mark.parametrize(
    ("labels", "tier", "run_for"),
    [
        ({FLEX_START: "7200"}, "flex-start", 7200),
        ({FLEX_START: "x"}, "flex-start", None),
        ({FLEX_START: "9" * 30}, "flex-start", None),
        ({}, "on-demand", None),
    ],
)
def test_a_tpu_is_recognized_by_its_label(labels, tier, run_for):
    node = parse_node({"name": "projects/p/locations/z/nodes/my-tpu", "labels": labels})
    assert (node.tier, node.run_for) == (tier, run_for)


def test_its_price_is_known_in_few_regions_and_its_end_is_shown():
    cost = cost_of("v6e-8", "us-east5-b", "flex-start", emulated=False)
    assert (cost.usd_per_hour, cost.date) == (10.8, "2026-08")
    cost = cost_of("v6e-8", "us-central1-b", "flex-start", emulated=False)
    assert (cost.usd_per_hour, cost.list_usd_per_hour) == (None, None)
    other = TPU(name="other", zone="us-east5-b", project="p")
    tpu = structs.replace(other, run_for=5400.0, run_ends="2027-01-15T09:30:00Z")
    end = local_time(tpu.run_ends)
    assert run_text(tpu) == f"90 min, until about {end}; then Google deletes it"
    assert run_text(other) == ""
    assert end in tpu_table(TPUList(tpus=[other, tpu]))
    assert "ENDS" not in tpu_table(TPUList(tpus=[other]))


@pytest.mark.parametrize(("why", "never"), [(ConnectionRefusedError(), True), (OSError(), False)])
def test_a_request_over_rest_was_never_sent_only_where_nobody_listened(why, never):
    with pytest.raises(TPUError) as caught:
        raise TPUError("It can't be reached.", Reason.UNAVAILABLE) from URLError(why)
    assert never_sent(caught.value) is never
