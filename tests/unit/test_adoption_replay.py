"""Tabs come and go while a cell prints, connections break, the server is killed: every tab ends
with every line once and in order. The server's code (journal, feed) and the page's own (in Node.js)
run against each other; hypothesis chooses what happens when.
"""

import asyncio
import base64
import json
import os
import shutil
import subprocess
import tempfile
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from jupyter_client.session import Session
from jupyter_server.services.kernels.connection.base import serialize_msg_to_ws_v1

from jupyter_tpu.on_host.agent.protocol import messages
from jupyter_tpu.on_host.agent.protocol.events import IOPUB, NORMAL, SHELL, Message
from jupyter_tpu.server.adoption import fillers, persisted_kernel
from jupyter_tpu.server.adoption.client_feed import V1, ClientFeed
from jupyter_tpu.server.adoption.kernel_folder import KernelFolder, KernelRecord, SessionRow
from jupyter_tpu.server.adoption.persisted_kernel import PersistedKernel

ROOT = Path(__file__).parents[2]
ESBUILD = ROOT / "node_modules" / ".bin" / "esbuild"
PAGES = 4


class Pages:
    """The process with the pages."""

    def __init__(self, folder: Path, source: str) -> None:
        script = folder / "pages.cjs"
        bundle = ["--bundle", "--platform=node", "--format=cjs", "--log-level=error"]
        path = Path(__file__).with_name(source)
        subprocess.run([ESBUILD, *bundle, path, f"--outfile={script}"], check=True, cwd=ROOT)
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(["node", script], stdin=pipe, stdout=pipe, text=True)

    def do(self, act: str, page: str = "", argument: Any = None) -> dict[str, Any]:
        self.process.stdin.write(json.dumps({"do": act, "page": page, "argument": argument}) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def run_pages(folder: Path, source: str) -> Iterator[Pages]:
    if shutil.which("node") is None or not ESBUILD.exists():
        pytest.skip("SKIPPED FOR WANT OF node and node_modules: `make setup` installs them")
    pages = Pages(folder, source)
    yield pages
    pages.process.kill()
    pages.process.wait()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    yield from run_pages(tmp_path_factory.mktemp("pages"), "replay_pages.mjs")


@pytest.fixture(scope="module")
def windows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    yield from run_pages(tmp_path_factory.mktemp("windows"), "replay_windows.mjs")


class Stream:
    """A ZMQ stream of the server, which the feed only asks for its state."""

    def __init__(self, channel: str) -> None:
        self.channel = channel

    def closed(self) -> bool:
        return False

    def setsockopt(self, *_: Any) -> None: ...


class Connection:
    """One websocket as the server has it, and its handler."""

    kernel_id = "k"
    subprotocol = V1

    def __init__(self, client: str, arguments: dict[str, str]) -> None:
        self.session = Session(session=client, key=b"key")
        self.channels = {name: Stream(name) for name in ("shell", "control", "stdin", "iopub")}
        self.websocket_handler = self.ws_connection = self
        self.close_code: int | None = None
        self.to_page: deque[dict[str, str]] = deque()
        self.get_argument = arguments.get

    def set_nodelay(self, value: bool) -> None: ...

    def write_message(self, text: str) -> None:
        self.to_page.append({"text": text})

    def send(self, stream: Stream, parts: list[bytes]) -> None:
        at = messages.find_delimiter(parts)
        frame = serialize_msg_to_ws_v1(parts[at + 2 :], stream.channel)
        self.to_page.append({"frame": base64.b64encode(frame).decode()})


class Tabs(RuleBasedStateMachine):
    """A kernel runs one cell of page 0, and pages look at it."""

    pages: Pages  # the process

    @initialize(shared=st.booleans())
    def begin(self, shared: bool = False) -> None:
        self.loop = asyncio.new_event_loop()
        self.folder = KernelFolder.create("k")
        self.document = Path(tempfile.mkdtemp()) / "document.ipynb"
        self.document.touch()
        record = KernelRecord(id="k", kernel_name="s", root_dir="/", key="key", secret="s")
        record.sessions = [SessionRow("s", str(self.document.relative_to("/")), "", "notebook")]
        self.kernel = self.keep(record, adopting=False)
        self.shared = shared
        self.signer = messages.MessageSigner("key", "kernel")
        self.last = self.printed = self.opened = 0
        self.updates = 0
        self.ended = self.closed_in_haste = False
        self.feeds: dict[str, ClientFeed] = {}
        self.tabs: set[str] = set()
        self.pages.do("reset")
        self.request = json.dumps({"msg_id": "r", "session": "p0"}).encode()
        self.open()
        self.act("run", "p0", "r")
        self.say("status", {"execution_state": "busy"})

    def keep(self, record: KernelRecord, *, adopting: bool) -> PersistedKernel:
        ignore = {name: lambda *_: None for name in ("on_state", "on_output", "on_lost", "on_gone")}
        return PersistedKernel(self.folder, record, adopting=adopting, **ignore)

    # ---- the parts

    def turn(self) -> None:
        """What is ready on the server's loop runs."""

        async def some() -> None:
            for _ in range(8):
                await asyncio.sleep(0)

        self.loop.run_until_complete(some())

    def act(self, act: str, page: str, argument: Any = None) -> Any:
        """A page does something; what it sends arrives at once, or is lost with its connection."""
        answer = self.pages.do(act, page, argument)
        feed = self.feeds.get(page)
        for sent in answer["sent"] if feed is not None else ():
            frame = sent.get("text") or base64.b64decode(sent["frame"])
            feed.handles(frame)
        self.turn()
        return answer["result"]

    def say(self, kind: str, content: dict[str, Any], channel: int = IOPUB) -> None:
        self.last += 1
        parts = self.signer.message(kind, content, parent=self.request, idents=[b"p0"])
        self.kernel.record_message(Message(NORMAL, self.last, channel, 0, parts))
        self.turn()

    def connect(self, page: str) -> None:
        connection: Connection

        async def start() -> None:
            feed = ClientFeed(connection, self.kernel, connection.send)
            self.feeds[page] = feed
            feed.start()

        # The page's side is open before the server's is.
        arguments = self.pages.do("connect", page)["result"]
        connection = Connection(page, arguments)
        self.loop.run_until_complete(start())
        self.turn()

    def disconnect(self, page: str, code: int | None) -> None:
        feed = self.feeds.pop(page)
        feed._connection.close_code = code

        async def stop() -> None:
            feed.stop()

        self.loop.run_until_complete(stop())
        self.turn()

    def deliver(self, page: str, count: int) -> None:
        for _ in range(count):
            if page not in self.feeds or not self.feeds[page]._connection.to_page:
                return
            self.act("receive", page, self.feeds[page]._connection.to_page.popleft())

    # ---- what happens

    @precondition(lambda self: self.opened < PAGES)
    @rule()
    def open(self) -> None:
        page = f"p{self.opened}"
        self.opened += 1
        self.tabs.add(page)
        self.pages.do("open", page, self.shared)
        self.connect(page)

    @precondition(lambda self: len(self.tabs) > 1)
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        page = data.draw(st.sampled_from(sorted(self.tabs)))
        self.closed_in_haste |= self.act("unhandled", page) > 0
        self.tabs.discard(page)
        if page in self.feeds:
            self.disconnect(page, 1001)

    @rule(data=st.data())
    def break_or_heal(self, data: st.DataObject) -> None:
        page = data.draw(st.sampled_from(sorted(self.tabs)))
        if page in self.feeds:
            self.disconnect(page, None)
        else:
            self.connect(page)

    @rule(data=st.data(), count=st.integers(1, 12))
    def receive(self, data: st.DataObject, count: int) -> None:
        self.deliver(data.draw(st.sampled_from(sorted(self.tabs))), count)

    @rule(data=st.data(), act=st.sampled_from(["decide", "sync", "flush", "handle"]))
    def jupyterlab(self, data: st.DataObject, act: str) -> None:
        page = data.draw(st.sampled_from(sorted(self.tabs)))
        if act != "flush" or page in self.feeds:  # JupyterLab sends what waits when it is connected
            self.act(act, page)

    @rule(data=st.data())
    def attend(self, data: st.DataObject) -> None:
        """A page has the time to do all that it has to."""
        page = data.draw(st.sampled_from(sorted(self.tabs)))
        if page in self.feeds:
            self.settle(page)

    def settle(self, page: str) -> None:
        for act in ("decide", "sync", "flush", "flush"):
            self.deliver(page, 10_000)
            self.act(act, page)
        self.deliver(page, 10_000)
        self.act("handle", page)
        self.act("acknowledge", page)

    @precondition(lambda self: not self.ended)
    @rule(count=st.integers(1, 5))
    def output(self, count: int) -> None:
        for _ in range(count):
            self.say("stream", {"name": "stdout", "text": f"line {self.printed}\n"})
            self.printed += 1

    @precondition(lambda self: not self.ended)
    @rule()
    def widget(self) -> None:
        self.say("comm_msg", {"comm_id": "c", "data": self.updates})
        self.updates += 1

    @precondition(lambda self: not self.ended)
    @rule()
    def end(self) -> None:
        self.ended = True
        reply = {"status": "ok", "execution_count": 1}
        self.say("execute_reply", reply, SHELL)
        # The last output and the reply come over two sockets: in any order.
        self.say("stream", {"name": "stdout", "text": f"line {self.printed}\n"})
        self.printed += 1
        self.say("status", {"execution_state": "idle"})

    # If the document was saved later, the server that follows takes for written what a page that
    # has closed had got. It can't know how soon after it the page was closed.
    @rule(saved=st.booleans(), lines=st.integers(0, 8))
    def kill_the_server(self, saved: bool, lines: int) -> None:
        for page in self.tabs:
            self.pages.do("handle", page)
        if self.shared and not (saved and not self.closed_in_haste):
            # The next server has what was saved of a shared document.
            self.pages.do("save", argument=lines)
            os.utime(self.document, (0, 0))
        else:
            self.document.touch()
        for page in list(self.feeds):
            feed = self.feeds.pop(page)
            if feed._task is not None:
                feed._task.cancel()
        self.turn()
        self.kernel.journal.close()
        self.folder.release()
        [(self.folder, record)] = KernelFolder.find_unowned("/")
        assert record is not None
        self.kernel = self.keep(record, adopting=True)

    # ---- and then

    def teardown(self) -> None:
        if not hasattr(self, "kernel"):
            return
        try:
            if not self.ended:
                self.end()
            for _ in range(3):  # a page that is told to fill a cell does so
                for page in sorted(self.tabs):
                    if page not in self.feeds:
                        self.connect(page)
                    self.settle(page)
            expected = [f"line {number}" for number in range(self.printed)]
            for page in sorted(self.tabs):
                result = self.act("result", page)
                assert result["lines"] == expected, (page, result["lines"], self.shared)
                assert result["waiting"] == 0, f"{page} still waits for the cell's end"
                assert result["count"] == 1
                updates = result["widget"]
                assert sorted(set(updates)) == updates, (
                    f"{page} got an update of a widget twice: {updates}"
                )
        finally:
            for page in list(self.feeds):
                self.disconnect(page, 1001)
            self.kernel.discard()
            self.loop.close()


def run_tabs(tabs, monkeypatch):
    monkeypatch.setenv("JUPYTER_TPU_DATA_DIR", tempfile.mkdtemp())
    # Whoever has gone is replaced at once.
    monkeypatch.setattr(fillers, "CLOSED_SECONDS", 0.0)
    monkeypatch.setattr(fillers, "BROKEN_SECONDS", 0.0)
    monkeypatch.setattr(persisted_kernel, "WRITTEN_SECONDS", 0.0)
    run_state_machine_as_test(
        tabs,
        settings=settings(
            max_examples=50,
            stateful_step_count=40,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],
        ),
    )


def test_every_tab_ends_with_every_line_once_and_in_order(pages, monkeypatch):
    Tabs.pages = pages
    run_tabs(Tabs, monkeypatch)


class Windows(Tabs):
    """The same in VS Code, where no document is shared."""

    @initialize()
    def begin(self) -> None:
        super().begin(shared=False)

    def act(self, act: str, page: str, argument: Any = None) -> Any:
        if act == "run":
            self.deliver(page, 1)  # it is connected
        return super().act(act, page, argument)


def test_every_window_of_vs_code_ends_with_every_line_once_and_in_order(windows, monkeypatch):
    Windows.pages = windows
    run_tabs(Windows, monkeypatch)


def test_an_answer_is_sent_again_until_the_server_has_it(pages):
    def frame(kind: str, id: str, channel: str, number: int, **parent: str) -> dict[str, str]:
        mark = {"jupyter_tpu": {"number": number, "replayed": False}}
        header = {"msg_id": id, "msg_type": kind}
        parts = [json.dumps(part).encode() for part in (header, parent, mark, {})]
        return {"frame": base64.b64encode(serialize_msg_to_ws_v1(parts, channel)).decode()}

    def receive(what: dict[str, Any]) -> list[dict[str, str]]:
        sent = pages.do("receive", "page", what)["sent"]
        return [message for message in sent if "frame" in message]

    def say(**fields: Any) -> list[dict[str, str]]:
        return receive({"text": json.dumps({"jupyter_tpu": fields})})

    pages.do("reset")
    pages.do("open", "page", False)
    pages.do("connect", "page")
    say(at=0)
    for number in (1, 2):
        receive(frame("input_request", f"question {number}", "stdin", number, msg_id="cell"))
    first, second = (pages.do("answer", "page", f"question {n}")["sent"][0] for n in (1, 2))
    pages.do("connect", "page")
    assert say(at=2) == [first, second]
    assert say(answered="question 1") == []
    pages.do("connect", "page")
    assert say(at=2) == [second]
    receive(frame("execute_reply", "reply", "shell", 3, msg_id="cell"))
    pages.do("connect", "page")
    assert say(at=3) == []
