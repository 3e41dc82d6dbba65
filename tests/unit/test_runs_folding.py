"""Which hosts a text means, and lines of several hosts as one text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_tpu.commands.run_output import HOLD_SECONDS, LONGEST_LINE_BYTES, FoldedLines, summary
from jupyter_tpu.errors import InvalidInput, Reason
from jupyter_tpu.fleet.core.host_numbers import host_numbers, host_ranges
from jupyter_tpu.fleet.models import HostRun, Problem, Run


class Page:
    """What is written of some hosts' lines."""

    def __init__(self, hosts: int = 4) -> None:
        self.hosts = range(hosts)
        self.text: list[str] = []
        self.lines = FoldedLines(list(self.hosts), self._write)

    def _write(self, stream: str, line: bytes) -> None:
        self.text.append(("! " if stream == "stderr" else "") + line.decode().rstrip("\n"))

    def add(self, host: int, text: str, now: float = 0.0, stream: str = "stdout") -> None:
        self.lines.add(host, stream, text.encode(), now)


def test_equal_lines_of_all_hosts_become_one():
    page = Page()
    for host in page.hosts:
        page.lines.flush(page.hosts, 0.0)
        assert page.text == []
        page.add(host, "meow\n")
    page.lines.flush(page.hosts, 0.0)
    assert page.text == ["[0-3] meow"]
    assert not page.lines.holds


def test_different_lines_come_in_the_order_of_the_hosts_and_meet_again():
    page = Page()
    for host in (3, 1, 0, 2):
        page.add(host, f"host {host % 2}\nsame\n")
    page.lines.flush(page.hosts, 0.0)
    assert page.text == ["[0,2] host 0", "[1,3] host 1", "[0-3] same"]


def test_a_line_does_not_wait_for_a_slow_host_longer_than_the_limit():
    page = Page()
    page.add(0, "a\n", 0.0)
    page.add(1, "a\n", 0.1)
    page.lines.flush(page.hosts, HOLD_SECONDS / 2)
    assert page.text == []
    assert page.lines.holds
    page.lines.flush(page.hosts, HOLD_SECONDS + 0.01)
    assert page.text == ["[0-1] a"]


def test_a_host_that_has_ended_is_not_waited_for():
    page = Page(2)
    page.add(0, "a\n")
    page.lines.flush([0], 0.0)
    assert page.text == ["[0] a"]


def test_streams_are_told_apart_and_the_last_line_needs_no_end():
    page = Page(2)
    page.add(0, "out")
    page.add(1, "out", stream="stderr")
    page.lines.flush([], 0.0)
    assert page.text == []
    page.lines.end(0.0)
    assert page.text == ["[0] out", "! [1] out"]


def test_progress_that_was_overwritten_is_left_out():
    page = Page(1)
    page.add(0, "10%\r50%\r100%\r\nnext\r\n")
    page.lines.end(0.0)
    assert page.text == ["[0] 100%", "[0] next"]


def test_what_has_no_lines_is_not_collected_for_ever():
    page = Page(1)
    page.add(0, "x" * (LONGEST_LINE_BYTES + 1))
    page.lines.flush([0], 0.0)
    assert len(page.text) == 1


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from("ab"), st.booleans(), st.floats(0, 2)),
        max_size=30,
    )
)
def test_no_line_is_lost_and_each_hosts_order_stays(steps):
    page = Page(3)
    expected: dict[int, list[str]] = {host: [] for host in page.hosts}
    now = 0.0
    for host, line, flush, pause in steps:
        now += pause
        page.add(host, line + "\n", now)
        expected[host].append(line)
        if flush:
            page.lines.flush(page.hosts, now)
    page.lines.end(now)
    lines_of: dict[int, list[str]] = {host: [] for host in page.hosts}
    for text in page.text:
        numbers, _, line = text[1:].partition("] ")
        for host in host_numbers(numbers, 3, "tpu"):
            lines_of[host].append(line)
    assert lines_of == expected


# ---- which hosts ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("all", [0, 1, 2, 3]),
        ("0", [0]),
        ("3, 0-1", [0, 1, 3]),
        ("2-2,2", [2]),
        (" all ", [0, 1, 2, 3]),
    ],
)
def test_host_numbers(text, hosts):
    assert host_numbers(text, 4, "tpu") == hosts


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "does not say"),
        ("-1", "does not say"),
        ("1,,2", "does not say"),
        ("a", "does not say"),
        ("2-1", "not a range"),
        ("4", "tpu has no host 4"),
        ("0-999999", "has no host 999999"),
        ("9" * 5000, "does not say"),
    ],
)
def test_wrong_host_numbers_are_refused(text, message):
    with pytest.raises(InvalidInput, match=message):
        host_numbers(text, 4, "tpu")


@given(st.sets(st.integers(0, 40), min_size=1))
def test_ranges_mean_the_hosts_they_were_made_of(hosts):
    assert host_numbers(host_ranges(sorted(hosts)), 41, "tpu") == sorted(hosts)


def test_the_summary_accounts_for_every_host():
    lost = Problem(message="The connection was lost.", reason=Reason.UNREACHABLE, hint="See it.")
    run = Run(
        id="r",
        tpu="my-tpu",
        zone="z",
        command=["x"],
        created="",
        hosts=[
            HostRun(host=0, state="exited", code=0, seconds=1.04),
            HostRun(host=1, state="exited", code=0, seconds=1.31),
            HostRun(host=2, state="exited", code=124, cause="timeout", seconds=5.0),
            HostRun(host=3, state="exited", code=137, signal="SIGKILL", seconds=2.0),
            HostRun(host=4, state="unknown", code=255, problem=lost),
        ],
    )
    assert summary(run) == [
        "[0-1] exit code 0 (1.0-1.3 s)",
        "[2] stopped at the time limit (5.0 s)",
        "[3] killed by SIGKILL (2.0 s)",
        "[4] not known: The connection was lost. See it.",
    ]
