"""The journal by itself: bytes in, events out, and nothing lost over any sequence of breaks."""

import asyncio
import json
import os
import random
import socket
import struct
import tempfile
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from waiting import eventually

from jupyter_tpu.on_host.agent.protocol import frames, lanes
from jupyter_tpu.on_host.agent.protocol.events import (
    NORMAL,
    URGENT,
    Acknowledged,
    Failed,
    Gap,
    JournalEvent,
    Message,
    NoticeReceived,
    PongReceived,
    Rejected,
    Skipped,
)
from jupyter_tpu.on_host.agent.protocol.frames import ProtocolError
from jupyter_tpu.on_host.agent.protocol.journal import (
    TRANSITIONS,
    HelloReader,
    Journal,
    State,
    encode_rejection,
)
from jupyter_tpu.on_host.agent.protocol.pump import Pump
from jupyter_tpu.on_host.agent.protocol.segments import GapRange, NumberedMessage, SegmentStore


def join(client: Journal, keeper: Journal, words: dict | None = None) -> list:
    """Connects the two; the events of the keeper's accepting and of the client's hello."""
    client.connect(words or {})
    greeting = HelloReader()
    hello = greeting.feed(client.data_to_send(0))
    assert hello is not None
    events = keeper.accept(greeting, hello, {"welcome": True})
    return events + client.receive_data(keeper.data_to_send(0))


def drain(sender: Journal, receiver: Journal, consume: bool = True) -> list:
    """Carries everything there is from one to the other."""
    events = []
    while data := sender.data_to_send():
        for event in receiver.receive_data(data):
            events.append(event)
            if consume and isinstance(event, Message | Gap):
                receiver.acknowledge(event)
    return events


def settle(one: Journal, other: Journal) -> tuple[list, list]:
    """Carries everything in both directions until both are silent; what each end saw."""
    seen_by_one: list = []
    seen_by_other: list = []
    quiet = False
    while not quiet:
        quiet = True
        for sender, receiver, seen in ((one, other, seen_by_other), (other, one, seen_by_one)):
            if data := sender.data_to_send():
                quiet = False
                for event in receiver.receive_data(data):
                    seen.append(event)
                    if isinstance(event, Message | Gap):
                        receiver.acknowledge(event)
    return seen_by_one, seen_by_other


def parts_of(events: list) -> list[list[bytes]]:
    return [event.parts for event in events if isinstance(event, Message)]


@pytest.fixture
def pair() -> tuple[Journal, Journal]:
    client, keeper = Journal(), Journal()
    join(client, keeper)
    return client, keeper


def test_a_message_arrives_once_and_is_released_when_it_was_consumed(pair):
    client, keeper = pair
    keeper.send(4, [b"one", b"", b"three"], flags=7)
    assert keeper.waiting > 0
    (message,) = drain(keeper, client, consume=False)
    assert message == Message(NORMAL, 1, 4, 7, [b"one", b"", b"three"])
    drain(client, keeper)
    assert keeper.waiting > 0, "not consumed, so not released"
    client.acknowledge(message)
    assert drain(client, keeper) == [Acknowledged(NORMAL, 1)]
    assert keeper.waiting == 0


def test_an_acknowledgement_travels_with_what_is_sent_anyway(pair):
    client, keeper = pair
    keeper.send(4, [b"output"])
    drain(keeper, client)
    assert client.ack_due
    assert client.data_to_send(acks=False) == b"", "by itself it waits"
    client.send(1, [b"request"])
    events = keeper.receive_data(client.data_to_send(acks=False))
    assert parts_of(events) == [[b"request"]]
    assert Acknowledged(NORMAL, 1) in events
    assert keeper.waiting == 0
    assert not client.ack_due


def test_an_acknowledgement_does_not_wait_when_much_was_taken(pair):
    client, keeper = pair
    keeper.send(4, [bytes(lanes.URGENT_CREDIT)])
    drain(keeper, client)
    assert keeper.receive_data(client.data_to_send(acks=False)) == [Acknowledged(NORMAL, 1)]
    keeper.send(4, [b"a little more"])
    drain(keeper, client)
    assert client.data_to_send(acks=False) == b""


@pytest.mark.parametrize("broken", [False, True])
@pytest.mark.parametrize("memory", [0, 1 << 20])
def test_a_large_message_is_sent_while_it_comes_and_what_is_sent_meanwhile_after_it(
    tmp_path, memory, broken
):
    client, keeper = Journal(), Journal(SegmentStore(str(tmp_path), memory))
    join(client, keeper)
    body, half = os.urandom(5 * frames.PIECE_BYTES + 7), 3 * frames.PIECE_BYTES
    keeper.send(4, [b"before"])
    message = keeper.begin(4, [b"topic", b""], len(body))
    message.write(body[:half])
    keeper.send(1, [b"after"])
    assert parts_of(drain(keeper, client)) == [[b"before"]]
    if broken:
        client.disconnected()
        keeper.disconnected()
        join(client, keeper)
    message.write(body[half:])
    message.finish()
    data = keeper.data_to_send(1 << 20)
    assert len(data) < len(body) - half + frames.PIECE_BYTES, "the first half was sent before"
    assert parts_of(client.receive_data(data)) == [[b"topic", b"", body], [b"after"]]


@pytest.mark.parametrize("broken", [False, True])
def test_a_large_message_that_does_not_come_to_its_end_is_an_empty_gap(tmp_path, broken):
    client, keeper = Journal(), Journal(SegmentStore(str(tmp_path), 0))
    join(client, keeper)
    message = keeper.begin(4, [b"topic"], 1 << 20)
    message.write(bytes(3 * frames.PIECE_BYTES))
    keeper.send(1, [b"after"])
    assert drain(keeper, client) == []
    if broken:
        client.disconnected()
        keeper.disconnected()
    message.abort()
    if broken:
        join(client, keeper)
    assert drain(keeper, client) == [Gap(NORMAL, 1, 1, 0, 0), Message(NORMAL, 2, 1, 0, [b"after"])]
    drain(client, keeper)
    assert keeper.waiting == 0


def test_a_message_above_the_limit_that_comes_piece_by_piece_becomes_a_gap_at_its_end():
    client, keeper = Journal(), Journal(max_message=1000)
    join(client, keeper)
    for ends in (False, True):
        message = keeper.begin(4, [b"topic"], 1 << 40)
        message.write(bytes(1000))
        message.finish() if ends else message.abort()
    keeper.send(1, [b"after"])
    assert drain(keeper, client) == [
        Gap(NORMAL, 1, 1, 1, (1 << 40) + 5),
        Message(NORMAL, 2, 1, 0, [b"after"]),
    ]


@pytest.mark.parametrize("size", [1, 40 * frames.PIECE_BYTES])
def test_pumps_acknowledge_what_nobody_answers(pair, size):
    async def carry(client: Journal, keeper: Journal) -> None:
        ends = []
        for one, journal in zip(socket.socketpair(), (client, keeper), strict=True):

            def consume(event: JournalEvent, journal: Journal = journal) -> None:
                if isinstance(event, Message):
                    journal.acknowledge(event)

            streams = await asyncio.open_unix_connection(sock=one)
            pump = Pump(journal, *streams, consume, ping=600.0, silence=1200.0)
            ends.append(asyncio.ensure_future(pump.run()))
        await eventually(lambda: not keeper.waiting)
        for end in ends:
            end.cancel()
        await asyncio.gather(*ends, return_exceptions=True)

    client, keeper = pair
    keeper.send(4, [bytes(size)])
    asyncio.run(carry(client, keeper))


def test_a_large_message_goes_on_where_the_break_was():
    client, keeper = Journal(window=1 << 30), Journal(window=1 << 30)
    join(client, keeper)
    large = bytes(range(256)) * 4096
    keeper.send(4, [large])
    first = keeper.data_to_send(512 * 1024)
    assert client.receive_data(first[:-10]) == []
    client.disconnected()
    keeper.disconnected()
    join(client, keeper)
    rest = keeper.data_to_send(1 << 30)
    assert len(rest) < len(large) - 400 * 1024, "only what was missing is sent again"
    assert parts_of(client.receive_data(rest)) == [[large]]


def test_a_client_learns_what_another_one_took_in_its_absence(pair):
    client, keeper = pair
    keeper.send(4, [b"1"])
    settle(client, keeper)
    client.disconnected()
    thief = Journal()
    join(thief, keeper)
    keeper.send(4, [b"2"])
    keeper.send(4, [b"3"])
    settle(thief, keeper)
    events = join(client, keeper)
    assert Skipped(NORMAL, 2, 3) in events
    keeper.send(4, [b"4"])
    assert parts_of(drain(keeper, client)) == [[b"4"]]


def test_an_urgent_message_overtakes_what_waits(pair):
    client, keeper = pair
    client.send(1, [bytes(50 << 20)])
    keeper.receive_data(client.data_to_send())
    client.send(0, [b"interrupt"], urgent=True)
    assert parts_of(keeper.receive_data(client.data_to_send())) == [[b"interrupt"]]


def test_no_more_than_the_window_is_under_way_until_the_receiver_consumes():
    client, keeper = Journal(), Journal(window=100_000)
    join(client, keeper)
    for _ in range(100):
        keeper.send(4, [bytes(10_000)])
    got = drain(keeper, client, consume=False)
    assert 10 <= len(got) <= 11
    client.acknowledge(got[-1])
    drain(client, keeper)
    assert len(drain(keeper, client, consume=False)) >= 10


def test_a_message_over_the_limit_becomes_a_gap_and_not_a_broken_connection():
    client, keeper = Journal(), Journal(max_message=1000)
    join(client, keeper)
    keeper.send(4, [bytes(2000)])
    (gap,) = drain(keeper, client)
    assert (gap.messages, gap.size) == (1, 2008)


def test_pings_are_answered_and_words_are_heard(pair):
    client, keeper = pair
    client.ping(42)
    client.send_notice({"leave": True})
    assert drain(client, keeper) == [NoticeReceived({"leave": True})]
    assert drain(keeper, client) == [PongReceived(42)]


def test_a_refused_client_is_told_why():
    client = Journal()
    client.connect({})
    client.data_to_send()
    (event,) = client.receive_data(encode_rejection({"reason": "CONFLICT"}))
    assert event == Rejected({"reason": "CONFLICT"})
    assert client.state is State.REFUSED
    assert client.data_to_send() == b""
    client.disconnected()
    assert client.state is State.DETACHED


def broken_peers() -> dict[str, bytes]:
    """Bytes that no honest keeper sends, after its hello."""
    piece = frames.Piece(NORMAL, 4, 0, 1, 1, 8, 0, bytes(8))
    return {
        "larger than the limit": struct.pack("!IB", frames.MAX_FRAME + 1, 3),
        "of no length": struct.pack("!IB", 0, 3),
        "of an unknown kind": struct.pack("!IB", 1, 99),
        "cut off inside": struct.pack("!IB", 3, frames.ACK) + b"ab",
        "a word that is no JSON": struct.pack("!IB", 3, frames.NOTICE) + b"{]",
        "a word that is no object": struct.pack("!IB", 3, frames.NOTICE) + b"[]",
        "acknowledges what was never sent": frames.encode(frames.Ack(NORMAL, 5, 0)),
        "gives credit for what was never sent": frames.encode(frames.Ack(NORMAL, 0, 5)),
        "a lane that is not": frames.encode(frames.Ack(9, 0, 0)),
        "a message in a lane that is not": frames.encode(piece._replace(lane=9)),
        "a number is missing": frames.encode(piece._replace(last=2)),
        "a gap that skips": frames.encode(frames.GapFrame(NORMAL, 3, 4, 2, 2)),
        "a piece that does not fit": frames.encode(piece._replace(offset=4)),
        "longer than it said": frames.encode(piece._replace(size=4)),
        "a message too large": frames.encode(piece._replace(size=frames.MAX_MESSAGE + 1)),
        "parts that do not add up": frames.encode(piece._replace(data=b"\0\0\0\1\0\0\0\1")),
        "a head that is cut off": frames.encode(piece._replace(data=b"\0\0\0\7\0\0\0\0")),
        "a second hello": frames.encode(frames.Hello({})),
    }


@pytest.mark.parametrize("what", broken_peers())
def test_a_peer_that_breaks_the_protocol_ends_in_a_clear_state(pair, what):
    client, keeper = pair
    events = client.receive_data(broken_peers()[what])
    assert isinstance(events[-1], Failed)
    assert events[-1].problem
    assert client.state is State.FAILED
    assert client.data_to_send() == b""
    assert client.receive_data(b"more") == []
    # The stream is whole: a new connection goes on.
    client.disconnected()
    join(client, keeper)
    keeper.send(4, [b"fine"])
    assert parts_of(drain(keeper, client)) == [[b"fine"]]


def hello_of(**changed) -> bytes:
    lanes = [[1, 0, 0], [1, 0, 0]]
    said = {"stream": "s", "peer": None, "lanes": lanes, "words": {}, **changed}
    return frames.encode(frames.Hello(said))


@pytest.mark.parametrize(
    "greeting",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\0\0\0\7\1JTPX\0\1",
        frames.encode(frames.Ping(1)),
        hello_of(lanes=[[1, 0, 0]]),
        hello_of(lanes=[[0, -1, 0], [1, 0, 0]]),
        hello_of(lanes="x"),
        hello_of(stream=7),
        hello_of(words=[]),
    ],
)
def test_a_greeting_that_is_none_fails_at_once(greeting):
    client = Journal()
    client.connect({})
    client.data_to_send()
    assert isinstance(client.receive_data(greeting)[-1], Failed)
    assert client.state is State.FAILED


def test_a_peer_of_another_version_is_told_apart_from_a_broken_one():
    body = frames.MAGIC + struct.pack("!H", 2) + json.dumps({}).encode()
    other = struct.pack("!IB", 1 + len(body), frames.HELLO) + body
    with pytest.raises(ProtocolError, match="version 2 of the journal protocol, this is version 1"):
        HelloReader().feed(other)


def test_a_peer_that_claims_more_than_was_sent_is_not_resumed(pair):
    client, keeper = pair
    client.disconnected()
    greeting = HelloReader()
    lie = hello_of(stream=client.stream, peer=keeper.stream, lanes=[[1, 5, 0], [1, 0, 0]])
    hello = greeting.feed(lie)
    (event,) = keeper.accept(greeting, hello, {})
    assert isinstance(event, Failed)
    assert keeper.state is State.FAILED


def test_the_table_has_every_transition_and_no_other_is_possible():
    journal = Journal()
    journal.connect({})
    with pytest.raises(ValueError, match="connect is not possible while greeting"):
        journal.connect({})
    assert all((state, "break") in TRANSITIONS for state in State)
    assert all((state, "accept") in TRANSITIONS for state in State)


# ---- any sequence of breaks ---------------------------------------------------------------------


def fold_threes(held: Sequence[NumberedMessage]) -> list[NumberedMessage]:
    """Merges what comes, three of it into one: their first parts, with a comma between them."""
    folded = []
    for start in range(0, len(held), 3):
        some = held[start : start + 3]
        serials = b",".join(message.parts[0] for message in some)
        parts = [serials, *some[-1].parts[1:]] if len(some) > 1 else some[0].parts
        folded.append(some[-1]._replace(first=some[0].first, parts=parts))
    return folded


def drop_oldest(store: SegmentStore, first: int, size: int) -> int:
    """Drops what has priority 1; a gap's note has the serial numbers of what was dropped."""
    before, runs = store.bytes, []
    follows = False  # the entry comes right behind what the last of *runs* drops
    for entry in store.since(first):
        if size <= 0:
            break
        goes = entry.is_gap or entry.priority > 0
        if goes:
            serials = entry.note or frames.split_parts(store.read(entry, 0, entry.size))[0]
            begin = entry.first
            if follows:
                begin, _, note = runs.pop()
                serials = note + b"," + serials
            runs.append(GapRange(begin, entry.last, serials))
            size -= entry.size
        follows = goes
    store.replace_with_gaps(runs)
    return before - store.bytes


def serials_of(event: Message | Gap) -> list[int]:
    """The numbers of all the messages that have come with it, or were dropped."""
    serials = event.note if isinstance(event, Gap) else event.parts[0]
    return [int(serial) for serial in serials.split(b",")]


class Breaks(RuleBasedStateMachine):
    """A keeper, a client and a line between them that breaks at any byte.

    The client may also be killed: its successor must get everything that was not consumed. Both
    write down at once what comes, as servers do: who knows the number has the message. What the
    keeper drops counts as come, once and in its place: the gap has to say what it was.
    """

    @initialize(
        window=st.sampled_from([1, 50, 4096]),
        memory=st.sampled_from([0, 200, 1 << 20]),
        coalesce=st.sampled_from([None, fold_threes]),
        many=st.sampled_from([4, lanes.COALESCE_MESSAGES]),
    )
    def begin(self, window: int, memory: int, coalesce: Any, many: int) -> None:
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(lanes, "COALESCE_MESSAGES", many)
        self.folder = tempfile.TemporaryDirectory()
        self.keeper = Journal(
            SegmentStore(self.folder.name, memory), window=window, coalesce=coalesce
        )
        self.written: list[int] = []
        self.last = 0
        self.taken = {NORMAL: 0, URGENT: 0}  # by clients
        self.client = Journal(window=window)
        self.window = window
        self.lines: dict[str, bytearray] | None = None  # bytes under way, by receiver
        self.greeting: HelloReader | None = None
        self.sent: dict[tuple[str, int], list] = {
            (end, lane): [] for end in ("client", "keeper") for lane in (NORMAL, URGENT)
        }
        self.got: dict[tuple[str, int], list] = {key: [] for key in self.sent}
        self.pending: dict[str, list] = {"client": [], "keeper": []}
        self.serial = 0

    def end(self, name: str) -> Journal:
        return self.client if name == "client" else self.keeper

    @rule(
        end=st.sampled_from(["client", "keeper"]),
        urgent=st.booleans(),
        sizes=st.lists(st.integers(0, 300), max_size=4),
        priority=st.sampled_from([0, 1, 1]),
    )
    def send(self, end: str, urgent: bool, sizes: list[int], priority: int) -> None:
        self.serial += 1
        parts = [str(self.serial).encode(), *(bytes(size) for size in sizes)]
        lane = URGENT if urgent else NORMAL
        self.end(end).send(4, parts, urgent=urgent, priority=priority)
        self.sent[end, lane].append((self.serial, parts))

    @rule(size=st.sampled_from([1, 500, 1 << 20]))
    def evict(self, size: int) -> None:
        before = self.keeper.store.bytes
        assert self.keeper.evict(drop_oldest, size) == before - self.keeper.store.bytes

    @precondition(lambda self: self.lines is None)
    @rule()
    def connect(self) -> None:
        self.client.connect({})
        self.lines = {"client": bytearray(), "keeper": bytearray()}
        self.greeting = HelloReader()

    @precondition(lambda self: self.lines is not None)
    @rule(
        end=st.sampled_from(["client", "keeper"]),
        limit=st.sampled_from([1, 500, 1 << 20]),
        acks=st.booleans(),
    )
    def write(self, end: str, limit: int, acks: bool = True) -> None:
        if end == "keeper" and self.greeting is not None:
            return
        data = self.end(end).data_to_send(limit, acks=acks)
        self.lines["keeper" if end == "client" else "client"] += data

    @precondition(lambda self: self.lines is not None)
    @rule(end=st.sampled_from(["client", "keeper"]), share=st.floats(0, 1))
    def read(self, end: str, share: float) -> None:
        line = self.lines[end]
        count = int(len(line) * share + 0.5)
        data = bytes(line[:count])
        del line[:count]
        if end == "keeper" and self.greeting is not None:
            hello = self.greeting.feed(data)
            if hello is None:
                return
            greeting, self.greeting = self.greeting, None
            events = self.keeper.accept(greeting, hello, {})
        else:
            events = self.end(end).receive_data(data)
        for event in events:
            assert not isinstance(event, Failed | Skipped | Rejected), event
            if isinstance(event, Message | Gap):
                self.pending[end].append(event)
                if end == "client" and event.lane == NORMAL and event.last > self.last:
                    self.written += serials_of(event)
                    self.last = event.last

    @rule(end=st.sampled_from(["client", "keeper"]), count=st.integers(0, 5))
    def consume(self, end: str, count: int) -> None:
        for event in self.pending[end][:count]:
            other = "keeper" if end == "client" else "client"
            self.end(end).acknowledge(event)
            if end == "client":
                if event.last <= self.taken[event.lane]:
                    continue  # a killed client had it, and could not say so any more
                self.taken[event.lane] = event.last
            *merged, last = serials_of(event)
            known = dict(self.sent[other, event.lane])
            # What was merged away, or dropped, has left only its serial number.
            self.got[other, event.lane] += [(serial, known[serial]) for serial in merged]
            if isinstance(event, Gap):
                self.got[other, event.lane].append((last, known[last]))
                continue
            parts = [str(last).encode(), *event.parts[1:]]
            self.got[other, event.lane].append((last, parts))
        del self.pending[end][:count]

    @precondition(lambda self: self.lines is not None)
    @rule(keeper_notices=st.booleans())
    def cut(self, keeper_notices: bool) -> None:
        self.client.disconnected()
        if keeper_notices:
            self.keeper.disconnected()
        self.lines = self.greeting = None

    @precondition(lambda self: not self.pending["keeper"])
    @rule()
    def kill_client(self) -> None:
        self.client = Journal(window=self.window)
        self.pending["client"].clear()
        self.lines = self.greeting = None
        # What the dead client had not got rid of died with it; the rest was delivered.
        for lane in (NORMAL, URGENT):
            self.sent["client", lane] = list(self.got["client", lane])

    @invariant()
    def what_arrived_is_what_was_sent_in_order_and_once(self) -> None:
        for key, got in self.got.items() if hasattr(self, "got") else ():
            assert got == self.sent[key][: len(got)], key

    def teardown(self) -> None:
        if not hasattr(self, "keeper"):
            return
        try:
            self.everything_arrives()
        finally:
            self.patch.undo()

    def everything_arrives(self) -> None:
        if self.lines is not None:
            self.cut(False)
        self.connect()
        for _ in range(10_000):
            for end, other in (("client", "keeper"), ("keeper", "client")):
                self.write(end, 1 << 20)
                self.read(other, 1.0)
                self.consume(other, 1000)
            if self.got == self.sent and not self.client.waiting and not self.keeper.waiting:
                break
        assert self.got == self.sent
        assert self.written == [serial for serial, _ in self.sent["keeper", NORMAL]]
        assert self.keeper.waiting == self.client.waiting == 0
        self.keeper.store.close()
        assert os.listdir(self.folder.name) == []
        self.folder.cleanup()


TestBreaks = Breaks.TestCase
TestBreaks.settings = settings(
    max_examples=120,
    stateful_step_count=60,
)


@pytest.mark.parametrize("seed", range(60))
def test_a_long_life_with_breaks_loses_nothing(seed):
    """The same by chance: hypothesis finds short stories, and these are long ones."""
    chance = random.Random(seed)
    machine = Breaks()
    machine.begin(
        window=chance.choice([50, 4096]),
        memory=chance.choice([0, 200, 1 << 20]),
        coalesce=chance.choice([None, fold_threes, fold_threes]),
        many=chance.choice([4, lanes.COALESCE_MESSAGES]),
    )
    ends = "client", "keeper"
    drops = chance.random() < 0.5
    for _ in range(400):
        if machine.lines is None:
            machine.connect()
        for end, other in (ends, ends[::-1]):
            machine.write(end, chance.choice([1, 500, 1 << 20]), acks=chance.random() < 0.5)
            machine.read(other, chance.choice([0.3, 1.0, 1.0]))
            machine.consume(end, chance.randrange(4))
        for _ in range(chance.choice([0, 0, 1, 5])):
            sizes = [chance.randrange(300)]
            machine.send(chance.choice(ends), chance.random() < 0.2, sizes, chance.randrange(2))
        if drops and chance.random() < 0.2:
            machine.evict(chance.choice([1, 500, 5000]))
        machine.what_arrived_is_what_was_sent_in_order_and_once()
        if chance.random() < 0.1:
            machine.cut(chance.random() < 0.5)
            if chance.random() < 0.3 and not machine.pending["keeper"]:
                machine.kill_client()
    machine.teardown()
