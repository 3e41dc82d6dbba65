"""What a copy sends over its line: only what changed, and compressed if the line is slow."""

import os
from typing import Any

import pytest
from test_copy_both_ends import MIB, copy, tree

from jupyter_tpu.on_host.files import messages
from jupyter_tpu.on_host.files.copy import sender
from jupyter_tpu.on_host.files.messages import TransferPeer


@pytest.fixture
def contents(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of files in each message that is sent."""
    sizes: list[int] = []
    send = TransferPeer.send

    def counting(peer: TransferPeer, content: bytes = b"", **message: Any) -> None:
        sizes.append(len(content))
        send(peer, content, **message)

    monkeypatch.setattr(TransferPeer, "send", counting)
    return sizes


def test_of_a_large_file_that_is_replaced_only_the_changed_part_is_sent(tmp_path, contents):
    folder = tmp_path / "data"
    folder.mkdir()
    old = os.urandom(4 * MIB)
    (folder / "large").write_bytes(old)
    (folder / "small").write_bytes(b"1")
    copy(folder, to=tmp_path / "to")
    assert sum(contents) == 4 * MIB + 1
    (folder / "large").write_bytes(b"inserted" + old)
    contents.clear()
    assert copy(folder / "large", to=tmp_path / "to", overwrite=True)["problems"] == []
    assert sum(contents) <= 3 * 65536
    assert tree(tmp_path / "to") == tree(folder)


@pytest.mark.parametrize(
    ("rate", "compressed"), [(1e6, True), (2e6, True), (3e6, False), (1e9, False)]
)
def test_a_slow_line_is_known_by_its_speed_when_buffers_are_full(monkeypatch, rate, compressed):
    sent: list[str] = []
    peer: Any = type("Line", (), {"compress": lambda _: sent.append("compressed")})()
    pace = sender._Pace(peer, lambda size: None)
    size, done = 256 << 10, 0

    def now() -> float:
        return max(0.0, (done - sender.BUFFERED_BYTES) / rate)

    monkeypatch.setattr(sender.time, "monotonic", now)
    while done < 16 * MIB:
        done += size
        pace(size)
        assert not (sent and done < sender.BUFFERED_BYTES + sender.MEASURED_BYTES)
    assert bool(sent) == compressed


def test_what_is_compressed_in_the_middle_of_a_file_arrives_and_is_less(tmp_path, monkeypatch):
    monkeypatch.setattr(sender, "BUFFERED_BYTES", 0)
    monkeypatch.setattr(sender, "SLOW_BYTES_PER_SECOND", 1e15)
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "log").write_bytes(b"step 1: loss 0.5\n" * (8 * MIB // 17))
    (folder / "noise").write_bytes(os.urandom(3 * MIB))
    (folder / "other").write_bytes(b"x")
    framed: list[int] = []
    write = messages._Compressed._write_frame

    def counting(compressed: Any) -> None:
        before = compressed._line.tell()
        write(compressed)
        framed.append(compressed._line.tell() - before)

    class Counted:
        def __init__(self, line: Any) -> None:
            self._line, self._size = line, 0

        def write(self, data: bytes) -> None:
            self._size += len(data)
            self._line.write(data)

        def flush(self) -> None:
            self._line.flush()

        def tell(self) -> int:
            return self._size

    begin = messages._Compressed.__init__
    monkeypatch.setattr(
        messages._Compressed, "__init__", lambda made, line: begin(made, Counted(line))
    )
    monkeypatch.setattr(messages._Compressed, "_write_frame", counting)
    assert copy(folder, to=tmp_path / "to")["problems"] == []
    assert tree(tmp_path / "to") == tree(folder)
    assert 3 * MIB < sum(framed) < 3.2 * MIB
