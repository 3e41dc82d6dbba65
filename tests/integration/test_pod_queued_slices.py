"""A queued resource of two TPUs, by the command line and by REST: one kernel runs on both, as the
slices of one job, and goes away with them.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from adoption_server import Client, Server
from waiting import until

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]

NAME, ZONE = "job", "us-central2-b"
LIMIT = 400.0  # seconds
#: What libtpu and JAX know on each host, gathered by a collective of all.
CELL = """
import jax, os, socket
from jax.experimental import multihost_utils as m
names = "COORDINATOR_ADDRESS", "NUM_SLICES", "SLICE_ID"
address, count, slice_id = (os.environ["MEGASCALE_" + name] for name in names)
numbers = [*map(int, address.split(".")), int(count), int(slice_id)]
print(jax.device_count(), m.process_allgather(jax.numpy.array(numbers)).tolist())
"""


@pytest.fixture(scope="module")
def server(emulator: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("slices"), emulator.environment) as server:
        yield server


def command(server: Server, *words: str) -> str:
    """What a command prints; it succeeds."""
    done = server.cli(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def slices_kernel(server: Server) -> tuple[str, str] | None:
    """The kernel on both TPUs: the name of its kernelspec, and what kernel pickers show."""
    specs = server.request("GET", "/api/kernelspecs")["kernelspecs"]
    for name, spec in specs.items():
        shown = spec["spec"]["display_name"]
        if shown.endswith(" · job-0 + job-1 (2 slices, all 4 hosts, emulated)"):
            return name, shown
    return None


def test_a_queued_resource_of_two_tpus_gets_one_kernel_on_all_hosts(server):
    words = ("--type", "v4-16", "--zone", ZONE, "--node-count", "2", "--yes", "--json")
    queued = json.loads(command(server, "queued", "create", NAME, *words))
    assert queued["tpus"] == ["job-0", "job-1"]
    command(server, "connect", "job-0")
    assert slices_kernel(server) is None, "job-1 is not connected"
    command(server, "connect", "job-1")
    spec, display_name = until(lambda: slices_kernel(server), LIMIT)
    # Asked for again, by the command line and by REST, it is the same one.
    assert display_name in command(server, "kernel", "add", "job-0", "--slices", "queued")
    added = server.tpu("POST", "tpus/job-0/kernels/slices", {"slices": ["queued"]})
    assert (added["kernelspec"], added["slices"], added["hosts"]) == (spec, ["job-0", "job-1"], 4)

    kernel = server.request("POST", "/api/kernels", {"name": spec})
    client = Client(server, kernel["id"])
    client.connect(LIMIT)
    cell = client.execute(CELL)
    client.until_done(cell, LIMIT)
    coordinator = server.tpu("GET", "tpus/job-0")["hosts"][0]["internal_address"]
    numbers = [*map(int, coordinator.split(".")), 2]
    rows = [[*numbers, slice_id] for slice_id in (0, 0, 1, 1)]
    assert f"16 {rows}\n" in client.printed(cell)
    # By both names: the host of its slice, and all hosts of a slice.
    cell = client.execute("%%host 1.0\nprint(jax.process_index(), slice_id)")
    client.until_done(cell, LIMIT)
    assert client.printed(cell) == "2 1\n"
    [shown] = [
        entry for entry in server.tpu("GET", "tpus/job-0/kernels") if entry["id"] == kernel["id"]
    ]
    assert len(shown["hosts"]) == 4, shown
    client.close()
    server.request("DELETE", f"/api/kernels/{kernel['id']}")

    server.finish(server.tpu("DELETE", f"queued/{ZONE}~{NAME}?force=true"))
    until(lambda: slices_kernel(server) is None, LIMIT)
