"""The server is stopped or killed in the middle, and the next one goes on where it was."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

LIMIT = 120.0  # seconds for anything; the first environment downloads JAX
ZONE = "us-west4-a"
#: Extensions that are not needed here and take seconds to load.
OTHERS = ("jupyterlab", "jupyter_lsp", "notebook_shim", "jupyter_server_terminals")


class Server:
    """A Jupyter server in a process of its own that can be started again."""

    def __init__(self, folder: Path, *options: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.token = secrets.token_hex(16)
        self.url = f"http://127.0.0.1:{port}"
        self.log = folder / "server.log"
        self._command = [
            *(sys.executable, "-m", "jupyter_server", "--allow-root", *options),
            *(f"--ServerApp.port={port}", "--ServerApp.ip=127.0.0.1", "--no-browser"),
            *("--ServerApp.port_retries=0", f"--ServerApp.root_dir={folder}"),
            *(f"--ServerApp.jpserver_extensions={name}=False" for name in OTHERS),
        ]

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command,
                env={**os.environ, "JUPYTER_TOKEN": self.token},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        wait_for(self._answers, self.log.read_text)

    def _answers(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        try:
            self.tpu("GET", "openapi.json")
        except OSError:
            return False
        return True

    def tpu(self, method: str, path: str, body: Any = None) -> Any:
        request = urllib.request.Request(
            f"{self.url}/jupyter-tpu/v1/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"token {self.token}"},
        )
        with urllib.request.urlopen(request, timeout=90) as answer:
            return json.loads(answer.read())

    def end(self, how: signal.Signals) -> None:
        self.process.send_signal(how)
        self.process.wait(40)


def wait_for(condition: Callable[[], Any], explain: Callable[[], str] = str) -> Any:
    """The first true answer of *condition*."""
    end = time.monotonic() + LIMIT
    while not (answer := condition()):
        assert time.monotonic() < end, explain()
        time.sleep(0.03)
    return answer


@pytest.fixture
def make_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Server]]:
    for variable in ("JUPYTER_TPU_DATA_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        folder = tmp_path / variable.lower()
        folder.mkdir(mode=0o700)
        monkeypatch.setenv(variable, str(folder))
    made: list[Server] = []

    def make(*options: str) -> Server:
        made.append(Server(tmp_path, *options))
        made[-1].start()
        return made[-1]

    yield make
    for server in made:
        if server.process.poll() is None:
            server.end(signal.SIGTERM)


@pytest.mark.timeout(300)
def test_creating_and_connecting_go_on_after_the_server_was_stopped_and_killed(
    make_server: Callable[..., Server],
    emulator: Any,
    faults: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JUPYTER_TPU_EMULATOR", str(emulator.state_file))
    server = make_server()
    faults(kind="slow", seconds=6, zone=ZONE, count=1)
    body = {"name": "lasting", "type": "v5litepod-4", "zone": ZONE, "connect": {}}
    creating = server.tpu("POST", "tpus", body)
    nodes = f"/v2/projects/emulated/locations/{ZONE}/nodes"
    wait_for(lambda: "lasting" in str(emulator.request("GET", nodes)))
    server.end(signal.SIGTERM)

    server.start()  # nobody has to ask for it
    created = wait_for(lambda: ended(server, creating["id"]))
    assert (created["state"], created["problem"]) == ("done", None)
    assert "The server was restarted" in str(created["log"])

    connecting = wait_for(
        lambda: next((o for o in server.tpu("GET", "operations") if o["kind"] == "connect"), None)
    )
    wait_for(lambda: beyond(server, connecting["id"], "Look at the hosts"))
    server.end(signal.SIGKILL)
    # What ran on the host for it ends with it.
    wait_for(lambda: "on_host" not in host_processes(emulator, "lasting"))

    server.start()
    connected = wait_for(lambda: ended(server, connecting["id"]), server.log.read_text)
    assert (connected["state"], connected["problem"]) == ("done", None)
    assert "going on with it" in str(connected["log"])
    tpu = server.tpu("GET", "tpus/lasting")
    assert tpu["connection"] == "connected"

    # A third one finds everything as it was, and holds the link again.
    server.end(signal.SIGKILL)
    server.start()
    wait_for(lambda: server.tpu("GET", "tpus/lasting")["connection"] == "connected")

    faults(kind="slow", seconds=3, zone=ZONE, count=1)
    deleting = server.tpu("DELETE", "tpus/lasting")
    wait_for(lambda: "DELETING" in str(emulator.request("GET", nodes)))
    server.end(signal.SIGKILL)
    server.start()
    wait_for(lambda: "lasting" not in str(server.tpu("GET", "tpus")["tpus"]))
    problem = ended(server, deleting["id"])["problem"]
    assert problem["reason"] == "INTERRUPTED"
    assert "delete it again" in problem["hint"]
    kernelspecs = Path(os.environ["JUPYTER_DATA_DIR"]) / "kernels"
    wait_for(lambda: not list(kernelspecs.glob("*lasting*")))


@pytest.mark.timeout(300)
def test_the_emulator_comes_and_goes_with_the_server_and_outlives_only_its_death(
    make_server: Callable[..., Server], tmp_path: Path
) -> None:
    state = tmp_path / "jupyter_tpu_data_dir" / "emulator" / "emulator.json"
    server = make_server("--JupyterTPU.emulator=True")
    assert server.tpu("GET", "catalog")["emulated"]
    first = json.loads(state.read_text())
    creating = server.tpu("POST", "tpus", {"name": "kept", "type": "v5litepod-1", "zone": ZONE})
    assert wait_for(lambda: ended(server, creating["id"]))["state"] == "done"

    server.end(signal.SIGKILL)
    server.start()
    [kept] = server.tpu("GET", "tpus")["tpus"]
    assert (kept["name"], kept["state"]) == ("kept", "READY")
    assert json.loads(state.read_text())["pid"] == first["pid"]

    server.end(signal.SIGTERM)
    wait_for(lambda: not Path(f"/proc/{first['pid']}").exists())
    assert not state.exists()


@pytest.mark.timeout(300)
def test_what_a_compiler_found_outlives_the_server_and_what_it_did_not_says_so(
    make_server: Callable[..., Server], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("libtpu", reason="pip install 'jupyter-tpu[compile]'")
    monkeypatch.setenv("HOME", str(tmp_path))  # nobody is logged in
    server = make_server()
    program = {
        "code": "def fn(x):\n    return x + 1\n",
        "function": "fn",
        "arguments": [{"shape": [8]}],
        "type": "v6e-1",
    }
    quick = server.tpu("POST", "jax/compile", program)
    done = wait_for(lambda: ended(server, quick["id"]))
    assert (done["state"], done["problem"]) == ("done", None)
    endless = {**program, "code": "print('on and on', flush=True)\nwhile True: pass"}
    left = server.tpu("POST", "jax/compile", endless)
    wait_for(lambda: "on and on" in server.tpu("GET", f"operations/{left['id']}")["log"])
    server.end(signal.SIGKILL)

    server.start()
    assert server.tpu("GET", f"operations/{quick['id']}") == done
    interrupted = server.tpu("GET", f"operations/{left['id']}")
    assert (interrupted["state"], interrupted["problem"]["reason"]) == ("failed", "INTERRUPTED")
    assert "Send the program again" in interrupted["problem"]["hint"]
    assert {o["id"] for o in server.tpu("GET", "operations")} == {quick["id"], left["id"]}


def ended(server: Server, id: str) -> dict[str, Any] | None:
    operation = server.tpu("GET", f"operations/{id}")
    return operation if operation["state"] != "running" else None


def beyond(server: Server, id: str, title: str) -> bool:
    """Whether an operation is through with one of its steps; it must still run."""
    operation = server.tpu("GET", f"operations/{id}")
    assert operation["state"] == "running", operation
    return any(s["title"] == title and s["state"] == "done" for s in operation["steps"])


def host_processes(emulator: Any, name: str) -> str:
    return str([p["cmdline"] for host in emulator.hosts(name) for p in host["processes"]])
