"""``jupyter tpu hunt``, in processes of its own, without a server."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from cli_shell import Shell, Terminal, nodes

PLACES = ("--type", "v5litepod-1", "--zone", "us-west4-a", "--zone", "us-central1-a")


@pytest.fixture
def news(shell: Shell) -> Iterator[list[dict[str, Any]]]:
    """What the webhook is told."""
    bodies: list[dict[str, Any]] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing: stderr is the test's."""

    with HTTPServer(("127.0.0.1", 0), Hook) as server:
        shell.environment["JUPYTER_TPU_NOTIFY_URL"] = f"http://127.0.0.1:{server.server_port}/x"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield bodies
        server.shutdown()
        thread.join()


def paths(emulator: Any, name: str) -> list[str]:
    return [node["name"] for node in nodes(emulator) if node["name"].endswith(f"/{name}")]


def test_a_hunt_says_where_it_looks_and_why_an_attempt_failed(shell, name, faults, emulator, news):
    faults(kind="no-capacity", zone="us-west4-a")
    output = shell.out("hunt", "start", name, *PLACES)
    assert "emulated: costs nothing. A real one: about $1.20 an hour (us-west4, on demand" in output
    assert "Attempt 1: Trying v5litepod-1 (on-demand) in us-west4-a\n" in output
    assert "Attempt 1 failed: There is no more capacity in the zone" in output
    assert "Attempt 2: Trying v5litepod-1 (on-demand) in us-central1-a\n" in output
    assert output.count("Trying v5litepod-1 (on-demand) in us-west4-a") == 1
    assert "Deleting" not in output
    assert f"{name} is ready in us-central1-a, after 2 attempts." in output
    assert len(paths(emulator, name)) == 1
    assert [(line["tpu"], line["state"], line["attempts"]) for line in news] == [(name, "found", 2)]
    assert news[0]["text"] == f"{name} is READY in us-central1-a, after 2 attempts."

    (hunt,) = shell.json("hunt", "list", "--json")
    assert (hunt["name"], hunt["state"], hunt["zone"]) == (name, "found", "us-central1-a")
    text = shell.out("hunt", "describe", name)
    assert "There is no more capacity in the zone" in text
    assert f"Not stopped: {name} is in us-central1-a already." in shell.out("hunt", "stop", name)
    assert "already exists in us-central1-a" in shell.complaint(
        "create", name, "--type", "v5litepod-1", "--zone", "us-central1-a", "--until-available"
    )
    assert "The hunt nothing does not exist." in shell.complaint("hunt", "stop", "nothing")
    assert "needs a running Jupyter server" in shell.complaint(
        "hunt", "start", "other", *PLACES, "--no-wait"
    )


def test_a_hunt_that_is_left_is_paused_until_it_is_stopped_or_a_server_runs(
    shell, name, faults, emulator
):
    faults(kind="no-capacity")
    terminal = Terminal(
        shell, "create", name, "--type", "v5litepod-1", "--zone", "us-west4-a,us-central1-a",
        "--until-available",
    )  # fmt: skip
    terminal.expect("Attempt 2 failed: There is no more capacity in the zone")
    terminal.expect("The next one begins at ")
    terminal.type("\x03")
    terminal.expect(f"Still hunting for {name}. Enter: keep waiting, s: stop waiting")
    terminal.type("s\n")
    assert terminal.end() == 1
    assert f"The hunt for {name} is paused." in " ".join(terminal.text.split())

    (hunt,) = shell.json("hunt", "list", "--json")
    assert (hunt["state"], hunt["attempted"]) == ("paused", 2)
    assert f"The hunt for {name} is paused" in shell.out("list")
    assert f"There is a hunt for {name} already." in shell.complaint("hunt", "start", name, *PLACES)
    assert f"Stopped the hunt for {name} after 2 attempts." in shell.out(
        "hunt", "stop", name, "--yes"
    )
    assert shell.json("hunt", "describe", name, "--json")["state"] == "stopped"
    assert paths(emulator, name) == []
