"""Folding by itself: whatever is folded, the notebook looks the same in the end."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_tpu.on_host.agent.protocol import coalescing, messages
from jupyter_tpu.on_host.agent.protocol.coalescing import Coalescer, collapse_overwritten
from jupyter_tpu.on_host.agent.protocol.events import IOPUB, SHELL
from jupyter_tpu.on_host.agent.protocol.frames import join_parts
from jupyter_tpu.on_host.agent.protocol.lanes import COALESCE_MESSAGES, OutgoingLane
from jupyter_tpu.on_host.agent.protocol.segments import NumberedMessage, SegmentStore

KERNEL = messages.MessageSigner("key", "kernel")
COALESCER = Coalescer(messages.MessageSigner("key", "keeper"))
PARENTS = [b'{"msg_id": "one"}', b'{"msg_id": "two"}']


def kernel_message(kind: str, content: dict[str, Any], parent: bytes = PARENTS[0]) -> list[bytes]:
    return KERNEL.message(kind, content, parent=parent, idents=[kind.encode()])


def stream(text: str, name: str = "stdout", parent: bytes = PARENTS[0]) -> list[bytes]:
    # ipykernel writes the header that streams belong to in another order.
    return kernel_message(
        "stream", {"name": name, "text": text}, parent[:-1] + b', "session": "s"}'
    )


def display(text: str, display_id: str = "", *, update: bool = False, **more: Any) -> list[bytes]:
    transient = {"display_id": display_id} if display_id else {}
    content = {"data": {"text/plain": text}, "metadata": {}, "transient": transient}
    return kernel_message("update_display_data" if update else "display_data", content, **more)


def clear(wait: bool, parent: bytes = PARENTS[0]) -> list[bytes]:
    return kernel_message("clear_output", {"wait": wait}, parent)


def numbered(output: list[list[bytes]]) -> list[NumberedMessage]:
    return [
        NumberedMessage(number, number, SHELL if parts[0] == b"execute_reply" else IOPUB, 0, parts)
        for number, parts in enumerate(output, 1)
    ]


def coalesce(output: list[list[bytes]]) -> list[list[bytes]]:
    held = numbered(output)
    folded = COALESCER.coalesce(held)
    reached = 0
    for message in folded:
        assert message.first == reached + 1, "the numbers have no holes"
        assert message.last >= message.first
        assert KERNEL.is_signed(message.parts)
        reached = message.last
    assert reached == len(output)
    return [message.parts for message in folded]


def kinds(output: list[list[bytes]]) -> list[str]:
    return [messages.decode_part(parts, messages.HEADER)["msg_type"] for parts in output]


def text_of(parts: list[bytes]) -> str:
    return messages.decode_part(parts, messages.CONTENT)["text"]


# ---- a notebook


def drawn(text: str, *, terminal: bool) -> list[str]:
    """What is left of *text*: as JupyterLab draws it, or as a terminal with colours does."""
    lines, row, column = [[]], 0, 0
    if terminal:
        text = text.replace("\x1b[31m", "").replace("\x1b[A", "\0")
    for character in text:
        line = lines[row]
        if character == "\n":
            row, column = row + 1, 0
            if row == len(lines):
                lines.append([])
        elif character == "\r":
            column = 0
        elif character == "\b":
            column = max(0, column - 1)
        elif character == "\0":
            row = max(0, row - 1)
        else:
            line.extend(" " * (column - len(line)))
            line[column : column + 1] = [character]
            column += 1
    return ["".join(line) for line in lines]


class Shown:
    """What frontends keep of what was said."""

    def __init__(self, output: list[list[bytes]]) -> None:
        self.areas: list[list[list[Any]]] = []  # outputs: kind, name or display id, what it shows
        self.area: dict[str, list[list[Any]]] = {}  # where output of a request goes
        self.waiting: set[str] = set()  # requests whose next output clears what is there
        self.others: list[list[bytes]] = []
        self.begin()
        for parts in output:
            self.take(parts)

    def begin(self) -> None:
        """Output goes elsewhere from now on."""
        self.area = {json.loads(parent)["msg_id"]: [] for parent in PARENTS}
        self.areas += self.area.values()

    def take(self, parts: list[bytes]) -> None:
        kind = messages.decode_part(parts, messages.HEADER)["msg_type"]
        content = messages.decode_part(parts, messages.CONTENT)
        parent = messages.decode_part(parts, messages.PARENT)["msg_id"]
        outputs = self.area[parent]
        display_id = content.get("transient", {}).get("display_id")
        if kind == "clear_output":
            self.waiting.add(parent)
            if not content["wait"]:
                self.waiting.discard(parent)
                outputs.clear()
        elif kind == "update_display_data":
            for shown in (shown for area in self.areas for shown in area):
                if shown[1] == display_id:
                    shown[2] = content["data"]
        elif kind in ("stream", "display_data", "error"):
            if parent in self.waiting:
                self.waiting.discard(parent)
                outputs.clear()
            if kind != "stream":
                outputs.append([kind, display_id, content.get("data")])
            elif outputs and outputs[-1][:2] == ["stream", content["name"]]:
                outputs[-1][2] += content["text"]
            else:
                outputs.append(["stream", content["name"], content["text"]])
        else:
            self.others.append(parts)
            if kind == "comm_msg":  # a widget captures it
                self.begin()

    def final(self, *, terminal: bool) -> Any:
        drawn_areas = [
            [
                [kind, of, drawn(what, terminal=terminal) if kind == "stream" else what]
                for kind, of, what in area
            ]
            for area in self.areas
        ]
        return self.others, drawn_areas, self.waiting


TEXT = st.lists(
    st.sampled_from(["a", "bc", "def", "\r", "\n", "\r", "\b", "\x1b[31m", "\x1b[A", "ü", "😀"]),
    max_size=6,
).map("".join)
PARENT = st.sampled_from(PARENTS)
ANYTHING = st.one_of(
    st.builds(stream, TEXT, st.sampled_from(["stdout", "stderr"]), PARENT),
    st.builds(stream, TEXT),
    st.builds(display, st.sampled_from("xyz"), st.sampled_from(["", "d", "e"]), parent=PARENT),
    st.builds(
        display, st.sampled_from("xyz"), st.sampled_from("de"), update=st.just(True), parent=PARENT
    ),
    st.builds(clear, st.booleans(), PARENT),
    st.builds(kernel_message, st.sampled_from(["status", "comm_msg", "error", "execute_reply"]),
              st.just({}), PARENT),
)  # fmt: skip


@settings(max_examples=400)
@given(
    st.lists(ANYTHING, max_size=4), st.lists(ANYTHING, max_size=14), st.lists(ANYTHING, max_size=4)
)
def test_the_notebook_is_the_same_in_the_end(before, middle, after):
    whole, folded = before + middle + after, before + coalesce(middle) + after
    for terminal in (False, True):
        assert Shown(folded).final(terminal=terminal) == Shown(whole).final(terminal=terminal)


@settings(max_examples=400)
@given(TEXT, st.lists(TEXT, max_size=5).map("".join), TEXT)
def test_text_is_drawn_the_same_in_the_end(before, text, after):
    for terminal in (False, True):
        assert drawn(before + collapse_overwritten(text) + after, terminal=terminal) == drawn(
            before + text + after, terminal=terminal
        )


@settings(max_examples=100)
@given(st.lists(ANYTHING, max_size=14), st.integers(0, 14))
def test_it_may_be_folded_in_any_pieces_and_again(output, cut):
    pieces = [
        message for part in (output[:cut], output[cut:]) if part for message in coalesce(part)
    ]
    again = coalesce(pieces) if pieces else []
    for terminal in (False, True):
        assert Shown(again).final(terminal=terminal) == Shown(output).final(terminal=terminal)


# ---- what it is for


def test_ten_thousand_lines_are_few_messages(monkeypatch):
    folded = coalesce([stream(f"{number}\n") for number in range(10_000)])
    assert "".join(map(text_of, folded)).split() == [str(number) for number in range(10_000)]
    assert len(folded) == 2
    assert max(len(text_of(parts)) for parts in folded) <= coalescing.MERGED_CHARACTERS


def test_of_a_progress_bar_its_last_state_is_left():
    bar = [stream(f"\r{n:3}%|{'#' * n}{' ' * (100 - n)}|", "stderr") for n in range(101)]
    (left,) = coalesce([stream("before\n", "stderr"), *bar, stream("\n", "stderr")])
    assert text_of(left) == f"before\n100%|{'#' * 100}|\n"


def test_of_updates_of_a_display_the_last_is_left_in_its_place():
    updates = [display(str(n), "d", update=True) for n in range(1000)]
    other = display("other", "e", update=True)
    left = coalesce([display("first", "d"), other, *updates, stream("end")])
    assert kinds(left) == ["display_data", "update_display_data", "update_display_data", "stream"]
    assert left[2] is updates[-1]


def test_of_outputs_that_are_cleared_for_the_next_the_last_is_left():
    drawing = [parts for n in range(500) for parts in (clear(True), display(str(n)))]
    left = coalesce([stream("before"), *drawing])
    assert kinds(left) == ["clear_output", "display_data"]
    assert left[1] is drawing[-1]


@pytest.mark.parametrize(
    "between",
    [
        kernel_message("comm_msg", {}),
        kernel_message("error", {"ename": "E"}),
        stream("x", "stderr"),
        stream("x", parent=PARENTS[1]),
        [b"no message"],
        [*stream("x"), b"a buffer"],
        kernel_message("stream", {"name": "stdout", "text": "x", "more": 1}),
        [*stream("x")[:3], b"[]", *stream("x")[4:]],
    ],
)
def test_what_must_not_go_or_is_not_understood_stays_where_it_is(between):
    held = numbered([stream("a"), between, stream("b")])
    assert COALESCER.coalesce(held) == held


def test_half_of_a_surrogate_pair_is_kept_as_it_is():
    broken = kernel_message("stream", b'{"name": "stdout", "text": "\\ud800"}')
    (left,) = coalesce([stream("a"), broken])
    assert json.loads(left[-1])["text"] == "a\ud800"


# ---- widgets


def update(comm: str, buffers: tuple[bytes, ...] = (), **state: Any) -> list[bytes]:
    paths = [["value"]] if buffers else []
    data = {"method": "update", "state": state, "buffer_paths": paths}
    return [*kernel_message("comm_msg", {"comm_id": comm, "data": data}), *buffers]


def custom(comm: str) -> list[bytes]:
    return kernel_message(
        "comm_msg", {"comm_id": comm, "data": {"method": "custom", "content": {}}}
    )


def states(output: list[list[bytes]]) -> list[tuple[str, dict[str, Any]]]:
    contents = [messages.decode_part(parts, messages.CONTENT) for parts in output]
    return [(content["comm_id"], content["data"].get("state")) for content in contents]


def test_of_a_progress_bar_made_of_widgets_its_last_state_is_left():
    steps = [
        parts
        for n in range(500)
        for parts in (update("bar", value=n), update("text", value=f"{n}/500"))
    ]
    assert states(coalesce(steps)) == [("bar", {"value": 499}), ("text", {"value": "499/500"})]


def test_of_a_state_only_the_keys_that_are_set_again_go():
    left = coalesce([update("a", value=1, max=10), update("a", value=2), update("b", value=0)])
    assert states(left) == [("a", {"max": 10}), ("a", {"value": 2}), ("b", {"value": 0})]


def test_buffers_go_with_their_state_as_a_whole_or_not_at_all():
    first, last = update("a", (b"one",)), update("a", (b"two",))
    assert coalesce([first, last]) == [last]
    both = update("a", (b"one",), max=1)
    assert coalesce([both, last]) == [both, last]


@pytest.mark.parametrize(
    "between",
    [
        custom("a"),
        update("a", msg_id="where output goes"),
        kernel_message(
            "comm_msg", {"comm_id": "a", "data": {"method": "echo_update", "state": {}}}
        ),
        kernel_message("comm_close", {"comm_id": "a", "data": {}}),
    ],
)
def test_a_state_is_not_superseded_across_other_messages_of_its_widget(between):
    kept = [update("a", value=1), between, update("a", value=2)]
    assert coalesce(kept) == kept
    elsewhere = [update("a", value=1), custom("b"), update("a", value=2)]
    assert states(coalesce(elsewhere)) == states(elsewhere[1:])


def test_a_day_of_a_progress_bar_is_a_few_messages(tmp_path):
    store = SegmentStore(str(tmp_path), memory=0)
    lane = OutgoingLane(store, 1 << 20, COALESCER.coalesce)
    largest = 0
    for n in range(10_000):
        parts = update("bar", value=n) if n % 50 else stream(f"epoch {n}\n")
        store.append(IOPUB, 0, join_parts(parts))
        lane.appended()
        largest = max(largest, len(store))
    assert largest < 2 * COALESCE_MESSAGES
    assert len(store) < 1.5 * COALESCE_MESSAGES
