"""``jupyter tpu tunnel`` and the REST face: real commands, a real emulator, a real server."""

import contextlib
import json
import secrets
import signal
import socket
import subprocess
import threading
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from bare_server import BARE
from cli_shell import COMMAND, LIMIT, Shell
from fleet_world import others
from forked import forks
from ports import free_port, listens
from waiting import until

from jupyter_tpu.cli import main

ZONE = "us-central1-a"


class JupyterServer:
    """A Jupyter server with the extension; it can be killed and started again."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self.token = secrets.token_hex(16)
        self.port = free_port()

    def start(self) -> None:
        log = self._shell.folder / f"server-{uuid.uuid4().hex[:6]}.log"
        options = [f"--ServerApp.port={self.port}", "--ServerApp.port_retries=0", "--allow-root"]
        options += ["--ServerApp.open_browser=False", f"--ServerApp.root_dir={self._shell.folder}"]
        options += BARE
        with log.open("wb") as out:
            environment = {**self._shell.environment, "JUPYTER_TOKEN": self.token}
            self.process = forks().start(
                "jupyter_server", options, env=environment, log=out.fileno()
            )

        def runs() -> bool:
            assert self.process.poll() is None, log.read_text()
            return listens(self.port)

        until(runs, LIMIT, log.read_text)

    def end(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)
        self.process.wait(LIMIT)

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/jupyter-tpu/v1/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"token {self.token}"},
        )
        try:
            with urllib.request.urlopen(request, timeout=LIMIT) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())


@pytest.fixture
def server(shell: Shell) -> Iterator[JupyterServer]:
    server = JupyterServer(shell)
    server.start()
    yield server
    if server.process.poll() is None:
        server.end()


@pytest.fixture(scope="module")
def tpu(emulator: Any) -> Iterator[dict[str, Any]]:
    """A TPU for the tests that leave it as it was."""
    with emulator.tpu("tunnel", zone=ZONE) as node:
        yield node


@pytest.fixture
def behind(tpu: dict[str, Any]) -> Iterator[int]:
    """The port of a server on the host's own address, which says "hello" to everybody."""
    listener = socket.create_server((tpu["networkEndpoints"][0]["ipAddress"], 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection:
                    connection.sendall(b"hello")

    threading.Thread(target=serve, daemon=True).start()
    yield listener.getsockname()[1]
    listener.close()


def name_of(tpu: dict[str, Any]) -> str:
    return tpu["name"].rpartition("/")[2]


def received_from(port: int) -> bytes:
    """What a local port sends."""
    with socket.create_connection(("127.0.0.1", port), LIMIT) as connection:
        return connection.makefile("rb").read()


def received_eventually(port: int) -> bytes:
    """The same, as soon as somebody listens there."""

    def heard() -> bytes:
        with contextlib.suppress(ConnectionRefusedError):
            return received_from(port)
        return b""

    return until(heard, LIMIT)


@pytest.mark.parametrize("end", [signal.SIGINT, *others(signal.SIGKILL)])
def test_without_a_server_a_tunnel_lasts_as_long_as_the_command(shell, tpu, behind, end):
    process = subprocess.Popen(
        [*COMMAND, "tunnel", name_of(tpu), str(behind)],
        env=shell.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    line = process.stdout.readline()
    expected = f"forwards to port {behind} of {name_of(tpu)}. An emulated host shares this machine"
    assert expected in line, line
    port = int(line.split()[0].partition(":")[2])
    assert "Press Ctrl-C to close it." in process.stdout.readline()
    assert received_from(port) == b"hello"
    [shown] = shell.json("tunnel", "list", "--json")
    assert (shown["local_port"], shown["state"]) == (port, "elsewhere")
    assert "in a terminal. Press Ctrl-C there." in shell.complaint("tunnel", "close", str(port))
    process.send_signal(end)
    _, errors = process.communicate(timeout=LIMIT)
    assert process.returncode == (1 if end == signal.SIGINT else -end)
    assert "Traceback" not in errors
    with pytest.raises(ConnectionRefusedError):
        received_from(port)
    assert shell.out("tunnel", "list").startswith("No tunnels.")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("0", "0 is not a port on the host. Ports are 1 to 65535."),
        ("70000", "70000 is not a port on the host."),
        ("8888 --local-port 0", "0 is not a port on this machine. Ports are 1 to 65535."),
        ("8888 --local-port 8888", "Leave the local port out to get a free one."),
        ("8888 9 --local-port 7007", "--local-port is for one PORT without :LOCAL. For several"),
        ("8888:9 --local-port 7007", "--local-port is for one PORT without :LOCAL. For several"),
        ("8888:0", "0 is not a port on this machine."),
        ("8888:70000", "70000 is not a port on this machine."),
        ("8888 --worker 3", "has no host 3. It has host 0 only."),
        ("8888 --address 0.0.0.0", "Tunnels listen on this machine alone"),
    ],
)
def test_what_can_not_be_is_one_line(shell, tpu, words, complaint, monkeypatch, capsys):
    for variable, value in shell.environment.items():
        monkeypatch.setenv(variable, value)
    assert main(["tunnel", name_of(tpu), *words.split()]) == 1
    errors = capsys.readouterr().err
    assert complaint in errors
    assert errors.count("\n") == 1


def test_beside_a_server_tunnels_are_opened_listed_and_removed(shell, server, tpu, behind):
    with socket.create_server(("127.0.0.1", 0)) as probe:
        local = probe.getsockname()[1]
    # On stderr is a note as long as the link connects.
    opened = shell.run("tunnel", name_of(tpu), f"{behind}:{local}", "9").stdout
    assert f"localhost:{local} forwards to port {behind} of {name_of(tpu)}\n" in opened
    assert received_from(local) == b"hello"
    with pytest.raises(ConnectionResetError):
        received_from(int(opened.splitlines()[1].split()[0].partition(":")[2]))
    listed = shell.out("tunnel", "list")
    assert f"No server is listening on port 9 of {name_of(tpu)}." in listed
    (row,) = [line for line in listed.splitlines() if f"localhost:{local}" in line]
    assert "open" in row
    assert row.endswith("5 bytes")
    there = json.loads(shell.out("tunnel", "list", name_of(tpu), "--json"))
    assert [tunnel["port"] for tunnel in there] == [behind, 9]
    assert "used by the tunnel" in shell.complaint("tunnel", name_of(tpu), f"9:{local}")
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = str(other.getsockname()[1])
        assert f"Port {taken} on this machine is in use by another program." in shell.complaint(
            "tunnel", name_of(tpu), "10", "--local-port", taken
        )
    assert shell.run("tunnel", name_of(tpu), "10", "--local-port", taken).stdout == (
        f"localhost:{taken} forwards to port 10 of {name_of(tpu)}\n"
    )
    shell.out("tunnel", "close", taken)
    assert "Closed: " in shell.out("tunnel", "close", str(local))
    assert f"The tunnel {local} does not exist" in shell.complaint("tunnel", "close", str(local))
    with pytest.raises(ConnectionRefusedError):
        received_from(local)


@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGTERM, marks=pytest.mark.long), signal.SIGKILL]
)
def test_tunnels_come_back_with_the_server_on_the_same_port(server, tpu, behind, number):
    path = f"tpus/{name_of(tpu)}/tunnels"
    status, tunnel = server.call("POST", path, {"port": behind})
    assert status == 201
    assert received_from(tunnel["local_port"]) == b"hello"
    server.end(number)
    with pytest.raises(ConnectionRefusedError):
        received_from(tunnel["local_port"])
    server.start()
    assert received_eventually(tunnel["local_port"]) == b"hello"
    status, listed = server.call("GET", path)
    assert [entry["id"] for entry in listed] == [tunnel["id"]]
    status, everywhere = server.call("GET", "tunnels")
    assert [entry["id"] for entry in everywhere] == [tunnel["id"]]
    assert server.call("DELETE", f"{path}/{tunnel['id']}")[0] == 204
    status, problem = server.call("DELETE", f"{path}/{tunnel['id']}")
    assert (status, problem["reason"]) == (404, "NOT_FOUND")
    assert server.call("GET", "tunnels") == (200, [])
    for body, reason in (
        ({"port": 0}, (400, "INVALID")),
        ({"port": 70000}, (400, "INVALID")),
        ({}, (400, "INVALID")),
        ({"port": "x"}, (400, "INVALID")),
        ({"port": 80, "colour": 1}, (400, "INVALID")),
    ):
        status, problem = server.call("POST", path, body)
        assert (status, problem["reason"]) == reason, body
    with socket.create_server(("127.0.0.1", 0)) as other:
        body = {"port": 80, "local_port": other.getsockname()[1]}
        status, problem = server.call("POST", path, body)
    assert (status, problem["reason"]) == (409, "CONFLICT")
