"""A host whose agent was changed by someone: what it says does no harm, and costs only itself."""

import json
import urllib.error
from collections.abc import Iterator
from typing import Any

import pytest
from adoption_server import Server
from waiting import until

pytestmark = pytest.mark.long  # tests/unit/test_host_answers.py has more cases, without a TPU

TPU = "lying"

#: Appended to the daemon's sources: it reports these kernels, which are JSON.
LIE = """

import json as _json

async def _lie(self):
    return _json.loads(%r)

Daemon._list_kernels = _lie
"""


@pytest.fixture(scope="module")
def server(emulator: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a connected TPU of two hosts."""
    server = Server(tmp_path_factory.mktemp("lying"), emulator.environment)
    with server.tpu_of_two_hosts(TPU):
        yield server


def report(server: Server, host: int, kernels: Any) -> None:
    """From now on the agent of a host reports *kernels*."""
    lie = LIE % json.dumps(kernels)
    script = (
        'cd ~/.jupyter-tpu/agent/*/ && file=$(find . -path "*daemon/daemon.py") && '
        'cp -n "$file" "$file.good" && cp "$file.good" "$file" && printf %s "$1" >> "$file" && '
        """kill -9 $(ps -eo pid=,args= | awk '$NF == "daemon" {print $1}')"""
    )
    server.on_host(TPU, host, "sh", "-c", script, "sh", lie, check=False)


def problem(server: Server) -> str:
    problem_shown = server.tpu("GET", f"tpus/{TPU}")["problem"]
    return problem_shown["message"] if problem_shown else ""


@pytest.mark.parametrize(
    "kernels",
    [
        [{"id": "../../../precious", "state": "idle"}],
        [{"state": "idle"}],
        [{"id": "k", "state": "idle", "booked": ["all"]}],
    ],
    ids=["path", "no id", "no numbers"],
)
def test_a_report_that_can_not_be_costs_that_host_only_and_is_shown(server, kernels):
    precious = server.folder / "precious"
    precious.mkdir(exist_ok=True)
    (precious / "thesis.tex").write_text("years")
    report(server, 0, [{"id": "good-one", "state": "idle", "environment": "default"}])
    until(
        lambda: (
            [kernel["id"] for kernel in server.tpu("GET", f"tpus/{TPU}/kernels")] == ["good-one"]
        )
    )
    report(server, 1, kernels)
    until(
        lambda: "sent an invalid answer (status: " in problem(server), why=lambda: problem(server)
    )
    assert [kernel["id"] for kernel in server.tpu("GET", f"tpus/{TPU}/kernels")] == ["good-one"]
    for id in ("..%2F..%2F..%2Fprecious", "k"):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            server.tpu("POST", f"tpus/{TPU}/kernels/{id}/take")
    assert [path.name for path in precious.iterdir()] == ["thesis.tex"]
    report(server, 1, [])
    until(lambda: not problem(server), why=lambda: problem(server))
