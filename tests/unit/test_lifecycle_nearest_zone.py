"""The zone of a TPU for which none was chosen: the default one, or the nearest with the type."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from test_money_interleavings import World, use_clock

from jupyter_tpu import catalog
from jupyter_tpu.commands import vscode
from jupyter_tpu.commands.approval import approve_cost
from jupyter_tpu.errors import InvalidInput, Reason, TPUError
from jupyter_tpu.fleet.lifecycle.availability import Availability
from jupyter_tpu.fleet.lifecycle.choices import another_zone
from jupyter_tpu.fleet.models import CreateTPU

#: Where v6e is.
V6E = catalog.accelerator_type("v6e-8").tpu_zones


class Google:
    """What the catalog says; without *lists*, it does not answer."""

    emulated = False
    identity = "google"
    project = "p"
    apis = ("tpu",)

    def __init__(self, zone: str | None, *, lists: bool = True, closed: str = "") -> None:
        self.zone = zone
        self._lists = lists
        self._closed = closed

    def of_api(self, api: str) -> Google:
        return self

    async def locations(self) -> tuple[str, ...]:
        return (*catalog.zones("tpu"), "us-central1-f") if self._answer() else ()

    async def accelerator_types(self, zone: str) -> tuple[str, ...]:
        types = [kind.name for kind in catalog.types_in(zone, "tpu") if zone != self._closed]
        return tuple(types) if self._answer() else ()

    async def runtime_versions(self, zone: str) -> tuple[str, ...]:
        return catalog.versions() if self._answer() else ()

    def _answer(self) -> bool:
        if not self._lists:
            raise TPUError("No login.", Reason.NO_CREDENTIALS)
        return True


async def zone_of(google: Google, type: str = "v6e-8", zone: str | None = None) -> str:
    cloud: Any = google
    request = CreateTPU(name="my-tpu", type=type, zone=zone)
    return (await Availability(cloud).resolve_defaults(request)).zone or ""


@pytest.mark.parametrize(
    ("home", "nearest"),
    [
        ("us-central1-b", "us-central1-b"),  # itself
        ("us-central1-f", "us-central1-b"),  # its region
        ("us-east4-a", "us-east1-d"),  # its coast
        ("us-west4-a", "us-central1-b"),  # its country
        ("europe-west4-b", "europe-west4-a"),
        ("asia-east1-c", "asia-northeast1-b"),
        ("northamerica-northeast1-a", "us-central1-b"),
        ("africa-south1-a", "us-central1-b"),
    ],
)
def test_the_nearest_zone_is_that_of_the_region_the_country_or_the_continent(home, nearest):
    assert catalog.nearest_zones(V6E, home)[0] == nearest
    assert sorted(catalog.nearest_zones(V6E, home)) == sorted(V6E)


@pytest.mark.parametrize("lists", [True, False])
async def test_a_type_that_the_default_zone_lacks_is_created_in_the_nearest_one(lists):
    assert V6E[0].startswith("asia"), "the first of the alphabet"
    assert await zone_of(Google("us-central1-a", lists=lists)) == "us-central1-b"
    assert await zone_of(Google("us-central1-a", lists=lists), "v5p-8") == "us-central1-a"
    assert another_zone("v6e-8", "us-central1-a", "us-central1-b") == (
        "us-central1-a, your default zone, does not offer v6e-8. us-central1-b is the nearest one "
        "that does."
    )
    assert another_zone("v5p-8", "us-central1-a", "us-central1-a") == ""


async def test_a_zone_that_google_does_not_offer_the_type_in_now_is_passed_over():
    assert await zone_of(Google("us-central1-a", closed="us-central1-b")) == "us-east1-d"


async def test_a_zone_that_was_chosen_and_a_type_that_nobody_knows_are_not_moved():
    with pytest.raises(InvalidInput, match="v6e-8 is not offered in us-central1-a"):
        await zone_of(Google("us-east1-d"), zone="us-central1-a")
    with pytest.raises(InvalidInput, match="The TPU type v99-8 does not exist"):
        await zone_of(Google("us-east1-d"), "v99-8")
    with pytest.raises(InvalidInput, match="gcloud has no default zone"):
        await zone_of(Google(None))


async def test_the_panel_and_vs_code_propose_the_same_zone(monkeypatch):
    cloud: Any = Google("us-central1-d")
    catalog = await Availability(cloud).catalog()
    for kind in catalog.types:
        assert catalog.suggested_zones[kind.name] == await zone_of(cloud, kind.name), kind.name
    target = SimpleNamespace(zone="us-central1-d")
    monkeypatch.setattr("jupyter_tpu.cloud.Target.from_environment", lambda: target)
    (zone,) = [entry["default"] for entry in vscode.inputs() if entry["id"] == "tpuZone"]
    assert "us-central1-a is the nearest one" in vscode._zone_reason()
    assert zone == catalog.suggested_zones["v5litepod-8"] == "us-central1-a"


def test_the_command_says_why_it_is_another_zone_before_it_asks(monkeypatch, capsys):
    world = World()
    use_clock(world, monkeypatch)
    world.start()
    try:
        request = CreateTPU(name="my-tpu", type="v6e-8")
        quote = world.loop.run_until_complete(world.servers[0].create.quote(request))
        assert quote.zone == "us-central1-b"
        approve_cost(quote, yes=True, as_json=False)
        said = capsys.readouterr().out
        assert "us-west4-a, your default zone, does not offer v6e-8. us-central1-b is the" in said
        request.zone = "us-east1-d"
        quote = world.loop.run_until_complete(world.servers[0].create.quote(request))
        assert (quote.zone, quote.zone_reason) == ("us-east1-d", "")
    finally:
        world.close()
