"""Guards of Compute Engine's TPUs: the host acts by that API, and Google has an end of its own."""

import time
import urllib.request
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from compute_world import ZONE, ComputeWorld
from waiting import eventually

from jupyter_tpu.cloud import NodeName
from jupyter_tpu.commands.guard import guard_text
from jupyter_tpu.emulator.api.host_identity import HostIdentities
from jupyter_tpu.emulator.state_folder import EmulatorToken
from jupyter_tpu.errors import TPUError
from jupyter_tpu.fleet.jobs.guard_stops import SERVER_SIDE_GRACE
from jupyter_tpu.fleet.models import Guard, KeepTPU, ListQuery, SetGuard
from jupyter_tpu.on_host.agent.guard import google

WORLD = ComputeWorld
REFUSED = "Invalid value for field 'resource': the instance is not stopped."


def ends(world: ComputeWorld, name: str) -> set[float]:
    """When Google deletes its hosts, seconds since the epoch; 0: never."""
    times = [
        instance["resourceStatus"]["scheduling"].get("terminationTimestamp")
        for instance in world.instances(name)
    ]
    return {datetime.fromisoformat(time).timestamp() if time else 0.0 for time in times}


def in_hours(hours: float) -> str:
    return (datetime.now(UTC) + timedelta(hours=hours)).isoformat()


@pytest.mark.parametrize(
    ("type", "action"),
    [("v6e-4", "stop"), pytest.param("v6e-2x4", "delete", marks=pytest.mark.long)],
)
async def test_googles_end_follows_a_guard_that_is_set_put_off_and_removed(
    world, name, type, action
):
    server = await world.made(name, type)
    guards = server.fleet.guards
    assert ends(world, name) == {0.0}
    first = await guards.set(name, SetGuard(action=action, until=in_hours(2)))
    (end,) = ends(world, name)
    assert end == pytest.approx(time.time() + 7200 + SERVER_SIDE_GRACE, abs=120)
    assert datetime.fromisoformat(first.google_deletes).timestamp() == pytest.approx(end, abs=1)
    assert first.problem is None
    assert first.google_problem is None
    for instance in world.instances(name):
        assert instance["scheduling"]["instanceTerminationAction"] == "DELETE"

    await guards.set(name, SetGuard(action=action, until=in_hours(1)))
    (sooner,) = ends(world, name)
    assert end - sooner == pytest.approx(3600, abs=60)
    kept = await guards.keep(name, KeepTPU(seconds=3 * 3600))
    (later,) = ends(world, name)
    assert later >= time.time() + 3 * 3600 + kept.notice + SERVER_SIDE_GRACE - 120
    assert datetime.fromisoformat(kept.google_deletes).timestamp() == pytest.approx(later, abs=1)

    idle = await guards.set(name, SetGuard(action=action, idle=3600))
    assert (ends(world, name), idle.google_deletes, idle.google_problem) == ({0.0}, "", None)
    await guards.set(name, SetGuard(action=action, until=in_hours(1)))
    await guards.remove(name)
    assert ends(world, name) == {0.0}
    for instance in world.instances(name):
        assert not instance["scheduling"].get("instanceTerminationAction")


async def test_what_google_refuses_of_its_end_is_said_and_keeps_nothing_from_being_guarded(
    world, name
):
    server = await world.made(name, "v6e-4")
    guards = server.fleet.guards
    set_scheduling = {"method": "instances.setScheduling", "code": "INVALID_ARGUMENT"}
    world.fault("error", message=REFUSED, **set_scheduling)
    guard = await guards.set(name, SetGuard(until=in_hours(2)))
    assert (guard.google_deletes, ends(world, name)) == ("", {0.0})
    assert "not stopped" in guard.google_problem.message
    assert "continues to run" in guard.google_problem.message
    again = await guards.get(name)
    assert again.until
    assert "no end time" in again.google_problem.message

    world.behave()
    guard = await guards.set(name, SetGuard(until=in_hours(2)))
    assert guard.google_problem is None
    world.fault("error", message=REFUSED, **set_scheduling)
    # Google would delete it although somebody relies on its being kept, or has no guard.
    with pytest.raises(TPUError, match="in any case"):
        await guards.keep(name, KeepTPU(seconds=24 * 3600))
    with pytest.raises(TPUError, match="in any case"):
        await guards.remove(name)
    assert (await guards.get(name)).until


@pytest.mark.long
async def test_an_end_that_others_have_set_stays(world, name):
    server = await world.made(name, "v6e-4")
    (instance,) = world.instances(name)
    path = "/compute/v1/projects/" + instance["selfLink"].partition("/projects/")[2]
    theirs = {"maxRunDuration": {"seconds": "3600"}, "instanceTerminationAction": "DELETE"}
    world.emulator.request(
        "POST", f"{path}/setScheduling", {"onHostMaintenance": "TERMINATE", **theirs}
    )
    before = ends(world, name)
    guard = await server.fleet.guards.set(name, SetGuard(until=in_hours(5)))
    assert "earlier" in guard.google_problem.message
    with_guard = await server.fleet.guards.get(name)
    assert ends(world, name) == before
    assert with_guard.google_deletes


async def test_a_host_stops_itself_and_the_old_end_does_not_count_after_the_next_start(world, name):
    server = await world.made(name, "v6e-4")
    guard = await server.fleet.guards.set(
        name, SetGuard(until=in_hours(0.001), notice=0, action="stop")
    )
    assert guard.actor == "host"

    def stopped() -> Any:
        return [instance["status"] for instance in world.instances(name)] == ["TERMINATED"]

    await eventually(stopped, 60)
    operations = f"/compute/v1/projects/emulated/zones/{ZONE}/operations"
    stops = [
        operation
        for operation in world.emulator.request("GET", operations)["items"]
        if operation["operationType"] == "stop" and operation["targetLink"].endswith(f"/{name}")
    ]
    assert len(stops) == 1
    assert world.instances(name)[0]["scheduling"]["terminationTime"]

    async def seen() -> bool:
        tpus = (await server.fleet.tpus(ListQuery(fresh=True))).tpus
        return any(tpu.name == name and tpu.state == "STOPPED" for tpu in tpus)

    await eventually(seen, 60)
    await server.end(await server.fleet.start(name))
    assert ends(world, name) == {0.0}


def identity(world: ComputeWorld, instance: dict[str, Any], worker: int) -> dict[str, str]:
    identities = HostIdentities(EmulatorToken(Path(world.emulator.state.token_file)))
    return identities.variables(instance["id"], world.emulator.state.rest, worker)


async def test_host_0_of_a_slice_hears_the_others_and_deletes_the_group(world, name, monkeypatch):
    server = await world.made(name, "v6e-2x4")
    node = await world.cloud().get_node(NodeName("emulated", ZONE, name))
    group = f"projects/emulated/zones/{ZONE}/instanceGroupManagers/{name}"
    workers: dict[int, Callable[[], None]] = {}
    for instance in world.instances(name):
        number = int(_attribute(world, instance))
        variables = identity(world, instance, number)

        def become(variables: dict[str, str] = variables) -> None:
            for key, text in variables.items():
                monkeypatch.setenv(key, text)

        workers[number] = become
    workers[1]()
    google.publish("busy with a job")
    workers[0]()
    google.require_permission(group, "delete", reads_peers=True)
    assert google.published(group) == ["", "busy with a job"]
    assert google.id_of(group) == node.id
    with pytest.raises(google.GoogleError, match="another TPU"):
        google.carry_out(group, "7", "delete")
    google.carry_out(group, node.id, "delete")
    await eventually(lambda: not world.instances(name), 60)
    await world.stop(server)


def _attribute(world: ComputeWorld, instance: dict[str, Any]) -> str:
    """Its worker number, from its metadata server."""
    place = identity(world, instance, 0)["GCE_METADATA_HOST"]
    request = urllib.request.Request(
        f"http://{place}/computeMetadata/v1/instance/attributes/agent-worker-number",
        headers={"Metadata-Flavor": "Google"},
    )
    with urllib.request.urlopen(request, timeout=20) as answer:
        return str(answer.read().decode())


def test_a_guard_says_when_google_deletes_its_tpu():
    guard = Guard(
        action="stop", until="2026-12-24T08:00:00Z", google_deletes="2026-12-24T08:15:00Z"
    )
    assert "Google deletes it at 2026-12-24" in guard_text("my-tpu", guard)
