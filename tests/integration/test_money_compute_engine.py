"""Slices of Compute Engine when its API loses answers, refuses or is silent, and when servers end
between two of their parts: what is said is what is true at the cloud, and nothing is left.
"""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from compute_world import INSERTS, PARTS, ZONE, ComputeWorld
from fleet_world import others
from waiting import eventually

from jupyter_tpu.errors import Reason
from jupyter_tpu.fleet.jobs.guard_stops import SERVER_SIDE_GRACE
from jupyter_tpu.fleet.models import Operation, SetGuard

WORLD = ComputeWorld
REGION = "/compute/v1/projects/emulated/regions/us-east5"


def outcome(ended: Operation) -> tuple[str, Reason | None]:
    return ended.state, ended.problem.reason if ended.problem is not None else None


@pytest.mark.parametrize(
    ("part", "code", "message", "reason"),
    [
        (
            1,
            "RESOURCE_EXHAUSTED",
            "Quota 'RESOURCE_POLICIES' exceeded.  Limit: 10.0 in region us-east5.",
            Reason.QUOTA,
        ),
        (2, "PERMISSION_DENIED", "You may not.", Reason.PERMISSION),
    ],
)
async def test_a_part_that_is_refused_takes_the_others_back_and_says_why(
    world, name, part, code, message, reason
):
    server = await world.server()
    world.fault("error", method=INSERTS[part], code=code, message=message)
    # And they are not taken back at once.
    world.fault("error", method="regionInstanceTemplates.delete", code="UNAVAILABLE", count=1)
    ended = await server.end(await world.make(server, name))
    assert outcome(ended) == ("failed", reason)
    assert message.split()[0] in ended.problem.message
    assert world.names() == []


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("late-error", Reason.NO_CAPACITY),
        *others(
            ("no-capacity", Reason.NO_CAPACITY),
            ("quota", Reason.QUOTA),
            ("no-external-addresses", Reason.PERMISSION),
        ),
    ],
)
async def test_a_group_that_gets_no_instances_is_taken_back(world, name, fault, reason):
    """Its operation was done without an error, and Google would go on trying."""
    server = await world.server()
    world.fault(fault, zone=ZONE)
    ended = await server.end(await world.make(server, name))
    assert (outcome(ended), world.names()) == (("failed", reason), [])


async def test_a_group_that_stays_empty_and_says_nothing_is_waited_for_and_can_be_cancelled(
    world, name
):
    server = await world.server()
    world.fault("empty-group", zone=ZONE)
    operation = await world.make(server, name)
    await eventually(lambda: world.state(name) == "empty group")
    tpu = await eventually(lambda: _tpu(server, name))
    assert tpu.state == "CREATING"
    await server.fleet.operations.cancel(operation.id)
    ended = await server.end(operation)
    assert (ended.state, world.names()) == ("cancelled", [])


async def test_somebody_elses_template_of_the_name_stays(world, name):
    template = {
        "name": f"{name}-a",
        "properties": {
            "machineType": "ct6e-standard-4t",
            "disks": [{"boot": True, "initializeParams": {"sourceImage": "projects/x/i"}}],
            "networkInterfaces": [{}],
            "scheduling": {"onHostMaintenance": "TERMINATE"},
        },
    }
    world.emulator.request("POST", f"{REGION}/instanceTemplates", template)
    server = await world.server()
    ended = await server.end(await world.make(server, name))
    assert outcome(ended) == ("failed", Reason.INVALID)
    assert f"A template called {name}-a exists" in ended.problem.message
    assert world.names() == [f"{name}-a"]


async def test_a_policy_that_another_group_uses_stays_and_keeps_nothing_from_being_deleted(
    world, name
):
    server = await world.server()
    await server.end(await world.make(server, name))
    (theirs,) = world.items("instanceTemplates")
    properties = theirs["properties"] | {"labels": {}}
    mine = {"name": f"{name}-theirs", "properties": properties}
    world.emulator.request("POST", f"{REGION}/instanceTemplates", mine)
    place = "projects/emulated/regions/us-east5"
    group = {
        "name": f"{name}-theirs",
        "instanceTemplate": f"{place}/instanceTemplates/{name}-theirs",
        "targetSize": 0,
        "targetSizePolicy": {"mode": "BULK"},
        "resourcePolicies": {"workloadPolicy": f"{place}/resourcePolicies/{name}-a"},
    }
    groups = f"/compute/v1/projects/emulated/zones/{ZONE}/instanceGroupManagers"
    world.emulator.request("POST", groups, group)
    ended = await server.end(await server.fleet.delete(name))
    assert ended.state == "done"
    assert world.names("resourcePolicies") == [f"{name}-a"]
    assert world.names("instanceTemplates", "instanceGroupManagers") == [f"{name}-theirs"] * 2
    # The name can't be used while it is so, and says so; nothing is left of that.
    ended = await server.end(await world.make(server, name))
    assert outcome(ended) == ("failed", Reason.INVALID)
    assert world.names("instanceTemplates") == [f"{name}-theirs"]


async def test_of_two_people_who_create_one_slice_one_gets_it(world, name, tmp_path):
    another = tmp_path / "theirs"
    another.mkdir()
    mine, theirs = await world.server(), await world.server(another)
    operations = await asyncio.gather(
        world.make(mine, name), world.make(theirs, name), return_exceptions=True
    )
    ended = [
        await server.end(operation)
        for server, operation in zip((mine, theirs), operations, strict=True)
        if isinstance(operation, Operation)
    ]
    outcomes = sorted(map(outcome, ended))
    assert outcomes[0] == ("done", None)
    assert outcomes[1:] in ([], [("failed", Reason.EXISTS)])
    assert (world.state(name), len(world.names(*PARTS))) == ("ACTIVE", 3)
    (winner,) = [s for s, e in zip((mine, theirs), ended, strict=False) if e.state == "done"]
    assert (await winner.end(await winner.fleet.delete(name))).state == "done"
    assert world.names() == []


async def test_a_slice_is_deleted_as_a_group_and_never_instance_by_instance(world, name):
    server = await world.server()
    await server.end(await world.make(server, name))
    await server.end(await server.fleet.delete(name))
    asked = []
    for place in (f"zones/{ZONE}", "regions/us-east5"):
        path = f"/compute/v1/projects/emulated/{place}/operations"
        for operation in world.emulator.request("GET", path)["items"]:
            target = operation["targetLink"].rpartition("/")[2]
            if target.startswith(name) and operation["user"] != "system":
                collection = operation["targetLink"].split("/")[-2]
                asked.append((operation["insertTime"], operation["operationType"], collection))
    assert [(verb, kind) for _, verb, kind in sorted(asked)] == [
        *[("insert", kind) for kind in PARTS],
        *[("delete", kind) for kind in ("instanceGroupManagers", *PARTS[1::-1])],
    ]


@pytest.mark.parametrize("type", ["v6e-4", *others("v6e-2x4")])
async def test_a_guards_end_time_is_googles_too_for_when_the_guard_does_not_run(world, name, type):
    server = await world.server()
    until = (datetime.now(UTC) + timedelta(hours=2)).isoformat()
    guard = SetGuard(action="delete", until=until)
    ended = await server.end(await world.make(server, name, type=type, guard=guard))
    assert ended.state == "done"
    for instance in world.items("instances"):
        scheduling = instance["scheduling"]
        seconds = int(scheduling["maxRunDuration"]["seconds"])
        assert 7200 < seconds <= 7200 + SERVER_SIDE_GRACE
        assert scheduling["instanceTerminationAction"] == "DELETE"
        # An emulated Google deletes it then, whatever runs here.
        world.fault("run-over", node=instance["name"])
    await eventually(lambda: world.names("instances") == [], 60)


async def _tpu(server: Any, name: str) -> Any:
    return next((tpu for tpu in (await server.fleet.tpus()).tpus if tpu.name == name), None)
