"""The main job, end to end: from an empty project to a notebook that ran on a TPU, and back.

A real Jupyter server with the extension, its REST interface, the emulator over gRPC, real SSH,
a real environment and a real kernel; the notebook is run by nbclient in this process, which is
not the server's.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[2] / "examples"
LIMIT = 240.0  # seconds for an operation; the first environment downloads JAX


class Server:
    """A Jupyter server of its own, and calls to the extension's REST interface."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.token = secrets.token_hex(16)
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = folder / "server.log"
        root = folder / "root"
        root.mkdir()
        command = [sys.executable, "-m", "jupyter_server", f"--ServerApp.port={self.port}"]
        command += ["--ServerApp.ip=127.0.0.1", "--ServerApp.port_retries=0", "--allow-root"]
        command += ["--ServerApp.open_browser=False", f"--ServerApp.root_dir={root}"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command,
                env={**os.environ, "JUPYTER_TOKEN": self.token},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        deadline = time.monotonic() + 60
        while True:
            assert self.process.poll() is None, self.log.read_text()
            try:
                self.request("GET", "/api")
                break
            except OSError:
                assert time.monotonic() < deadline, self.log.read_text()
                time.sleep(0.05)

    def request(self, method: str, path: str, body: Any = None) -> Any:
        request = urllib.request.Request(
            self.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"token {self.token}"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read() or "null")

    def tpu(self, method: str, path: str, body: Any = None) -> Any:
        return self.request(method, f"/jupyter-tpu/v1/{path}", body)

    def finish(self, operation: dict[str, Any]) -> dict[str, Any]:
        """Waits for an operation and gives its last state."""
        deadline = time.monotonic() + LIMIT
        while operation["state"] == "running":
            assert time.monotonic() < deadline, operation
            time.sleep(0.1)
            operation = self.tpu("GET", f"operations/{operation['id']}")
        return operation

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(20)


@pytest.fixture
def server(emulator: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("JUPYTER_TPU_EMULATOR", str(emulator.state_file))
    for variable, folder in {
        "JUPYTER_TPU_DATA_DIR": "tpu",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTER_RUNTIME_DIR": "runtime",
        "JUPYTER_CONFIG_DIR": "config",
        "IPYTHONDIR": "ipython",
        "CLOUDSDK_CONFIG": "gcloud",
    }.items():
        (tmp_path / folder).mkdir(mode=0o700)
        monkeypatch.setenv(variable, str(tmp_path / folder))
    server = Server(tmp_path)
    try:
        yield server
    finally:
        server.stop()


def processes(emulator: Any, name: str) -> list[str]:
    """What runs in the hosts' namespaces of a TPU, apart from SSH sessions."""
    every = emulator.request("GET", "/emulator/v1/hosts")["hosts"]
    hosts = [host for host in every if host["node"].endswith(f"/{name}")]
    assert hosts
    commands = (" ".join(p["cmdline"]) for host in hosts for p in host["processes"])
    return sorted(c for c in commands if not re.match(r"sshd: \w+ \[priv\]|sshd: \w+@", c))


def wait_until_processes_are(
    emulator: Any, name: str, expected: list[str], besides: str | None = None
) -> None:
    """Waits until *expected* is all that runs there, but for commands that end in *besides*."""
    deadline = time.monotonic() + 30
    while True:
        now = processes(emulator, name)
        left = [p for p in now if p not in expected and not (besides and p.endswith(besides))]
        if not left and all(p in now for p in expected):
            return
        assert time.monotonic() < deadline, f"left over: {left}"
        time.sleep(0.1)


@pytest.mark.timeout(600)
def test_a_newcomer_creates_connects_runs_a_notebook_and_deletes(
    server: Server, emulator: Any
) -> None:
    created = server.finish(
        server.tpu("POST", "tpus", {"name": "story", "type": "v5litepod-8", "zone": "us-west4-a"})
    )
    assert created["state"] == "done", created
    tpu = server.tpu("GET", "tpus/story")
    assert (tpu["state"], tpu["emulated"], tpu["connection"]) == ("READY", True, "disconnected")
    before = processes(emulator, "story")

    connected = server.finish(server.tpu("POST", "tpus/story/connect", {}))
    assert connected["state"] == "done", connected
    assert connected["log"], "an environment was made without a line of log"
    [environment] = server.tpu("GET", "tpus/story/environments")
    assert (environment["state"], environment["devices"]) == ("ready", 8)
    specs = server.request("GET", "/api/kernelspecs")["kernelspecs"]
    assert "emulated" in specs[environment["kernelspec"]]["spec"]["display_name"]

    notebook = nbformat.read(EXAMPLES / "first-steps.ipynb", as_version=4)
    NotebookClient(notebook, timeout=120, kernel_name=environment["kernelspec"]).execute()
    [place, devices] = notebook.cells[1].outputs
    assert re.match(r"This cell runs on t1v-n-\w{8}-w-0", place["text"])
    assert devices["data"]["text/plain"].count("CpuDevice") == 8
    # A connected TPU keeps its agent, and nothing of the kernel.
    wait_until_processes_are(emulator, "story", before, besides=" daemon")

    deleted = server.finish(server.tpu("DELETE", "tpus/story"))
    assert deleted["state"] == "done", deleted
    assert environment["kernelspec"] not in server.request("GET", "/api/kernelspecs")["kernelspecs"]
    with pytest.raises(urllib.error.HTTPError) as gone:
        server.tpu("GET", "tpus/story")
    assert gone.value.code == 404
    assert json.load(gone.value)["reason"] == "NOT_FOUND"


@pytest.mark.timeout(600)
def test_a_kernel_of_the_server_is_named_before_its_tpu_is_deleted(
    server: Server, emulator: Any
) -> None:
    body = {"name": "busy", "type": "v5litepod-4", "zone": "us-west4-a", "connect": {}}
    assert server.finish(server.tpu("POST", "tpus", body))["state"] == "done"
    [connecting] = server.tpu("GET", "tpus/busy")["operations"]
    assert server.finish(server.tpu("GET", f"operations/{connecting}"))["state"] == "done"
    [environment] = server.tpu("GET", "tpus/busy/environments")
    # Its agent may be running already, as connected TPUs are looked after.
    before = [p for p in processes(emulator, "busy") if not p.endswith(" daemon")]
    kernel = server.request("POST", "/api/kernels", {"name": environment["kernelspec"]})
    running = server.tpu("GET", "tpus/busy/kernels")
    assert [k["id"] for k in running] == [kernel["id"]]

    with pytest.raises(urllib.error.HTTPError) as refused:
        server.tpu("DELETE", "tpus/busy")
    assert refused.value.code == 409
    assert json.load(refused.value)["reason"] == "KERNELS_RUNNING"
    assert server.tpu("GET", "tpus/busy")["state"] == "READY"

    server.request("DELETE", f"/api/kernels/{kernel['id']}")
    assert server.tpu("GET", "tpus/busy/kernels") == []
    # A disconnected TPU keeps nothing.
    wait_until_processes_are(emulator, "busy", before, besides=" daemon")
    a_warm_kernel_is_the_next_one(server, emulator)
    assert server.finish(server.tpu("POST", "tpus/busy/disconnect", {}))["state"] == "done"
    wait_until_processes_are(emulator, "busy", before)
    assert server.finish(server.tpu("DELETE", "tpus/busy"))["state"] == "done"


def a_warm_kernel_is_the_next_one(server: Server, emulator: Any) -> None:
    """On the connected TPU "busy": on by request, with its memory shown, and no kernel of its own.

    One is left when this ends.
    """

    def warm(state: str) -> dict[str, Any]:
        deadline = time.monotonic() + 60
        while True:
            [environment] = server.tpu("GET", "tpus/busy/environments")
            if environment["warm"]["state"] == state:
                return environment
            assert time.monotonic() < deadline, environment
            time.sleep(0.1)

    where = "tpus/busy/environments/default/warm"
    for body, reason in (({"imports": ["not a name"]}, "INVALID"), ({"wanted": "no"}, "INVALID")):
        with pytest.raises(urllib.error.HTTPError) as refused:
            server.tpu("POST", where, body)
        assert json.load(refused.value)["reason"] == reason
    with pytest.raises(urllib.error.HTTPError) as unknown:
        server.tpu("POST", where.replace("default", "other"), {"wanted": True})
    assert "it has default" in json.load(unknown.value)["message"]

    assert warm("off")["warm"]["memory"] == 0
    server.tpu("POST", where, {"wanted": True, "imports": ["wave"]})
    environment = warm("ready")
    assert environment["warm"]["memory"] > 10e6
    assert server.tpu("GET", "tpus/busy/kernels") == []
    [waiting] = [p for p in processes(emulator, "busy") if p.endswith("--warm wave")]
    kernel = server.request("POST", "/api/kernels", {"name": environment["kernelspec"]})
    [running] = server.tpu("GET", "tpus/busy/kernels")
    [host] = emulator.hosts("busy")
    [it] = [p for p in host["processes"] if p["pid"] == running["pid"]]
    assert " ".join(it["cmdline"]) == waiting
    server.request("DELETE", f"/api/kernels/{kernel['id']}")

    def typed(*words: str) -> str:
        command = [sys.executable, "-m", "jupyter_tpu.cli", *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert "has no warm kernel" in typed("kernel", "warm", "busy", "off")
    assert warm("off")["warm"]["memory"] == 0
    assert "has a warm kernel" in typed("kernel", "warm", "busy", "on")
    warm("ready")
    assert re.search(r"WARM KERNEL.*\n.* \d+ MB ", typed("describe", "busy"))


@pytest.mark.timeout(600)
def test_a_kernel_ended_with_its_tpu_is_reported_dead_once_and_not_restarted(
    server: Server, emulator: Any
) -> None:
    body = {"name": "doomed", "type": "v5litepod-1", "zone": "us-west4-a", "connect": {}}
    assert server.finish(server.tpu("POST", "tpus", body))["state"] == "done"
    [connecting] = server.tpu("GET", "tpus/doomed")["operations"]
    assert server.finish(server.tpu("GET", f"operations/{connecting}"))["state"] == "done"
    [environment] = server.tpu("GET", "tpus/doomed/environments")
    kernel = server.request("POST", "/api/kernels", {"name": environment["kernelspec"]})
    ended = server.finish(server.tpu("DELETE", "tpus/doomed?end_kernels=true"))
    assert ended["state"] == "done", ended

    deadline = time.monotonic() + 30
    while (now := server.request("GET", "/api/kernels")) and now[0]["execution_state"] != "dead":
        assert time.monotonic() < deadline, now
        time.sleep(0.1)
    assert all(k["id"] == kernel["id"] for k in now)
    assert "restarting kernel" not in server.log.read_text()


def test_no_secret_is_written_to_the_servers_log(server: Server, emulator: Any) -> None:
    with pytest.raises(urllib.error.HTTPError):
        server.tpu("POST", "tpus", {"name": "Bad Name", "type": "v5litepod-8"})
    server.tpu("GET", "tpus")
    log = server.log.read_text()
    assert Path(emulator.state.token_file).read_text().strip() not in log
    assert "PRIVATE KEY" not in log
