"""Reserved capacity: calendar mode is confirmed twice, shown with its dates, and used."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from cli_shell import Shell
from compute_world import ZONE, ComputeWorld
from msgspec import structs
from refusals import raises
from waiting import until

from jupyter_tpu.cloud.compute_engine.reservations import future
from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.fleet.models import CreateReservation

PATH = f"/compute/v1/projects/emulated/zones/{ZONE}"


@pytest_asyncio.fixture
async def world(emulator: Any, faults: Any, tmp_path: Path) -> AsyncIterator[ComputeWorld]:
    async with ComputeWorld(emulator, tmp_path) as world:
        yield world
        world.behave()
        for reservation in world.items("futureReservations"):
            place = f"{PATH}/futureReservations/{reservation['name']}"
            world.emulator.request("POST", f"{place}/cancel")
            world.emulator.request("DELETE", place)
        for reservation in world.items("reservations"):
            world.emulator.request("DELETE", f"{PATH}/reservations/{reservation['name']}")
        # Their names must be free for the next test.
        until(lambda: not world.items("futureReservations") and not world.items("reservations"))


def request(**more: Any) -> CreateReservation:
    start = (datetime.now(UTC) + timedelta(days=2)).isoformat()
    fields = {"name": "run", "type": "v6e-8", "zone": ZONE, "chips": 16, "start": start, "days": 7}
    return CreateReservation(**{**fields, **more})


async def test_calendar_mode_is_confirmed_twice_and_listed_with_its_dates(world):
    reservations = (await world.server()).fleet.reservations
    quote = await reservations.quote(request())
    assert quote.list_usd is not None
    assert quote.list_usd == pytest.approx(2.70 * 16 * 24 * 7, rel=0.2)
    assert "7 days" in quote.question
    assert "used or not" in quote.question
    for confirmed in ({}, {"confirm_cost": True}, {"confirm_cost": True, "confirm_name": "other"}):
        with raises(Reason.PRICE):
            await reservations.create(request(**confirmed))
    assert world.items("futureReservations") == []
    asked = request(confirm_cost=True, confirm_name="run")
    made = await reservations.create(asked)
    (listed,) = await reservations.list()
    assert made == listed
    assert (listed.name, listed.type, listed.chips) == ("run", "v6e", 16)
    assert (listed.future, listed.use, listed.state) == (True, "", "COMMITTED")
    length = datetime.fromisoformat(listed.end) - datetime.fromisoformat(listed.start)
    assert length == timedelta(days=7)
    # The same request once more, after a lost answer for example, is not a second one.
    assert await reservations.create(asked) == made
    with raises(Reason.EXISTS):
        await reservations.create(structs.replace(asked, chips=32))


async def test_a_lost_answer_is_no_failure(world):
    reservations = (await world.server()).fleet.reservations
    asked = request(name="lost", confirm_cost=True, confirm_name="lost")
    method = "futureReservations.insert"
    world.fault("lost-answer", method=method, code="UNAVAILABLE", count=1)
    assert (await reservations.create(asked)).name == "lost"
    (listed,) = await reservations.list()
    assert listed.chips == 16
    world.fault("error", method="futureReservations.insert", code="UNAVAILABLE", count=1)
    with pytest.raises(TPUError, match="not known whether"):
        await reservations.create(request(name="two", confirm_cost=True, confirm_name="two"))


@pytest.mark.long
async def test_a_reservation_is_used_and_shows_that(world, name):
    server = await world.server()
    specific = {"count": "2", "instanceProperties": {"machineType": "ct6e-standard-4t"}}
    body = {"name": "mine", "specificReservation": specific}
    world.emulator.request("POST", f"{PATH}/reservations", body)
    (before,) = await server.fleet.reservations.list()
    assert (before.use, before.chips, before.used) == ("mine", 8, 0)
    with pytest.raises(TPUError, match="needs the name"):
        await world.make(server, name, type="v6e-4", tier="reserved")
    with pytest.raises(TPUError, match="tier reserved"):
        await world.make(server, name, type="v6e-4", reservation="mine")
    operation = await world.make(server, name, type="v6e-4", tier="reserved", reservation="mine")
    assert (await server.end(operation)).state == "done"
    (after,) = await server.fleet.reservations.list()
    assert after.used == 4
    (instance,) = world.items("instances")
    assert instance["reservationAffinity"]["values"] == ["mine"]
    replacement = await server.fleet.hunts.replacement(name)
    assert (replacement.request.tier, replacement.request.reservation) == ("reserved", "mine")


def test_the_command_asks_twice(emulator, world, tmp_path):
    shell = Shell(tmp_path, **emulator.environment)
    start = (datetime.now(UTC) + timedelta(days=2)).isoformat()
    line = (
        *("reservation", "create", "run", "--type", "v6e", "--chips", "8", "--zone", ZONE),
        *("--start", start, "--days", "3"),
    )
    refused = shell.run(*line, "--yes")
    assert refused.returncode == 1
    assert "confirmed twice" in refused.stderr
    assert world.items("futureReservations") == []
    done = shell.run(*line, "--yes", "--confirm-name", "run")
    assert done.returncode == 0, done.stderr
    assert "COMMITTED" in done.stdout
    listed = shell.out("reservation", "list")
    assert "run" in listed
    assert "COMMITTED" in listed


def test_a_future_reservation_says_from_when_to_when_and_with_which_name_it_is_used():
    reservation = future(
        {
            "name": "run",
            "zone": f"https://compute.googleapis.com/compute/v1/projects/p/zones/{ZONE}",
            "timeWindow": {"startTime": "2026-12-24T08:00:00Z", "endTime": "2026-12-31T08:00:00Z"},
            "aggregateReservation": {
                "vmFamily": "VM_FAMILY_CLOUD_TPU_POD_SLICE_TPU7X",
                "reservedResources": [{"accelerator": {"acceleratorCount": 64}}],
            },
            "status": {
                "procurementStatus": "FULFILLED",
                "autoCreatedReservations": ["projects/p/zones/z/reservations/run-1"],
            },
        }
    )
    assert (reservation.type, reservation.chips, reservation.use) == ("tpu7x", 64, "run-1")
    assert (reservation.start, reservation.end) == ("2026-12-24T08:00:00Z", "2026-12-31T08:00:00Z")
