"""The server is stopped or killed in the middle, and the next one goes on where it was."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from adoption_server import LIMIT, Server
from waiting import until

ZONE = "us-west4-a"


def wait_for(condition: Callable[[], Any], explain: Callable[[], str] = str) -> Any:
    """The first true answer of *condition*."""
    return until(condition, LIMIT, explain)


@pytest.fixture
def make_server(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    made: list[Server] = []

    def make(*options: str, **environment: str) -> Server:
        made.append(Server(tmp_path, environment, *options))
        made[-1].start()
        return made[-1]

    yield make
    for server in made:
        server.stop()


def test_creating_and_connecting_go_on_after_the_server_was_stopped_and_killed(
    make_server, emulator, faults
):
    server = make_server(**emulator.environment)
    faults(kind="slow", seconds=6, zone=ZONE, count=1)
    body = {"name": "lasting", "type": "v5litepod-4", "zone": ZONE, "connect": {}}
    creating = server.tpu("POST", "tpus", body)
    nodes = f"/v2/projects/emulated/locations/{ZONE}/nodes"
    wait_for(lambda: "lasting" in str(emulator.request("GET", nodes)))
    server.stop()

    server.start()  # nobody has to ask for it
    created = wait_for(lambda: ended(server, creating["id"]))
    assert (created["state"], created["problem"]) == ("done", None)
    assert "The process that ran this has ended. Continuing." in created["log"]

    connecting = wait_for(
        lambda: next((o for o in server.tpu("GET", "operations") if o["kind"] == "connect"), None)
    )
    wait_for(lambda: beyond(server, connecting["id"], "Check the hosts"))
    server.kill()
    # What ran on the host for it ends with it.
    wait_for(lambda: "on_host" not in host_processes(emulator, "lasting"))

    server.start()
    connected = wait_for(lambda: ended(server, connecting["id"]), server.log.read_text)
    assert (connected["state"], connected["problem"]) == ("done", None)
    assert "Continuing" in str(connected["log"])
    tpu = server.tpu("GET", "tpus/lasting")
    assert tpu["connection"] == "connected"

    # A third one finds everything as it was, and holds the link again.
    server.kill()
    server.start()
    wait_for(lambda: server.tpu("GET", "tpus/lasting")["connection"] == "connected")

    faults(kind="slow", seconds=3, zone=ZONE, count=1)
    deleting = server.tpu("DELETE", "tpus/lasting")
    wait_for(lambda: "DELETING" in str(emulator.request("GET", nodes)))
    server.kill()
    server.start()
    wait_for(lambda: "lasting" not in str(server.tpu("GET", "tpus")["tpus"]))
    deleted = wait_for(lambda: ended(server, deleting["id"]))
    assert (deleted["state"], deleted["problem"]) == ("done", None)
    kernelspecs = server.folder / "jupyter" / "kernels"
    wait_for(lambda: not list(kernelspecs.glob("*lasting*")))


def test_the_emulator_comes_and_goes_with_the_server_and_outlives_only_its_death(
    make_server, tmp_path
):
    state = tmp_path / "tpu" / "emulator" / "emulator.json"
    server = make_server("--JupyterTPU.emulator=True")
    assert server.tpu("GET", "catalog")["emulated"]
    first = json.loads(state.read_text())
    creating = server.tpu("POST", "tpus", {"name": "kept", "type": "v5litepod-1", "zone": ZONE})
    assert wait_for(lambda: ended(server, creating["id"]))["state"] == "done"

    server.kill()
    server.start()
    [kept] = server.tpu("GET", "tpus")["tpus"]
    assert (kept["name"], kept["state"]) == ("kept", "READY")
    assert json.loads(state.read_text())["pid"] == first["pid"]

    server.stop()
    wait_for(lambda: not Path(f"/proc/{first['pid']}").exists())
    assert not state.exists()


@pytest.mark.long
def test_results_of_a_compilation_outlive_the_server_and_an_interrupted_one_says_so(
    make_server, monkeypatch, tmp_path
):
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
    server.kill()

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
