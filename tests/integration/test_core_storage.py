"""The file with the desired state is locked, full, or another process's: what was asked for happens
once, and nothing stands still meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
import pytest_asyncio
from fleet_world import others
from refusals import raises
from waiting import eventually

from jupyter_tpu.cloud import CloudTPU, Target
from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.fleet import Fleet
from jupyter_tpu.fleet.models import CreateTPU, DeleteTPU, Operation
from jupyter_tpu.kernels import KernelSpecs
from jupyter_tpu.links import Links

ZONE = "us-west1-c"
LIMIT = 120.0  # seconds
#: A server in a process of its own, that creates a TPU.
SERVER = """
import asyncio, sys
from pathlib import Path
from jupyter_tpu.cloud import CloudTPU, Target
from jupyter_tpu.fleet import Fleet
from jupyter_tpu.fleet.models import CreateTPU
from jupyter_tpu.kernels import KernelSpecs
from jupyter_tpu.links import Links

async def main(state_file, folder, name, zone):
    links = Links(CloudTPU(Target(emulator=state_file)))
    fleet = await Fleet.open(links, KernelSpecs(folder / "kernels"), folder / "fleet.sqlite")
    operation = await fleet.create(CreateTPU(name=name, type="v5litepod-1", zone=zone))
    print(operation.id, flush=True)
    await asyncio.Event().wait()

asyncio.run(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4]))
"""


class Server:
    def __init__(self, emulator: Any, folder: Path) -> None:
        self.emulator = emulator
        self.folder = folder
        self.file = folder / "fleet.sqlite"
        self.names: list[str] = []

    async def open(self) -> Server:
        self._links = Links(CloudTPU(Target(emulator=str(self.emulator.state_file))))
        specs = KernelSpecs(self.folder / "kernels")
        self.fleet = await Fleet.open(self._links, specs, self.file)
        return self

    async def close(self) -> None:
        await self.fleet.close()
        await self._links.close()
        await self._links.cloud.close()

    def name(self) -> str:
        self.names.append(f"tpu-{uuid.uuid4().hex[:8]}")
        return self.names[-1]

    async def create(self, name: str) -> Operation:
        return await self.fleet.create(CreateTPU(name=name, type="v5litepod-1", zone=ZONE))

    async def delete(self, name: str) -> Operation:
        return await self.fleet.delete(f"{ZONE}~{name}", DeleteTPU())

    async def end(self, operation: Operation) -> Operation:
        return await asyncio.wait_for(self.fleet.operations.wait(operation.id), LIMIT)

    def there(self, name: str) -> bool:
        nodes = self.emulator.request("GET", f"/v2/projects/emulated/locations/{ZONE}/nodes")
        return any(node["name"].endswith(f"/{name}") for node in nodes.get("nodes", []))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Another program has the file's write lock."""
        with contextlib.closing(sqlite3.connect(self.file, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            yield


@pytest_asyncio.fixture
async def server(emulator: Any, faults: Any, tmp_path: Path) -> AsyncIterator[Server]:
    server = await Server(emulator, tmp_path).open()
    yield server
    emulator.request("DELETE", "/emulator/v1/faults")
    await server.close()
    for name in filter(server.there, server.names):
        path = f"/v2/projects/emulated/locations/{ZONE}/nodes/{name}"
        emulator.wait(emulator.request("DELETE", path))


async def test_a_locked_file_makes_creations_and_deletions_wait_and_nothing_else(server):
    first, second = server.name(), server.name()
    assert (await server.end(await server.create(first))).state == "done"
    with server.locked():
        creating = asyncio.create_task(server.create(second))
        deleting = asyncio.create_task(server.delete(first))
        await eventually(lambda: server.fleet._core.store.problem is not None)
        storage = (await server.fleet.status()).storage
        assert "has locked" in storage.message
        for _ in range(20):  # the loop, lists and Google's answers go on
            assert first in {tpu.name for tpu in (await server.fleet.tpus()).tpus}
            await server.fleet._core.observer.refresh()
        assert not creating.done()
        assert not deleting.done()
        assert not server.there(second), "Google is asked when that is written down"
    created, deleted = await creating, await deleting
    assert (await server.end(created)).state == (await server.end(deleted)).state == "done"
    assert (server.there(first), server.there(second)) == (False, True)
    assert (await server.fleet.status()).storage is None


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(disk)], check=True)
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


@pytest.mark.skipif(os.getuid() != 0, reason="SKIPPED: only root can make a small disk")
async def test_on_a_full_disk_nothing_is_created_and_what_costs_money_is_deleted(
    emulator, faults, small_disk
):
    server = await Server(emulator, small_disk).open()
    first, second = server.name(), server.name()
    assert (await server.end(await server.create(first))).state == "done"
    filler = small_disk / "filler"
    fill(filler)
    with raises(Reason.DISK_FULL, "disk is full"):
        await server.create(second)
    assert not server.there(second)
    with pytest.raises(TPUError, match="disk is full"):  # the first one stands in no one's way
        await server.create(second)
    deleted = await server.end(await server.delete(first))
    assert (deleted.state, server.there(first)) == ("done", False)
    assert any("This continues" in line for line in deleted.log)
    storage = (await server.fleet.status()).storage
    assert storage.reason is Reason.DISK_FULL
    filler.unlink()
    await eventually(lambda: server.fleet._core.store.problem is None)
    assert (await server.end(await server.create(second))).state == "done"
    assert (await server.end(await server.delete(second))).state == "done"
    await server.close()
    again = await Server(emulator, small_disk).open()
    states = {operation.id: operation.state for operation in await again.fleet.operations.list()}
    assert states.pop(deleted.id) == "done"
    assert set(states.values()) == {"done"}
    await again.close()


async def suspend(process: asyncio.subprocess.Process, server: Server) -> None:
    """At a moment when it does not write: the file would stay locked."""
    while True:
        process.send_signal(signal.SIGSTOP)
        await eventually(lambda: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED)
        with contextlib.suppress(sqlite3.OperationalError), server.locked():
            return
        process.send_signal(signal.SIGCONT)
        await asyncio.sleep(0.05)


def fill(path: Path) -> None:
    """Until not a byte more can be written."""
    with path.open("wb", buffering=0) as file:
        for size in (4096, 1):
            try:
                while file.write(bytes(size)):
                    pass
            except OSError:
                pass


@pytest.mark.parametrize("fate", ["is killed", *others("lives", "hangs, and is killed")])
async def test_what_another_server_creates_is_shown_and_cancelled_whatever_becomes_of_that(
    server, faults, fate
):
    name = server.name()
    faults(kind="slow", seconds=60, zone=ZONE, count=1)
    arguments = [str(server.emulator.state_file), str(server.folder), name, ZONE]
    other = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SERVER, *arguments, stdout=subprocess.PIPE
    )
    try:
        id = (await other.stdout.readline()).decode().strip()
        await eventually(lambda: server.there(name))
        shown = await server.fleet.operations.get(id)
        assert (shown.state, shown.kind) == ("running", "create")
        if fate == "is killed":
            other.kill()
            await eventually(lambda: id in server.fleet._core.runner.known.running)
        elif fate == "hangs, and is killed":
            await suspend(other, server)
        assert (await server.fleet.operations.cancel(id)).state in ("running", "cancelled")
        if fate == "hangs, and is killed":
            assert (await server.fleet.operations.get(id)).state == "running"
            other.kill()

        async def ended() -> bool:
            return (await server.fleet.operations.get(id)).state != "running"

        await eventually(ended, LIMIT)
        assert (await server.fleet.operations.get(id)).state == "cancelled"
        await eventually(lambda: not server.there(name))
        if fate == "lives":
            assert other.returncode is None, "it was that which cancelled"
    finally:
        with contextlib.suppress(ProcessLookupError):
            other.kill()
        await other.wait()
