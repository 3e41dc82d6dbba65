"""`jupyter tpu run --once`: one line in, the script's result out, and no TPU left."""

import json
import re
import shlex
import signal
import socket
import socketserver
import subprocess
import sys
import textwrap
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_shell import COMMAND, LIMIT, Shell, running_server

ZONE = "us-west4-a"
ONCE = ("run", "--once", "--zone", ZONE, "--max-cost", "2")
TYPE = ("--type", "v5litepod-1")


@pytest.fixture(scope="module")
def alone(emulator: Any, tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """No Jupyter server runs: the command does all of it."""
    folder = tmp_path_factory.mktemp("once")
    return Shell(folder, **emulator.environment, JUPYTER_TPU_PROJECT_SYNC="off")


class Project:
    """A folder with scripts, of a name of its own: their TPUs have it, too."""

    def __init__(self, shell: Shell, emulator: Any) -> None:
        self.shell = shell
        self.emulator = emulator
        self.title = f"s{uuid.uuid4().hex[:6]}"
        self.folder = shell.folder / self.title
        self.folder.mkdir()

    def script(self, code: str) -> Path:
        path = self.folder / f"{self.title}.py"
        path.write_text(textwrap.dedent(code))
        return path

    def nodes(self) -> list[dict[str, Any]]:
        listed = self.emulator.request("GET", "/v2/projects/emulated/locations/-/nodes")
        return [one for one in listed.get("nodes", []) if f"/once-{self.title}-" in one["name"]]

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*COMMAND, *words],
            env=self.shell.environment,
            cwd=self.shell.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def ledger(self) -> list[dict[str, Any]]:
        lines = self.shell.json("budget", "show", "--json")["spending"]
        return [line for line in lines if line["tpu"].startswith(f"once-{self.title}-")]


@pytest.fixture
def project(alone: Shell, emulator: Any, faults: Any) -> Iterator[Project]:
    project = Project(alone, emulator)
    yield project
    for node in project.nodes():
        if node["state"] != "DELETING":
            emulator.wait(emulator.request("DELETE", f"/v2/{node['name']}"))


def test_a_script_runs_and_its_output_and_exit_code_come_back(project):
    script = project.script(
        """
        import os, pathlib, sys
        import jax
        print("devices", jax.device_count(), sys.argv[1:])
        print("to stderr", file=sys.stderr)
        pathlib.Path("results").mkdir()
        pathlib.Path("results/loss.txt").write_text("0.25")
        sys.exit(7)
        """
    )
    done = project.shell.run(
        *ONCE, *TYPE, "--timeout", "10m", "--output", "results", str(script), "--epochs", "3",
        limit=300,
    )  # fmt: skip
    assert done.returncode == 7, done.stderr
    assert done.stdout == "devices 1 ['--epochs', '3']\n"
    assert "to stderr\n" in done.stderr
    assert "At most $0." in done.stderr
    assert (project.folder / "results/loss.txt").read_text() == "0.25"
    assert project.nodes() == []
    (line,) = project.ledger()
    assert line["most"] < 2
    bill = project.emulator.request("GET", "/emulator/v1/bill")["lines"]
    (billed,) = (one for one in bill if one["node"].endswith(f"/{line['tpu']}"))
    assert line["usd"] == pytest.approx(billed["usd"], abs=0.005)


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_command_that_is_interrupted_deletes_its_tpu(project, number):
    script = project.script("import time; print('begun', flush=True); time.sleep(600)")
    process = project.start(*ONCE, *TYPE, str(script))
    assert process.stdout.readline() == "begun\n"
    process.send_signal(number)
    _, errors = process.communicate(timeout=LIMIT)
    assert process.returncode not in (0, None), errors
    assert project.nodes() == []


@pytest.mark.long
def test_a_command_that_is_killed_leaves_a_guard_that_deletes_the_tpu(project):
    script = project.script("import time; print('begun', flush=True); time.sleep(600)")
    process = project.start(*ONCE, *TYPE, "--timeout", "10m", str(script))
    assert process.stdout.readline() == "begun\n"
    process.kill()
    process.communicate(timeout=LIMIT)
    (node,) = project.nodes()
    guard = project.shell.json("guard", "show", node["name"].rpartition("/")[2], "--json")
    assert guard["action"] == "delete"
    assert guard["idle"] == 600
    assert guard["until"]
    script = project.script("print('next')")
    done = project.shell.run(*ONCE, *TYPE, "--timeout", "10m", str(script), limit=300)
    assert done.stdout == "next\n", done.stderr
    assert "which an earlier command has left" in done.stderr
    assert project.nodes() == []


class CuttingServer(socketserver.ThreadingTCPServer):
    """Stands before a Jupyter server: the answer to what creates a TPU does not arrive, and later
    no other one either, if it is *dead* then.
    """

    daemon_threads = True

    def __init__(self, shell: Shell, *, dead: bool) -> None:
        super().__init__(("127.0.0.1", 0), _Cutting)
        self.dead, self.cut = dead, 0
        (found,) = Path(shell.environment["JUPYTER_RUNTIME_DIR"]).glob("jpserver-*.json")
        info = json.loads(found.read_text())
        self.target = "127.0.0.1", info["port"]
        found.write_text(json.dumps({**info, "port": self.server_address[1]}))


class _Cutting(socketserver.StreamRequestHandler):
    server: CuttingServer

    def handle(self) -> None:
        if self.server.dead and self.server.cut:
            return
        lines = [self.rfile.readline()]
        while lines[-1].strip():
            lines.append(self.rfile.readline())
        head = b"".join(lines)
        length = re.search(rb"(?i)content-length: *(\d+)", head)
        with socket.create_connection(self.server.target) as line:
            line.sendall(head + (self.rfile.read(int(length[1])) if length else b""))
            answer = b"".join(iter(lambda: line.recv(65536), b""))
        if lines[0].startswith(b"POST") and lines[0].split()[1].endswith(b"/create"):
            self.server.cut += 1
        else:
            self.wfile.write(answer)


@pytest.mark.parametrize("dead", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_create_request_whose_answer_is_lost_leaves_no_tpu(
    alone, emulator, project, tmp_path, dead
):
    beside = Shell(tmp_path, **emulator.environment, JUPYTER_TPU_PROJECT_SYNC="off")
    script = project.script("print('never')")
    with running_server(beside), CuttingServer(beside, dead=dead) as line:
        threading.Thread(target=line.serve_forever, daemon=True).start()
        done = beside.run(*ONCE, *TYPE, str(script), limit=300)
        line.shutdown()
    assert line.cut == 1
    assert (done.returncode, done.stdout) == (1, "")
    assert "Deleting what was begun." in done.stderr
    assert [node for node in project.nodes() if node["state"] != "DELETING"] == []
    assert list((tmp_path / "jupyter_tpu_data_dir/once").glob("*.plan")) == []


@pytest.mark.long
def test_a_tpu_that_google_takes_back_is_replaced(project):
    script = project.script(
        """
        import pathlib, time
        print("begun", flush=True)
        time.sleep(20)
        print("done", flush=True)
        """
    )
    process = project.start(*ONCE, *TYPE, "--spot", "--retries", "1", str(script))
    assert process.stdout.readline() == "begun\n"
    (node,) = project.nodes()
    project.emulator.inject_fault("preempt", node=node["name"])
    out, errors = process.communicate(timeout=400)
    assert process.returncode == 0, errors
    assert out == "begun\ndone\n"
    assert "The TPU was preempted. Trying again (1 of 1)." in errors
    assert project.nodes() == []
    second, first = project.ledger()
    assert second["most"] <= 2 - first["usd"] + 0.001, "what is left of the limit"


@pytest.mark.long
def test_a_tpu_is_kept_warm_for_the_next_script(project):
    script = project.script("import socket; print(socket.gethostname())")
    names = []
    for _ in range(2):
        done = project.shell.run(
            *ONCE, *TYPE, "--keep", "30m", "--timeout", "5m", str(script), limit=300
        )
        assert done.returncode == 0, done.stderr
        assert "is kept for the next one" in done.stderr
        names.append(done.stdout)
    assert names[0] == names[1]
    assert "Using once-" in done.stderr
    (kept,) = project.nodes()
    # Somebody's job runs there.
    name = kept["name"].rpartition("/")[2]
    assert project.shell.run("job", "start", name, "--", "sleep", "600").returncode == 0
    done = project.shell.run(*ONCE, *TYPE, "--timeout", "5m", str(script), limit=300)
    assert (done.returncode, done.stdout != names[0]) == (0, True), done.stderr
    assert [node["name"] for node in project.nodes()] == [kept["name"]]
    (job,) = project.shell.json("job", "list", name, "--json")
    assert job["state"] == "running"


@pytest.mark.long
def test_a_shebang_works(project, tmp_path):
    folder = tmp_path / "bin"
    folder.mkdir()
    jupyter = folder / "jupyter"
    jupyter.write_text(f'#!/bin/sh\nshift\nexec {sys.executable} -m jupyter_tpu.cli "$@"\n')
    jupyter.chmod(0o755)
    line = f"#!/usr/bin/env -S jupyter tpu run --once --type v5litepod-1 --zone {ZONE} --max-cost 2"
    script = project.script(f"{line}\nimport sys; print('hello', sys.argv[1])")
    script.chmod(0o755)
    environment = {**project.shell.environment}
    environment["PATH"] = f"{folder}:{environment['PATH']}"
    done = subprocess.run(
        [str(script), "you"], env=environment, capture_output=True, text=True, timeout=300,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "hello you\n"), done.stderr
    assert project.nodes() == []


@pytest.mark.long
def test_two_of_one_script_at_once_have_a_tpu_each_and_leave_none(project):
    script = project.script("import socket, time; time.sleep(5); print(socket.gethostname())")
    processes = [project.start(*ONCE, *TYPE, "--timeout", "10m", str(script)) for _ in range(2)]
    results = [process.communicate(timeout=500) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], results
    assert results[0][0] != results[1][0]
    assert project.nodes() == []
    assert len(project.ledger()) == 2


@pytest.mark.long
def test_an_output_that_the_disk_has_no_room_for_stays_on_the_tpu(project, tmp_path):
    """A limit of the size of files stands for the disk: it ends the copy in the same place."""
    script = project.script(
        """
        import pathlib
        pathlib.Path("results").mkdir()
        pathlib.Path("results/large.bin").write_bytes(b"x" * (64 << 20))
        """
    )
    words = " ".join(
        shlex.quote(word)
        for word in (*COMMAND, *ONCE, *TYPE, "--timeout", "10m", "--output", "results", str(script))
    )
    done = subprocess.run(
        ["bash", "-c", f"ulimit -f {32 << 10}; exec {words}"],
        env=project.shell.environment, cwd=project.shell.folder, capture_output=True, text=True,
        stdin=subprocess.DEVNULL, timeout=500,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "still has the output. Its guard deletes it after" in done.stderr
    (node,) = project.nodes()
    assert node["state"] == "READY"


FUNCTION = """
from jupyter_tpu import tpu

@tpu.run(type="v4-16", zone="us-central2-b", max_cost=30)
def where(fails):
    import jax
    host = jax.process_index()
    if fails and host == 1:
        raise KeyError("weights")
    return {"host": host, "hosts": jax.process_count(), "devices": jax.device_count()}

print(where(False))
try:
    where(True)
except Exception as error:
    print("RAISED", type(error).__name__, repr(str(error)))
tpu.close()
"""


@pytest.mark.long
def test_a_function_on_a_pod_runs_on_all_hosts_and_says_which_one_failed(project):
    script = project.folder / "on_pod.py"
    script.write_text(FUNCTION)
    done = subprocess.run(
        [sys.executable, str(script)], env=project.shell.environment, cwd=project.shell.folder,
        capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=560,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "{'host': 0, 'hosts': 2, 'devices': 8}" in lines, done.stdout
    (raised,) = [line for line in lines if line.startswith("RAISED")]
    assert "weights" in raised, done.stdout
    assert "ost 1" in raised, done.stdout
    assert "READY" not in {node["state"] for node in project.nodes()}


def test_without_a_limit_or_a_yes_nothing_is_created_where_it_would_cost(project):
    script = project.script("print()")
    refused = project.shell.run("run", "--once", *TYPE, "--max-cost", "0.01", str(script))
    assert refused.returncode == 1
    assert "is enough for less than a minute" in refused.stderr
    assert project.nodes() == []
