"""Ray, the real one from the package index, on a pod of two emulated hosts: started, used by a
script and a notebook, its dashboard, its end, and what goes wrong.
"""

import contextlib
import json
import os
import signal
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest
from adoption_server import Client, Server
from ports import free_port
from test_apps_tensorboard import Browser
from waiting import until

from jupyter_tpu.emulator.hosts.namespace_host import process_tree

pytestmark = [pytest.mark.long, pytest.mark.timeout(1500)]

NAME = "rays"
LIMIT = 400.0  # seconds; Ray's first start compiles a lot of Python
#: Prints where its tasks ran, with a chip each, and ends with 3.
SCRIPT = """
import socket, sys
import ray
from ray.util.placement_group import placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy as At
import part

ray.init()
print("nodes", len(ray.nodes()), "argument", sys.argv[1])

group = placement_group([{"TPU": 4, "CPU": 1}] * 2, strategy="STRICT_SPREAD")

@ray.remote(num_cpus=1, resources={"TPU": 4})
def where(number):
    return part.square(number), socket.gethostname()

ray.get(group.ready())
answers = ray.get([
    where.options(scheduling_strategy=At(group, bundle)).remote(bundle + 2)
    for bundle in range(2)
])
print("squares", [square for square, _ in answers])
print("hosts", len({host for _, host in answers}), flush=True)
sys.exit(3)
"""
CELL = """
import ray
ray.init(log_to_driver=False)
print("nodes", sum(node["Alive"] for node in ray.nodes()), "chips", ray.cluster_resources()["TPU"])
ray.shutdown()
import subprocess
print("its own command", subprocess.run(["ray", "status"], capture_output=True).returncode)
"""


@pytest.fixture(scope="module")
def server(emulator: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose user has a connected pod, without Ray."""
    server = Server(tmp_path_factory.mktemp("rays"), emulator.environment)
    with server.tpu_of_two_hosts(NAME):
        yield server
        with contextlib.suppress(Exception):
            server.tpu("DELETE", f"tpus/{NAME}/ray")


def command(server: Server, *words: str, cwd: Path | None = None) -> Any:
    return server.cli(*words, cwd=cwd)


def ray(server: Server) -> Any:
    return server.tpu("GET", f"tpus/{NAME}/ray")


def ended(server: Server, operation: Any) -> Any:
    """The last state of an operation."""

    def state() -> Any:
        now = server.tpu("GET", f"operations/{operation['id']}")
        return now if now["state"] != "running" else None

    return until(state, LIMIT, lambda: json.dumps(server.tpu("GET", "operations"), indent=1))


def alive_hosts(server: Server) -> int:
    return sum(host["state"] == "alive" for host in ray(server)["hosts"])


def started(server: Server, **request: Any) -> Any:
    return ended(server, server.tpu("POST", f"tpus/{NAME}/ray", request))


def processes(emulator: Any, host: int, word: str) -> list[int]:
    """The processes of a host with *word* in their command lines, as this machine numbers them."""
    init = emulator.hosts(NAME)[host]["init_pid"]
    return [p["outer"] for p in process_tree(init) if word in " ".join(p["cmdline"])]


def test_ray_is_installed_if_the_user_agrees_and_runs_on_all_hosts(server):
    refused = command(server, "ray", "start", NAME)
    assert refused.returncode == 1
    assert "Ray is not installed in the environment default" in refused.stderr
    assert "--install" in refused.stderr
    assert ray(server)["state"] == "stopped"
    assert server.tpu("GET", f"tpus/{NAME}/jobs") == []

    first = server.tpu("POST", f"tpus/{NAME}/ray", {"install": True})
    second = command(server, "ray", "start", NAME)
    assert second.returncode == 1
    assert f"Ray is being started on {NAME}" in second.stderr
    done = ended(server, first)
    assert done["state"] == "done", done
    assert [step["state"] for step in done["steps"]] == ["done"] * 6
    cluster = ray(server)
    assert cluster["state"] == "running", cluster
    assert [(host["state"], host["chips"]) for host in cluster["hosts"]] == [("alive", 4)] * 2
    token = server.on_host(NAME, 1, "cat", ".ray/auth_token")
    assert len(token) == 64
    assert token == server.on_host(NAME, 0, "cat", ".ray/auth_token")
    assert token not in json.dumps([done, cluster, server.tpu("GET", "jobs")])
    assert token not in server.log.read_text()

    # Its dashboard answers in a browser that has no token, and nobody else.
    browser = Browser(server, done["app"])
    nodes = browser.json("/api/v0/nodes")["data"]["result"]["result"]
    assert sorted(node["state"] for node in nodes) == ["ALIVE", "ALIVE"]
    assert b"<title>Ray Dashboard" in browser.read("/")
    port = cluster["dashboard_port"]
    asked = server.on_host(
        NAME, 0, "curl", "-s", "-o", "/dev/null", "-w", "%{http_code}",
        f"http://127.0.0.1:{port}/api/v0/nodes",
    )  # fmt: skip
    assert asked == "401"

    again = started(server)
    assert again["state"] == "done", again
    assert len(server.tpu("GET", f"tpus/{NAME}/jobs")) == 1, "it was kept"


#: Connects to the head without its token, or with another one.
STRANGER = """
import os, sys
os.environ.update(RAY_AUTH_MODE=sys.argv[2], RAY_AUTH_TOKEN="0" * 64, HOME="/nonexistent")
from ray._raylet import GcsClient
print(GcsClient(address=sys.argv[1]).internal_kv_keys(b"", None, timeout=20))
"""


def test_who_has_no_token_is_refused_and_only_ray_s_own_ports_are_on_all_addresses(
    server, emulator
):
    assert started(server, install=True)["state"] == "done"
    python = server.tpu("GET", f"tpus/{NAME}/environments")[0]["path"] + "/bin/python"
    address = ray(server)["address"]
    for mode in ("disabled", "token"):
        refused = command(
            server, "run", NAME, "--worker", "1", "--", python, "-c", STRANGER, address, mode
        )
        assert refused.returncode != 0
        assert "nauthenticated" in refused.stderr + refused.stdout, refused
    # What listens where: only programs that Ray can't bind to an address listen on all of them.
    listening: dict[str, set[str]] = {}
    for host in emulator.hosts(NAME):
        for process in process_tree(host["init_pid"]):
            with contextlib.suppress(psutil.Error):
                words = " ".join(process["cmdline"])
                if "ray" not in words or "sshd" in words:
                    continue
                for connection in psutil.Process(process["outer"]).net_connections("tcp"):
                    if connection.status == psutil.CONN_LISTEN:
                        listening.setdefault(connection.laddr.ip, set()).add(words)
    everywhere = {word for ip in ("0.0.0.0", "::") for word in listening.get(ip, ())}
    ours = "gcs_server", "raylet", "monitor.py", "dashboard.py", "DashboardAgent"
    assert not [word for word in everywhere if not any(name in word for name in ours)]


def test_a_script_and_a_notebook_use_ray(server, tmp_path):
    assert started(server, install=True)["state"] == "done"
    project = tmp_path / "project"
    project.mkdir()
    (project / "part.py").write_text("def square(number):\n    return number * number\n")
    (project / "work.py").write_text(SCRIPT)
    submitted = command(server, "ray", "submit", "work.py", "--", "hello", cwd=project)
    assert submitted.returncode == 3, submitted.stderr
    assert "nodes 2 argument hello" in submitted.stdout
    assert "squares [4, 9]" in submitted.stdout
    assert "hosts 2" in submitted.stdout

    [environment] = server.tpu("GET", f"tpus/{NAME}/environments")
    kernel = server.request("POST", "/api/kernels", {"name": environment["kernelspec"]})
    client = Client(server, kernel["id"])
    client.connect(LIMIT)
    cell = client.execute(CELL)
    client.until_done(cell, LIMIT)
    assert "nodes 2 chips 8.0" in client.printed(cell), client.messages
    assert "its own command 0" in client.printed(cell), "it finds the token, too"
    client.close()
    server.request("DELETE", f"/api/kernels/{kernel['id']}")


#: Ray's JaxTrainer on both hosts: it reserves the slice by the labels and the head's resource.
TRAINER = """
import ray
from ray.train import RunConfig, ScalingConfig
from ray.train.v2.jax import JaxTrainer

def train():
    import jax, numpy
    from jax.experimental import multihost_utils
    total = multihost_utils.process_allgather(numpy.ones(2)).sum()
    rank, count = jax.process_index(), jax.process_count()
    print(f"rank {rank} trained", count, jax.device_count(), total, flush=True)

ray.init()
for node in ray.nodes():
    labels = node["Labels"]
    print("labels", *(labels[f"ray.io/tpu-{name}"] for name in
          ("worker-id", "pod-type", "topology", "slice-name")))
scaling = ScalingConfig(use_tpu=True, num_workers=2, topology="2x2x2", accelerator_type="TPU-V4",
                        resources_per_worker={"TPU": 4})
environment = {"env_vars": {"JAX_PLATFORMS": "cpu"}}  # these chips are emulated
run = RunConfig(storage_path="/tmp/results", worker_runtime_env=environment)
print("error", JaxTrainer(train, scaling_config=scaling, run_config=run).fit().error)
"""


def test_a_jax_trainer_reserves_the_slice_and_trains_on_all_hosts(server, tmp_path):
    assert started(server, install=True)["state"] == "done"
    (tmp_path / "trainer.py").write_text(TRAINER)
    done = command(server, "ray", "submit", "trainer.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for host in (0, 1):
        assert f"labels {host} v4-16 2x2x2 {NAME}" in done.stdout
        # Ray Train may say it on both streams.
        assert f"rank {host} trained 2 8 4.0" in done.stdout + done.stderr
    assert "error None" in done.stdout


#: A model on each host, by its chips.
MODEL = """
import socket, time
from ray import serve

@serve.deployment(num_replicas=2, ray_actor_options={"num_cpus": 0.1, "resources": {"TPU": 4}},
                  max_ongoing_requests=1)
class Model:
    def __call__(self, request):
        time.sleep(1)
        return socket.gethostname()

app = Model.bind()
"""


def test_ray_serve_answers_from_all_hosts_and_leaves_no_model_when_it_is_stopped(server):
    assert started(server, install=True)["state"] == "done"
    assert command(server, "env", "add", NAME, "ray[serve]").returncode == 0
    for host in (0, 1):  # the cluster's workers look in the same folder
        server.on_host(NAME, host, "sh", "-c", 'printf %s "$1" > model.py', "sh", MODEL)
    words = "serve", "start", NAME, "--ray", "model:app", "--json", "--port"
    served = command(server, *words, str(free_port()))
    assert served.returncode == 0, served.stderr
    about = json.loads(served.stdout)

    def ask() -> bytes:
        with urllib.request.urlopen(about["url"], timeout=LIMIT) as answer:
            return answer.read()

    with ThreadPoolExecutor(8) as pool:  # Ray prefers the replica of its proxy's host
        until(lambda: len(set(pool.map(lambda _: ask(), range(8)))) == 2, LIMIT)
    again = command(server, *words, str(free_port()))
    assert "Ray Serve runs in the Ray cluster of rays already" in again.stderr
    assert command(server, "serve", "stop", NAME, about["id"], "--yes").returncode == 0
    python = server.tpu("GET", f"tpus/{NAME}/environments")[0]["path"] + "/bin/python"
    code = "import ray; ray.init(); print('free', ray.available_resources().get('TPU'))"
    free = "env", "RAY_AUTH_MODE=token", python, "-c", code
    until(lambda: "free 8.0" in server.on_host(NAME, 0, *free), LIMIT)


def test_ray_is_stopped_with_all_that_it_has_left(server, emulator):
    assert started(server, install=True)["state"] == "done"
    shown = command(server, "ray", "status", NAME)
    assert shown.stdout.startswith(f"Ray on {NAME}: running, Ray 2")
    assert command(server, "ray", "stop", NAME).returncode == 1, "it asks"
    stopped = command(server, "ray", "stop", NAME, "--yes")
    assert stopped.returncode == 0, stopped.stderr
    until(lambda: ray(server)["state"] == "stopped", LIMIT)
    for host in (0, 1):
        assert processes(emulator, host, "raylet") == []
        left = server.on_host(NAME, host, "ls", "/tmp/ray")
        assert "ray_current_cluster" not in left
    assert server.tpu("GET", "apps") == []


def test_ray_whose_head_died_or_lost_its_host_is_known_and_can_be_started_again(server, emulator):
    server.tpu("DELETE", f"tpus/{NAME}/ray")
    until(lambda: ray(server)["state"] in ("stopped", "failed"), LIMIT)
    # Within two minutes of its start it is started again, once.
    operation = server.tpu("POST", f"tpus/{NAME}/ray", {"install": True})
    until(lambda: alive_hosts(server), LIMIT)
    # Its start is over, not only its server up.
    until(lambda: "ray_current_cluster" in server.on_host(NAME, 0, "ls", "/tmp/ray"), LIMIT)
    [head] = processes(emulator, 0, "gcs_server")[:1]
    os.kill(head, signal.SIGKILL)
    assert ended(server, operation)["state"] == "done"
    assert head not in processes(emulator, 0, "gcs_server")
    assert alive_hosts(server) == 2
    job = ray(server)["job"]
    text = command(server, "job", "logs", NAME, job, "--worker", "0").stdout
    assert "Starting it again" in text
    [head] = processes(emulator, 0, "gcs_server")[:1]
    os.kill(head, signal.SIGKILL)
    failed = until(lambda: (now := ray(server))["state"] == "failed" and now, LIMIT)
    assert "Ray has ended on host 0" in failed["problem"]["message"]
    assert started(server)["state"] == "done"
    assert ray(server)["state"] == "running"

    # It is started at once after it was stopped. The server is killed while it starts, and the host
    # is rebooted: Ray comes back with it.
    server.tpu("DELETE", f"tpus/{NAME}/ray")
    server.tpu("POST", f"tpus/{NAME}/ray", {})
    until(lambda: ray(server)["job"] and ray(server)["state"] == "starting", LIMIT)
    server.kill()
    server.start()
    until(lambda: alive_hosts(server) == 2, LIMIT)
    node = next(node for node in emulator.request("GET", "/v2/projects/emulated/locations/-/nodes")
                ["nodes"] if node["name"].endswith(f"/{NAME}"))  # fmt: skip
    emulator.inject_fault("reboot", node=node["name"])
    job = ray(server)["job"]

    def back() -> bool:
        now = server.tpu("GET", f"tpus/{NAME}/jobs/{job}")
        return len(now["attempts"]) == 2 and alive_hosts(server) == 2

    until(back, LIMIT, lambda: json.dumps([ray(server), server.tpu("GET", "jobs")], indent=1))


def test_a_start_that_is_cancelled_takes_ray_with_it(server, emulator):
    server.tpu("DELETE", f"tpus/{NAME}/ray")
    until(lambda: ray(server)["state"] in ("stopped", "failed"), LIMIT)
    before = len(server.tpu("GET", f"tpus/{NAME}/jobs"))
    operation = server.tpu("POST", f"tpus/{NAME}/ray", {"install": True})
    until(lambda: len(server.tpu("GET", f"tpus/{NAME}/jobs")) > before, LIMIT)
    server.tpu("DELETE", f"operations/{operation['id']}")
    assert ended(server, operation)["state"] == "cancelled"
    until(lambda: ray(server)["state"] == "stopped", LIMIT)
    words = "raylet", "gcs_server", "ray.scripts.scripts"
    until(lambda: not [processes(emulator, host, word) for host in (0, 1) for word in words
                       if processes(emulator, host, word)], LIMIT)  # fmt: skip


def test_what_ray_can_not_start_with_is_said(server, emulator):
    server.tpu("DELETE", f"tpus/{NAME}/ray")
    until(lambda: ray(server)["state"] in ("stopped", "failed"), LIMIT)
    request = {"environment": "other"}
    with pytest.raises(OSError, match="404"):
        server.tpu("POST", f"tpus/{NAME}/ray", request)
    # Another version on one host.
    python = server.tpu("GET", f"tpus/{NAME}/environments")[0]["path"] + "/bin/python"
    where = server.on_host(
        NAME, 1, python, "-c",
        "from importlib.metadata import distribution as d; print(d('ray')._path)",
    ).strip()  # fmt: skip
    server.on_host(NAME, 1, "sed", "-i", "s/^Version: .*/Version: 2.53.0/", f"{where}/METADATA")
    failed = started(server)
    assert failed["state"] == "failed"
    assert "host 1 has Ray 2.53.0" in failed["problem"]["message"]
    assert "Install the same on all hosts" in failed["problem"]["hint"]
