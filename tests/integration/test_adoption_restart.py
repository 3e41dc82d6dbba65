"""A server is stopped or killed in the middle of a cell; the next one has kernel and output.

Real servers, the emulator's hosts over real SSH, real kernels. The client is a plain one, without
our page's counting; what a browser's tab gets is in tests/browser/test_browser_restart.py.
"""

import contextlib
import http.client
import json
import os
import re
import signal
import threading
import time
import urllib.error
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from adoption_server import Client, CountingClient, Server
from fleet_world import others
from pod_fleet import host_processes, silent_ssh
from waiting import until
from websocket import create_connection

from jupyter_tpu.emulator.hosts.namespace_host import is_sshd, process_tree

LINES = (
    "import time\nfor i in range({n}):\n    print('line', i, flush=True)\n    time.sleep({pause})"
)


@pytest.fixture(scope="module")
def connected(emulator: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose user has a connected TPU; the same for all tests of this file."""
    with Server(tmp_path_factory.mktemp("adoption"), emulator.environment) as server:
        server.connect_tpu("kept")
        yield server
        server.delete_tpu("kept")


@pytest.fixture
def server(connected: Server) -> Iterator[Server]:
    if connected.process is None:
        connected.start()
    yield connected
    connected.end_sessions()


@pytest.fixture
def session(server: Server) -> dict[str, Any]:
    """A notebook's session with a kernel on the TPU."""
    return start_session(server)


@pytest.fixture
def client(server: Server, session: dict[str, Any]) -> Iterator[Client]:
    """A connected client of the session's kernel."""
    client = Client(server, session["kernel"]["id"])
    client.connect()
    yield client
    client.close()


@pytest.fixture
def page(server: Server, session: dict[str, Any]) -> Iterator[CountingClient]:
    """As `client`, but one that counts, as our page does."""
    page = CountingClient(server, session["kernel"]["id"])
    page.connect()
    yield page
    page.close()


@pytest.fixture
def home(emulator: Any) -> Path:
    """The folder of the user on the TPU's host."""
    [host] = emulator.hosts("kept")
    return Path(host["folder"], "home", "tpu")


def start_session(server: Server, path: str = "work.ipynb") -> dict[str, Any]:
    return server.start_session(server.kernelspec("kept"), path)


def restart(client: Client) -> None:
    """Kills the server of *client*, which then reads what was under way; the next has it back."""
    client.server.kill()
    client.close()
    client.server.start()
    client.connect()


def line(number: int) -> Any:
    return lambda message: f"line {number}\n" in message["content"].get("text", "")


def stop_by_request(server: Server) -> None:
    server.request("POST", "/api/shutdown")
    server.process.wait(60)
    server.process = None


WAYS = {
    "SIGTERM": lambda server: server.stop(),
    "kill -9": lambda server: server.kill(),
    "Ctrl-C twice": lambda server: server.stop(signal.SIGINT, times=2),
    "POST /api/shutdown": stop_by_request,
}

#: `make test` takes the hardest of several similar ways.
ALL_WAYS = [pytest.param(way, marks=() if way == "kill -9" else pytest.mark.long) for way in WAYS]


@pytest.mark.parametrize("way", ALL_WAYS)
def test_a_cell_goes_on_and_every_line_of_it_arrives_once(server, session, client, home, way):
    told = "\n    open('printed.txt', 'w').write(f'{i:03}')"
    request = client.execute(LINES.format(n=80, pause=0.05) + told)
    client.until(line(20))
    WAYS[way](server)
    while client.read() is not None:  # what was under way
        pass
    seen = len(client.printed(request).splitlines())
    until(lambda: int((home / "printed.txt").read_text() or 0) > min(seen + 15, 78), 60)
    server.start()
    [kernel] = server.request("GET", "/api/kernels")
    assert kernel["id"] == client.kernel_id
    [restored] = server.request("GET", "/api/sessions")
    assert (restored["id"], restored["path"]) == (session["id"], session["path"])
    client.connect()
    client.until_done(request)
    assert client.printed(request) == "".join(f"line {n}\n" for n in range(80))
    assert client.run("print('still', i)") == "still 79\n"


def test_a_kernel_that_died_while_there_was_no_server_leaves_its_lines_and_the_cause(
    server, session, home
):
    kernel_id = session["kernel"]["id"]
    client = CountingClient(server, kernel_id)
    client.connect()
    request = client.execute(
        "import os, time\nfrom pathlib import Path\nprint('soon', flush=True)\n"
        "while not Path.home().joinpath('die').exists(): time.sleep(.05)\n"
        "for i in range(150): print('line', i, flush=True)\n"
        "time.sleep(.5)\n"  # in which it sends them
        "Path.home().joinpath('dying').touch()\nos.kill(os.getpid(), 9)",
        cellId="c",
    )
    client.until(lambda message: "soon" in message["content"].get("text", ""))
    server.kill()
    (home / "die").touch()
    until((home / "dying").exists, 60)
    server.start()
    client.connect()
    client.until_done(request)
    lines = "".join(f"line {n}\n" for n in range(150))
    assert client.printed(request) == f"soon\n{lines}"
    [error] = [m["content"]["evalue"] for m in client.messages if m["msg_type"] == "error"]
    assert error == "The kernel was ended by signal 9 (SIGKILL)."
    # Only then Jupyter's restarter starts another kernel.
    states = [m["content"].get("execution_state") for m in client.messages]
    assert "restarting" not in states
    client.until(lambda m: m["content"].get("execution_state") == "restarting")
    assert client.run("print('new')") == "new\n"
    client.close()
    # A page that is opened afresh shows it, too, beside the new kernel.
    fresh = CountingClient(server, kernel_id)
    fresh.connect()
    fresh.execute("this is not run at all", msg_id=request, cellId="c")
    fresh.until_done(request)
    assert fresh.printed(request) == f"soon\n{lines}"
    assert [m["content"]["evalue"] for m in fresh.messages if m["msg_type"] == "error"] == [error]
    fresh.close()


def test_a_kernel_that_is_shut_down_after_it_was_taken_up_is_gone_for_good(server, session):
    kernel_id = session["kernel"]["id"]
    server.stop()
    server.start()
    until(lambda: server.kernel(kernel_id)["execution_state"] == "idle")
    assert [k["id"] for k in server.tpu("GET", "tpus/kept/kernels?fresh=true")] == [kernel_id]
    server.request("DELETE", f"/api/kernels/{kernel_id}")
    assert server.tpu("GET", "tpus/kept/kernels?fresh=true") == []
    assert server.request("GET", "/api/sessions") == []
    server.kill()
    server.start()
    assert server.request("GET", "/api/kernels") == []
    assert list((server.folder / "tpu" / "kernels").iterdir()) == []


def test_a_server_that_does_not_wait_for_kernels_to_start_adopts_them(server):
    pending = server.another()
    pending.options = (*server.options, "--AsyncMappingKernelManager.use_pending_kernels=True")
    server.stop()
    with pending:
        client = Client(pending, start_session(pending)["kernel"]["id"])
        client.connect()
        assert client.run("x = 7; print(x)") == "7\n"
        restart(client)
        assert [kernel["id"] for kernel in pending.request("GET", "/api/kernels")] == [
            client.kernel_id
        ]
        assert client.run("print(x)") == "7\n"
        client.close()
        pending.stop()


@pytest.mark.long  # without a restart: test_kernels_project.py
def test_what_is_saved_while_there_is_no_server_is_there_for_the_next_cell(server, monkeypatch):
    server.stop()
    monkeypatch.setitem(server.environment, "JUPYTER_TPU_PROJECT_SYNC", "auto")
    server.start()
    try:
        project = server.root / "thesis"
        project.mkdir()
        (project / "x.txt").write_text("1")
        session = start_session(server, "thesis/work.ipynb")
        client = Client(server, session["kernel"]["id"])
        client.connect()

        assert client.run("import os; print(os.getcwd())") == "/home/tpu/thesis\n"
        server.kill()
        while client.read() is not None:
            pass
        (project / "x.txt").write_text("22")
        server.start()
        client.connect()
        for text in ("22", "333"):
            (project / "x.txt").write_text(text)
            assert client.run("print(open('x.txt').read())") == f"{text}\n"

        def shown() -> Any:
            [synced] = server.tpu("GET", "tpus/kept")["projects"]
            return synced

        assert (shown()["folder"], shown()["remote"]) == (str(project), "~/thesis")
        until(lambda: shown()["state"] == "current")
        client.close()
    finally:
        server.stop()


#: What libtpu does with the first chip of a host.
HOLD = "import os; chip = os.open('/dev/vfio/0', os.O_RDWR); print('held')"


def test_rest_says_that_the_chips_are_held_and_by_whom(server, session, client):
    assert client.run(HOLD) == "held\n"
    kernel = {"name": session["kernel"]["name"]}
    second = {"path": "b.ipynb", "name": "b.ipynb", "type": "notebook", "kernel": kernel}
    for path, body in (("kernels", kernel), ("sessions", second)):
        with pytest.raises(urllib.error.HTTPError) as refused:
            server.request("POST", f"/api/{path}", body)
        answer = json.loads(refused.value.read())
        assert (refused.value.code, answer["reason"]) == (409, "CHIPS_HELD")
        assert answer["message"].startswith("The chips of kept are in use by the kernel of")
        assert "jupyter tpu kernel stop kept" in answer["hint"]
    assert len(server.request("GET", "/api/kernels")) == 1
    # So is a notebook of this computer's that changes to it, and keeps its kernel.
    here = server.request("POST", "/api/sessions", {**second, "kernel": {"name": "python3"}})
    with pytest.raises(urllib.error.HTTPError) as refused:
        server.request("PATCH", f"/api/sessions/{here['id']}", {"kernel": kernel})
    answer = json.loads(refused.value.read())
    assert (refused.value.code, answer["reason"]) == (409, "CHIPS_HELD")
    server.request("DELETE", f"/api/sessions/{here['id']}")
    # In the server's terminal one line each.
    log = server.log.read_text()
    assert log.count("The chips of kept are in use by the kernel of") == 3
    assert "Traceback" not in log
    # Without chips it starts, also again.
    without = {"X-Jupyter-TPU-Without-Chips": "1"}
    started = server.request("POST", "/api/sessions", second, headers=without)["kernel"]["id"]
    server.request("POST", f"/api/kernels/{started}/restart", {})
    with closing(Client(server, started)) as other:
        other.connect()
        names = "JAX_PLATFORMS", "TPU_VISIBLE_CHIPS", "JAX_NUM_CPU_DEVICES"
        code = f"import os; print([os.environ[name] for name in {names}])"
        assert other.run(code) == "['cpu', '', '1']\n"


def test_a_local_kernel_ends_with_the_server_as_ever(server):
    kernel = server.request("POST", "/api/kernels", {"name": "python3"})
    client = Client(server, kernel["id"])
    client.connect()
    request = client.execute("import os; print(os.getpid())")
    client.until_done(request)
    pid = int(client.printed(request))
    server.stop()
    until(lambda: not Path(f"/proc/{pid}").exists())
    server.start()
    assert server.request("GET", "/api/kernels") == []
    assert list((server.folder / "tpu" / "kernels").iterdir()) == []


@pytest.mark.parametrize("way", ["SIGTERM", pytest.param("kill -9", marks=pytest.mark.long)])
def test_a_client_that_polls_never_sees_lists_without_the_kernel(server, session, way):
    stop, lists = threading.Event(), []

    def poll() -> None:
        while not stop.wait(0.02):
            for path in ("/api/kernels", "/api/sessions"):
                try:
                    lists.append([kernel["id"] for kernel in server.request("GET", path)])
                except urllib.error.HTTPError as error:
                    if error.code != 503:
                        raise
                except (OSError, http.client.HTTPException):
                    pass  # no server, or one that ended in the middle of its answer

    with ThreadPoolExecutor() as pool:
        polling = pool.submit(poll)
        until(lambda: len(lists) > 10)
        WAYS[way](server)
        server.start()
        before = len(lists)
        until(lambda: len(lists) > before + 10 or polling.done())
        stop.set()
        polling.result()
    expected = ([session["kernel"]["id"]], [session["id"]])
    assert all(ids in expected for ids in lists), lists


def test_an_adopted_kernel_keeps_its_last_activity_and_an_idle_one_is_not_shown_as_busy(
    server, session
):
    kernel_id = session["kernel"]["id"]
    client = Client(server, kernel_id)
    client.connect()
    client.until_done(client.execute("1 + 1"))
    client.close()
    before = active_at(server, kernel_id)
    server.stop()
    server.start()
    states = [server.kernel(kernel_id)["execution_state"]]
    while states[-1] != "idle":
        states.append(server.kernel(kernel_id)["execution_state"])
    assert "busy" not in states
    # For a moment the server counts what the kernel's host kept for it as activity.
    until(lambda: abs(active_at(server, kernel_id) - before) < timedelta(seconds=1))
    assert server.kernel(kernel_id)["execution_state"] == "idle"


def active_at(server: Server, kernel_id: str) -> datetime:
    text = server.kernel(kernel_id)["last_activity"]
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def test_who_connects_in_the_middle_of_a_flood_gets_each_line_once_and_in_order(server, session):
    first = Client(server, session["kernel"]["id"])
    first.connect()
    first.execute("import time\nn = 0\nwhile True:\n    n += 1\n    print(n, flush=True)\n")
    first.until(lambda message: message["msg_type"] == "stream")
    for _ in range(8):
        client = Client(server, session["kernel"]["id"])
        client.connect()
        numbers: list[int] = []
        while len(numbers) < 50:
            message = client.read()
            if message["msg_type"] == "stream":
                numbers += map(int, message["content"]["text"].split())
        assert numbers == list(range(numbers[0], numbers[-1] + 1))
        client.close()
    first.close()


class NamingClient(Client):
    """Names the last messages that it has when it connects again: docs/notebooks/kernels.md."""

    @property
    def counting(self) -> str:
        ids = [message["header"]["msg_id"] for message in self.messages[-8:]]
        return f"&jupyter_tpu_last={','.join(ids)}"


@pytest.mark.parametrize("damaged", [False, *others(True)])
def test_a_client_that_names_the_last_messages_it_has_gets_each_message_once(
    server, session, damaged
):
    client = NamingClient(server, session["kernel"]["id"])
    client.connect()
    request = client.execute("for i in range(3_000):\n    print('line', i, flush=True)")
    client.until(line(800))
    server.kill()
    while client.read() is not None:  # what was under way
        pass
    if damaged:
        kernel = server.folder / "tpu" / "kernels" / session["kernel"]["id"]
        (kernel / "cursors.json").write_bytes(b"")
    server.start()
    client.connect()
    client.until_done(request)
    assert client.printed(request) == "".join(f"line {number}\n" for number in range(3_000))
    got = [m["header"]["msg_id"] for m in client.messages]
    assert len(got) == len(set(got))
    client.close()


@pytest.mark.long
def test_who_was_away_gets_lines_together_and_of_a_progress_bar_what_is_left(server, page, home):
    request = page.execute(
        "import sys, time\nfrom pathlib import Path\n"
        "print('begun', flush=True)\n"
        "while not Path.home().joinpath('away').exists(): time.sleep(.05)\n"
        "for i in range(2000):\n"
        "    print(f'\\r{i:4} of 2000', end='', file=sys.stderr, flush=True)\n"
        "for i in range(2000): print('line', i, flush=True)\n"
    )
    page.until(lambda message: "begun\n" in message["content"].get("text", ""))
    until(lambda: server.kernel(page.kernel_id)["execution_state"] == "busy")
    page.close()
    until(lambda: server.kernel(page.kernel_id)["connections"] == 0)
    (home / "away").touch()
    until(lambda: server.kernel(page.kernel_id)["execution_state"] == "idle")
    before = len(page.messages)
    page.connect()
    page.until_done(request)
    later = [m for m in page.messages[before:] if m["msg_type"] == "stream"]
    assert len(later) < 200
    lines = "".join(f"line {number}\n" for number in range(2000))
    assert "".join(m["content"]["text"] for m in later if m["content"]["name"] == "stdout") == lines
    bar = "".join(m["content"]["text"] for m in later if m["content"]["name"] == "stderr")
    assert bar.rpartition("\r")[2] == "1999 of 2000"
    assert len(bar) < 2000


def test_output_that_a_page_has_is_not_sent_again(server, session):
    first = CountingClient(server, session["kernel"]["id"])
    first.connect()
    request = first.execute("for i in range(300): print('line', i, flush=True)")
    first.until_done(request)
    page = CountingClient(server, session["kernel"]["id"])
    page.connect()
    page.execute("this is not run at all", msg_id=request)
    page.until(lambda message: message["msg_type"] == "stream")
    last = page.messages[-1]["metadata"]["jupyter_tpu"]
    assert last["replayed"]
    page.close()
    page.connect()
    page.socket.send(json.dumps({"jupyter_tpu": {"repeat": {request: last["number"]}}}))
    page.until_done(request)
    assert page.printed(request) == "".join(f"line {number}\n" for number in range(300))
    first.close()
    page.close()


def test_a_request_that_comes_twice_runs_once_and_its_output_is_sent_again(server, session):
    first = Client(server, session["kernel"]["id"])
    first.connect()
    request = first.execute("runs = globals().get('runs', 0) + 1\nprint('run', runs)")
    first.until_done(request)
    server.kill()
    server.start()
    second = Client(server, session["kernel"]["id"])
    second.connect()
    second.execute("this is not run at all", msg_id=request)
    second.until_done(request)
    assert second.printed(request) == "run 1\n"
    assert second.run("print(runs)") == "1\n"
    first.close()
    second.close()


def test_a_question_asked_while_there_was_no_server_is_answered_by_the_next(server, client, home):
    request = client.execute(
        "import time\nfrom pathlib import Path\nprint('soon', flush=True)\n"
        "while not Path.home().joinpath('ask').exists(): time.sleep(.05)\n"
        "Path.home().joinpath('asking').touch()\nprint(input('? '))"
    )
    client.until(lambda message: "soon" in message["content"].get("text", ""))
    server.kill()
    (home / "ask").touch()
    until((home / "asking").exists, 60)
    server.start()
    client.connect()
    question = client.until(lambda message: message["msg_type"] == "input_request")
    client.send("input_reply", {"value": "here"}, "stdin", parent=question["header"])
    client.until_done(request)
    assert client.printed(request) == "soon\nhere\n"


@pytest.mark.parametrize(
    "damaged", [["record.json", "record.copy.json"], *others((["record.json"],))]
)
def test_a_kernel_whose_record_is_damaged_is_listed_from_the_start_with_its_output(
    server, session, damaged
):
    kernel_id = session["kernel"]["id"]
    (server.root / "work.ipynb").touch()
    client = CountingClient(server, kernel_id)
    client.connect()
    request = client.execute(LINES.format(n=60, pause=0.05), cellId="c")
    client.until(line(20))
    server.kill()
    client.close()
    for name in damaged:
        record = server.folder / "tpu" / "kernels" / kernel_id / name
        record.write_bytes(bytes(record.stat().st_size))
    server.start()
    # The first answer: an open tab would take a kernel for dead that is not in it.
    [kernel] = server.request("GET", "/api/kernels")
    assert kernel["id"] == kernel_id
    [restored] = server.request("GET", "/api/sessions")
    assert restored["path"] == "work.ipynb"
    assert (restored["id"] == session["id"]) == (len(damaged) == 1)
    client.connect()
    client.until_done(request)
    assert client.printed(request) == "".join(f"line {n}\n" for n in range(60))
    client.close()
    page = CountingClient(server, kernel_id)
    page.connect()
    page.execute("this is not run at all", msg_id=request)
    page.until_done(request)
    assert page.printed(request) == "".join(f"line {n}\n" for n in range(60))
    page.close()


@pytest.mark.long
def test_the_next_server_reports_what_a_full_host_dropped_while_there_was_none(server, home):
    [environment] = server.tpu("GET", "tpus/kept/environments")
    file = server.folder / "jupyter" / "kernels" / environment["kernelspec"] / "kernel.json"
    before = file.read_text()
    spec = json.loads(before)
    limits = {"when_full": "drop", "journal_limit": 1 << 20}
    spec["metadata"]["kernel_provisioner"]["config"].update(limits)
    file.write_text(json.dumps(spec))
    session = start_session(server)
    file.write_text(before)
    client = CountingClient(server, session["kernel"]["id"])
    client.connect()
    request = client.execute(
        "import pathlib, time\nprint('begun', flush=True)\n"
        "while not pathlib.Path('go').exists(): time.sleep(0.01)\n"
        "for i in range(1250): print('line', i, 'x' * 4000, flush=True)\n"
        "pathlib.Path('full').touch()"
    )
    client.until(lambda message: "begun" in message["content"].get("text", ""))
    server.kill()
    client.close()
    (home / "go").touch()
    until((home / "full").exists, 120)
    server.start()
    client.connect()
    client.until_done(request)
    # Once more, as a page that is opened afresh does: it was kept with the rest of the output.
    fresh = CountingClient(server, client.kernel_id)
    fresh.connect()
    fresh.execute("", msg_id=request)
    fresh.until_done(request)
    for reader in (client, fresh):
        text = reader.printed(request)
        told = re.findall(
            r"… ([0-9,]+) lines? \(.*?\) \w+ dropped here: the journal was full\n", text
        )
        lost = sum(int(count.replace(",", "")) for count in told)
        assert lost > 500
        assert len(re.findall(r"^line \d+ x+$", text, re.MULTILINE)) + lost == 1250
        reader.close()
    for name in ("go", "full"):
        (home / name).unlink()


@contextmanager
def hole(emulator: Any) -> Iterator[None]:
    """Nothing comes from the TPU's host, and nothing is refused: a line that has gone silent."""
    [host] = emulator.hosts("kept")
    if not any(is_sshd(process["name"]) for process in process_tree(host["init_pid"])):
        pytest.skip("hosts without namespaces have no sshd of their own to stop")
    with silent_ssh(host["init_pid"]):
        yield


def test_kernels_are_listed_as_last_reported_and_their_host_is_asked_only_if_that_is_wished(
    server, session, emulator
):
    def listed(query: str = "") -> list[str]:
        return [kernel["id"] for kernel in server.tpu("GET", f"tpus/kept/kernels{query}")]

    kernel_id = session["kernel"]["id"]
    until(lambda: listed() == [kernel_id])
    [host] = emulator.hosts("kept")
    daemons = [
        int(process.name)
        for process in host_processes(host["init_pid"])
        if b"\0daemon\0" in (process / "cmdline").read_bytes()
    ]
    for pid in daemons:
        os.kill(pid, signal.SIGSTOP)
    try:
        assert listed() == [kernel_id]
        with pytest.raises(urllib.error.HTTPError):
            listed("?fresh=true")
    finally:
        for pid in daemons:
            os.kill(pid, signal.SIGCONT)
    assert until(lambda: listed("?fresh=true")) == [kernel_id]


def test_the_state_of_a_link_is_reported_by_rest_and_by_events(server, emulator):
    def link() -> dict[str, Any]:
        return server.tpu("GET", "tpus/kept")["hosts"][0]["link"]

    until(lambda: link()["state"] == "up")
    assert link()["problem"] is None
    header = [f"Authorization: token {server.token}"]
    url = server.url.replace("http", "ws") + "/api/events/subscribe"
    events = create_connection(url, header=header, timeout=90)

    def next_state(what: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """The next state of the TPU of whose link *what* is true."""
        while True:
            tpu = json.loads(events.recv()).get("tpu")
            if tpu and tpu["name"] == "kept" and what(tpu["hosts"][0]["link"]):
                return tpu

    with hole(emulator):
        silent = next_state(lambda link: link["state"] == "silent")
        assert silent["hosts"][0]["link"]["since"]
        lost = next_state(lambda link: link["problem"])
        assert lost["connection"] == "reconnecting"
        problem = lost["hosts"][0]["link"]["problem"]
        assert problem["reason"] == "UNREACHABLE"
        assert "lost" in problem["message"]
        asked = server.tpu("GET", "tpus/kept")
        assert asked["connection"] == "reconnecting"
        assert asked["hosts"][0]["link"]["state"] in ("connecting", "waiting")
        assert asked["hosts"][0]["link"]["problem"]["message"]
    healed = next_state(lambda link: link["state"] == "up")
    assert healed["connection"] == "connected"
    assert healed["hosts"][0]["link"]["problem"] is None
    assert link()["state"] == "up"
    events.close()


def written(server: Server, kernel_id: str, text: str) -> bool:
    """Whether what is kept of a kernel on this machine's disk has *text*."""
    files = (server.folder / "tpu" / "kernels" / kernel_id).glob("journal-*")
    return any(text.encode() in file.read_bytes() for file in files)


def test_a_request_that_the_server_took_and_the_host_never_got_is_run_by_the_next_server_once(
    server, session, emulator, home
):
    kernel_id = session["kernel"]["id"]
    client = Client(server, kernel_id)
    client.connect()
    client.until_done(client.execute("runs = []"))
    with hole(emulator):
        requests = [client.execute(f"runs.append({n}); print('run', runs)") for n in (1, 2)]
        until(lambda: all(written(server, kernel_id, request) for request in requests))
        server.kill()
        client.close()
    server.start()
    client.connect()
    for request, runs in zip(requests, ("[1]", "[1, 2]"), strict=True):
        client.until_done(request)
        assert client.printed(request) == f"run {runs}\n"
    # What the host got of it is run once, too, though the next server can't know that it did.
    last = client.execute(
        "import time\nfrom pathlib import Path\nruns.append(3)\n"
        "while not Path.home().joinpath('go').exists(): time.sleep(.05)\nprint('run', runs)"
    )
    until(lambda: written(server, kernel_id, last))
    server.kill()
    client.close()
    (home / "go").touch()
    server.start()
    client.connect()
    client.until_done(last)
    assert client.printed(last) == "run [1, 2, 3]\n"
    client.close()
    (home / "go").unlink()


def kept_for_the_host(server: Server, kernel_id: str) -> list[str]:
    """What is under way to a kernel beside requests, as the ids of the messages."""
    files = sorted((server.folder / "tpu" / "kernels" / kernel_id).glob("said-*"))
    ids: list[str] = []
    for file in files:
        with contextlib.suppress(FileNotFoundError):  # it has arrived meanwhile
            text = file.read_bytes().decode(errors="replace")
            ids += re.findall(r'"msg_id": ?"(\w+)"', text)[:1]  # none yet: it is being written
    return ids


def test_an_answer_and_what_widgets_say_survive_the_server_that_took_them(server, client, emulator):
    widget = {"comm_id": "widget"}

    def change(number: int) -> str:
        return client.send("comm_msg", {**widget, "data": {"number": number}})

    client.until_done(
        client.execute(
            "got = []\n"
            "def opened(comm, _):\n"
            "    comm.on_msg(lambda message: got.append(message['content']['data']['number']))\n"
            "get_ipython().kernel.comm_manager.register_target('counter', opened)"
        )
    )
    client.send("comm_open", {**widget, "target_name": "counter", "data": {}})
    cell = client.execute("print(input('? '))")
    question = client.until(lambda message: message["msg_type"] == "input_request")
    with hole(emulator):
        taken = [
            client.send("input_reply", {"value": "here"}, "stdin", parent=question["header"]),
            *map(change, (1, 2)),
        ]
        until(lambda: kept_for_the_host(server, client.kernel_id) == taken, 60)
        server.kill()
        client.close()
    server.start()
    client.connect()
    client.until_done(cell)
    assert client.printed(cell) == "here\n"
    until(lambda: kept_for_the_host(server, client.kernel_id) == [], 60)
    # What the host may have got already comes once, too, whether the server knew that or not.
    change(3)
    look = client.execute("print(got)")
    until(lambda: written(server, client.kernel_id, look), 60)
    restart(client)
    client.until_done(look)
    assert client.printed(look) == "[1, 2, 3]\n"


def test_a_kernel_that_cannot_be_reached_at_the_start_is_unknown_until_it_can(
    server, session, client, emulator
):
    request = client.execute(LINES.format(n=40, pause=0.1))
    client.until(line(3))
    server.stop()
    while client.read() is not None:
        pass
    with hole(emulator):
        server.start()
        assert server.kernel(client.kernel_id)["execution_state"] == "unknown"
        client.connect()
        [restored] = server.request("GET", "/api/sessions")
        assert restored["id"] == session["id"]
        # Who asks is told what it is, and what it did when it was last heard of.
        client.send("kernel_info_request", {})
        client.until(lambda message: message["msg_type"] == "kernel_info_reply")
    client.until_done(request, 90)
    assert client.printed(request) == "".join(f"line {n}\n" for n in range(40))
    until(lambda: server.kernel(client.kernel_id)["execution_state"] == "idle")


@pytest.mark.long
def test_the_idle_one_of_two_kernels_is_culled_after_a_restart_and_ends_on_its_host(server):
    idle, busy = start_session(server, "idle.ipynb"), start_session(server, "busy.ipynb")
    clients = [Client(server, session["kernel"]["id"]) for session in (idle, busy)]
    for client in clients:
        client.connect()
        client.until_done(client.execute("import time"))
    request = clients[1].execute("print('begun', flush=True); time.sleep(600)")
    clients[1].until(lambda message: "begun" in message["content"].get("text", ""))
    server.stop()
    culling = ("cull_idle_timeout=5", "cull_interval=1", "cull_connected=True")
    server.options = tuple(f"--MappingKernelManager.{option}" for option in culling)
    try:
        server.start()
        until(lambda: len(server.request("GET", "/api/kernels")) < 2)
        left = server.request("GET", "/api/kernels")
        assert [kernel["id"] for kernel in left] == [busy["kernel"]["id"]]

        def on_host() -> list[tuple[str, str]]:
            return [
                (kernel["id"], kernel["state"])
                for kernel in server.tpu("GET", "tpus/kept/kernels?fresh=true")
            ]

        until(lambda: on_host() == [(busy["kernel"]["id"], "busy")])
        clients[1].connect()  # before it is idle: from then on it lives for a moment only
        server.request("POST", f"/api/kernels/{busy['kernel']['id']}/interrupt")
        clients[1].until_done(request)
        clients[1].close()
        until(lambda: server.request("GET", "/api/kernels") == [])
        until(lambda: on_host() == [])
    finally:
        server.stop()
        server.options = ()


@pytest.mark.long
def test_a_server_that_is_stopped_while_it_adopts_kernels_ends_and_the_next_has_them(server):
    sessions = [start_session(server, f"{number}.ipynb") for number in range(3)]
    server.stop()
    before = len(server.log.read_text())
    server.start(wait=False)
    until(lambda: "Kernel started" in server.log.read_text()[before:])
    server.stop()
    server.start()
    kernels = {kernel["id"] for kernel in server.request("GET", "/api/kernels")}
    assert kernels == {session["kernel"]["id"] for session in sessions}


@pytest.mark.long
def test_a_kernel_without_its_kernelspec_is_one_line_in_the_log_and_is_not_lost(server, session):
    kernel_id, name = session["kernel"]["id"], session["kernel"]["name"]
    server.stop()
    specs = server.folder / "jupyter" / "kernels"
    # The fleet would write it again: without this file there is none in this server.
    state, away = server.folder / "tpu" / "fleet.sqlite", server.folder / "fleet.away"
    (specs / name).rename(server.folder / name)
    state.rename(away)
    before = len(server.log.read_text())
    try:
        server.start()
        assert server.request("GET", "/api/kernels") == []
        output = server.log.read_text()[before:]
        [line_] = [line for line in output.splitlines() if kernel_id in line]
        assert f"work.ipynb) is not adopted: there is no kernelspec {name}. Connect" in line_
        assert "Traceback" not in output
    finally:
        server.stop()
        (server.folder / name).rename(specs / name)
        away.replace(state)
    server.start()
    assert [kernel["id"] for kernel in server.request("GET", "/api/kernels")] == [kernel_id]


def test_what_is_kept_is_private(server, session):
    folder = server.folder / "tpu" / "kernels" / session["kernel"]["id"]
    assert folder.stat().st_mode & 0o777 == 0o700
    modes = {}
    for file in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):  # it became record.json
            modes[file.name] = file.stat().st_mode & 0o777
    assert {"record.json", "lock"} <= modes.keys()
    assert {*modes.values()} == {0o600}


@pytest.mark.long
@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("for i in range(20_000): display({'text/plain': f'{i:2000}'}, raw=True)", 20_000),
        ("for i in range(1_000_000): print(i)", 1_000_000),
        ("display({'text/plain': 'x' * 50_000_000}, raw=True)", 1),
    ],
    ids=["displays", "lines", "50 MB"],
)
def test_a_server_stays_small_while_a_page_that_was_away_gets_much(server, page, home, code, count):
    (home / "read").unlink(missing_ok=True)
    pid = server.process.pid
    before = peak = resident(pid)
    request = page.execute(
        "import time\nfrom pathlib import Path\nfrom IPython.display import display\n"
        "print('begun', flush=True)\n"
        f"while not Path.home().joinpath('read').exists(): time.sleep(.05)\n{code}"
    )
    page.until(lambda message: "begun\n" in message["content"].get("text", ""))
    until(lambda: server.kernel(page.kernel_id)["execution_state"] == "busy")
    page.close()
    (home / "read").touch()
    end = time.monotonic() + 20  # more than some is left with the host until somebody reads
    while server.kernel(page.kernel_id)["execution_state"] != "idle" and time.monotonic() < end:
        peak = max(peak, resident(pid))
        time.sleep(0.1)
    page.connect()
    seen, is_idle = 0, False
    while not is_idle:
        message = page.read(60)
        peak = max(peak, resident(pid))
        kind, content = message["msg_type"], message["content"]
        if message["parent_header"].get("msg_id") == request:
            seen += content["text"].count("\n") if kind == "stream" else kind == "display_data"
            is_idle = content.get("execution_state") == "idle"
    print(f"{count}: server +{(peak - before) >> 20} MB")
    assert seen == count
    assert peak - before < 300 << 20


@pytest.mark.parametrize(
    "client_class", [CountingClient, pytest.param(Client, marks=pytest.mark.long)]
)
def test_a_large_display_comes_whole_and_takes_twice_its_size_of_the_server(
    server, session, client_class
):
    client = client_class(server, session["kernel"]["id"])
    client.connect()
    client.until_done(client.execute("from IPython.display import display"))
    process = Path(f"/proc/{server.process.pid}")

    def peak() -> int:
        return int((process / "status").read_text().partition("VmHWM:")[2].split()[0]) << 10

    size = 60_000_000
    process.joinpath("clear_refs").write_text("5")
    before = peak()
    code = f"display({{'text/plain': '0123456789' * {size // 10}}}, raw=True); print('end')"
    request = client.execute(code)
    client.until_done(request, 120)
    [shown] = [m for m in client.messages if m["msg_type"] == "display_data"]
    assert shown["content"]["data"]["text/plain"] == "0123456789" * (size // 10)
    if client_class is CountingClient:  # as JupyterLab; the old protocol needs it as JSON
        assert peak() - before < 2.2 * size
        # What comes again comes whole, too.
        client.close()
        client.messages.clear()
        client.connect()
        client.execute("this is not run at all", msg_id=request)
        client.until_done(request, 120)
        [shown] = [m for m in client.messages if m["msg_type"] == "display_data"]
        assert len(shown["content"]["data"]["text/plain"]) == size
        assert client.printed(request) == "end\n"
    client.close()


def test_what_is_printed_and_shown_counts_as_activity(server, client):
    client.execute(
        "import time\nwhile True: display({'text/plain': '.'}, raw=True); time.sleep(0.5)"
    )
    client.until(lambda message: message["msg_type"] == "display_data")

    def active() -> datetime:
        kernel = server.kernel(client.kernel_id)
        assert kernel["execution_state"] == "busy"
        return datetime.fromisoformat(kernel["last_activity"].replace("Z", "+00:00"))

    first = active()
    # The server's own watcher gets no displays.
    until(lambda: active() > first + timedelta(seconds=8))
    server.request("POST", f"/api/kernels/{client.kernel_id}/interrupt")
    until(lambda: server.kernel(client.kernel_id)["execution_state"] == "idle")


def resident(pid: int) -> int:
    """Bytes of memory that a process has."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
