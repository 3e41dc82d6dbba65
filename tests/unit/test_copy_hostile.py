"""A copy from a host that lies: what it sends may be anybody's. And a copy to one."""

import contextlib
import hashlib
import json
import os
import socket
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.files.copy.copying import _error, copy_of, name_of
from jupyter_tpu.files.exchange import _work
from jupyter_tpu.on_host.files import messages
from jupyter_tpu.on_host.files.copy import receiver, sender
from jupyter_tpu.on_host.files.copy.receiver import Receiver
from jupyter_tpu.on_host.files.copy.sender import Listing
from jupyter_tpu.on_host.files.messages import Reports, TransferFailure, TransferPeer
from jupyter_tpu.on_host.files.tree import is_inside

FOLDER = [0, "", "dir", 0o755, 0, 0, ""]
FILE = [0, "", "file", 0o644, 10**18, 2, ""]


def download(
    liar: Callable[[TransferPeer], None],
    to: Path | str,
    source: str = "x",
    *,
    overwrite: bool = False,
) -> dict[str, Any]:
    """As `copying.download` has it, from a host that says what *liar* does."""
    one, other = socket.socketpair()

    def lie() -> None:
        with one.makefile("rb") as reader, one.makefile("wb") as writer:
            peer = TransferPeer(reader, writer)
            try:
                liar(peer)
                peer.flush()
                peer.receive()  # until the other end is closed
            except (TransferFailure, BrokenPipeError):
                pass

    thread = threading.Thread(target=lie)
    thread.start()

    def work(peer: TransferPeer) -> dict[str, Any]:
        return Receiver(
            peer,
            str(to),
            overwrite,
            Reports(lambda *_: None),
            asked=[name_of(source)],
            rights=0o755,
            allows_link=is_inside,
        ).receive()

    try:
        return _work(other, work)
    finally:
        one.shutdown(socket.SHUT_RDWR)
        thread.join()


def says(
    *entries: Any, names: Any = ("x",), problems: Any = (), problem_count: Any = 0
) -> Callable[[TransferPeer], None]:
    """A host that lists *entries*, and then sends "hi" for each file that it is asked for."""

    def liar(peer: TransferPeer) -> None:
        peer.send(entries=entries)
        peer.send(listed=1, names=names, problems=problems, problem_count=problem_count)
        needed = peer.receive()["plan"]["needed"]
        for number, offset in needed:
            peer.send(file=number, offset=offset)
            peer.send(b"hi", data=2)
            peer.send(hash=hashlib.sha256(b"hi").hexdigest())
        if needed:
            peer.send(sent=True)

    return liar


def refused(liar: Callable[[TransferPeer], None], to: Path | str, source: str = "x") -> str:
    with pytest.raises(TransferFailure) as failed:
        download(liar, to, source)
    error = _error(failed.value, "host 0", "this computer")
    assert isinstance(error, TPUError)
    return failed.value.code


def test_an_honest_host_is_believed(tmp_path):
    result = download(says(FOLDER, [0, "a", *FILE[2:]]), tmp_path)
    assert (result["files"], (tmp_path / "x/a").read_text()) == (1, "hi")


@pytest.mark.parametrize("name", [".bashrc", ".git", "y", "", "x/y", 5, None])
def test_a_file_has_the_name_that_was_asked_for(tmp_path, name):
    """`copy my-tpu:data.csv ~` must not write ~/.bashrc."""
    assert refused(says(FILE, names=[name]), tmp_path, "x") == "PROTOCOL"
    assert refused(says(FILE, names=["x", name]), tmp_path, "x") == "PROTOCOL"
    assert refused(says(FILE, names=[]), tmp_path, "x") == "PROTOCOL"
    assert os.listdir(tmp_path) == []


def test_a_name_that_only_the_host_knows_is_not_hidden(tmp_path):
    assert refused(says(FILE, names=[".bashrc"]), tmp_path, "~") == "PROTOCOL"
    assert download(says(FILE, names=["me"]), tmp_path, "~")["files"] == 1


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("a", "a"),
        ("~/a/b/", "b"),
        ("/x/./y", "y"),
        ("a/../b", "b"),
        ("~", None),
        ("", None),
        (".", None),
        ("/", None),
        ("..", None),
        ("~/..", None),
        ("a\udcff", "a\udcff"),
    ],
)
def test_the_name_of_what_is_asked_for(source, name):
    assert name_of(source) == name


@pytest.mark.parametrize("mode", [0o4755, 0o2755, 0o1777, -1, 1 << 70])
def test_no_file_runs_as_another_user_here(tmp_path, mode):
    assert refused(says([0, "", "file", mode, 0, 2, ""]), tmp_path) == "PROTOCOL"
    assert os.listdir(tmp_path) == []


def test_no_file_of_a_host_can_be_written_by_others_here(tmp_path):
    download(says([*FOLDER[:3], 0o777, 0, 0, ""], [0, "a", "file", 0o777, 0, 2, ""]), tmp_path)
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o755
    assert stat.S_IMODE((tmp_path / "x/a").stat().st_mode) == 0o755


def test_links_that_lead_out_of_the_copied_folder_are_named_and_not_made(tmp_path):
    """Through one that was made a second copy, or a program here, would write elsewhere."""
    links = {"in": "a", "abs": "/etc/passwd", "up": "../y", "dot": ".", "through": "dot/../../y"}
    entries = [[0, name, "link", 0o777, 0, 0, target] for name, target in links.items()]
    result = download(says(FOLDER, *entries), tmp_path)
    assert set(os.listdir(tmp_path / "x")) == {"in", "dot"}
    assert {os.path.basename(path) for path, code, _ in result["problems"]} == {
        "abs",
        "up",
        "through",
    }
    assert {problem.message for problem in copy_of(0, result).problems} == {
        "It is a link that leads out of the copied folder."
    }


def test_what_was_asked_for_is_not_itself_a_link(tmp_path):
    """The next copy would write where it leads."""
    assert refused(says([0, "", "link", 0o777, 0, 0, "/etc"]), tmp_path) == "PROTOCOL"
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "entry",
    [
        [0, "", "file", 0o644, 0, -1, ""],
        [0, "", "file", 0o644, 1 << 70, 2, ""],
        [0, "", "file", 0o644, 0, 1 << 70, ""],
        [0, "", "device", 0o644, 0, 2, ""],
        [0, "", "file", "0644", 0, 2, ""],
        [0, "", "file", 0o644, 0, 2, 5],
        [0, 5, "file", 0o644, 0, 2, ""],
        [1, "", "file", 0o644, 0, 2, ""],
        [0.5, "", "file", 0o644, 0, 2, ""],
        [0, ""],
        "file",
        5,
        None,
    ],
)
def test_an_entry_that_is_none_ends_the_copy(tmp_path, entry):
    assert refused(says(entry), tmp_path) == "PROTOCOL"
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "messages",
    [
        b"[]\n",
        b"5\n",
        b"\xff\n",
        b"[" * 100_000 + b"\n",
        b'{"error": 5}\n',
        b'{"error": {"code": 5}}\n',
        b'{"error": {"code": "EXISTS", "names": [5]}}\n',
        b'{"error": {"path": {}, "code": "ENOENT"}}\n',
        b'{"error": {"codes": 1}}\n',
        b'{"listed": 1}\n',
        b'{"listed": 1, "names": ["x"], "problems": [[1, 2, 3]], "problem_count": 1}\n',
        b'{"listed": 1, "names": ["x"], "problems": [["a"]], "problem_count": 1}\n',
        b'{"entries": {"a": 1}}\n',
    ],
)
def test_a_message_that_is_none_ends_the_copy(tmp_path, messages):
    def liar(peer: TransferPeer) -> None:
        peer._writer.write(messages)

    assert refused(liar, tmp_path) == "PROTOCOL"
    assert os.listdir(tmp_path) == []


def test_a_failure_without_the_names_that_it_is_about_is_still_an_error(tmp_path):
    assert refused(lambda peer: peer.send(error={"code": "EXISTS"}), tmp_path) == "EXISTS"


def test_a_message_without_an_end_is_read_up_to_its_bound(tmp_path):
    sent = 0

    def liar(peer: TransferPeer) -> None:
        nonlocal sent
        for _ in range(1000):
            peer._writer.write(b"x" * messages.CHUNK_BYTES)
            peer.flush()
            sent += messages.CHUNK_BYTES

    with pytest.raises(TransferFailure) as failed:
        download(liar, tmp_path)
    assert "a message of more than 4 MB" in str(_error(failed.value, "host 0", "this computer"))
    assert sent < 3 * messages.LONGEST_MESSAGE_BYTES


def test_more_files_than_a_copy_can_have_are_refused_before_they_are_all_read(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(receiver, "MOST_FILES", 5000)

    def liar(peer: TransferPeer) -> None:
        for batch in range(1000):
            peer.send(entries=[[0, f"{batch}-{i}", *FILE[2:]] for i in range(1000)])

    with pytest.raises(TransferFailure) as failed:
        download(liar, tmp_path)
    error = _error(failed.value, "host 0", "this computer")
    assert "more than 5,000 files" in str(error)
    assert error.reason is Reason.INVALID


@pytest.mark.parametrize("data", [-1, 0, 1 << 40, "2", 2.5, None])
def test_a_part_of_a_file_has_a_size_that_a_sender_sends(tmp_path, data):
    def liar(peer: TransferPeer) -> None:
        peer.send(entries=[FILE])
        peer.send(listed=1, names=["x"], problems=[], problem_count=0)
        peer.receive()
        peer.send(file=0, offset=0)
        peer.send(b"hi", data=data)

    assert refused(liar, tmp_path) == "PROTOCOL"


@pytest.mark.parametrize(("number", "offset"), [(1, 0), (0, 1), (0, -5), (0, 1 << 40), ([], 0)])
def test_a_file_begins_where_it_was_asked_for(tmp_path, number, offset):
    def liar(peer: TransferPeer) -> None:
        peer.send(entries=[FILE])
        peer.send(listed=1, names=["x"], problems=[], problem_count=0)
        peer.receive()
        peer.send(file=number, offset=offset)
        peer.send(b"hi", data=2)

    assert refused(liar, tmp_path) == "PROTOCOL"


def upload(folder: Path, *answers: dict[str, Any]) -> str:
    """What comes of a copy to a host that says *answers*; the rest is silence."""
    one, other = socket.socketpair()
    (folder / "source").write_bytes(b"hi")

    def lie() -> None:
        with one.makefile("rb") as reader:
            while b'"listed"' not in reader.readline():
                pass
            with contextlib.suppress(OSError):  # the other end has heard enough
                for answer in answers:
                    one.sendall(json.dumps(answer).encode() + b"\n")
                one.shutdown(socket.SHUT_WR)
                reader.read()

    thread = threading.Thread(target=lie)
    thread.start()

    def work(peer: TransferPeer) -> dict[str, Any]:
        listing = Listing([os.fsencode(folder / "source")])
        return sender.send(peer, listing.walk(), Reports(lambda *_: None))

    try:
        copy_of(0, _work(other, work))
    except TransferFailure as failed:
        return failed.code
    except TPUError as error:
        return error.message
    finally:
        thread.join()
    return ""


@pytest.mark.parametrize(
    "needed", [[[1, 0]], [[-1, 0]], [[0, 3]], [[0, -1]], [[0, 0]] * 2, [[0]], [5], 5, [["0", 0]]]
)
def test_a_host_gets_only_the_files_that_it_was_offered(tmp_path, needed):
    assert upload(tmp_path, {"plan": {"needed": needed, "old": {}}}) == "PROTOCOL"


def test_a_host_does_not_get_a_file_for_ever(tmp_path):
    again = [{"again": [0]}] * 50
    assert upload(tmp_path, {"plan": {"needed": [[0, 0]], "old": {}}}, *again) == "PROTOCOL"


GOOD = {
    "files": 1,
    "bytes": 2,
    "unchanged": 0,
    "problems": [],
    "problem_count": 0,
    "targets": ["a"],
}


@pytest.mark.parametrize(
    "result",
    [
        5,
        {},
        {**GOOD, "files": "1"},
        {**GOOD, "bytes": -1},
        {**GOOD, "problems": [["a", "b"]]},
        {**GOOD, "problems": [["a", "b", "c"]] * 101},
        {**GOOD, "targets": [5]},
    ],
)
def test_a_result_that_is_none_is_an_error(tmp_path, result):
    plan = {"plan": {"needed": [], "old": {}}}
    assert upload(tmp_path, plan, {"result": GOOD}) == ""
    assert "sent an invalid answer" in upload(tmp_path, plan, {"result": result})
