"""`jupyter tpu server` finds a server or starts one, once, and only this computer reaches it."""

import json
import os
import signal
import stat
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from cli_shell import Shell, running_server
from company_network import make_certificates
from waiting import until


@pytest.fixture
def environment(emulator: Any, tmp_path: Path) -> Iterator[dict[str, str]]:
    """That of a user with folders of its own. The servers that it starts are ended."""
    names = (
        "JUPYTER_TPU_DATA_DIR",
        "JUPYTER_DATA_DIR",
        "JUPYTER_RUNTIME_DIR",
        "JUPYTER_CONFIG_DIR",
    )
    own = {name: str(tmp_path / name.lower()) for name in names}
    yield {**os.environ, **own, **emulator.environment, "HOME": str(tmp_path)}
    from jupyter_tpu.fleet.servers import running_servers

    for server in running_servers(Path(own["JUPYTER_RUNTIME_DIR"])):
        os.kill(server.pid, signal.SIGTERM)
        until(lambda pid=server.pid: not psutil.pid_exists(pid), 60)


def begin(environment: dict[str, str], *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "jupyter_tpu.cli", "server", *options],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_two_that_start_a_server_at_once_get_one_that_listens_on_loopback_only(environment):
    none = begin(environment)
    assert "jupyter tpu server --start" in none.communicate(timeout=120)[1]
    assert none.returncode == 1
    assert begin(environment, "--json").communicate(timeout=120)[0] == "null\n"

    both = [begin(environment, "--start", "--json") for _ in range(2)]
    answers = [json.loads(process.communicate(timeout=300)[0]) for process in both]
    assert answers[0] == answers[1]
    server = answers[0]

    assert server["root"] == environment["HOME"]
    process = psutil.Process(server["pid"])
    listening = [
        connection
        for connection in process.net_connections()
        if connection.status == psutil.CONN_LISTEN
    ]
    assert {connection.laddr.ip for connection in listening} == {"127.0.0.1"}
    assert server["token"] not in " ".join(process.cmdline())
    log = Path(environment["JUPYTER_TPU_DATA_DIR"], "server.log")
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    request = urllib.request.Request(
        f"{server['url']}jupyter-tpu/v1/status",
        headers={"Authorization": f"token {server['token']}"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert json.load(answer)["emulated"]
    assert server["url"] in begin(environment).communicate(timeout=120)[0]


def test_a_server_that_ends_at_its_start_says_why(environment):
    config = Path(environment["JUPYTER_CONFIG_DIR"])
    config.mkdir()
    (config / "jupyter_server_config.py").write_text("raise SystemExit('no server today')")
    failed = begin(environment, "--start")
    said = failed.communicate(timeout=300)[1]
    assert failed.returncode == 1
    assert "The Jupyter server ended at its start. no server today" in said


def test_a_server_with_a_certificate_of_its_own_is_found_and_trusted_by_its_certfile(
    emulator, tmp_path
):
    certificate, key = tmp_path / "mine.pem", tmp_path / "mine.key"
    make_certificates(tmp_path / "authority.pem", certificate, key)  # for other names
    shell = Shell(tmp_path, **emulator.environment)
    options = [f"--ServerApp.certfile={certificate}", f"--ServerApp.keyfile={key}"]
    with running_server(shell, *options) as address:
        url = address.replace("http://127.0.0.1", "https://localhost")
        assert shell.out("server").startswith(url)
        assert shell.json("api", "GET", "tpus")["tpus"] == shell.json("list", "--json")["tpus"]
        [written] = Path(shell.environment["JUPYTER_RUNTIME_DIR"]).glob("jupyter-tpu-*.pem")
        assert "PRIVATE" not in written.read_text()
        # Only that one is trusted, and what is not trusted is said.
        other = tmp_path / "other.pem"
        make_certificates(tmp_path / "other-authority.pem", other, tmp_path / "other.key")
        written.write_bytes(other.read_bytes())
        said = shell.complaint("api", "GET", "tpus")
        assert f"The certificate of the Jupyter server at {url} is not trusted here" in said
        alone = shell.run("list")
        assert "is not trusted here" in alone.stderr
        assert "It is not used." in alone.stderr
    assert not written.exists()
