"""Pythons that were on the hosts before: listed on all hosts, used as they are, never deleted."""

import json
import re
import urllib.error
from collections.abc import Iterator
from typing import Any

import pytest
from adoption_server import Server
from running_kernel import running_kernel
from waiting import until

NAME = "found"


@pytest.fixture(scope="module")
def server(emulator: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose user has a TPU of two hosts that nobody has connected."""
    server = Server(tmp_path_factory.mktemp("found"), emulator.environment)
    with server.tpu_of_two_hosts(NAME, connect=False):
        yield server


def on_host(server: Server, host: int, script: str) -> str:
    return server.on_host(NAME, host, "sh", "-c", script)


def pythons(server: Server) -> dict[str, Any]:
    """By the names of their environments' folders."""
    answer = server.tpu("GET", f"tpus/{NAME}/pythons")
    assert answer["problems"] == []
    return {python["path"].split("/")[-3]: python for python in answer["pythons"]}


def listing(server: Server, host: int) -> set[str]:
    """The files of ~/venv with their hashes."""
    text = on_host(server, host, "cd ~/venv && find . -xtype f -exec sha256sum {} +")
    return set(text.splitlines())


@pytest.fixture(scope="module")
def venvs(server: Server) -> None:
    """~/venv on both hosts with a package in it, ~/.venv-0 on host 0 only, and a broken one."""
    venv = (
        "python3 -m venv --without-pip ~/venv && cd ~/venv/lib/python3*/site-packages && "
        "echo answer = 42 > mine.py && mkdir mine-1.0.dist-info && cd mine-1.0.dist-info && "
        "printf 'Metadata-Version: 2.1\\nName: mine\\nVersion: 1.0\\n' > METADATA && "
        "printf 'mine.py,,\\nmine-1.0.dist-info/METADATA,,\\n' > RECORD"
    )
    others = (
        "python3 -m venv --without-pip ~/.venv-0 && mkdir -p ~/broken/bin && cd ~/broken && "
        "touch pyvenv.cfg && printf '#!/bin/sh\\nexit 3\\n' > bin/python && chmod +x bin/python"
    )
    on_host(server, 0, f"{venv} && {others}")
    on_host(server, 1, venv)


@pytest.mark.usefixtures("venvs")
@pytest.mark.long
def test_the_pythons_of_all_hosts_are_listed_with_what_they_have_and_lack(server):
    shown = server.cli("env", "list", NAME, "--found")
    print(shown.stdout, shown.stderr)
    assert re.search(r"It is missing on host 1\. \(.*/\.venv-0/bin/python", shown.stdout)
    why = r"It does not start on host 0: it ended with status 3\."
    assert re.search(rf"{why} \(.*/broken/bin/python\)", shown.stdout)
    by_name = pythons(server)
    venv = by_name["venv"]
    assert (venv["kind"], venv["ipykernel"], venv["jax"]) == ("venv", "", "")
    assert (venv["installable"], venv["missing"], venv["problem"]) == (True, [], "")
    system = [python for python in by_name.values() if python["kind"] == "system"]
    assert venv["version"] in [python["version"] for python in system]


@pytest.mark.long
@pytest.mark.usefixtures("venvs")
def test_a_found_environment_becomes_a_kernel_and_nothing_in_it_is_changed_or_deleted(server):
    before = [listing(server, host) for host in (0, 1)]
    refused = server.cli("env", "use", NAME, "~/venv")
    assert refused.returncode == 1
    assert "Add --install-ipykernel to install it without asking." in refused.stderr
    asked = {"environment": "venv", "python_path": "~/venv"}
    operation = server.tpu("POST", f"tpus/{NAME}/connect", asked)
    until(lambda: server.tpu("GET", f"operations/{operation['id']}")["state"] == "failed")
    failed = server.tpu("GET", f"operations/{operation['id']}")
    assert failed["problem"]["reason"] == "NO_IPYKERNEL"
    assert "has no ipykernel, which kernels need, on hosts 0, 1." in failed["problem"]["message"]

    used = server.cli("env", "use", NAME, "~/venv", "--install-ipykernel")
    assert used.returncode == 0, used.stderr
    assert 'The kernel "Python 3.' in used.stdout
    after = [listing(server, host) for host in (0, 1)]
    for host in (0, 1):
        assert before[host] < after[host]
        new = [line.partition("  ")[2] for line in after[host] - before[host]]
        assert any("/ipykernel/" in path for path in new)
        assert [path for path in new if re.search(r"/mine[.-]|/jax|\.pyc$", path)] == []

    [environment] = server.tpu("GET", f"tpus/{NAME}/environments")
    assert environment["python_path"].endswith("/venv/bin/python")
    with running_kernel(server.environment, environment["kernelspec"]) as run:
        printed = run("import mine, sys; print(mine.answer, sys.prefix)")
    assert printed == f"42 {environment['path']}\n"
    # What was added is used and kept; only this program's knowledge of it is removed.
    again = server.finish(server.tpu("POST", f"tpus/{NAME}/connect", {"environment": "venv"}))
    assert [step["state"] for step in again["steps"] if "ipykernel" in step["title"]] == ["skipped"]
    assert pythons(server)["venv"]["environment"] == "venv"
    with pytest.raises(urllib.error.HTTPError) as conflict:
        server.tpu("POST", f"tpus/{NAME}/environments/venv/packages", {"add": ["einops"]})
    assert "does not change its packages" in json.load(conflict.value)["message"]
    removed = server.cli("env", "delete", NAME, "venv", "--yes")
    assert removed.stdout.endswith(f"Removed venv from Jupyter. Its files on {NAME} are kept.\n")
    assert server.tpu("GET", f"tpus/{NAME}/environments") == []
    assert after[0] <= listing(server, 0)
