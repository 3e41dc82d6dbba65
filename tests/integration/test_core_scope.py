"""Nothing of a TPU is forgotten before Google has said that this very TPU is gone; and what goes
wrong with one TPU keeps no other from what it needs.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest_asyncio
from msgspec import structs
from waiting import eventually

from jupyter_tpu.cloud import CloudTPU, NodeName, Target
from jupyter_tpu.cloud.tpu.nodes import parse_node_path
from jupyter_tpu.fleet import Fleet
from jupyter_tpu.fleet.core.records import EnvironmentRecord
from jupyter_tpu.fleet.models import ConnectTPU, Environment
from jupyter_tpu.kernel_place import KernelPlace
from jupyter_tpu.kernels import KernelSpecs
from jupyter_tpu.links import Links

ZONE = "us-central1-a"


class Servers:
    """Fleets of one data folder, one after the other."""

    def __init__(self, emulator: Any, folder: Path) -> None:
        self._emulator = emulator
        self._folder = folder
        self.specs = KernelSpecs(folder / "kernels")
        self._open: list[tuple[Fleet, Links]] = []

    async def open(self, project: str | None = None) -> Fleet:
        target = Target(emulator=str(self._emulator.state_file), project=project)
        links = Links(CloudTPU(target))
        fleet = await Fleet.open(links, self.specs, self._folder / "fleet.sqlite")
        self._open.append((fleet, links))
        return fleet

    async def close(self) -> None:
        for fleet, links in self._open:
            await fleet.close()
            await links.close()
            await links.cloud.close()
        self._open.clear()

    def kernelspecs(self) -> int:
        return len(list((self._folder / "kernels").glob("*/kernel.json")))


@pytest_asyncio.fixture
async def servers(emulator: Any, faults: Any, tmp_path: Path) -> AsyncIterator[Servers]:
    servers = Servers(emulator, tmp_path)
    yield servers
    emulator.request("DELETE", "/emulator/v1/faults")
    await servers.close()


def environment(node: dict[str, Any]) -> EnvironmentRecord:
    """As connecting leaves it, without the minutes that takes."""
    name = node["name"].rpartition("/")[2]
    return EnvironmentRecord(
        node_id=node["id"],
        request=ConnectTPU(),
        environment=Environment(
            name="default", tpu=name, zone=ZONE, state="ready", python="3.11", path="/home/e"
        ),
    )


def connect(fleet: Fleet, node: dict[str, Any]) -> NodeName:
    """Writes down that a TPU is connected."""
    name = parse_node_path(node["name"])
    fleet._core.desired.save(name, environment(node))
    fleet._core.desired.connect(name, node["id"])
    fleet._reconcile.controller.wake()
    return name


def desired(fleet: Fleet) -> set[NodeName]:
    return set(fleet._core.desired.connected)


async def test_a_server_on_another_project_leaves_the_first_projects_tpus_alone(
    servers, create_tpu
):
    node = create_tpu(zone=ZONE)
    first = await servers.open()
    await first.tpus()
    name = connect(first, node)
    await eventually(lambda: servers.kernelspecs() == 1)
    await servers.close()

    other = await servers.open(project="second")
    await other.tpus()
    await other._core.observer.refresh()
    await other._core.observer.refresh()
    assert (await other.status()).project == "second"
    assert desired(other) == {name}
    assert servers.kernelspecs() == 1
    await servers.close()

    again = await servers.open()
    await again._core.observer.refresh()
    assert desired(again) == {name}


async def test_a_tpu_that_another_process_has_replaced_is_not_forgotten_by_one_that_saw_the_old_one(
    servers, create_tpu
):
    fleet = await servers.open()
    name = connect(fleet, create_tpu(zone=ZONE))
    await fleet.tpus()
    await eventually(lambda: servers.kernelspecs() == 1)
    nodes = fleet._core.observed.nodes
    old = structs.replace(nodes[name], id="the-one-before")
    nodes[name] = old
    fleet._reconcile.controller.wake()
    await eventually(lambda: nodes[name] is not old)  # Google was asked
    await asyncio.sleep(0.1)
    assert desired(fleet) == {name}
    assert servers.kernelspecs() == 1


async def test_a_kernelspec_that_can_not_be_written_keeps_no_other_tpu_waiting(
    servers, create_tpu, monkeypatch
):
    bad, good = create_tpu(zone=ZONE), create_tpu(zone=ZONE)
    register, full = servers.specs.register, [True]

    def fails(place: KernelPlace, **arguments: Any) -> Any:
        if full[0] and bad["name"].endswith(place.tpu):
            raise OSError(28, "No space left on device")
        return register(place, **arguments)

    monkeypatch.setattr(servers.specs, "register", fails)
    fleet = await servers.open()
    await fleet.tpus()
    for node in (bad, good):
        connect(fleet, node)
    await eventually(lambda: servers.kernelspecs() == 1)
    listed = {tpu.name: tpu.problem for tpu in (await fleet.tpus()).tpus}
    problem = listed[bad["name"].rpartition("/")[2]]
    assert "No space left on device" in problem.message
    assert listed[good["name"].rpartition("/")[2]] is None
    [failing] = (await fleet.status()).failing
    assert failing.problem == problem
    full[0] = False  # there is room again
    await eventually(lambda: servers.kernelspecs() == 2)
    status = await fleet.status()
    assert status.failing == []
    assert not any(loop.failures or loop.failing for loop in status.loops)
