"""``jupyter tpu serve`` with a real Jupyter server: started, listed, read and stopped."""

import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from cli_shell import running_server
from ports import free_port
from test_serving_agent import SERVER
from test_tunnels_emulator import name_of


@pytest.fixture(scope="module")
def tpu(emulator: Any) -> Iterator[str]:
    with emulator.tpu("serve", "v5litepod-1", "us-west4-a") as node:
        yield name_of(node)


def test_a_server_is_started_listed_and_stopped_by_commands(shell, tpu):
    with running_server(shell):
        write = ["sh", "-c", 'printf %s "$1" > server.py', "sh", SERVER]
        shell.out("run", tpu, "--", *write)
        options = ["--port", str(free_port()), "--health", "/health", "--json"]
        command = ["python3", "server.py", "127.0.0.1"]
        done = shell.run("serve", "start", tpu, *options, "--", *command)
        assert "python3 is healthy." in done.stderr
        started = json.loads(done.stdout)
        assert started["state"] == "healthy"
        with urllib.request.urlopen(f"{started['url']}/v1", timeout=30) as answer:
            assert answer.read() == b"hello"
        assert started["url"] in shell.out("serve", "list")
        assert "loading" in shell.out("serve", "logs", tpu)
        assert started["id"] in shell.out("serve", "stop", tpu, started["id"], "--yes")
