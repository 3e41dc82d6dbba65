"""What is under way to a kernel when its server is killed: it gets there once, and in order.

Server and keeper are killed and reached in any order here; with real ones it is in
tests/integration/test_adoption_restart.py.
"""

import json
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from jupyter_tpu.on_host.agent.protocol import deduplication, messages
from jupyter_tpu.on_host.agent.protocol.deduplication import Deduplicator
from jupyter_tpu.on_host.agent.protocol.events import SHELL, STDIN
from jupyter_tpu.server.adoption import outbox as outbox_module
from jupyter_tpu.server.adoption.outbox import Outbox


def header(kind: str, message_id: str) -> bytes:
    return json.dumps({"msg_id": message_id, "msg_type": kind, "session": "tab"}).encode()


def client_message(
    kind: str, message_id: str, parent: bytes = b"{}", *buffers: bytes
) -> list[bytes]:
    """A client's message as it goes to the kernel."""
    body = [header(kind, message_id), parent, b"{}", b"{}", *buffers]
    return [b"tab", messages.DELIMITER, b"", *body]


def answer(message_id: str, question: str) -> list[bytes]:
    return client_message("input_reply", message_id, header("input_request", question))


def test_a_file_that_is_not_a_message_keeps_no_other_from_being_sent(tmp_path):
    Outbox(tmp_path).put(1, SHELL, client_message("comm_msg", "m"))
    for name in ("said-1-2-3-4", "said-x-y-z", "said-000000000001-000000000002-0"):
        (tmp_path / name).write_bytes(bytes(50))
    assert waiting(Outbox(tmp_path)) == ["m"]


def id_of(message: list[bytes]) -> str:
    return str(messages.decode_part(message, messages.HEADER)["msg_id"])


def waiting(outbox: Outbox) -> list[str]:
    return [id_of(message) for _, _, message in outbox.pending()]


class Delivery(RuleBasedStateMachine):
    """A server that is killed at any moment, a line that breaks with it, and a keeper."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.once = Deduplicator()
        self.on_comms: list[str] = []  # ids of messages of the client
        self.got: list[str] = []  # by the kernel
        self.count = 0
        self.question = self.answered = ""
        self.answers: dict[str, str] = {}  # question by answer
        self.start()

    def start(self) -> None:
        self.outbox = Outbox(Path(self.folder.name))
        self.wire: list[list[bytes]] = []
        self.arrived = self.sent = 0
        for _, _, message in self.outbox.pending():
            self.send(message)

    def send(self, message: list[bytes]) -> None:
        self.sent += 1
        self.wire.append(message)
        self.outbox.mark_sent(
            self.sent, message[messages.find_delimiter(message) + messages.HEADER]
        )

    def take(self, channel: int, message: list[bytes]) -> None:
        self.outbox.put(1, channel, message)
        self.send(message)

    def new_id(self) -> str:
        self.count += 1
        return f"m{self.count}"

    @rule()
    def a_widget_changes(self) -> None:
        self.on_comms.append(self.new_id())
        self.take(SHELL, client_message("comm_msg", self.on_comms[-1]))

    @rule()
    def the_kernel_asks(self) -> None:
        self.question = self.new_id()
        self.once.note_input_request(client_message("input_request", self.question))

    @precondition(lambda self: self.question)
    @rule()
    def somebody_answers(self) -> None:
        reply = self.new_id()
        self.answers[reply] = self.question
        self.take(STDIN, answer(reply, self.question))

    @rule(count=st.integers(1, 3))
    def some_arrive(self, count: int) -> None:
        for message in self.wire[:count]:
            self.arrived += 1
            if self.once.is_new(message):
                name = id_of(message)
                self.got.append(name)
                if name in self.answers:
                    assert self.answers[name] == self.question != self.answered
                    self.answered = self.question
        del self.wire[:count]

    @rule(share=st.integers(0, 3))
    def the_host_acknowledges(self, share: int) -> None:
        self.outbox.mark_acknowledged(max(0, self.arrived - share))

    @rule()
    def the_server_is_killed_and_started(self) -> None:
        self.start()

    @invariant()
    def what_came_is_what_was_said_each_once_in_order(self) -> None:
        came = [name for name in self.got if name not in self.answers]
        assert came == self.on_comms[: len(came)]
        assert len(set(self.got)) == len(self.got)

    def teardown(self) -> None:
        self.start()
        while self.wire:
            self.some_arrive(3)
        assert [name for name in self.got if name not in self.answers] == self.on_comms
        if self.question in self.answers.values():
            assert self.answered == self.question
        self.outbox.mark_acknowledged(self.arrived)
        assert not list(Path(self.folder.name).iterdir())
        self.folder.cleanup()


TestDelivery = Delivery.TestCase
TestDelivery.settings = settings(max_examples=40, stateful_step_count=30)


def test_an_answer_that_does_not_say_what_it_answers_is_as_with_a_local_kernel(tmp_path):
    """It is handed on, but not again by the next server: who knows what it would answer then."""
    once, outbox = Deduplicator(), Outbox(tmp_path)
    once.note_input_request(client_message("input_request", "q"))
    reply = client_message("input_reply", "r")
    outbox.put(1, STDIN, reply)
    assert waiting(outbox) == []
    assert once.is_new(reply)


def test_the_second_of_two_answers_is_not_the_answer_to_the_next_question():
    once = Deduplicator()
    once.note_input_request(client_message("input_request", "q"))
    assert once.is_new(answer("one", "q"))
    once.note_input_request(client_message("input_request", "next"))
    assert not once.is_new(answer("two", "q"))
    assert once.is_new(answer("three", "next"))


def test_many_clicks_do_not_push_out_a_cell_that_waits(monkeypatch):
    monkeypatch.setattr(deduplication, "REMEMBERED_MESSAGES", 10)
    once = Deduplicator()
    cell = client_message("execute_request", "cell")
    assert once.is_new(cell)
    assert all(once.is_new(client_message("comm_msg", f"click {n}")) for n in range(50))
    assert not once.is_new(cell)
    assert once.is_new(client_message("comm_msg", "click 0")), "only the latest are remembered"


def test_what_is_too_large_or_too_much_is_not_written_down(tmp_path, monkeypatch):
    monkeypatch.setattr(outbox_module, "MAX_MESSAGE", 1000)
    monkeypatch.setattr(outbox_module, "MAX_TOTAL", 3000)
    monkeypatch.setattr(outbox_module, "MAX_COUNT", 5)
    outbox = Outbox(tmp_path)
    outbox.put(1, SHELL, client_message("comm_msg", "large", b"{}", b"x" * 1000))
    assert waiting(outbox) == []
    for n in range(5):
        outbox.put(1, SHELL, client_message("comm_msg", f"medium {n}", b"{}", b"x" * 800))
    assert waiting(outbox) == ["medium 0", "medium 1", "medium 2"]
    for number, name in enumerate(waiting(outbox), 1):
        outbox.mark_sent(number, header("comm_msg", name))
    outbox.mark_acknowledged(2)
    for n in range(9):
        outbox.put(1, SHELL, client_message("comm_msg", f"small {n}"))
    assert waiting(outbox) == ["medium 2", *(f"small {n}" for n in range(4))]
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 3000


def test_what_the_disk_takes_not_or_not_whole_is_as_if_not_put(tmp_path, monkeypatch):
    outbox = Outbox(tmp_path)
    for n in range(3):
        outbox.put(1, SHELL, client_message("comm_msg", f"m{n}"))
    *_, last = sorted(tmp_path.iterdir())
    last.write_bytes(last.read_bytes()[:-1])
    assert waiting(Outbox(tmp_path)) == ["m0", "m1"]
    assert not last.exists()

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    again = Outbox(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(outbox_module.os, "open", full)
        again.put(1, SHELL, client_message("comm_msg", "m3"))
    again.put(1, SHELL, client_message("comm_msg", "m4"))
    assert waiting(again) == ["m0", "m1", "m4"]
    assert [path.stat().st_mode & 0o777 for path in tmp_path.iterdir()] == [0o600] * 3
