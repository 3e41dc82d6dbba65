"""What a journal keeps: memory first, then files that only their owner reads and that go away."""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_tpu.on_host.agent.protocol import segments
from jupyter_tpu.on_host.agent.protocol.frames import join_parts, split_parts
from jupyter_tpu.on_host.agent.protocol.segments import GapRange, SegmentStore


def content(store: SegmentStore) -> list[tuple[int, bytes]]:
    """Everything held, by number."""
    payloads, number = [], store.oldest
    while (entry := store.find(number)) is not None:
        payloads.append((entry.last, store.read(entry, 0, entry.size) if not entry.is_gap else b""))
        number = entry.last + 1
    return payloads


def test_a_part_of_a_spilled_message_is_read_from_its_place(tmp_path):
    store = SegmentStore(str(tmp_path), memory=0)
    store.append(4, 0, b"before")
    store.append(4, 0, b"0123456789")
    store.append(4, 0, b"after")
    entry = store.find(2)
    assert entry is not None
    assert store.read(entry, 3, 4) == b"3456"
    assert store.read(entry, 8, 100) == b"89"


def test_files_are_deleted_as_soon_as_everything_in_them_is_released(tmp_path, monkeypatch):
    monkeypatch.setattr(segments, "SEGMENT_BYTES", 100)
    store = SegmentStore(str(tmp_path), memory=0)
    for _ in range(10):
        store.append(4, 0, bytes(60))
    assert len(list(tmp_path.iterdir())) == 5
    store.release(5)
    assert len(list(tmp_path.iterdir())) == 3
    store.release(10)
    assert len(list(tmp_path.iterdir())) == 1, "the one that is written to"
    store.close()
    assert list(tmp_path.iterdir()) == []


def test_when_the_disk_cannot_take_it_nothing_is_lost_and_the_owner_can_see_why(tmp_path):
    folder = tmp_path / "gone"
    store = SegmentStore(str(folder), memory=0)
    store.append(4, 0, b"kept all the same")
    assert content(store) == [(1, b"kept all the same")]
    assert store.problem == "the journal cannot be written: No such file or directory"
    folder.mkdir()
    store.append(4, 0, b"and on")
    assert store.problem == ""
    assert content(store) == [(1, b"kept all the same"), (2, b"and on")]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_a_full_disk_in_the_middle_of_a_file_loses_nothing(tmp_path):
    store = SegmentStore(str(tmp_path), memory=0)
    store.append(4, 0, b"first")
    full = os.open("/dev/full", os.O_RDWR)
    os.dup2(full, store._segment.fd)  # from now on every write fails with ENOSPC
    os.close(full)
    store.append(4, 0, b"second")
    assert store.problem == "the journal cannot be written: No space left on device"
    entry = store.find(2)
    assert store.read(entry, 0, 100) == b"second"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_a_disk_that_becomes_full_while_a_message_comes_loses_nothing(tmp_path):
    store = SegmentStore(str(tmp_path), memory=0)
    entry = store.begin(4, 0, 10)
    store.extend(entry, b"01234")

    def fail(data: bytes, offset: int) -> None:
        with open("/dev/full", "wb", buffering=0) as full:
            full.write(data)

    entry.segment.write = fail
    store.extend(entry, b"56789")
    assert "No space left" in store.problem
    assert (content(store), store.bytes, store.memory) == ([(1, b"0123456789")], 10, 10)
    store.release(1)
    assert (store.bytes, store.memory) == (0, 0)


def test_what_stays_between_what_was_dropped_keeps_no_large_files(tmp_path, monkeypatch):
    monkeypatch.setattr(segments, "SEGMENT_BYTES", 1000)
    store = SegmentStore(str(tmp_path), memory=0)
    for number in range(100):
        store.append(4, 0, bytes([number]) * (10 if number % 10 == 5 else 100))
    store.replace_with_gaps([GapRange(n, n + 4) for n in range(1, 100, 10)])
    store.replace_with_gaps([GapRange(n + 6, n + 9) for n in range(1, 100, 10)])
    stays = [(number + 1, bytes([number]) * 10) for number in range(5, 100, 10)]
    assert [(last, payload) for last, payload in content(store) if payload] == stays
    assert store.bytes == 100
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) < 2500
    store.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("first", "last"), [(2, 5), (20, 25), (36, 40)])
def test_messages_are_replaced_by_fewer_for_the_same_numbers(tmp_path, first, last):
    store = SegmentStore(str(tmp_path), memory=100)
    for number in range(1, 41):
        store.append(4, 0, join_parts([b"%d" % number]))
    store.release(1)
    before = store.messages_from(first, last - first + 1, 10_000)
    assert [message.parts for message in before] == [[b"%d" % n] for n in range(first, last + 1)]
    merged = before[-2]._replace(first=first, parts=[b"merged"])
    store.replace(before, [merged, before[-1]])
    messages = [(last, split_parts(payload)[0]) for last, payload in content(store)]
    usual = [(n, b"%d" % n) for n in range(2, 41)]
    assert messages == [*usual[: first - 2], (last - 1, b"merged"), *usual[last - 2 :]]
    assert store.find(first).last == last - 1
    assert store.bytes == sum(store.find(number).size for number, _ in messages)
    store.close()
    assert list(tmp_path.iterdir()) == []


def test_a_stretch_ends_before_a_gap_and_at_its_limits():
    store = SegmentStore()
    for number in range(1, 11):
        store.append(4, 0, join_parts([bytes(number)]))
    store.replace_with_gaps([GapRange(5, 6)])
    assert [message.last for message in store.messages_from(1, 100, 10_000)] == [1, 2, 3, 4]
    assert [message.last for message in store.messages_from(7, 2, 10_000)] == [7, 8]
    assert store.messages_from(7, 100, 10) == []
    assert store.messages_from(5, 100, 10_000) == []
    with pytest.raises(ValueError, match="not the first and last numbers"):
        store.replace_with_gaps([GapRange(6, 7)])


@settings(max_examples=60)
@given(
    st.lists(
        st.one_of(
            st.binary(min_size=1, max_size=40),
            st.integers(0, 30),
            st.lists(st.integers(1, 60), min_size=2, max_size=2, unique=True).map(sorted),
        ),
        max_size=60,
    ),
    st.sampled_from([0, 50, 10_000]),
)
def test_a_store_is_a_list_that_loses_its_beginning_and_has_gaps(tmp_path_factory, steps, memory):
    folder = tmp_path_factory.mktemp("store")
    patch = pytest.MonkeyPatch()
    patch.setattr(segments, "SEGMENT_BYTES", 100)
    store, model = SegmentStore(str(folder), memory=memory), []
    lost: dict[int, tuple[int, int]] = {}  # messages and bytes by the last number of a gap
    for step in steps:
        if isinstance(step, bytes):
            model.append((store.append(4, 0, step), step))
        elif isinstance(step, list):
            ends = [last for last, _ in model if step[0] <= last <= step[1]]
            if not ends or (borders := store.find(ends[0])) is None:
                continue
            store.replace_with_gaps([GapRange(borders.first, ends[-1])])
            gone = [item for item in model if item[0] in ends]
            was = [lost.pop(last, (1, len(payload))) for last, payload in gone]
            lost[ends[-1]] = sum(count for count, _ in was), sum(size for _, size in was)
            model = [item for item in model if item[0] not in ends[:-1]]
            model = [(last, b"" if last == ends[-1] else payload) for last, payload in model]
        else:
            store.release(step)
            model = [item for item in model if item[0] > step]
    assert content(store) == model
    assert store.bytes == sum(len(payload) for _, payload in model)
    assert len(store) == len(model)
    gaps = {entry.last: (entry.count, entry.dropped) for entry in store.since(0) if entry.is_gap}
    assert gaps == {last: lost[last] for last, payload in model if not payload}
    store.close()
    assert list(folder.iterdir()) == []
    patch.undo()
