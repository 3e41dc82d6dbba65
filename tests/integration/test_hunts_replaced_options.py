"""A TPU with every option that there is, replaced: Google is asked for the same once more."""

from typing import Any

import pytest
from compute_world import ComputeWorld
from fleet_world import others
from msgspec import NODEFAULT, structs

from jupyter_tpu.cloud import DataDisk, Node, NodeName
from jupyter_tpu.fleet.models import CreateTPU, NodeOptions

WORLD = ComputeWorld
OPTIONS = NodeOptions(
    internal_ips=True,
    service_account="me@emulated.iam.gserviceaccount.com",
    scopes=["storage-ro"],
    data_disks=[DataDisk(source="data", mode="read-only"), DataDisk(source="more")],
    tags=["mine"],
    metadata={"team": "vision"},
    startup_script="#!/bin/sh\nexit 0\n",
    description="for the paper",
    secure_boot=True,
)
EVERYWHERE: dict[str, Any] = {
    "network": "lab",
    "subnetwork": "lab",
    "labels": {"mine": "yes"},
    "once": "key",
    "options": OPTIONS,
}
REQUESTS = {
    "tpu": CreateTPU(
        name="name",
        type="v4",
        zone="us-central2-b",
        version="tpu-ubuntu2204-base",
        tier="spot",
        api="tpu",
        **EVERYWHERE | {"options": structs.replace(OPTIONS, topology="2x2x1")},
    ),
    "instance": CreateTPU(
        name="name",
        type="v6e-4",
        zone="us-east5-a",
        version="ubuntu-accel-2404-amd64-tpu-tpu7x",
        tier="reserved",
        api="compute",
        disk_gb=77,
        reservation="mine",
        **EVERYWHERE,
    ),
    "slice": CreateTPU(
        name="name",
        type="v6e-2x4",
        zone="us-east5-a",
        version="ubuntu-accel-2404-amd64-tpu-tpu7x",
        tier="flex-start",
        api="compute",
        run_for=7200,
        disk_gb=77,
        **EVERYWHERE,
    ),
}
#: The user agrees to the price again. What a TPU's hosts know of it is asked of them, and other
#: tests show that (test_repairs).
NOT_OF_GOOGLE = {"confirm_price", "max_price", "connect", "guard", "home", "sessions"}


def test_every_option_has_a_value_here():
    """A new field of the request fails here until it has one above."""
    chosen = {
        name
        for request in REQUESTS.values()
        for thing in (request, request.options)
        for name in thing.__struct_fields__
        if getattr(thing, name) != default(type(thing), name)
    }
    assert chosen | NOT_OF_GOOGLE == {*CreateTPU.__struct_fields__, *NodeOptions.__struct_fields__}


def default(kind: Any, name: str) -> Any:
    """The default of a field."""
    (field,) = [field for field in structs.fields(kind) if field.name == name]
    return field.default if field.default_factory is NODEFAULT else field.default_factory()


@pytest.mark.parametrize("kind", ["tpu", "instance", *others("slice")])
async def test_the_new_tpu_has_every_option_of_the_old_one(world, name, kind):
    root = "/compute/v1/projects/emulated"
    world.emulator.request(
        "POST", f"{root}/global/networks", {"name": "lab", "autoCreateSubnetworks": True}
    )
    specific = {"count": "2", "instanceProperties": {"machineType": "ct6e-standard-4t"}}
    world.emulator.request(
        "POST",
        f"{root}/zones/us-east5-a/reservations",
        {"name": "mine", "specificReservation": specific},
    )
    server = await world.server()
    request = structs.replace(REQUESTS[kind], name=name)
    created = await server.end(await server.fleet.create(request))
    assert created.state == "done", created
    assert request.zone is not None
    cloud, full_name = world.cloud(), NodeName("emulated", request.zone, name)
    before = await cloud.get_node(full_name)
    hunt = await server.fleet.hunts.replace(name)
    assert by_short_names(hunt.request.tpu) == structs.replace(
        request, type=before.type, options=structs.replace(request.options, topology="")
    ), "its type says its topology"
    assert (await server.ended(hunt.id)).state == "done"
    after = await cloud.get_node(full_name)
    await cloud.close()
    assert after.id != before.id
    assert what_was_asked(after) == what_was_asked(before)
    options = (await server.fleet.tpu(name)).options
    assert (options.tags, options.description) == (["mine"], "for the paper")
    assert not options.metadata, "it may have secrets"
    world.emulator.request("DELETE", f"{root}/zones/us-east5-a/reservations/mine")
    deletion = await server.end(await server.fleet.delete(name))
    assert deletion.state == "done"
    world.emulator.request("DELETE", f"{root}/global/networks/lab")


def by_short_names(request: CreateTPU) -> CreateTPU:
    """As people type it."""
    options, disks = request.options, request.options.data_disks
    short = structs.replace(
        options,
        scopes=[
            "storage-ro" for scope in options.scopes if scope.endswith("/devstorage.read_only")
        ],
        data_disks=[structs.replace(d, source=d.source.rpartition("/")[2]) for d in disks],
    )
    return structs.replace(
        request,
        network=request.network.rpartition("/")[2],
        subnetwork=request.subnetwork.rpartition("/")[2],
        options=short,
    )


def what_was_asked(node: Node) -> dict[str, Any]:
    """What Google says of it, without what each TPU has of its own."""
    labels = {k: text for k, text in node.labels.items() if k != "jupyter-tpu-operation"}
    own = ("group", "status", "resourceStatus", "lastStartTimestamp")
    details = {key: said for key, said in node.details.items() if key not in own}
    said = structs.asdict(structs.replace(node, labels=labels, details=details))
    for key in ("id", "created", "ends", "endpoints", "state"):
        del said[key]
    return said | {"request": structs.replace(node.request, labels=labels)}
