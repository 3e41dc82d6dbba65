"""A kernel's host really goes away: it is rebooted, preempted, deleted. The kernel is reported dead
once, with the reason; nothing starts it again by itself, and nothing of it stays.

A real server, the emulator's faults, a kernel over real SSH, the client of test_adoption_restart.
"""

import contextlib
import json
import threading
import urllib.error
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from adoption_server import Client, Server
from waiting import until
from websocket import WebSocketException, create_connection

TPU = "goes-away"
ZONE = "us-west4-a"


@pytest.fixture(scope="module")
def server(emulator: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("gone"), emulator.environment) as server:
        yield server


@pytest.fixture(scope="module")
def spec(server: Server, emulator: Any) -> Iterator[str]:
    """The kernelspec of a connected TPU, the same for all tests of this file."""
    yield server.connect_tpu(TPU)
    parent = f"projects/{emulator.state.project}/locations/{ZONE}"
    nodes = emulator.request("GET", f"/v2/{parent}/nodes").get("nodes", [])
    if f"{parent}/nodes/{TPU}" in [node["name"] for node in nodes]:
        emulator.wait(emulator.request("DELETE", f"/v2/{parent}/nodes/{TPU}"))


class Events:
    """What the server tells about kernels, as the panel hears it."""

    def __init__(self, server: Server) -> None:
        url = server.url.replace("http", "ws") + "/api/events/subscribe"
        self._socket = create_connection(url, header=[f"Authorization: token {server.token}"])
        self.kernels: list[dict[str, Any]] = []
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        with contextlib.suppress(OSError, WebSocketException):  # it was closed
            while said := self._socket.recv():
                event = json.loads(said)
                if event.get("what") == "kernel":
                    self.kernels.append(event)

    def lost(self, kernel_id: str) -> list[dict[str, Any]]:
        """The problems with which the kernel was said to be dead."""
        kernels = [event["kernel"] for event in self.kernels if event["id"] == kernel_id]
        return [kernel["problem"] for kernel in kernels if kernel and kernel["problem"]]

    def close(self) -> None:
        self._socket.close()
        self._thread.join(10)


@pytest.fixture
def events(server: Server) -> Iterator[Events]:
    events = Events(server)
    yield events
    events.close()


@pytest.fixture(autouse=True)
def nothing_left(server: Server) -> Iterator[None]:
    """What a test has left, perhaps because it failed, is in the way of no other."""
    yield
    server.end_sessions()


def start_session(server: Server, spec: str, path: str) -> dict[str, Any]:
    body = {"path": path, "name": path, "type": "notebook", "kernel": {"name": spec}}
    return server.request("POST", "/api/sessions", body)


def running_cell(server: Server, session: dict[str, Any]) -> tuple[Client, str]:
    """A client of the session's kernel, in the middle of a cell."""
    client = Client(server, session["kernel"]["id"])
    client.connect()
    request = client.execute("import time\nprint('begun', flush=True)\ntime.sleep(600)")
    client.until(lambda message: "begun" in message["content"].get("text", ""))
    return client, request


def states(client: Client) -> list[str]:
    contents = [m["content"] for m in client.messages if m["msg_type"] == "status"]
    return [content["execution_state"] for content in contents]


def node_path(emulator: Any) -> str:
    return f"projects/{emulator.state.project}/locations/{ZONE}/nodes/{TPU}"


def exists(server: Server, kernel_id: str) -> bool:
    try:
        server.kernel(kernel_id)
    except urllib.error.HTTPError as error:
        if error.code != 404:
            raise
        return False
    return True


def assert_reported_dead(
    server: Server, events: Events, client: Client, request: str, path: str, why: str
) -> None:
    """Once, in every place where somebody may look."""
    kernel_id = client.kernel_id
    client.until(lambda m: m["content"].get("execution_state") == "dead")
    assert why in client.printed(request)
    until(lambda: not exists(server, kernel_id))
    until(lambda: events.lost(kernel_id))
    kept = server.folder / "tpu" / "kernels" / kernel_id
    until(lambda: not kept.exists())  # the next server must not find it
    assert states(client).count("dead") == 1
    assert "restarting" not in states(client)
    [problem] = events.lost(kernel_id)
    assert why in problem["message"]
    log = server.log.read_text()
    [line] = [line for line in log.splitlines() if f"Kernel {kernel_id} (" in line]
    assert why in line
    assert path in line
    client.close()


def test_after_a_reboot_the_notebook_gets_a_fresh_kernel_from_the_same_environment(
    server, spec, emulator, events
):
    session = start_session(server, spec, "rebooted.ipynb")
    client, request = running_cell(server, session)
    emulator.inject_fault("reboot", node=node_path(emulator))
    why = "host was restarted"
    assert_reported_dead(server, events, client, request, "rebooted.ipynb", why)
    [lost] = server.tpu("GET", f"tpus/{TPU}/kernels")
    assert (lost["state"], lost["problem"]["reason"]) == ("dead", "NOT_FOUND")
    assert server.tpu("GET", f"tpus/{TPU}")["kernels"] == 0

    # Connecting again finds the environment as it was; it works without it, too.
    server.finish(server.tpu("POST", f"tpus/{TPU}/connect", {}))
    assert server.tpu("GET", f"tpus/{TPU}")["connection"] == "connected"
    again = start_session(server, spec, "rebooted.ipynb")
    assert again["kernel"]["id"] != session["kernel"]["id"]
    client = Client(server, again["kernel"]["id"])
    client.connect()
    assert client.run("print('fresh', 'time' in globals())") == "fresh False\n"
    client.close()
    # The notebook has a kernel: nothing needs to be said of the old one any more.
    until(lambda: [k["id"] for k in server.tpu("GET", f"tpus/{TPU}/kernels")]
          == [again["kernel"]["id"]])  # fmt: skip
    server.request("DELETE", f"/api/sessions/{again['id']}")


def test_a_restart_that_comes_before_anybody_has_noticed_gives_a_kernel_on_the_rebooted_host(
    server, spec, emulator
):
    session = start_session(server, spec, "restarted.ipynb")
    client, _ = running_cell(server, session)
    client.close()
    emulator.inject_fault("reboot", node=node_path(emulator))
    server.request("POST", f"/api/kernels/{client.kernel_id}/restart")
    client = Client(server, session["kernel"]["id"])
    client.connect()
    assert client.run("print('fresh', 'time' in globals())") == "fresh False\n"
    client.close()
    server.request("DELETE", f"/api/sessions/{session['id']}")


@pytest.mark.long
def test_a_kernel_whose_host_was_rebooted_while_there_was_no_server_is_dead_to_the_next(
    server, spec, emulator
):
    session = start_session(server, spec, "away.ipynb")
    client, _ = running_cell(server, session)
    client.close()
    server.stop()
    emulator.inject_fault("reboot", node=node_path(emulator))
    server.start()
    until(lambda: not exists(server, client.kernel_id))
    kept = server.folder / "tpu" / "kernels" / client.kernel_id
    until(lambda: not kept.exists())
    log = server.log.read_text()
    [line] = [line for line in log.splitlines() if f"Kernel {client.kernel_id} (" in line]
    assert "host was restarted" in line
    assert server.request("GET", "/api/sessions") == []


ENDS: dict[str, Callable[[Any], None]] = {
    "was preempted": lambda emulator: emulator.inject_fault("preempt", node=node_path(emulator)),
    "does not exist": lambda emulator: emulator.wait(
        emulator.request("DELETE", f"/v2/{node_path(emulator)}")
    ),
}


@pytest.mark.parametrize(
    "why", ["was preempted", pytest.param("does not exist", marks=pytest.mark.long)]
)
def test_a_kernel_on_a_tpu_that_is_no_more_is_dead_with_the_reason_and_is_not_started_again(
    server, spec, emulator, events, why
):
    if why == "does not exist":  # the test before has used the first one up
        operation = server.tpu("DELETE", f"tpus/{TPU}")
        server.finish(operation)
        spec = server.connect_tpu(TPU)
    path = f"{why.replace(' ', '-')}.ipynb"
    session = start_session(server, spec, path)
    client, request = running_cell(server, session)
    with ThreadPoolExecutor() as pool:
        ending = pool.submit(ENDS[why], emulator)
        assert_reported_dead(server, events, client, request, path, why)
        ending.result()
    assert server.request("GET", "/api/sessions") == []
    if why == "was preempted":
        until(lambda: server.tpu("GET", f"tpus/{TPU}")["state"] == "PREEMPTED")
        lost = {k["id"]: k for k in server.tpu("GET", f"tpus/{TPU}/kernels")}
        assert Path(lost[client.kernel_id]["notebook"]).name == path
        # Seen: it is shown no more.
        server.tpu("DELETE", f"tpus/{TPU}/kernels/{client.kernel_id}")
        left = [kernel["id"] for kernel in server.tpu("GET", f"tpus/{TPU}/kernels")]
        assert left == [id for id in lost if id != client.kernel_id]
