"""Ray without Ray: what its job does on a host, what is refused before it, and how it is shown."""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from ports import free_port
from refusals import raises
from waiting import until

from jupyter_tpu.apps.mounts import Origin
from jupyter_tpu.apps.reverse_proxy import ReverseProxy
from jupyter_tpu.cloud import Endpoint, NodeName
from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.fleet.models import HostJob, Job, JobAttempt, Ray
from jupyter_tpu.fleet.ray import hosts as ray
from jupyter_tpu.fleet.ray import service as fleet_ray
from jupyter_tpu.fleet.ray.hosts import RayNode, RayOnHost, RayState
from jupyter_tpu.on_host.ray import node as ray_node

#: Stands for Ray: says how it was started, writes the address file as Ray does, and waits.
FAKE = """
import json, os, sys, time
log = open(os.environ["FAKE_LOG"], "a")
print(json.dumps([sys.argv[1:], os.environ.get("RAY_AUTH_MODE"), "RAY_AUTH_TOKEN" in os.environ]),
      file=log, flush=True)
if os.path.exists(os.environ["FAKE_LOG"] + ".fails"):
    os.unlink(os.environ["FAKE_LOG"] + ".fails")
    sys.exit(7)
with open(os.environ["FAKE_ADDRESS"], "w") as file:
    file.write("127.0.0.1:%s" % os.environ["JUPYTER_TPU_RAY_PORTS"].split(",")[0])
time.sleep(1000)
"""
PROGRAM = """
import sys
from jupyter_tpu.on_host.ray import node as ray_node
ray_node.ADDRESS_FILE = sys.argv[1]
ray_node.START_PAUSE_SECONDS = 0
ray_node.metadata.version = lambda name: "2.60.0"
ray_node.dashboard_pages = lambda: ray_node.ADDRESS_FILE + ".none"
ray_node.main()
"""


@pytest.fixture
def node(tmp_path: Path) -> Any:
    """Starts the program of a host, with a Ray that is none."""
    fake = tmp_path / "fake/ray/scripts/scripts.py"
    fake.parent.mkdir(parents=True)
    for folder in (fake.parent, fake.parent.parent):
        (folder / "__init__.py").write_text("")
    fake.write_text(FAKE)
    address = tmp_path / "ray_current_cluster"
    started: list[subprocess.Popen[str]] = []

    def start(host: int, port: int) -> Any:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(address)],
            env={
                **os.environ,
                "HOME": str(tmp_path),
                "PYTHONPATH": str(tmp_path / "fake"),
                "FAKE_LOG": str(tmp_path / "log"),
                "FAKE_ADDRESS": str(address),
                "RAY_AUTH_TOKEN": "a token",
                "JUPYTER_TPU_HOST": str(host),
                "JUPYTER_TPU_ADDRESSES": "127.0.0.1" + ",127.0.0.2" * host,
                "JUPYTER_TPU_RAY_PORTS": f"{port},8265",
                "JUPYTER_TPU_RAY_CHIPS": "4",
                "JUPYTER_TPU_RAY_NAME": "my-tpu",
                "JUPYTER_TPU_KERNEL_FOLDER": str(tmp_path),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(process)
        return process

    start.address = address
    yield start
    for process in started:
        process.terminate()  # it ends its Ray, too
        process.wait(60)


def test_the_head_starts_with_a_token_that_only_its_user_can_read_and_leaves_no_address(
    node, tmp_path
):
    (tmp_path / "log.fails").touch()  # its first start does not succeed, as on a busy host
    process = node(0, port := free_port())
    until(node.address.exists)
    token = tmp_path / ".ray/auth_token"
    assert token.read_text() == "a token"
    assert token.stat().st_mode & 0o777 == 0o600
    first, second = (tmp_path / "log").read_text().splitlines()
    # Another Ray on this machine may have the usual ports: then each start takes free ones.
    first_words, second_words = (
        re.sub(r"(listen|server)-port=\d+", r"\1-port=N", words) for words in (first, second)
    )
    assert first_words == second_words
    for word in (f'"--port={port}"', '"--head"', '"--dashboard-host=127.0.0.1"', '"token", false'):
        assert word in first
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=60)
    assert "Ray ended with exit code 7. Starting it again" in output
    assert process.returncode == 128 + signal.SIGTERM
    assert not node.address.exists()
    assert not (tmp_path / ".jupyter-tpu/ray/state.json").exists()


def test_a_head_that_ends_soon_after_its_start_is_started_again_once_and_says_so(node, tmp_path):
    process = node(0, free_port())
    log = tmp_path / "log"
    log.touch()
    for starts in (1, 2):
        until(lambda starts=starts: len(log.read_text().splitlines()) == starts)
        until(node.address.exists)
        [ray] = psutil.Process(process.pid).children()
        ray.kill()
    output, _ = process.communicate(timeout=60)
    assert output.count("s after its start, perhaps because this host is busy. Starting it") == 1
    assert process.returncode == -signal.SIGKILL % 256
    assert not node.address.exists()


def test_a_port_that_is_in_use_is_named(node):
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        output, _ = node(0, port).communicate(timeout=60)
    assert f"Port {port}, which Ray was to use, is in use by another program." in output


def test_another_host_waits_for_the_head(node, tmp_path):
    port = free_port()
    process = node(1, port)
    assert process.stdout.readline() == f"Waiting for host 0 at 127.0.0.1:{port}\n"
    assert not (tmp_path / "log").exists()
    with socket.create_server(("127.0.0.1", port)):
        until(lambda: (tmp_path / "log").exists() and (tmp_path / "log").read_text())
    assert f'"--address=127.0.0.1:{port}"' in (tmp_path / "log").read_text()


def test_an_address_of_another_cluster_stays(tmp_path, monkeypatch):
    address = tmp_path / "ray_current_cluster"
    monkeypatch.setattr(ray_node, "ADDRESS_FILE", str(address))
    ray_node.forget_address("10.0.0.2", 6379)  # there is none
    address.write_text("10.0.0.2:6379")
    ray_node.forget_address("10.0.0.2", 6380)
    assert address.exists()
    ray_node.forget_address("10.0.0.2", 6379)
    assert not address.exists()


def on_host(version: str, free: int = 1 << 40) -> RayOnHost:
    return RayOnHost(version=version, free=free, ports=[6379, 8265], token="")


@pytest.mark.parametrize(
    ("versions", "message", "hint"),
    [
        (["", ""], "Ray is not installed in the environment default of pod.", "--install"),
        (["2.60.0", ""], "Host 0 has Ray 2.60.0, and host 1 has no Ray.", "--install"),
        (["2.60.0", "2.53.0", "2.53.0"], "and hosts 1, 2 have Ray 2.53.0.", "--install"),
        (["2.51.1"], "Ray 2.51.1 in the environment default of pod has no token", "env add"),
    ],
)
def test_what_ray_can_not_start_with(versions, message, hint):
    with pytest.raises(TPUError) as caught:
        ray.require_ray([on_host(version) for version in versions], "pod", "default")
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert caught.value.reason is Reason.ENVIRONMENT
    ray.require_ray([on_host("2.52.0")] * 2, "pod", "default")


def test_ray_is_not_installed_on_a_disk_that_is_full():
    with raises(Reason.DISK_FULL, "200 MiB of the disk of host 1 are free"):
        ray.require_space([on_host(""), on_host("", 200 << 20)])
    ray.require_space([on_host("2.60.0", 0)])  # nothing is to be installed


def a_job(*hosts: HostJob, **fields: Any) -> Job:
    attempt = JobAttempt(number=1, created="", hosts=list(hosts))
    values = {"id": "1", "tpu": "pod", "zone": "z", "name": "Ray", "command": [], **fields}
    return Job(attempts=[attempt], **values)


RUNS = HostJob(host=1, state="running")


@pytest.mark.parametrize(
    ("job", "state"),
    [
        (a_job(HostJob(host=0, state="running"), RUNS, state="running"), "starting"),
        (a_job(HostJob(host=0, state="ended", exit_code=1), RUNS, state="running"), "failed"),
        (a_job(HostJob(host=0, state="lost", restarted=True), RUNS, state="waiting"), "starting"),
        (a_job(HostJob(host=0, state="unknown"), RUNS, state="unknown"), "unknown"),
        (a_job(HostJob(host=0, state="stopping"), RUNS, state="stopping", stopped=True),
         "stopping"),
        (a_job(HostJob(host=0, state="ended"), state="stopped", stopped=True), "stopped"),
    ],
)  # fmt: skip
def test_a_cluster_is_as_its_job_is(job, state):
    assert fleet_ray._state(job) == state
    problem = fleet_ray._problem(job)
    assert (problem is not None) == (state == "failed")


async def test_a_start_right_after_a_stop_waits_until_ray_has_ended(monkeypatch):
    """Shown before: "Ray was stopped while it was started"."""
    stopping = a_job(HostJob(host=0, state="stopping"), RUNS, state="stopping", stopped=True)
    over = a_job(HostJob(host=0, state="ended"), state="stopped", stopped=True)
    states, asked = [stopping, stopping, over], []

    class Jobs:
        async def list(self, ref: str) -> list[Job]:
            return [stopping]

        async def get(self, ref: str, id: str) -> Job:
            asked.append(id)
            return states.pop(0)

    service = fleet_ray.RayService.__new__(fleet_ray.RayService)
    service._jobs = Jobs()
    monkeypatch.setattr(stopping, "variables", [ray.PROGRAM])
    monkeypatch.setattr(fleet_ray, "LOOK_SECONDS", 0.0)
    log: list[str] = []
    progress: Any = SimpleNamespace(log=log.append)
    assert await service._running(NodeName("p", "z", "pod"), progress) is None
    assert asked == ["1"] * 3
    assert log == ["Waiting until the Ray of the job 1 has ended"]


def test_a_cluster_runs_when_its_head_answers_and_names_hosts_that_are_missing():
    from types import SimpleNamespace

    internal = ["10.0.0.2", "10.0.0.3"]
    node: Any = SimpleNamespace(
        name=NodeName("p", "z", "pod"),
        endpoints=[Endpoint(internal=address, external="") for address in internal],
    )
    nodes = [
        RayNode(address="10.0.0.2", alive=True, chips=4, processors=8),
        RayNode(address="10.0.0.3", alive=False, chips=4, processors=8),
    ]
    state = RayState(
        head="10.0.0.2", port=6379, dashboard=8265, version="2.60.0", answers=True, nodes=nodes,
        token="secret",
    )  # fmt: skip
    shown = Ray(tpu="pod", zone="z", state="starting")
    fleet_ray._add_state(shown, node, state)
    assert (shown.state, shown.address) == ("running", "10.0.0.2:6379")
    assert [(host.state, host.chips) for host in shown.hosts] == [("alive", 4), ("missing", 0)]
    assert "secret" not in repr(shown)


def test_a_header_of_an_app_replaces_what_the_browser_sends():
    from types import SimpleNamespace

    upstream: Any = SimpleNamespace(port=8265, headers=[("X-Ray-Authorization", "Bearer right")])
    proxy = ReverseProxy(upstream, "Ray", Origin("ray-1", 1))
    headers = proxy.to_host([("x-ray-authorization", "Bearer wrong"), ("Accept", "*/*")])
    sent = [value for name, value in headers if name.lower() == "x-ray-authorization"]
    assert sent == ["Bearer right"]
    assert ("Accept", "*/*") in headers


def test_leftovers_of_a_failed_start_are_ended(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_TPU_KERNEL_FOLDER", str(tmp_path))
    left = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    other = subprocess.Popen(["sleep", "1000"], env={"JUPYTER_TPU_KERNEL_FOLDER": "/other"})
    try:
        # In a child: this process has the mark only in its own copy of the environment.
        code = "from jupyter_tpu.on_host.ray import node; node._end_leftovers()"
        subprocess.run([sys.executable, "-c", code], check=True)
        assert left.wait(60) == -signal.SIGKILL
        assert other.poll() is None
    finally:
        for process in (left, other):
            process.kill()
            process.wait()


def test_the_dashboards_pages_are_no_links_which_it_would_not_serve(tmp_path):
    cache, pages = tmp_path / "cache" / "main.js", tmp_path / "build" / "static" / "js"
    cache.parent.mkdir()
    pages.mkdir(parents=True)
    cache.write_text("program")
    (pages / "main.js").symlink_to(cache)
    (pages / "own.js").write_text("own")
    ray_node.own_files(str(tmp_path / "build"))
    assert sorted(file.name for file in pages.iterdir()) == ["main.js", "own.js"]
    assert not (pages / "main.js").is_symlink()
    assert (pages / "main.js").read_text() == "program"


def test_ray_is_told_the_number_of_chips_of_a_host(tmp_path, monkeypatch):
    for name in ("TPU_VISIBLE_CHIPS", "TPU_VISIBLE_DEVICES", "JUPYTER_TPU_RAY_CHIPS"):
        monkeypatch.delenv(name, raising=False)
    assert ray_node.chips_for_ray(str(tmp_path)) == 0
    # A TPU7x of which each of four chips has two files.
    bus, files = tmp_path / "sys/bus/pci/devices", tmp_path / "dev/vfio"
    files.mkdir(parents=True)
    for chip in range(4):
        for core in range(2):
            device = bus / f"0000:00:0{chip}.{core}"
            device.mkdir(parents=True)
            (device / "vendor").write_text("0x1ae0\n")
            (device / "iommu_group").symlink_to(f"/sys/kernel/iommu_groups/{2 * chip + core}")
            (files / str(2 * chip + core)).touch()
    assert ray_node.chips_for_ray(str(tmp_path)) == 4
    monkeypatch.setattr(ray_node, "devices_by_chip", lambda root: [{"/dev/vfio/0"}] * 4)
    words = ray_node.command(0, ["127.0.0.2"], 6379, 8265)
    assert '--resources={"TPU": 4}' in words
    assert not any(word.startswith("--object-store-memory") for word in words)
    monkeypatch.setenv("TPU_VISIBLE_CHIPS", "0,1")
    assert ray_node.chips_for_ray(str(tmp_path)) == 0, "Ray would refuse more than these"
