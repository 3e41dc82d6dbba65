"""A VM and a slice of Compute Engine, end to end: made, connected, used by a notebook and by a job,
preempted and deleted. A real Jupyter server, real SSH, a real environment and kernel.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import nbformat
import pytest
from adoption_server import Server
from compute_world import PARTS, ZONE, ComputeWorld
from nbclient import NotebookClient
from waiting import until

SLICE = {"name": "my-slice", "type": "v6e-2x4", "zone": ZONE, "api": "compute"}
VM = {"name": "my-vm", "type": "v6e-4", "zone": ZONE, "api": "compute", "tier": "spot"}
#: On two hosts with four chips each, which JAX takes for a part of what both have.
CELL = "import jax, platform; print(platform.node(), jax.local_device_count())"


@pytest.fixture(scope="module")
def server(emulator: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("story"), emulator.environment)
    with server, server.as_this_process():
        yield server


def run(server: Server, name: str) -> str:
    """What a notebook's cell prints on it."""
    (environment,) = server.tpu("GET", f"tpus/{name}/environments")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL)])
    NotebookClient(notebook, timeout=120, kernel_name=environment["kernelspec"]).execute()
    return str(notebook.cells[0].outputs[-1]["text"]).strip()


def calls(world: ComputeWorld) -> list[str]:
    """Google's log of what was asked of it, by people and by itself, in order."""
    texts = []
    for place in (f"zones/{ZONE}", "regions/us-east5"):
        path = f"/compute/v1/projects/emulated/{place}/operations"
        for operation in world.emulator.request("GET", path)["items"]:
            who = "google" if operation["user"] == "system" else "user"
            what = operation["targetLink"].partition("/projects/emulated/")[2]
            verb = operation["operationType"]
            texts.append((operation["insertTime"], f"{who} {verb} {what} {operation['status']}"))
    return [text for _, text in sorted(texts)]


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_vm_and_a_slice_are_used_by_a_notebook_and_a_job_and_leave_nothing(
    server: Server, emulator: Any, faults: Any, capsys: Any
) -> None:
    world = ComputeWorld(emulator, server.folder)
    for body in (VM, SLICE):
        server.finish(server.tpu("POST", "tpus", {**body, "connect": {}}))
        name = body["name"]
        until(lambda name=name: server.tpu("GET", f"tpus/{name}")["connection"] == "connected", 300)
    tpus = {tpu["name"]: tpu for tpu in server.tpu("GET", "tpus")["tpus"]}
    for name, hosts in (("my-vm", 1), ("my-slice", 2)):
        assert (tpus[name]["api"], len(tpus[name]["hosts"])) == ("compute", hosts)
    assert run(server, "my-vm") == "my-vm 4"
    assert re.fullmatch(r"my-slice-w-00\d 4", run(server, "my-slice"))

    job = server.tpu("POST", "tpus/my-slice/jobs", {"command": ["hostname"], "hosts": "all"})
    ended = until(
        lambda: next(
            (job for job in server.tpu("GET", "tpus/my-slice/jobs") if job["state"] == "ended"),
            None,
        ),
        60,
    )
    said = [
        server.tpu("GET", f"tpus/my-slice/jobs/{job['id']}/log?host={host}")["lines"][0]["text"]
        for host in (0, 1)
    ]
    assert (ended["id"], sorted(said)) == (job["id"], ["my-slice-w-001", "my-slice-w-002"])

    emulator.inject_fault("preempt", node="my-vm")
    until(lambda: server.tpu("GET", "tpus/my-vm")["state"] == "PREEMPTED", 60)
    for name in ("my-vm", "my-slice"):
        server.finish(server.tpu("DELETE", f"tpus/{name}?end_kernels=true"))
    assert world.names() == []
    assert server.tpu("GET", "tpus")["tpus"] == []
    log = calls(world)
    with capsys.disabled():
        print("\n" + "\n".join(log))
    asked = [line for line in log if line.startswith("user")]
    assert [line.split()[1:3] for line in asked if "my-slice" in line] == [
        *[["insert", _path(kind)] for kind in PARTS],
        *[["delete", _path(kind)] for kind in ("instanceGroupManagers", *PARTS[1::-1])],
    ]


def _path(collection: str) -> str:
    if collection == "instanceGroupManagers":
        return f"zones/{ZONE}/{collection}/my-slice"
    return f"regions/us-east5/{collection}/my-slice-a"
