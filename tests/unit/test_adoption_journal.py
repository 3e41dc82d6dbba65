"""The journal's copy on disk, and what is remembered of requests, without servers or hosts."""

import json
import os
import random
import time
from collections.abc import Callable
from typing import Any

import pytest

from jupyter_tpu.on_host.agent.protocol import messages
from jupyter_tpu.on_host.agent.protocol.events import IOPUB, NORMAL, SHELL, STDIN, Message
from jupyter_tpu.server.adoption import (
    fillers,
    journal_file,
    kernel_folder,
    remembered_requests,
)
from jupyter_tpu.server.adoption import persisted_kernel as persisted_kernel_module
from jupyter_tpu.server.adoption.client_message import split
from jupyter_tpu.server.adoption.client_positions import seal, unseal
from jupyter_tpu.server.adoption.journal_file import MESSAGE, REQUEST, JournalFile
from jupyter_tpu.server.adoption.kernel_folder import (
    KernelFolder,
    KernelRecord,
    SessionRow,
    kernels_dir,
)
from jupyter_tpu.server.adoption.persisted_kernel import PersistedKernel

KERNEL = messages.MessageSigner("key", "kernel")


pytestmark = pytest.mark.usefixtures("own_data")


@pytest.fixture
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_file, "SEGMENT_BYTES", 2000)


def everything(journal: JournalFile, number: int = 0, limit: int = 500) -> list[tuple[int, bytes]]:
    reader, records = journal.reader(number), []
    while entries := journal.read(reader, limit):
        records += [(entry.number, entry.parts[0]) for entry in entries]
    return records


def test_records_come_back_in_order_from_any_place(tmp_path, small_files):
    journal = JournalFile(tmp_path)
    sizes = random.Random(4).choices([0, 10, 300, 5000], k=100)
    written = [(n + 1, b"%d" % n + b"x" * size) for n, size in enumerate(sizes)]
    for number, text in written:
        assert journal.append(MESSAGE, IOPUB, number, [text]) == number
    assert everything(journal) == written
    for place in (1, 2, 50, 99, 100):
        assert everything(journal, place) == written[place - 1 :]
    assert everything(journal, 101) == []
    journal.close()
    assert everything(JournalFile(tmp_path)) == written


@pytest.mark.parametrize("cut", [1, 5, 14, 40])
def test_a_record_that_was_cut_off_is_as_if_never_written(tmp_path, cut):
    journal = JournalFile(tmp_path)
    for number in (1, 2, 3):
        journal.append(MESSAGE, IOPUB, number, [b"message %d" % number, b"x" * 30])
    journal.close()
    [path] = tmp_path.glob("journal-*")
    path.write_bytes(path.read_bytes()[:-cut])
    again = JournalFile(tmp_path)
    assert everything(again) == [(1, b"message 1"), (2, b"message 2")]
    number = again.append(MESSAGE, IOPUB, 3, [b"again"])
    assert number >= 3, "no number is used twice"
    assert everything(again, 3) == [(number, b"again")]


def zero(data: bytearray, start: int, end: int) -> None:
    data[start:end] = bytes(len(data[start:end]))


@pytest.mark.parametrize("damage", ["first block", "last block", "random end", "one bit", "empty"])
@pytest.mark.parametrize("which", [0, 1, -1])
def test_a_damaged_file_costs_no_record_of_another_file(tmp_path, small_files, damage, which):
    journal = JournalFile(tmp_path)
    written = [(n, b"%d" % n + b"x" * 100) for n in range(1, 61)]
    for number, text in written:
        journal.append(MESSAGE, IOPUB, number, [text])
    journal.close()
    paths = sorted(tmp_path.glob("journal-*"))
    firsts = [int(path.name.rpartition("-")[2]) for path in paths] + [61]
    damaged = paths[which]
    lost = range(firsts[paths.index(damaged)], firsts[paths.index(damaged) + 1])
    data = bytearray(damaged.read_bytes())
    if damage == "first block":
        zero(data, 0, 512)
    elif damage == "last block":
        zero(data, len(data) - 512, len(data))
    elif damage == "random end":
        data[-200:] = random.Random(1).randbytes(200)
    elif damage == "one bit":
        data[len(data) // 2] ^= 16
    else:
        data.clear()
    damaged.write_bytes(data)

    again = JournalFile(tmp_path)
    records = everything(again)
    assert set(records) <= set(written), "nothing is made up"
    assert records == sorted(records)
    assert {record for record in written if record[0] not in lost} <= set(records)
    number = again.append(MESSAGE, IOPUB, 61, [b"more"])
    assert damage == "empty" or number > 60, "clients may have seen the lost numbers"
    assert everything(again, number) == [(number, b"more")]
    again.close()
    assert everything(JournalFile(tmp_path)) == [*records, (number, b"more")]


def test_a_file_that_is_not_ours_keeps_nothing_from_being_read(tmp_path):
    journal = JournalFile(tmp_path)
    journal.append(MESSAGE, IOPUB, 1, [b"message"])
    journal.close()
    (tmp_path / "journal-of-somebody").write_bytes(b"x" * 100)
    (tmp_path / "journal-000000000009").mkdir()
    assert everything(JournalFile(tmp_path)) == [(1, b"message")]


def test_a_reader_of_what_was_removed_goes_on_with_the_oldest(tmp_path, small_files):
    journal = JournalFile(tmp_path)
    reader = journal.reader(1)
    for number in range(1, 101):
        journal.append(MESSAGE, IOPUB, number, [b"x" * 100])
    journal.release(60)
    assert 1 < journal.oldest <= 60
    assert journal.read(reader, 10)[0].number == journal.oldest
    assert len(list(tmp_path.glob("journal-*"))) < 10


def test_a_full_disk_is_survived_in_memory(tmp_path, monkeypatch):
    journal = JournalFile(tmp_path)
    journal.append(MESSAGE, IOPUB, 1, [b"on disk"])

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(journal_file.os, "pwritev", full)
        journal.append(MESSAGE, IOPUB, 2, [b"in memory"])
        journal.append(MESSAGE, IOPUB, 3, [b"too"])
    assert everything(journal) == [(1, b"on disk"), (2, b"in memory"), (3, b"too")]


def test_the_content_of_a_large_message_is_read_when_it_is_needed_and_while_it_is_stored(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(journal_file, "PIECE_BYTES", 700_000)
    journal = JournalFile(tmp_path)
    parts = KERNEL.message("display_data", {"data": "x" * 2_000_000}, parent=b"{}", idents=[b"t"])
    parts.append(bytes(range(256)) * 5000)  # a buffer
    journal.append(MESSAGE, IOPUB, 1, [b"before"])
    journal.append(MESSAGE, IOPUB, 2, parts)
    journal.append(REQUEST, SHELL, 0, [b"not a Jupyter message", bytes(3_000_000)])
    journal.append(MESSAGE, IOPUB, 3, [b"after"])
    journal = JournalFile(tmp_path)  # it has no damage
    reader = journal.reader(1)
    records = [record for _ in range(4) for record in journal.read(reader, 1000)]
    assert [record.number for record in records] == [1, 2, 3, 4]
    _, large, other, _ = records
    at = messages.find_delimiter(parts) + messages.CONTENT
    assert large.parts == [*parts[:at], b""]
    pieces = journal.read_content(large.stored)
    assert len(pieces) > 2
    assert split(pieces, large.stored.sizes) == parts[at:]
    assert [len(part) for part in other.parts] == [21, 3_000_000]
    journal.close()
    with pytest.raises(journal_file.ClosedError):
        journal.read_content(large.stored)


def test_a_reader_that_waits_when_the_disk_becomes_full_continues(tmp_path, monkeypatch):
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    journal = JournalFile(tmp_path)
    reader = journal.reader(1)
    assert journal.read(reader, 500) == []
    monkeypatch.setattr(journal_file.os, "pwritev", full)
    monkeypatch.setattr(journal_file.os, "open", full)
    journal.append(MESSAGE, IOPUB, 1, [b"in memory"])
    assert [record.parts for record in journal.read(reader, 500)] == [[b"in memory"]]
    assert journal.read(reader, 500) == []


# ---- what is remembered


def kept(kernel_id: str = "k", *, states: list[str] | None = None) -> PersistedKernel:
    unowned_kernels = {}
    for unowned, read in KernelFolder.find_unowned("/"):
        if read is None:
            unowned.release()
        else:
            unowned_kernels[read.id] = unowned, read
    folder, record = unowned_kernels.get(kernel_id) or (
        KernelFolder.create(kernel_id),
        KernelRecord(id=kernel_id, kernel_name="spec", root_dir="/", key="key", secret="s"),
    )
    return PersistedKernel(
        folder,
        record,
        adopting=kernel_id in unowned_kernels,
        on_output=lambda: None,
        on_lost=lambda *_: None,
        on_state=lambda state, _: states.append(state) if states is not None else None,
        on_gone=lambda _: None,
    )


def header(kind: str, message_id: str, session: str = "tab") -> bytes:
    return json.dumps({"msg_id": message_id, "msg_type": kind, "session": session}).encode()


def asked(request: bytes, metadata: bytes = b"{}") -> list[bytes]:
    """A request as it goes to the kernel."""
    return [b"tab", messages.DELIMITER, b"", request, b"{}", metadata, b"{}"]


class Host:
    """Says what a kernel would, numbered as its host numbers it."""

    def __init__(self, kernel: PersistedKernel) -> None:
        self.kernel = kernel
        self.last = 0

    def says(self, kind: str, content: dict, parent: bytes, channel: int = IOPUB) -> bool:
        self.last += 1
        parts = KERNEL.message(kind, content, parent=parent, idents=[b"tab"])
        return self.kernel.record_message(Message(NORMAL, self.last, channel, 0, parts))

    def runs(self, request: bytes) -> None:
        self.says("status", {"execution_state": "busy"}, request)
        self.says("stream", {"name": "stdout", "text": "x"}, request)

    def ends(self, request: bytes) -> None:
        reply = {"status": "ok", "execution_count": 7}
        self.says("execute_reply", reply, request, SHELL)
        self.says("status", {"execution_state": "idle"}, request)


def test_what_came_already_is_not_taken_again_by_the_next_server():
    first = kept()
    host = Host(first)
    request = header("execute_request", "r")
    assert first.record_request(asked(request, b'{"cellId": "c"}')) is None
    host.runs(request)
    first.release()
    second = kept()
    assert second.adopting
    assert list(second.running) == ["r"]
    again = Host(second)
    assert not again.says("status", {}, request), "the host did not get the acknowledgement"
    assert not again.says("stream", {}, request)
    assert again.says("stream", {}, request)


def test_what_the_host_is_not_known_to_have_is_sent_again_by_the_next_server_in_order():
    first = kept()
    first.set_status({"state": "idle", "boot": "b", "once": ["execute_request", "comm_msg"]})
    host = Host(first)
    heard, unheard = header("execute_request", "h"), header("execute_request", "u")
    early, click = asked(header("comm_msg", "e")), asked(header("comm_msg", "c"))
    answer = asked(header("input_reply", "a"))
    answer[messages.find_delimiter(answer) + messages.PARENT] = header("input_request", "q")
    first.record_client_message(SHELL, early)
    first.mark_sent(1, header("comm_msg", "e"))
    first.record_request(asked(heard))
    first.record_client_message(SHELL, click)
    first.record_request(asked(unheard))
    first.record_client_message(STDIN, answer)
    host.runs(heard)
    first.mark_acknowledged(1)
    first.release()
    second = kept()
    assert second.unacknowledged() == [(SHELL, click), (SHELL, asked(unheard)), (STDIN, answer)]
    assert (second.boot, len(second.unacknowledged())) == ("b", 3)
    # A keeper of an earlier version would hand them on twice.
    second.set_status({"state": "idle", "boot": "b", "once": True})
    assert second.unacknowledged() == []


def test_a_cell_that_was_ended_here_is_not_sent_by_the_next_server_and_its_end_is_read():
    first = kept()
    first.set_status({"state": "idle", "once": ["execute_request"]})
    request = header("execute_request", "r")
    first.record_request(asked(request))
    for state in ("busy", "idle"):
        status = KERNEL.message("status", {"execution_state": state}, parent=request)
        first.record_answer(IOPUB, status)
    first.record_answer(
        SHELL, KERNEL.message("execute_reply", {"status": "aborted"}, parent=request)
    )
    first.release()
    second = kept()
    assert second.unacknowledged() == []
    assert not second.running
    read = everything(second.journal, limit=10_000)
    assert len(read) == 4  # the request, and its end
    assert Host(second).says("status", {}, request), "the numbers of the host are as they were"


def test_messages_for_a_kernel_are_not_sent_to_the_one_that_replaces_it():
    kernel = kept()
    kernel.set_status({"state": "idle", "once": ["comm_msg"]})
    kernel.record_client_message(SHELL, asked(header("comm_msg", "c")))
    assert len(kernel.unacknowledged()) == 1
    kernel.begin_launch("key")
    assert kernel.unacknowledged() == []


def test_a_request_is_known_until_a_while_after_its_end_was_read(monkeypatch):
    kernel = kept()
    host, request = Host(kernel), header("execute_request", "r")
    kernel.connect("tab", None, lambda: None)
    kernel.record_request(asked(request, b'{"cellId": "c"}'))
    again = kernel.record_request(asked(header("execute_request", "r", "another")))
    assert again.cell == "c"
    host.runs(request)
    host.ends(request)
    [offered] = kernel.requests_to_show("another")
    assert (offered.id, offered.cell, offered.count) == ("r", "c", 7)
    assert kernel.requests_to_show("tab") == [], "it shows it already"
    kernel.acknowledge("tab", kernel.journal.next - 1)
    assert kernel.requests_to_show("another") == [offered]
    monkeypatch.setattr(remembered_requests, "REMEMBERED_SECONDS", -1.0)
    assert kernel.requests_to_show("another") == []
    assert kernel.record_request(asked(request)) is None


def test_output_is_written_again_by_the_next_server_if_its_document_was_not_saved_later(
    tmp_path, monkeypatch
):
    document = tmp_path / "document.ipynb"
    document.touch()
    kernel = kept()
    path = str(document.relative_to("/"))
    kernel.set_session(SessionRow("s", f"RTC:{path}", "", "notebook"))
    kernel.connect("tab", None, lambda: None)
    host, request = Host(kernel), header("execute_request", "r")
    kernel.record_request(asked(request, b'{"cellId": "c"}'))
    host.runs(request)
    host.ends(request)
    kernel.acknowledge("tab", kernel.journal.next - 1)
    monkeypatch.setattr(remembered_requests, "REMEMBERED_SECONDS", -1.0)
    assert kernel.requests_to_show("another") != [], "it was not saved"
    kernel.release()

    kernel = kept()
    [unwritten] = kernel.unwritten_requests("tab")
    assert (unwritten.id, unwritten.filler) == ("r", "tab")
    # It was saved as that server had loaded it.
    later = time.time() + 2 * fillers.WRITTEN_SECONDS
    os.utime(document, (later, later))
    kernel.release()

    kernel = kept()
    [unwritten] = kernel.unwritten_requests("tab")
    kernel.connect("tab", kernel.journal.next - 1, lambda: None)
    kernel.set_repeated(unwritten)
    kernel.release()

    kernel = kept()
    assert kernel.unwritten_requests("tab") == [], "it has been written, and saved later"
    kernel.acknowledge("tab", kernel.journal.next - 1)
    assert kernel.requests_to_show("another") == []


@pytest.mark.parametrize("died", [True, False])
def test_the_last_cells_of_a_kernel_that_died_are_shown_by_a_page_that_comes_after_the_next_start(
    died,
):
    kernel = kept()
    host = Host(kernel)
    request, waiting = header("execute_request", "r"), header("execute_request", "later")
    kernel.record_request(asked(request, b'{"cellId": "c"}'))
    kernel.record_request(asked(waiting, b'{"cellId": "d"}'))
    host.runs(request)
    if died:
        reply = {"status": "error", "ename": "KernelDied", "execution_count": 3}
        host.says("execute_reply", reply, request, SHELL)
        host.says("execute_reply", {"status": "aborted"}, waiting, SHELL)
        for parent in (request, waiting):
            host.says("status", {"execution_state": "idle"}, parent)
    kernel.begin_launch("another key")
    kernel.release()
    kernel = kept()
    shown = [
        (shown_request.id, shown_request.count)
        for shown_request in kernel.requests_to_show("a new page")
    ]
    assert shown == ([("r", 3), ("later", None)] if died else [])
    assert kernel.unacknowledged() == []
    kernel.acknowledge("tab", kernel.journal.next - 1)
    kernel.begin_launch("a third key")
    assert kernel.requests_to_show("a new page") == [], "it was read, and this is another restart"


def test_much_unread_output_stays_on_the_host_until_it_is_read(monkeypatch, small_files):
    monkeypatch.setattr(persisted_kernel_module, "MAX_UNREAD", 10_000)
    kernel = kept()
    host, room = Host(kernel), []
    assert not kernel.backlog_full(lambda: room.append(1)), "nobody is expected to read"
    kernel.connect("tab", None, lambda: None)
    while not kernel.backlog_full(lambda: room.append(1)):
        host.says("stream", {"text": "x" * 500}, b"{}")
    assert not room
    kernel.acknowledge("tab", kernel.journal.next - 1)
    assert room == [1]


def test_a_client_goes_on_where_it_was_or_where_it_says_it_is():
    kernel = kept()
    host = Host(kernel)
    kernel.connect("tab", None, lambda: None)
    for _ in range(10):
        host.says("stream", {}, b"{}")
    kernel.acknowledge("tab", 4)
    kernel.release()
    kernel = kept()
    assert kernel.connect("tab", None, lambda: None).number == 5
    assert kernel.connect("tab", 7, lambda: None).number == 8
    assert kernel.connect("tab", 99, lambda: None).number == 11, "more than there is"
    assert kernel.connect("new", None, lambda: None).number == 11


def test_two_processes_never_have_the_same_kernel():
    first = kept()
    assert KernelFolder.find_unowned("/") == []
    first.release()
    [(folder, record)] = KernelFolder.find_unowned("/")
    assert record.id == "k"
    folder.release()


def test_a_server_does_not_lock_kernels_of_another_root_folder():
    kept().release()
    assert KernelFolder.find_unowned("/elsewhere") == []
    [(folder, _)] = KernelFolder.find_unowned("/")
    folder.release()


def test_a_record_is_on_the_disk_before_it_replaces_another(monkeypatch):
    calls: list[str] = []

    def watched(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            calls.append(name)
            return real(*arguments)

        return call

    folder = KernelFolder.create("k")
    for name in ("fsync", "replace"):
        monkeypatch.setattr(os, name, watched(name, getattr(os, name)))
    folder.write(KernelRecord(id="k", kernel_name="s", root_dir="/", key="key", secret="s"))
    assert calls == ["fsync", "replace", "replace"], "the last is its copy"
    folder.release()


def test_a_folder_without_a_record_is_removed():
    folder = KernelFolder.create("empty")
    folder.release()
    assert KernelFolder.find_unowned("/") == []
    assert not folder.path.exists()


@pytest.mark.parametrize("content", [None, b"", b'{"id": "ha', bytes(300), b'{"id": "other"}'])
def test_a_kernel_whose_record_is_damaged_is_kept_with_its_journal_and_others_are_found(
    content, caplog, monkeypatch
):
    kept("damaged").release()
    path = kernels_dir() / "damaged"
    JournalFile(path).append(MESSAGE, IOPUB, 1, [b"a message"])
    for name in kernel_folder.RECORD, kernel_folder.COPY:
        if content is None:
            (path / name).unlink()
        else:
            (path / name).write_bytes(content)
    kept().release()
    [(damaged, nothing), (intact, another)] = KernelFolder.find_unowned("/")
    assert (damaged.path, nothing) == (path, None)
    assert another.id == "k"
    assert "record of kernel damaged" in caplog.text
    assert KernelFolder.find_unowned("/") == [], "both are locked"
    intact.release()
    damaged.release()
    assert everything(JournalFile(path)) == [(1, b"a message")]
    monkeypatch.setattr(kernel_folder, "FORGET_AFTER", -1.0)
    assert len(KernelFolder.find_unowned("/")) == 1
    assert not path.exists()


@pytest.mark.parametrize("damage", ["missing", "empty", "zeros", "cut", "one letter", "another's"])
@pytest.mark.parametrize("name", [kernel_folder.RECORD, kernel_folder.COPY])
def test_one_damaged_file_of_a_record_loses_nothing(name, damage):
    kernel = kept()
    kernel.begin_launch("the key")
    kernel.set_session(SessionRow("session", "a.ipynb", "a.ipynb", "notebook"))
    kernel.release()
    file = kernels_dir() / "k" / name
    content = file.read_bytes()
    damages = {
        "empty": b"",
        "zeros": bytes(len(content)),
        "cut": content[:-9],
        "one letter": content.replace(b"the key", b"the kez"),
        "another's": seal(unseal(content).replace(b'"id":"k"', b'"id":"other"')),
    }
    file.unlink()
    if damage in damages:
        file.write_bytes(damages[damage])
    [(folder, record)] = KernelFolder.find_unowned("/")
    assert (record.key, [row.id for row in record.sessions]) == ("the key", ["session"])
    folder.release()


def test_a_write_of_positions_that_was_cut_off_leaves_those_before_it():
    kernel = kept()
    host = Host(kernel)
    kernel.connect("tab", None, lambda: None)
    for _ in range(10):
        host.says("stream", {}, b"{}")
    file = kernels_dir() / "k" / "cursors.json"
    kernel.acknowledge("tab", 4)
    before = file.read_bytes()
    kernel.acknowledge("tab", 7)
    kernel.release()
    after = file.read_bytes()
    changed = [at for at, two in enumerate(zip(before, after, strict=True)) if two[0] != two[1]]
    for cut in changed:
        file.write_bytes(after[:cut] + before[cut:])
        kernel = kept()
        assert kernel.connect("tab", None, lambda: None).number == 5
        kernel.release()
    file.write_bytes(after)
    kernel = kept()
    assert kernel.connect("tab", None, lambda: None).number == 8
    kernel.release()


@pytest.mark.parametrize("content", [None, b"", bytes(300), b"garbage" * 30_000])
def test_who_was_known_before_all_positions_were_lost_gets_what_is_stored(content, small_files):
    kernel = kept()
    host = Host(kernel)
    kernel.connect("tab", None, lambda: None)
    for _ in range(10):
        host.says("stream", {}, b"{}")
    kernel.acknowledge("tab", 10)
    kernel.release()
    file = kernels_dir() / "k" / "cursors.json"
    file.unlink()
    if content is not None:
        file.write_bytes(content)
    kernel = kept()
    for _ in range(300):  # nothing of it counts as read
        host = Host(kernel)
        host.last = kernel.journal.next
        host.says("stream", {"text": "x" * 500}, b"{}")
    assert kernel.connect("tab", None, lambda: None).number == 1
    assert kernel.connect("page", None, lambda: None, new=True).number == kernel.journal.next
    assert kernel.connect("page 2", 7, lambda: None, new=True).number == 8
    kernel.release()


def test_a_kernel_that_no_client_has_seen_has_lost_no_positions():
    kernel = kept()
    Host(kernel).says("stream", {}, b"{}")
    kernel.release()
    kernel = kept()
    assert kernel.connect("tab", None, lambda: None).number == 2
    kernel.release()


def test_a_kernel_whose_launch_the_disk_lost_is_heard():
    first = kept()
    host = Host(first)
    for _ in range(20):
        host.says("stream", {}, b"{}")
    first.begin_launch("key")
    first.release()
    [path] = (kernels_dir() / "k").glob("journal-*")
    data = path.read_bytes()
    path.write_bytes(data[:-5])  # the launch is the last record
    second = kept()
    assert Host(second).says("stream", {}, b"{}"), "its host counts from 1 again"
