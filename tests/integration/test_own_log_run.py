"""What jupyter-tpu notes of a real run, and what of that a bug report has."""

import getpass
import json
import os
import platform
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from adoption_server import Client, Server
from waiting import until

NAME, HUNTED = "xanthippe", "philomena"
TOKEN = "Qx7LkP2vRt9bNw4s"


@pytest.fixture(scope="module")
def run(emulator: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that has created, connected, used and deleted a TPU, and hunted for another one."""
    variables = {**emulator.environment, "HF_TOKEN": TOKEN, "MY_PASSWORD": "hunter-2-times"}
    with Server(tmp_path_factory.mktemp("user"), variables) as server:
        assert server.cli("token", "pass", "HF_TOKEN").returncode == 0
        spec = server.connect_tpu(NAME)
        server.tpu("POST", f"tpus/{NAME}/guard", {"action": "delete", "idle": 7200})
        kernel = server.start_session(spec)["kernel"]
        with_kernel = Client(server, kernel["id"])
        with_kernel.connect()
        assert with_kernel.run("import os; print(os.environ['HF_TOKEN'])") == f"{TOKEN}\n"
        with_kernel.close()
        server.request("DELETE", f"/api/kernels/{kernel['id']}")
        tpu = {"name": HUNTED, "type": "v5litepod-1"}
        hunt = server.tpu("POST", "hunts", {"tpu": tpu, "zones": ["us-west4-a"]})
        server.finish(server.tpu("GET", f"operations/{hunt['id']}"))
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("JUPYTER_TPU_DATA_DIR", server.environment["JUPYTER_TPU_DATA_DIR"])
            yield server
        if HUNTED in [tpu["name"] for tpu in server.tpu("GET", "tpus")["tpus"]]:
            server.delete_tpu(HUNTED)


def log_of(server: Server) -> list[dict[str, Any]]:
    shown = server.cli("logs", "--of", "jupyter-tpu", "--json")
    assert shown.returncode == 0, shown.stderr
    return json.loads(shown.stdout)


def secrets_of(server: Server, emulator: Any) -> list[str]:
    """The secrets that were used: tokens, and the keys and secrets of kernels."""
    state = json.loads(Path(emulator.state_file).read_text())
    own_key = next(Path(server.environment["JUPYTER_TPU_DATA_DIR"]).glob("**/id_*[!b]"), None)
    texts = [TOKEN, "hunter-2-times", server.token, Path(state["token_file"]).read_text().strip()]
    if own_key is not None:
        texts += own_key.read_text().splitlines()[1:-1]
    return texts


def test_the_log_has_a_line_for_each_transition_and_no_secret(run, emulator):
    def has_all() -> bool:
        nonlocal lines
        lines = log_of(run)
        return all(any(re.match(text, line["text"]) for line in lines) for text in expected)

    lines: list[dict[str, Any]] = []
    expected = [
        "Operation create begins",
        r"Claim, after asking Google \(create\): present \(not sent\) → present",
        "Operation create has ended: done",
        "Operation connect is carried out by this process",
        "Operation connect step 'Add the kernel to Jupyter': running",
        "Link to host 0: down → connecting",
        "Link to host 0: connecting → up",
        r"Lease of kernel [-\w]+: held",
        r"Guard: watching, will delete \(idle 7200",
        r"Hunt, attempt 1 \(v5litepod-1 in us-west4-a, on-demand\): trying",
        r"Hunt, attempt 1 .*: found",
    ]
    until(has_all, why=lambda: "\n".join(line["text"] for line in lines))
    of_tpu = [line for line in lines if line.get("tpu") == NAME]
    creates = [line for line in of_tpu if line["text"].startswith("Operation create")]
    assert {line["level"] for line in creates} == {"info"}
    assert len({line["operation"] for line in creates}) == 1
    assert {line["level"] for line in of_tpu if line["text"].startswith("Link")} == {"debug"}
    last = run.tpu("GET", f"log?tail=2&search={NAME.upper()}")["lines"]
    assert len(last) == 2
    assert {line["tpu"] for line in last} == {NAME}
    folder = Path(run.environment["JUPYTER_TPU_DATA_DIR"]) / "log"
    assert folder.stat().st_mode & 0o777 == 0o700
    for file in folder.glob("*.jsonl"):
        assert file.stat().st_mode & 0o777 == 0o600
        text = file.read_text()
        assert [secret for secret in secrets_of(run, emulator) if secret in text] == []


def test_who_follows_the_log_sees_the_end_of_a_tpu(run):
    words = ["logs", "--of", "jupyter-tpu", "--follow", "--tail", "1", "--search"]
    with subprocess.Popen(
        [sys.executable, "-m", "jupyter_tpu.cli", *words, "OPERATION DELETE"],
        env=run.environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as following:
        run.delete_tpu(NAME)
        assert following.stdout is not None
        for line in following.stdout:
            assert f"[{NAME} " in line
            if "Operation delete has ended: done" in line:
                break
        following.send_signal(signal.SIGINT)
        assert following.wait(60) == 0


def test_a_report_has_no_name_no_address_and_no_secret(run, emulator, tmp_path):
    refused = run.cli("doctor", "--report", cwd=tmp_path)
    assert refused.returncode == 1
    assert "Not a terminal, so I can't ask" in refused.stderr
    assert list(tmp_path.iterdir()) == []
    done = run.cli("doctor", "--report", "--yes", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    [file] = tmp_path.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    report = file.read_text()
    assert report.strip() == done.stdout.strip()  # it was shown
    for part in ("Versions", "asyncssh 2", "Doctor", "Operation create has ended: done", "TPU-1"):
        assert part in report
    described = run.tpu("GET", f"tpus/{HUNTED}")
    private = [
        *(NAME, HUNTED, platform.node(), run.environment["JUPYTER_TPU_DATA_DIR"]),
        *secrets_of(run, emulator),
        *(host["internal_address"] for host in described["hosts"]),
        *(host["external_address"] for host in described["hosts"]),
    ]
    if getpass.getuser() != "root":
        private += [getpass.getuser(), os.path.expanduser("~")]
    if emulator.state.project != "emulated":
        private.append(emulator.state.project)
    assert [text for text in private if text and text.lower() in report.lower()] == []


def test_an_agent_may_not_read_it(run):
    from jupyter_tpu.terminal.agent_access import COMMANDS

    assert "--of" not in COMMANDS["logs"].options
    assert "--report" not in COMMANDS["doctor"].options
