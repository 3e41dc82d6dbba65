"""A TPU from the queue that prepares itself and starts a job, with no server there: by the startup
script of its hosts, which the emulator runs as Google does.
"""

import json
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from fleet_world import LIMIT, ZONE, Server, World
from waiting import eventually

from jupyter_tpu.errors import TPUError
from jupyter_tpu.fleet.models import (
    ConnectTPU,
    CreateTPU,
    DeleteTPU,
    Job,
    JobLogQuery,
    SetGuard,
    StartHunt,
)
from jupyter_tpu.ssh.keys import user_name

#: Says that it ran, in a file, and what it ran with.
COMMAND = """
date >> runs
python -c 'import jax; from jupyter_tpu import jaxkit; print(len(jax.devices()), "devices")'
echo on $JUPYTER_TPU_HOST
"""


@pytest_asyncio.fixture
async def world(
    emulator: Any, faults: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[World]:
    monkeypatch.setenv("JUPYTER_TPU_DATA_DIR", str(tmp_path / "data"))
    async with World(emulator, tmp_path) as world:
        yield world


def home(world: World, name: str) -> Path:
    """The user's home on the TPU's only host."""
    hosts = world.emulator.request("GET", "/emulator/v1/hosts")["hosts"]
    (folder,) = (host["folder"] for host in hosts if host["node"].endswith(f"/{name}"))
    return Path(folder) / "home" / user_name()


async def job_of(server: Server, name: str) -> Job | None:
    """The TPU's job, when it has ended."""
    try:
        jobs = await server.fleet.jobs.list(name)
    except TPUError:  # there is no such TPU yet
        return None
    return jobs[0] if jobs and jobs[0].over else None


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_a_tpu_that_comes_while_no_server_runs_begins_its_job_once(world, faults):
    name = f"tpu-{uuid.uuid4().hex[:8]}"
    full = faults(kind="no-capacity", zone=ZONE)
    first = await world.server()
    request = CreateTPU(
        name=name,
        type="v5litepod-1",
        zone=ZONE,
        connect=ConnectTPU(then_run=COMMAND),
        guard=SetGuard(idle=3600.0),
    )
    began = await first.fleet.hunts.start(StartHunt(tpu=request, queued=True))

    async def waits() -> bool:
        queued = await first.fleet.queued.list()
        return any(resource.state == "WAITING_FOR_RESOURCES" for resource in queued.queued)

    await eventually(waits, LIMIT)
    await world.stop(first)
    world.emulator.request("DELETE", f"/emulator/v1/faults/{full['id']}")

    await eventually(lambda: world.state(name) == "READY", LIMIT)
    done = home(world, name) / ".jupyter-tpu" / "unattended" / began.id[:8]
    await eventually(done.exists, LIMIT)
    rule = json.loads((home(world, name) / ".jupyter-tpu" / "guard" / "rule.json").read_text())
    node = world.node(name)
    assert (rule["node_id"], rule["idle"], rule["host"]) == (node["id"], 3600.0, True)

    def job_has_ended() -> bool:
        states = (home(world, name) / ".jupyter-tpu" / "jobs").glob("j-*/state.json")
        return any(json.loads(file.read_text())["state"] == "ended" for file in states)

    await eventually(job_has_ended, LIMIT)
    for verb in ("stop", "start"):
        world.emulator.wait(world.emulator.request("POST", f"/v2/{node['name']}:{verb}", {}))
    log_file = home(world, name).parents[1] / "upper" / "var" / "log" / "startup-script.log"
    await eventually(lambda: "was started before" in log_file.read_text(), LIMIT)

    second = await world.server()
    job = await eventually(lambda: job_of(second, name), LIMIT)
    assert (job.id, job.state) == (began.id[:8], "ended")
    assert job.attempts[-1].hosts[0].started < job.created, "it began before anybody connected"
    log = await second.fleet.jobs.log(name, job.id, JobLogQuery())
    assert [line.text for line in log.lines] == ["1 devices", "on 0"]
    assert len((home(world, name) / "runs").read_text().splitlines()) == 1

    def metadata() -> dict[str, str]:
        node = world.node(name)
        return node["metadata"] if node is not None else {}

    await eventually(lambda: set(metadata()) == {"ssh-keys"}, LIMIT)
    ended = await second.end(await second.fleet.delete(name))
    assert ended.state == "done"


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_a_server_and_the_startup_script_begin_at_once_and_the_job_runs_once(world):
    name = f"tpu-{uuid.uuid4().hex[:8]}"
    server = await world.server()
    request = CreateTPU(
        name=name, type="v5litepod-1", zone=ZONE, connect=ConnectTPU(then_run=COMMAND)
    )
    began = await server.fleet.hunts.start(StartHunt(tpu=request, queued=True))
    job = await eventually(lambda: job_of(server, name), LIMIT)
    await eventually((home(world, name) / ".jupyter-tpu/unattended" / began.id[:8]).exists, LIMIT)
    (same,) = await server.fleet.jobs.list(name)
    assert (same.id, job.state) == (began.id[:8], "ended")
    assert len((home(world, name) / "runs").read_text().splitlines()) == 1

    async def is_connected() -> bool:
        return (await server.fleet.tpu(name)).connection == "connected"

    await eventually(is_connected, LIMIT)  # the startup script may have ended the job before
    await server.end(await server.fleet.delete(name, DeleteTPU(end_kernels=True)))
