"""The main job, end to end: from an empty project to a notebook that ran on a TPU, and back.

A real Jupyter server with the extension, its REST interface, the emulator over gRPC, real SSH,
a real environment and a real kernel; the notebooks are run by nbclient in this process, which is
not the server's. The examples run here, too, over all devices of a TPU that was connected without
options.
"""

import contextlib
import json
import re
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from adoption_server import LIMIT, Server
from nbclient import NotebookClient
from waiting import until
from websocket import create_connection

from jupyter_tpu.kernel_place import KernelPlace
from jupyter_tpu.kernels import KernelSpecs
from jupyter_tpu.language import on_pages
from jupyter_tpu.server.events import KERNEL_REFUSED

EXAMPLES = Path(__file__).parents[2] / "examples"
DEVICES = 8
#: Before an example's own cells.
FIRST = """
import os, platform
# Half the time: they compile much and calculate little.
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_backend_optimization_level=0"
print(platform.node())
"""


@pytest.fixture(scope="module")
def server(emulator: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("story"), emulator.environment)
    with server, server.as_this_process():
        yield server


def processes(emulator: Any, name: str) -> list[str]:
    """What runs in the hosts' namespaces of a TPU, apart from SSH sessions."""
    every = emulator.request("GET", "/emulator/v1/hosts")["hosts"]
    hosts = [host for host in every if host["node"].endswith(f"/{name}")]
    assert hosts
    commands = (" ".join(p["cmdline"]) for host in hosts for p in host["processes"])
    return sorted(c for c in commands if not re.match(r"sshd: \w+ \[priv\]|sshd: \w+@", c))


#: How the commands of the agent end, which a connected TPU keeps.
AGENT = (" daemon", " forker")


def wait_until_processes_are(
    emulator: Any, name: str, expected: list[str], besides: tuple[str, ...] = ()
) -> None:
    """Waits until *expected* is all that runs there, but for commands that end in *besides*."""

    def are_so() -> bool:
        now = processes(emulator, name)
        left = [p for p in now if p not in expected and not p.endswith(besides)]
        return not left and all(p in now for p in expected)

    until(are_so, why=lambda: f"{processes(emulator, name)} instead of {expected}")


@pytest.fixture(scope="module")
def environment(server: Server, emulator: Any) -> Iterator[dict[str, Any]]:
    """The environment of the connected TPU "story", and what ran there `before`."""
    body = {"name": "story", "type": f"v5litepod-{DEVICES}", "zone": "us-west4-a"}
    server.finish(server.tpu("POST", "tpus", body))
    tpu = server.tpu("GET", "tpus/story")
    assert (tpu["state"], tpu["emulated"], tpu["connection"]) == ("READY", True, "disconnected")
    before = processes(emulator, "story")
    connected = server.finish(server.tpu("POST", "tpus/story/connect", {}))
    assert connected["log"], "an environment was made without a line of log"
    [environment] = server.tpu("GET", "tpus/story/environments")
    yield {**environment, "before": before}
    if "story" in [tpu["name"] for tpu in server.tpu("GET", "tpus")["tpus"]]:
        server.finish(server.tpu("DELETE", "tpus/story?end_kernels=true"))


def test_a_newcomer_runs_a_notebook_on_a_tpu_that_was_created_and_connected(
    server, environment, emulator
):
    assert (environment["state"], environment["devices"]) == ("ready", DEVICES)
    specs = server.request("GET", "/api/kernelspecs")["kernelspecs"]
    spec = specs[environment["kernelspec"]]["spec"]
    assert "emulated" in spec["display_name"]
    # A program of this computer is not where it runs; clients show it as that.
    assert spec["argv"] == []
    one = server.request("GET", f"/api/kernelspecs/{environment['kernelspec']}")["spec"]
    assert (one["argv"], one["display_name"]) == ([], spec["display_name"])

    notebook = nbformat.read(EXAMPLES / "first-steps.ipynb", as_version=4)
    NotebookClient(notebook, timeout=120, kernel_name=environment["kernelspec"]).execute()
    [place, devices] = notebook.cells[1].outputs
    assert re.match(r"This cell runs on t1v-n-\w{8}-w-0", place["text"])
    assert devices["data"]["text/plain"].count("CpuDevice") == DEVICES
    # A connected TPU keeps its agent, and nothing of the kernel.
    wait_until_processes_are(emulator, "story", environment["before"], besides=AGENT)


def test_a_kernel_that_is_refused_is_also_an_event_with_the_reason_in_the_users_language(
    server, emulator
):
    """For clients that do not show how their request was answered, as VS Code."""
    name, _ = KernelSpecs(Path(server.environment["JUPYTER_DATA_DIR"]) / "kernels").register(
        KernelPlace(
            project=emulator.state.project,
            zone="us-west4-a",
            tpu="nowhere",
            host_python="/python",
            emulator=str(emulator.state_file),
        ),
        python_version="3.12",
        emulated=True,
    )
    header = {"Authorization": f"token {server.token}"}

    def refusal(language: str) -> dict[str, str]:
        """The event, which has what the request is answered with."""
        url = f"{server.url.replace('http', 'ws')}/api/events/subscribe?language={language}"
        with contextlib.closing(create_connection(url, timeout=LIMIT, header=header)) as events:
            asked = {"Accept-Language": language}
            with pytest.raises(urllib.error.HTTPError) as refused:
                server.request("POST", "/api/kernels", {"name": name}, asked)
            answer = json.load(refused.value)
            event: dict[str, str] = {"schema_id": ""}
            while event["schema_id"] != KERNEL_REFUSED:
                event = json.loads(events.recv())
        assert event["message"] in answer["message"]
        assert (event["reason"], event["hint"]) == (answer["reason"], answer["hint"])
        return event

    english, japanese = refusal("en"), refusal("ja")
    assert "nowhere" in english["message"]
    for field in ("message", "hint"):
        assert japanese[field] == on_pages("ja_JP").translate(english[field]) != english[field]


def outputs(environment: dict[str, Any], name: str) -> list[Any]:
    """The outputs of the cells of an example."""
    notebook = nbformat.read(EXAMPLES / f"{name}.ipynb", as_version=4)
    notebook.cells.insert(0, nbformat.v4.new_code_cell(FIRST))
    kernel = environment["kernelspec"]
    NotebookClient(notebook, timeout=int(LIMIT), kernel_name=kernel).execute()
    first, *cells = notebook.cells
    assert first.outputs[0]["text"].startswith("t1v-n-")  # the name of a TPU's host
    return [output for cell in cells for output in cell.get("outputs", [])]


@pytest.mark.long
def test_the_guide_and_its_jaxkit_run_on_the_tpus_host_over_all_its_devices(environment):
    shown = outputs(environment, "jax-on-tpu")
    assert f"cpu {DEVICES} devices" in shown[0]["text"]  # the emulator's are simulated
    pages = "".join(output.get("data", {}).get("text/html", "") for output in shown)
    assert "<svg" in pages
    assert "shape without padding" in pages


@pytest.mark.long
@pytest.mark.parametrize("name", ["spmd-cookbook", "jax-tour", "lorenz-ode", "wave-equation"])
def test_a_notebook_draws_on_the_tpus_host_what_all_its_devices_computed(name, environment):
    shown = outputs(environment, name)
    assert any("image/png" in output.get("data", {}) for output in shown)
    assert any(str(DEVICES) in output.get("text", "").split() for output in shown)


@pytest.mark.long
def test_a_kernel_of_the_server_is_named_before_its_tpu_is_deleted(server, environment, emulator):
    """The last one with this TPU."""
    kernel = server.request("POST", "/api/kernels", {"name": environment["kernelspec"]})
    running = server.tpu("GET", "tpus/story/kernels?fresh=true")
    assert [k["id"] for k in running] == [kernel["id"]]

    with pytest.raises(urllib.error.HTTPError) as refused:
        server.tpu("DELETE", "tpus/story")
    assert refused.value.code == 409
    assert json.load(refused.value)["reason"] == "KERNELS_RUNNING"
    assert server.tpu("GET", "tpus/story")["state"] == "READY"

    server.request("DELETE", f"/api/kernels/{kernel['id']}")
    assert server.tpu("GET", "tpus/story/kernels?fresh=true") == []
    # A disconnected TPU keeps nothing.
    wait_until_processes_are(emulator, "story", environment["before"], besides=AGENT)
    a_warm_kernel_is_the_next_one(server, emulator)
    server.finish(server.tpu("POST", "tpus/story/disconnect", {}))
    wait_until_processes_are(emulator, "story", environment["before"])
    server.finish(server.tpu("DELETE", "tpus/story"))
    assert environment["kernelspec"] not in server.request("GET", "/api/kernelspecs")["kernelspecs"]
    with pytest.raises(urllib.error.HTTPError) as gone:
        server.tpu("GET", "tpus/story")
    assert gone.value.code == 404
    assert json.load(gone.value)["reason"] == "NOT_FOUND"


def a_warm_kernel_is_the_next_one(server: Server, emulator: Any) -> None:
    """On the connected TPU: on by request, with its memory shown, and no kernel of its own.

    One is left when this ends.
    """

    def warm(state: str) -> dict[str, Any]:
        def so() -> dict[str, Any] | None:
            [environment] = server.tpu("GET", "tpus/story/environments")
            return environment if environment["warm"]["state"] == state else None

        return until(so)

    where = "tpus/story/environments/default/warm"
    for body, reason in (({"imports": ["not a name"]}, "INVALID"), ({"wanted": "no"}, "INVALID")):
        with pytest.raises(urllib.error.HTTPError) as refused:
            server.tpu("POST", where, body)
        assert json.load(refused.value)["reason"] == reason
    with pytest.raises(urllib.error.HTTPError) as unknown:
        server.tpu("POST", where.replace("default", "other"), {"wanted": True})
    assert json.load(unknown.value)["hint"] == "Its environments: default."

    assert warm("off")["warm"]["memory"] == 0
    server.tpu("POST", where, {"wanted": True, "imports": ["wave"]})
    environment = warm("ready")
    assert environment["warm"]["memory"] > 10e6
    assert server.tpu("GET", "tpus/story/kernels?fresh=true") == []
    [waiting] = [p for p in processes(emulator, "story") if p.endswith("--warm wave")]
    kernel = server.request("POST", "/api/kernels", {"name": environment["kernelspec"]})
    [running] = server.tpu("GET", "tpus/story/kernels?fresh=true")
    [host] = emulator.hosts("story")
    [it] = [p for p in host["processes"] if p["pid"] == running["pid"]]
    assert " ".join(it["cmdline"]) == waiting
    server.request("DELETE", f"/api/kernels/{kernel['id']}")

    def typed(*words: str) -> str:
        done = server.cli(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "keeps no warm kernel" in typed("kernel", "warm", "story", "off")
    assert warm("off")["warm"]["memory"] == 0
    assert "keeps a warm kernel" in typed("kernel", "warm", "story", "on")
    warm("ready")
    assert re.search(r"WARM KERNEL.*\n.* \d+ MB ", typed("describe", "story"))


@pytest.mark.long  # one kernel: test_kernels_host_gone.py
def test_kernels_ended_with_their_tpu_are_reported_dead_once_and_not_restarted(server, emulator):
    body = {"name": "doomed", "type": "v5litepod-1", "zone": "us-west4-a", "connect": {}}
    server.finish(server.tpu("POST", "tpus", body))
    [connecting] = server.tpu("GET", "tpus/doomed")["operations"]
    server.finish(server.tpu("GET", f"operations/{connecting}"))
    [environment] = server.tpu("GET", "tpus/doomed/environments")
    start = {"name": environment["kernelspec"]}
    kernels = {server.request("POST", "/api/kernels", start)["id"] for _ in range(3)}
    log = server.finish(server.tpu("DELETE", "tpus/doomed?end_kernels=true"))["log"]
    assert kernels == {line[-36:] for line in log if line.startswith("Shut down kernel")}

    def ours() -> list[dict[str, Any]]:
        return server.request("GET", "/api/kernels")

    until(lambda: all(kernel["execution_state"] == "dead" for kernel in ours()))
    assert {kernel["id"] for kernel in ours()} <= kernels
    assert "restarting kernel" not in server.log.read_text()
