"""What a person sees: tables, colours, progress, complaints of one line."""

from __future__ import annotations

import io
import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_tpu.cli import main
from jupyter_tpu.cli.arguments import parser
from jupyter_tpu.cli.console import complain, confirm
from jupyter_tpu.cli.waiting import Progress
from jupyter_tpu.commands.operations import progress_line
from jupyter_tpu.commands.tables import colour, table
from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.fleet.models import Operation, Step


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def operation(message: str, progress: float | None = None, **other: object) -> Operation:
    return Operation(id="1", kind="connect", tpu="t", message=message, progress=progress, **other)


@given(
    st.integers(1, 5).flatmap(
        lambda n: st.lists(
            st.lists(
                st.text("abc ·", min_size=1, max_size=9).map(str.strip), min_size=n, max_size=n
            ),
            min_size=1,
            max_size=5,
        )
    )
)
def test_columns_of_a_table_begin_at_the_same_place_in_each_row(rows: list[list[str]]) -> None:
    heads = [f"HEAD{i}" for i in range(len(rows[0]))]
    lines = table(heads, rows).split("\n")
    kept = [i for i in range(len(heads)) if any(row[i] for row in rows)]
    if not kept:
        return
    for i in kept:
        start = lines[0].index(f"HEAD{i}")
        for row, line in zip(rows, lines[1:], strict=True):
            assert line[start : start + len(row[i])] == row[i]
            assert start == 0 or line[start - 2 : start].strip() == ""


def test_a_column_without_content_is_left_out() -> None:
    assert table(("A", "B", "C"), [("1", "", "2"), ("3", "", "4")]) == "A  C\n1  2\n3  4"


def test_colours_are_for_terminals_whose_owner_wants_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert colour("READY", "green", Terminal()) == "\x1b[32mREADY\x1b[0m"
    assert colour("READY", "green", io.StringIO()) == "READY"
    monkeypatch.setenv("NO_COLOR", "1")
    assert colour("READY", "green", Terminal()) == "READY"
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert colour("READY", "green", Terminal()) == "READY"


def test_a_complaint_is_one_line_whatever_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    complain("it failed:\n  because\tof\r\nthis")
    assert capsys.readouterr().err == "jupyter tpu: it failed: because of this\n"


def test_progress_is_a_line_per_change_where_there_is_no_terminal() -> None:
    stream = io.StringIO()
    progress = Progress(stream)
    for message, part in (("Looking", 0.1), ("Looking", 0.2), ("Installing", 0.3)):
        progress.show(operation(message, part))
    progress.show(operation("Done", 1.0, state="done"))
    progress.end()
    assert stream.getvalue() == "t: Looking\nt: Installing\n"


def test_progress_is_one_line_with_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "60")
    stream = Terminal()
    progress = Progress(stream)
    progress.show(operation("Looking"))
    progress.show(operation("Installing " + "x" * 80, 0.5))
    unknown, half = stream.getvalue().split("\r")[1:]
    assert unknown.startswith("[····················]      0:00 t: Looking")
    assert half.startswith("[██████████··········]  50% 0:00 t: Installing xxx")
    assert len(half.removesuffix("\x1b[K")) == 59
    progress.end()
    assert stream.getvalue().endswith("\r\x1b[K")
    assert "\n" not in stream.getvalue()


def test_progress_says_on_how_many_hosts_a_step_is_done() -> None:
    step = Step(title="Installing JAX", state="running", hosts=4, hosts_done=2)
    assert progress_line(operation("Installing JAX", steps=[step])) == (
        "t: Installing JAX (2 of 4 hosts)"
    )


def test_where_nobody_can_be_asked_the_answer_is_no(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    with pytest.raises(TPUError, match=r"Really\? Add --yes\.") as caught:
        confirm("Really?", "Add --yes.")
    assert caught.value.reason is Reason.CONFLICT


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("frobnicate", "invalid choice: 'frobnicate'"),
        ("create", "required: NAME, --type"),
        ("create a --type v4-8 --zonk x", "unrecognized arguments: --zonk x"),
        ("kernel", "required: list|end|take|add|remove|warm"),
        ("describe", "required: NAME"),
        ("emulator --port many", "invalid int value: 'many'"),
        ("emulator --port 99999", "99999 is not a port"),
        ("vscode /nowhere/at/all", "There is no folder /nowhere/at/all"),
        ("connect t --requirements /nowhere", "/nowhere can't be read: No such file"),
        ("api GET http://example.org/", "is a URL, and a path is needed"),
        ("api GET tpus/../../api", "is not a path"),
        ("api POST tpus --data {", "--data is not JSON"),
        ("api POST tpus --data @/nowhere", "/nowhere can't be read"),
        ("api GET tpus", "No Jupyter server of yours is running"),
        ("kernel remove nothing", "nothing has no kernel of an environment default here"),
    ],
)
def test_a_wrong_command_is_one_line_and_exit_code_1(
    words: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(words.split())
    except SystemExit as end:
        code = end.code  # type: ignore[assignment]
    assert code == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("jupyter tpu: ")
    assert said.err.count("\n") == 1
    assert complaint in said.err


def test_every_command_has_a_help_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--help"])
    assert end.value.code == 0
    commands = re.findall(r"^    (\w+)", capsys.readouterr().out, re.MULTILINE)
    assert {"emulator", "create", "list", "delete", "connect", "kernel", "api"} <= set(commands)
    for command in set(commands) - {"COMMAND"}:
        with pytest.raises(SystemExit) as end:
            main([command, "--help"])
        assert end.value.code == 0
        assert f"usage: jupyter tpu {command}" in capsys.readouterr().out


def test_options_reach_their_command() -> None:
    words = "create t --type v4-8 --zone z --spot --network n --subnetwork s --connect --no-wait"
    chosen = parser().parse_args([*words.split(), "--packages", "flax", "optax"])
    assert (chosen.name, chosen.type, chosen.zone, chosen.network) == ("t", "v4-8", "z", "n")
    assert (chosen.subnetwork, chosen.spot, chosen.connect, chosen.wait) == ("s", True, True, False)
    assert (chosen.env, chosen.packages) == ("default", ["flax", "optax"])
