"""One master per kernel: two machines of one person, and what each of them may do.

Two real servers with folders, keys and secrets of their own, as on two machines, on one TPU.
"""

import json
import subprocess
import sys
import urllib.error
from collections.abc import Iterator
from typing import Any

import nbformat
import pytest
from adoption_server import Client, Server
from waiting import until

TPU = "mastered"


@pytest.fixture(scope="module")
def machines(
    emulator: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Server, Server]]:
    """Two servers to which the same TPU is connected."""
    first, second = (
        Server(tmp_path_factory.mktemp(name), emulator.environment) for name in ("first", "second")
    )
    with first, second:
        first.connect_tpu(TPU)
        second.finish(second.tpu("POST", f"tpus/{TPU}/connect", {}))
        yield first, second
        first.delete_tpu(TPU)


@pytest.fixture(autouse=True)
def nothing_left(machines: tuple[Server, Server]) -> Iterator[None]:
    """What a test has left, perhaps because it failed, is in the way of no other."""
    yield
    for server in machines:
        server.end_sessions()
    for kernel_id in on_host(machines[1]):
        machines[1].cli("kernel", "stop", TPU, kernel_id, "--yes")


def start_session(server: Server, path: str) -> dict[str, Any]:
    return server.start_session(server.kernelspec(TPU), path)


def connected(server: Server, kernel_id: str) -> Client:
    client = Client(server, kernel_id)
    client.connect()
    return client


def kernels(server: Server) -> list[str]:
    return [kernel["id"] for kernel in server.request("GET", "/api/kernels")]


def on_host(server: Server) -> dict[str, dict[str, Any]]:
    """The living kernels of the TPU, by id."""
    kernels = server.tpu("GET", f"tpus/{TPU}/kernels?fresh=true")
    return {kernel["id"]: kernel for kernel in kernels if kernel["state"] != "dead"}


def test_a_kernel_that_is_taken_on_purpose_has_one_master_and_goes_on(machines):
    first, second = machines
    (second.root / "work.ipynb").write_text(nbformat.writes(nbformat.v4.new_notebook()))
    begun_as = start_session(first, "Untitled.ipynb")
    kernel_id = begun_as["kernel"]["id"]
    mine = connected(first, kernel_id)
    assert mine.run("x = 42; print('here')") == "here\n"
    # Its host knows the notebook by its present name.
    renamed = {"path": "work.ipynb", "name": "work.ipynb"}
    first.request("PATCH", f"/api/sessions/{begun_as['id']}", renamed)
    until(lambda: on_host(second)[kernel_id]["notebook"] == str(first.root / "work.ipynb"))
    begun = mine.execute(
        "import time\nfor i in range(60):\n    print(i, flush=True); time.sleep(.1)"
    )
    mine.until(lambda message: "5\n" in message["content"].get("text", ""))

    done = second.cli("kernel", "take", TPU, kernel_id[:8], "--yes")
    assert done.returncode == 0, done.stderr
    assert f"now has kernel {kernel_id}" in done.stdout
    # The one that had it is told, once, and has it no more.
    mine.until(lambda message: message["content"].get("execution_state") == "dead")
    assert "was taken over by" in mine.printed(begun)
    until(lambda: kernels(first) == [])
    assert first.request("GET", "/api/sessions") == []
    until(lambda: not (first.folder / "tpu" / "kernels" / kernel_id).exists())
    mine.close()
    # It goes on at the other one, with its notebook and all that it knows.
    assert kernels(second) == [kernel_id]
    [session] = second.request("GET", "/api/sessions")
    assert session["path"] == "work.ipynb"
    theirs = connected(second, kernel_id)
    assert theirs.run("print(x, i)") == "42 59\n"
    until(lambda: on_host(second)[kernel_id]["attached"])
    # Stopping and starting either of them changes nothing about that.
    first.stop()
    first.start()
    assert kernels(first) == []
    second.kill()
    second.start()
    assert kernels(second) == [kernel_id]
    theirs.connect()
    assert theirs.run("print(x)") == "42\n"
    theirs.close()
    second.request("DELETE", f"/api/sessions/{session['id']}")
    assert on_host(second) == {}


def test_an_orphan_is_listed_and_can_be_taken_and_ended(machines):
    first, second = machines
    ids = [start_session(first, f"{n}.ipynb")["kernel"]["id"] for n in (1, 2)]
    client = connected(first, ids[0])
    assert client.run("x = 1; print('here')") == "here\n"
    client.close()
    first.kill()
    until(lambda: not any(k["attached"] for k in on_host(second).values()))
    listed = second.cli("kernel", "list", TPU)
    assert listed.stdout.count("not in use (last used by ") == 2, listed
    done = second.cli("kernel", "stop", TPU, ids[1], "--yes")
    assert done.returncode == 0, done.stderr
    assert list(on_host(second)) == [ids[0]]
    second.tpu("POST", f"tpus/{TPU}/kernels/{ids[0]}/take")
    client = connected(second, ids[0])
    assert client.run("print(x)") == "1\n"
    client.close()
    with pytest.raises(urllib.error.HTTPError) as refused:
        second.tpu("POST", f"tpus/{TPU}/kernels/{ids[0]}/take")
    assert json.loads(refused.value.read())["reason"] == "EXISTS"
    # The first one finds both gone when it comes back, and ends nothing of the other's.
    first.start()
    until(lambda: kernels(first) == [])
    assert list(on_host(second)) == [ids[0]]
    second.request("DELETE", f"/api/kernels/{ids[0]}")
    assert on_host(second) == {}


def test_a_notebook_runner_beside_a_server_ends_its_own_kernel_only(machines, tmp_path):
    first, _ = machines
    session = start_session(first, "beside.ipynb")
    client = connected(first, session["kernel"]["id"])
    assert client.run("x = 7; print('here')") == "here\n"
    cell = nbformat.v4.new_code_cell("print('x' in globals())")
    notebook = nbformat.v4.new_notebook(cells=[cell])
    (tmp_path / "in.ipynb").write_text(nbformat.writes(notebook))
    run = (
        "import sys, nbformat; from nbclient import NotebookClient\n"
        "notebook = nbformat.read(sys.argv[1], 4)\n"
        "NotebookClient(notebook, kernel_name=sys.argv[2], timeout=60).execute()\n"
        "print(notebook.cells[0].outputs[0].text)"
    )
    done = subprocess.run(
        [sys.executable, "-c", run, str(tmp_path / "in.ipynb"), session["kernel"]["name"]],
        env=first.environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.strip() == "False", done.stderr
    assert list(on_host(first)) == [session["kernel"]["id"]]
    assert client.run("print(x)") == "7\n"
    client.close()
    first.request("DELETE", f"/api/sessions/{session['id']}")
