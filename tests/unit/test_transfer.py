"""Messages and files between two ends: compressed or not, whole or the changed parts."""

import asyncio
import io
import os
import random
import socket
import threading
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_tpu.files.exchange import peer_over
from jupyter_tpu.files.relay import TransferRelay
from jupyter_tpu.on_host.files import contents
from jupyter_tpu.on_host.files.messages import CHUNK_BYTES, TransferFailure, TransferPeer
from jupyter_tpu.on_host.files.part_file import Folder

MIB = 1 << 20


def sent(*messages: tuple[dict[str, Any], bytes], compressed: bool) -> bytes:
    """What crosses the line."""
    line = io.BytesIO()
    peer = TransferPeer(io.BytesIO(), line)
    if compressed:
        peer.compress()
    for message, content in messages:
        peer.send(content, **message)
    peer.send_end()
    return line.getvalue()


def data(content: bytes) -> tuple[dict[str, Any], bytes]:
    return {"data": len(content)}, content


@given(
    st.lists(st.tuples(st.integers(1, 20_000), st.booleans(), st.text(max_size=20)), max_size=12),
    st.booleans(),
)
@settings(deadline=None)
def test_messages_and_contents_arrive_compressed_or_not(parts, compressed):
    messages = [
        (
            {"data": size, "text": text},
            random.Random(size).randbytes(size) if noise else b"a" * size,
        )
        for size, noise, text in parts
    ]
    peer = TransferPeer(io.BytesIO(sent(*messages, compressed=compressed)), io.BytesIO())
    for message, content in messages:
        assert peer.receive() == message
        assert peer.read(message["data"]) == content
    peer.receive_end()
    with pytest.raises(TransferFailure, match="LOST"):
        peer.receive()


def test_what_does_not_shrink_is_not_compressed_and_costs_nothing():
    noise, text = os.urandom(CHUNK_BYTES), b"step 1: loss 0.5\n" * (CHUNK_BYTES // 17)
    assert len(sent(data(noise), data(noise), compressed=True)) < 2 * CHUNK_BYTES + 300
    assert len(sent(data(text), compressed=True)) < CHUNK_BYTES / 50
    assert noise[: CHUNK_BYTES // 2] in sent(data(text), data(noise), compressed=True)


@pytest.mark.parametrize(
    "frames",
    [
        b"X" + bytes(4),
        b"Z\xff\xff\xff\xff",
        b"R" + (CHUNK_BYTES + 1).to_bytes(4, "big") + bytes(CHUNK_BYTES + 1),
        b"Z" + (4).to_bytes(4, "big") + b"text",
        b"Z" + (24).to_bytes(4, "big") + zlib.compress(b"{}\n") + zlib.compress(b"{}\n") + bytes(2),
        b'R\0\0\0\x15{"compressed": true}\n',
    ],
)
def test_frames_that_no_sender_makes_end_the_transfer(frames):
    peer = TransferPeer(io.BytesIO(b'{"compressed": true}\n' + frames), io.BytesIO())
    with pytest.raises(TransferFailure) as failed:
        peer.receive()
    assert failed.value.code == "PROTOCOL"


def test_little_that_is_expanded_to_much_costs_no_memory():
    packed = zlib.compress(b" " * (200 * MIB))
    assert len(packed) < CHUNK_BYTES
    frame = b"Z" + len(packed).to_bytes(4, "big") + packed
    peer = TransferPeer(io.BytesIO(b'{"compressed": true}\n' + frame), io.BytesIO())
    tracemalloc.start()
    with pytest.raises(TransferFailure, match="PROTOCOL"):
        peer.receive()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * MIB


# ---- contents


def transfer(source: Path, target: Path, *, delta: bool = False) -> int:
    """Sends a file over another one; returns the bytes of it that crossed the line."""
    one, other = socket.socketpair()
    size = source.stat().st_size
    old = contents.signature(target) if delta else None
    mtime = source.stat().st_mtime_ns
    line = 0

    def send() -> None:
        with peer_over(one) as peer:
            contents.send_file(peer, 7, source, size, lambda _: None, 0, old, mtime)

    class Counting(TransferPeer):
        def read(self, size: int) -> bytes:
            nonlocal line
            line += size
            return super().read(size)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        with other, other.makefile("rb") as reader, other.makefile("wb") as writer:
            peer = Counting(reader, writer)
            assert peer.receive() == {"file": 7, "offset": 0}
            name = os.fsencode(target.name)
            with (
                Folder.opened(os.fsencode(target.parent)) as top,
                contents.received(peer, top, name, "new", size, lambda _: None) as arrived,
            ):
                _, name, file = arrived
                file.place(name, 0o640, mtime)
    finally:
        thread.join()
    return line


edits = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 100_000), st.integers(0, 100_000)), max_size=3
)


@given(edits, st.integers(0, 1000))
@settings(deadline=None, max_examples=25)
def test_of_a_large_file_that_was_edited_only_the_changed_parts_are_sent(
    tmp_path_factory, edits, seed
):
    """Each edit replaces bytes at a place by others."""
    folder = tmp_path_factory.mktemp("delta")
    noise = random.Random(seed)
    new = old = noise.randbytes(3 * MIB)
    for place, removed, added in edits:
        at = int(place * len(new))
        new = new[:at] + noise.randbytes(added) + new[at + removed :]
    (folder / "new").write_bytes(new)
    (folder / "old").write_bytes(old)
    line = transfer(folder / "new", folder / "old", delta=True)
    assert (folder / "old").read_bytes() == new
    assert (folder / "old").stat().st_mtime_ns == (folder / "new").stat().st_mtime_ns
    if len(edits) == 1:
        assert line <= edits[0][2] + 3 * 65536
    if not edits:
        assert line == 0


def test_a_file_that_was_changed_after_its_signature_arrives_whole_or_not_at_all(tmp_path):
    new, old = tmp_path / "new", tmp_path / "old"
    old.write_bytes(os.urandom(2 * MIB))
    new.write_bytes(old.read_bytes() + b"more")
    signature = contents.signature
    try:
        contents.signature = lambda path: (signature(path), old.write_bytes(b"other"))[0]
        with pytest.raises(contents.NotReceived) as wrong:
            transfer(new, old, delta=True)
    finally:
        contents.signature = signature
    assert wrong.value.code == "WRONG"
    assert old.read_bytes() == b"other"
    assert sorted(os.listdir(tmp_path)) == ["new", "old"]


# ---- from host to host


@pytest.mark.parametrize("failing", [0, 3])
async def test_the_number_of_hosts_that_have_it_doubles_in_each_round(failing):
    """Each transfer takes a round. The first *failing* ones fail, and are tried again."""
    hosts = 32
    relay = TransferRelay[int]()
    rounds = 0
    tick = asyncio.Event()
    origins: list[int] = []
    serving: set[int | None] = set()
    failures = failing

    async def get(host: int) -> None:
        nonlocal failures
        done = False
        while not done:
            async with relay.source() as source:
                assert source not in serving
                serving.add(source)
                await tick.wait()
                serving.discard(source)
                if source is None:
                    origins.append(host)
                elif failures:
                    failures -= 1
                    continue
                await relay.add(host)
                done = True
        await relay.leave(host)

    async def clock() -> None:
        nonlocal rounds, tick
        while True:
            for _ in range(20 * hosts):
                await asyncio.sleep(0)
            rounds += 1
            tick.set()
            tick = asyncio.Event()

    ticking = asyncio.create_task(clock())
    await asyncio.gather(*map(get, range(hosts)))
    ticking.cancel()
    assert origins == [0]
    assert rounds <= 6 + failing


async def test_when_the_first_host_fails_another_one_gets_it_from_here():
    relay = TransferRelay[str]()
    sources: list[str | None] = []

    async def get(host: str) -> None:
        async with relay.source() as source:
            sources.append(source)
            await asyncio.sleep(0)
            if host == "a":
                raise ConnectionError
            await relay.add(host)
        await relay.leave(host)

    results = await asyncio.gather(*map(get, "abc"), return_exceptions=True)
    assert isinstance(results[0], ConnectionError)
    assert results[1:] == [None, None]
    assert sources == [None, None, "b"]
