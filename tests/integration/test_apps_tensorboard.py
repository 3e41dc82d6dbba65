"""TensorBoard with xprof on emulated hosts, and traces of running kernels in it: all real, from the
package index over REST and commands to what TensorBoard answers.
"""

import gzip
import json
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from adoption_server import LIMIT, Client, Server
from pod_fleet import silent_ssh
from waiting import until

NAME = "boards"
WORK = """
import time, jax, jax.numpy as jnp
@jax.jit
def busy_step(a):
    return jnp.tanh(a @ a)
a = jnp.ones((256, 256))
print("begun", flush=True)
end = time.time() + 600
while time.time() < end:
    a = busy_step(a).block_until_ready()
"""


@pytest.fixture(scope="module")
def server(emulator: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose user has a TPU that is READY; TensorBoard needs no environment of theirs."""
    with Server(tmp_path_factory.mktemp("boards"), emulator.environment) as server:
        body = {"name": NAME, "type": "v5litepod-4", "zone": "us-west4-a"}
        server.finish(server.tpu("POST", "tpus", body))
        yield server
        server.delete_tpu(NAME)


class Browser:
    """Opens an app once, and keeps what it got for that."""

    def __init__(self, server: Server, app: str) -> None:
        self.url = server.tpu("POST", f"apps/{app}/visits", {"framed_by": server.url})["url"]
        parts = urlsplit(self.url)
        self.place, self.host = f"http://127.0.0.1:{parts.port}", parts.netloc
        self.cookie = ""
        answer = self.get(f"{parts.path}?{parts.query}")
        assert answer.status == 303
        self.cookie = answer.headers["Set-Cookie"].partition(";")[0]

    def get(self, path: str) -> Any:
        headers = {"Host": self.host, "Sec-Fetch-Site": "none", "Cookie": self.cookie}

        class Stay(urllib.request.HTTPRedirectHandler):
            def http_error_303(self, request, answer, *_):
                return answer

        opener = urllib.request.build_opener(Stay, urllib.request.ProxyHandler({}))
        return opener.open(urllib.request.Request(self.place + path, headers=headers), timeout=120)

    def json(self, path: str) -> Any:
        return json.loads(self.read(path))

    def read(self, path: str) -> bytes:
        body = self.get(path).read()
        return gzip.decompress(body) if body.startswith(b"\x1f\x8b") else body


def boards(emulator: Any) -> list[int]:
    """The TensorBoards that run on the TPU's host."""
    [host] = emulator.hosts(NAME)
    return [
        process["pid"] for process in host["processes"] if "tensorboard.main" in process["cmdline"]
    ]


def problem_of(call: Any, *arguments: Any) -> dict[str, Any]:
    with pytest.raises(urllib.error.HTTPError) as error:
        call(*arguments)
    return json.loads(error.value.read())


@pytest.mark.long
def test_tensorboard_is_installed_started_opened_and_ended(server, emulator):
    path = f"tpus/{NAME}/tensorboard"
    assert problem_of(server.tpu, "POST", path, {"logdir": " "})["reason"] == "INVALID"
    assert problem_of(server.tpu, "POST", path, {"logdir": "x", "host": 9})["reason"] == "INVALID"

    def end(operation: dict[str, Any]) -> dict[str, Any]:
        def state() -> str:
            return server.tpu("GET", f"operations/{operation['id']}")["state"]

        until(lambda: state() != "running", LIMIT, state)
        return server.tpu("GET", f"operations/{operation['id']}")

    # A folder that does not exist is said before anything is installed.
    failed = end(server.tpu("POST", path, {"logdir": "runs/a"}))
    assert failed["problem"]["reason"] == "NO_FOLDER"
    assert "/runs/a" in failed["problem"]["message"]
    assert {step["state"] for step in failed["steps"]} <= {"waiting", "failed"}
    # Cancelled in the middle: nothing is open, and the next time goes on from there.
    request = {"logdir": "runs/a", "allow_missing": True}
    operation = server.tpu("POST", path, request)
    server.tpu("DELETE", f"operations/{operation['id']}")
    assert end(operation)["state"] == "cancelled"
    assert server.tpu("GET", "apps") == []
    done = server.finish(server.tpu("POST", path, request))
    assert [step["state"] for step in done["steps"]][-2:] == ["done", "done"]
    [app] = server.tpu("GET", "apps")
    assert (app["id"], app["kind"], app["name"]) == (done["app"], "tensorboard", "TensorBoard")
    assert app["logdir"].endswith("/runs/a")
    browser = Browser(server, app["id"])
    assert b"<title>TensorBoard" in browser.get("/").read()
    assert "profile" in browser.json("/data/plugins_listing")
    # The same folder, however it is spelled, is the same TensorBoard; a command finds it, too.
    again = server.finish(server.tpu("POST", path, {"logdir": "~/runs/../runs/a/"}))
    assert (again["app"], again["steps"][-2]["state"]) == (app["id"], "skipped")
    words = ["tensorboard", NAME, "--logdir", "runs/a", "--no-browser", "--json"]
    assert json.loads(server.cli(*words).stdout)["id"] == app["id"]
    assert len(boards(emulator)) == 1
    # It ends with its app.
    server.tpu("DELETE", f"apps/{app['id']}")
    assert server.tpu("GET", "apps") == []
    until(lambda: not boards(emulator), LIMIT)
    with pytest.raises(urllib.error.HTTPError):
        browser.get("/")


@pytest.mark.long
def test_a_running_kernel_is_traced_and_its_trace_shown(server, emulator):
    server.finish(server.tpu("POST", f"tpus/{NAME}/connect", {}))
    [environment] = server.tpu("GET", f"tpus/{NAME}/environments")
    kernel = server.request("POST", "/api/kernels", {"name": environment["kernelspec"]})["id"]
    client = Client(server, kernel)
    client.connect()
    client.until_done(client.execute("1"), LIMIT)
    path = f"tpus/{NAME}/profiles"
    for seconds in (0, -1, 1e6):
        assert problem_of(server.tpu, "POST", path, {"seconds": seconds})["reason"] == "INVALID"
    assert problem_of(server.tpu, "POST", path, {"kernels": ["no"]})["reason"] == "NOT_FOUND"
    # Without JAX there is nothing to trace, which is said.
    operation = server.tpu("POST", path, {"seconds": 1, "kernels": [kernel]})

    def ended() -> dict[str, Any] | None:
        now = server.tpu("GET", f"operations/{operation['id']}")
        return now if now["state"] != "running" else None

    failed = until(ended, LIMIT)
    assert failed["problem"]["reason"] == "CONFLICT"
    assert "has not used JAX" in failed["problem"]["message"]

    work = client.execute(WORK)
    client.until(lambda message: "begun" in message["content"].get("text", ""), LIMIT)
    done = server.finish(server.tpu("POST", path, {"seconds": 2}))
    assert any(".xplane.pb" in line for line in done["log"])
    # The cell went on meanwhile, and its notebook saw nothing of the tracing.
    server.request("POST", f"/api/kernels/{kernel}/interrupt")
    client.until_done(work, LIMIT)
    assert [trace["kernel_idle"] for trace in done["result"]["traces"]] == [False]
    # Nor did anything run for this one, which is said.
    idle = server.finish(server.tpu("POST", path, {"seconds": 0.2}))
    assert [trace["kernel_idle"] for trace in idle["result"]["traces"]] == [True]
    assert client.printed(work) == "begun\n"
    assert [m["content"]["ename"] for m in client.messages if m["msg_type"] == "error"] == [
        "KeyboardInterrupt"
    ]
    [app] = server.tpu("GET", "apps")
    assert app["id"] == done["app"]
    browser = Browser(server, app["id"])
    assert "profile" in browser.json("/data/plugins_listing")
    run = done["result"]["run"]
    runs = browser.json("/data/plugin/profile/runs")
    assert sorted(runs) == [run, idle["result"]["run"]], "each is one run, and whole"
    tools = browser.json(f"/data/plugin/profile/run_tools?run={run}")
    assert any(tool.startswith("overview_page") for tool in tools), tools
    [host] = [
        profile["hostname"] for profile in
        browser.json(f"/data/plugin/profile/hosts?run={run}&tag=trace_viewer%40")
    ][:1]  # fmt: skip
    trace = browser.read(f"/data/plugin/profile/data?run={run}&tag=trace_viewer%40&host={host}")
    assert b"busy_step" in trace
    # Disconnecting ends TensorBoard, and what is open of it.
    server.request("DELETE", f"/api/kernels/{kernel}")
    client.close()
    server.finish(server.tpu("POST", f"tpus/{NAME}/disconnect", {"end_kernels": True}))
    until(lambda: server.tpu("GET", "apps") == [], LIMIT)
    until(lambda: not boards(emulator), LIMIT)


@pytest.mark.long
def test_all_hosts_of_a_pod_are_traced_at_once_and_one_that_fails_is_named(server, emulator):
    pod = {"name": "traced-pod", "type": "v4-16", "zone": "us-central2-b"}
    server.finish(server.tpu("POST", "tpus", pod))
    path = f"tpus/{pod['name']}"
    server.finish(server.tpu("POST", f"{path}/connect", {}))
    [environment] = server.tpu("GET", f"{path}/environments")
    clients = []
    for host in (0, 1):
        spec = kernelspec_on(server, environment["kernelspec"], host)
        kernel = server.request("POST", "/api/kernels", {"name": spec})["id"]
        client = Client(server, kernel)
        client.connect()
        client.execute(WORK)
        client.until(lambda message: "begun" in message["content"].get("text", ""), LIMIT)
        clients.append(client)
    done = server.finish(server.tpu("POST", f"{path}/profiles", {"seconds": 2}))
    traces = done["result"]["traces"]
    assert [(trace["host"], trace["state"]) for trace in traces] == [(0, "done"), (1, "done")], (
        traces
    )
    assert max(trace["began"] for trace in traces) < min(trace["ended"] for trace in traces)
    browser = Browser(server, done["app"])
    run = done["result"]["run"]
    assert run in browser.json("/data/plugin/profile/runs")
    assert profiled_hosts(browser, run) == ["host-0", "host-1"]
    memory = server.tpu("GET", f"{path}/memory")
    assert memory["emulated"]
    for profile in memory["profiles"]:
        assert profile["lines"][0]["line"].startswith("In[1]:"), profile
    assert [profile["host"] for profile in memory["profiles"]] == [0, 1]

    # By the command, when a host does not answer.
    (last,) = [host for host in emulator.hosts(pod["name"]) if host["worker"] == 1]
    with silent_ssh(last["init_pid"]):
        traced = server.cli("profile", pod["name"], "--no-browser")
    assert traced.returncode == 1
    assert "Not traced: host 1. " in traced.stderr
    assert "Traced host 0 of traced-pod" in traced.stdout
    newest = max(browser.json("/data/plugin/profile/runs"))
    assert newest > run
    assert profiled_hosts(browser, newest) == ["host-0"]
    for client in clients:
        server.request("POST", f"/api/kernels/{client.kernel_id}/interrupt")
        client.close()
        server.request("DELETE", f"/api/kernels/{client.kernel_id}")
    server.finish(server.tpu("DELETE", f"{path}?end_kernels=true"))


def kernelspec_on(server: Server, name: str, host: int) -> str:
    """A copy of an environment's kernelspec, whose kernels run on another host."""
    there = Path(server.environment["JUPYTER_DATA_DIR"]) / "kernels"
    copied = f"{name}-host-{host}"
    shutil.copytree(there / name, there / copied)
    spec = json.loads((there / copied / "kernel.json").read_text())
    spec["metadata"]["kernel_provisioner"]["config"]["worker"] = host
    (there / copied / "kernel.json").write_text(json.dumps(spec))
    return copied


def profiled_hosts(browser: Browser, run: str) -> list[str]:
    tag = "trace_viewer%40"
    hosts = browser.json(f"/data/plugin/profile/hosts?run={run}&tag={tag}")
    return sorted(host["hostname"] for host in hosts)
