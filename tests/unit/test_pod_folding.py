"""What hosts print in one cell: once where it is equal, by host where it differs."""

import base64
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from jupyter_tpu.on_host.agent.pod import folding
from jupyter_tpu.on_host.agent.pod.folding import (
    HEAD_CHARACTERS,
    TAIL_CHARACTERS,
    Transcript,
    bundle,
    differences,
)


def transcript(*pieces: str, name: str = "stdout") -> Transcript:
    made = Transcript()
    for piece in pieces:
        made.add_stream(name, piece)
    made.finish()
    return made


@given(st.lists(st.text(alphabet="ab\n\r", max_size=6), max_size=8))
def test_how_output_was_cut_into_messages_makes_no_difference(pieces):
    whole = transcript("".join(pieces))
    assert transcript(*pieces).digest == whole.digest
    assert differences({0: transcript(*pieces), 1: whole}) == []


@given(st.lists(st.text(alphabet="ab\n\r", max_size=12), max_size=8))
def test_a_line_that_is_too_long_to_wait_for_is_the_same_however_it_was_cut(pieces):
    with patch.object(folding, "LONGEST_LINE", 4):
        whole = transcript("".join(pieces))
        assert transcript(*pieces).digest == whole.digest
        assert transcript(*pieces).text == whole.text


def test_hosts_with_equal_output_are_one_group():
    outputs = {host: transcript(f"{host // 2}\n") for host in range(5)}
    assert [(fold.title, fold.text) for fold in differences(outputs)] == [
        ("hosts 2, 3", "1\n"),
        ("host 4", "2\n"),
    ]


def test_a_progress_bar_is_that_of_its_host():
    bars = {host: transcript(f"\r10% {host}s", f"\r99% {host}s", "\ndone\n") for host in range(2)}
    assert differences(bars) == []


def test_addresses_in_results_are_no_difference_and_values_are():
    def result(text: str) -> Transcript:
        made = Transcript()
        made.add_display({"text/plain": text})
        made.finish()
        return made

    assert differences({0: result("<A at 0x7f0000001>"), 1: result("<A at 0x7f0000002>")}) == []
    assert [fold.hosts for fold in differences({0: result("1"), 1: result("2")})] == [(1,)]


def test_of_much_output_the_beginning_and_the_end_are_kept():
    many = transcript(*(f"{line}\n" for line in range(200_000)))
    text = many.text
    assert text.startswith("0\n1\n")
    assert text.endswith("199999\n")
    assert len(text) < HEAD_CHARACTERS + TAIL_CHARACTERS + 100
    assert "characters …]" in text
    # A difference in what was not kept is one, too.
    other = transcript(*(f"{line if line != 100_000 else 'x'}\n" for line in range(200_000)))
    assert [fold.hosts for fold in differences({0: many, 1: other})] == [(1,)]


@given(st.text())
def test_what_a_host_prints_is_never_markup(text):
    folds = differences({0: transcript("x"), 1: transcript(text + "<script>&")})
    html = bundle("Above:", folds)["text/html"]
    assert "<script" not in html
    assert html.count("<") == html.count(">")


def test_a_picture_that_is_no_base64_is_no_way_out_of_its_tag():
    made = Transcript()
    made.add_display({"text/plain": "<Figure>", "image/png": '"><script>alert(1)</script>'})
    made.finish()
    html = bundle("Above:", differences({0: transcript("x"), 1: made}))["text/html"]
    assert "<script" not in html
    good = Transcript()
    good.add_display({"text/plain": "<Figure>", "image/png": base64.b64encode(b"png").decode()})
    good.finish()
    assert "data:image/png;base64,cG5n" in bundle("", differences({0: made, 1: good}))["text/html"]
