"""Dropping: what goes is counted to the line, what must stay stays, and all of it in its place."""

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_tpu.kernels.kernel_info import describe_gap
from jupyter_tpu.on_host.agent.protocol import messages
from jupyter_tpu.on_host.agent.protocol.coalescing import Coalescer
from jupyter_tpu.on_host.agent.protocol.events import IOPUB, SHELL, Gap, Message
from jupyter_tpu.on_host.agent.protocol.eviction import (
    NOTE_BYTES,
    Evictor,
    Loss,
    eviction_priority,
    format_bytes,
    parse_losses,
)
from jupyter_tpu.on_host.agent.protocol.frames import join_parts, split_parts
from jupyter_tpu.on_host.agent.protocol.journal import HelloReader, Journal
from jupyter_tpu.on_host.agent.protocol.messages import MessageSigner
from jupyter_tpu.on_host.agent.protocol.segments import SegmentStore

SIGNER = MessageSigner("a key", "kernel")
NEVER = ["status", "execute_input", "input_request", "error", "comm_open", "comm_msg",
         "comm_close", "debug_event", "clear_output", "update_display_data"]  # fmt: skip


def header_of(request: str) -> bytes:
    return json.dumps({"msg_id": request, "session": "s"}).encode()


def kernel_message(kind: str, content: dict[str, Any], request: str = "r") -> list[bytes]:
    return SIGNER.message(kind, content, parent=header_of(request), idents=[b"topic"])


def stream(text: str, request: str = "r", name: str = "stdout") -> list[bytes]:
    return kernel_message("stream", {"name": name, "text": text}, request)


def display(size: int, request: str = "r", id: str | None = None) -> list[bytes]:
    transient = {} if id is None else {"display_id": id}
    data = {"text/plain": "d" * size}
    return kernel_message(
        "display_data", {"data": data, "metadata": {}, "transient": transient}, request
    )


def keep(store: SegmentStore, parts: list[bytes], channel: int = IOPUB) -> None:
    store.append(channel, 0, join_parts(parts), eviction_priority(channel, parts))


def kind_of(parts: list[bytes]) -> str:
    return messages.decode_part(parts, messages.HEADER)["msg_type"]


def held(store: SegmentStore) -> list[str | list[Loss]]:
    """What a store has: types of messages, and the losses of gaps."""
    return [
        parse_losses(entry.note)
        if entry.is_gap
        else kind_of(split_parts(store.read(entry, 0, entry.size)))
        for entry in store.since(1)
    ]


def drop(store: SegmentStore, size: int, first: int = 1) -> int:
    return Evictor(SIGNER).evict(store, first, size)


def test_the_oldest_streams_go_first_and_a_gap_counts_their_lines():
    store = SegmentStore()
    for _ in range(4):
        keep(store, stream("one\ntwo\n" + "x" * 1000))
    size = store.bytes // 4
    assert drop(store, size + 1) == 2 * size
    (gap,), *rest = held(store)
    assert gap == Loss(header_of("r").decode(), 4, 0, 2, 2 * size)
    assert rest == ["stream", "stream"]
    entry = store.find(1)
    assert (entry.first, entry.last, entry.count, entry.dropped) == (1, 2, 2, 2 * size)


def test_displays_go_only_when_no_stream_is_left():
    store = SegmentStore()
    keep(store, display(5000))
    keep(store, stream("text\n" * 100))
    drop(store, 100)
    assert held(store)[0] == "display_data"
    drop(store, 1000)
    ((loss,),) = held(store)
    assert (loss.lines, loss.displays, loss.messages) == (100, 1, 2), "one gap of both"


def test_gaps_that_meet_become_one():
    store, evictor = SegmentStore(), Evictor(SIGNER)
    for _ in range(9):
        keep(store, stream("line\n"))
    while evictor.evict(store, 1, 1):
        pass
    ((loss,),) = held(store)
    assert (loss.lines, loss.messages) == (9, 9)
    assert len(store) == 1
    assert store.bytes == 0


@pytest.mark.parametrize("kind", NEVER)
def test_what_is_more_than_shown_is_never_dropped(kind):
    store = SegmentStore()
    parts = kernel_message(kind, {"name": "n", "text": "t", "execution_state": "idle"})
    keep(store, parts)
    keep(store, stream("reply"), SHELL)
    keep(store, [b"no Jupyter message"])
    assert drop(store, 1 << 20) == 0
    assert len(store) == 3


def test_a_display_that_may_be_updated_leaves_one_in_its_place():
    store = SegmentStore()
    keep(store, display(5_000_000, id="bar"))
    assert drop(store, 1) > 4_900_000
    (entry,) = store.since(1)
    parts = split_parts(store.read(entry, 0, entry.size))
    assert SIGNER.is_signed(parts)
    content = messages.decode_part(parts, messages.CONTENT)
    assert content["transient"] == {"display_id": "bar"}
    assert content["data"] == {
        "text/plain": "… 1 output (5.0 MB) was dropped here: the journal was full"
    }
    assert drop(store, 1) == 0, "and it stays"


def test_a_gap_of_very_many_requests_is_several():
    store = SegmentStore()
    for number in range(2000):
        keep(store, stream("line\n", request=f"r{number}"))
    drop(store, 1 << 20)
    gaps = list(store.since(1))
    assert 1 < len(gaps) < 20
    assert max(len(gap.note) for gap in gaps) < 2 * NOTE_BYTES
    assert sum(loss.lines for gap in gaps for loss in parse_losses(gap.note)) == 2000


def test_a_message_that_is_not_as_expected_stays():
    store = SegmentStore()
    for content in ({"name": "stdout", "text": 7}, {"data": {}, "transient": 7}, {}):
        keep(store, kernel_message("stream" if "text" in content else "display_data", content))
    keep(store, [*stream("x")[:4], b"{", *stream("x")[5:]])
    before = store.bytes
    drop(store, 1 << 20)
    assert "stream" in held(store)
    assert store.bytes < before, "an empty display is one"


@pytest.mark.parametrize(
    ("loss", "text"),
    [
        ((12_345, 0, 9, 1_234_567_890), "… 12,345 lines (1.2 GB) were dropped here"),
        ((1, 0, 1, 999), "… 1 line (999 B) was dropped here"),
        ((0, 0, 1, 20_000), "… part of a line (20 kB) was dropped here"),
        ((1, 1, 2, 1_500), "… 1 line and 1 output (1.5 kB) were dropped here"),
        ((0, 3, 3, 250_000_000), "… 3 outputs (250 MB) were dropped here"),
    ],
)
def test_a_loss_is_described_in_one_line(loss, text):
    assert str(Loss("{}", *loss)) == f"{text}: the journal was full"


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (999_600, "1.0 MB"), (5e12, "5000 GB")],
)
def test_sizes_are_for_people(count, text):
    assert format_bytes(count) == text


@pytest.mark.parametrize(
    "note", [b"", b"{", b"[7]", b"[[]]", b'[["{}", 1]]', b'[["7", 1, 1, 1, 1]]', b"[" * 100_000]
)
def test_a_gap_with_a_useless_note_is_described_without_it(note):
    ((parent, text),) = describe_gap(Gap(0, 1, 3, 3, 2_000_000_000, note), b"running")
    assert parent == b"running"
    assert text == "… 3 messages (2.0 GB) were too large to be stored\n"


# ---- anything a kernel may say ------------------------------------------------------------------

_REQUESTS = st.sampled_from(["a", "b"])
_SAID = st.one_of(
    st.builds(stream, st.text("x\r\n", max_size=30), _REQUESTS, st.sampled_from(["stdout", "err"])),
    st.builds(display, st.integers(0, 2000), _REQUESTS),
    st.builds(display, st.integers(0, 2000), _REQUESTS, st.sampled_from(["one", "two"])),
    st.builds(kernel_message, st.sampled_from(NEVER), st.just({"wait": False}), _REQUESTS),
)


@settings(max_examples=150)
@given(
    st.lists(st.one_of(_SAID, st.integers(1, 3000), st.just("send")), max_size=80),
    st.booleans(),
)
def test_whatever_is_printed_and_dropped_every_line_and_display_is_shown_or_counted(steps, folds):
    """Also while some of it is on its way; without folding, which takes away what is cleared."""
    keeper, client, evictor = Journal(window=2000), Journal(), Evictor(SIGNER)
    if folds:
        keeper = Journal(window=2000, coalesce=Coalescer(SIGNER).coalesce)
    client.connect({})
    greeting = HelloReader()
    keeper.accept(greeting, greeting.feed(client.data_to_send(0)), {})
    client.receive_data(keeper.data_to_send(0))
    sent: list[list[bytes]] = []
    got: list[Message | Gap] = []

    def carry() -> None:
        for event in client.receive_data(keeper.data_to_send(500)):
            got.append(event)
            client.acknowledge(event)
        keeper.receive_data(client.data_to_send())

    for step in steps:
        if isinstance(step, list):
            if folds and kind_of(step) in ("clear_output", "update_display_data"):
                continue
            sent.append(step)
            keeper.send(IOPUB, step, priority=eviction_priority(IOPUB, step))
        elif step == "send":
            carry()
        else:
            before = keeper.store.bytes
            assert keeper.evict(evictor.evict, step) == before - keeper.store.bytes >= 0
    while keeper.waiting or len(keeper.store):
        carry()

    came = [event.parts for event in got if isinstance(event, Message)]
    stays = [parts[-5:] for parts in sent if not eviction_priority(IOPUB, parts)]
    assert [parts[-5:] for parts in came if not eviction_priority(IOPUB, parts)] == stays
    notes = [parse_losses(event.note) for event in got if isinstance(event, Gap)]
    assert counted(sent, []) == counted(came, notes)
    for gap in (event for event in got if isinstance(event, Gap)):
        assert gap.messages == sum(loss.messages for loss in parse_losses(gap.note))
        assert gap.size == sum(loss.size for loss in parse_losses(gap.note))
    ids = [id_of(parts) for parts in sent if kind_of(parts) == "display_data"]
    came_ids = [id_of(parts) for parts in came if kind_of(parts) == "display_data"]
    assert [id for id in came_ids if id] == [id for id in ids if id]
    assert all(SIGNER.is_signed(parts) for parts in came)


def counted(parts: list[list[bytes]], notes: list[list[Loss]]) -> Counter[tuple[str, str]]:
    """Ends of lines and displays by request, shown or lost."""
    counts: Counter[tuple[str, str]] = Counter()
    for part in parts:
        request = messages.decode_part(part, messages.PARENT)["msg_id"]
        content = messages.decode_part(part, messages.CONTENT)
        if kind_of(part) == "stream":
            counts[request, "lines"] += content["text"].count("\n")
        elif kind_of(part) == "display_data":
            counts[request, "displays"] += 1
    for loss in (loss for note in notes for loss in note):
        request = json.loads(loss.parent)["msg_id"]
        counts[request, "lines"] += loss.lines
        counts[request, "displays"] += loss.displays
    return counts


def id_of(parts: list[bytes]) -> str | None:
    return messages.decode_part(parts, messages.CONTENT)["transient"].get("display_id")
