"""What the magics put into a notebook, without a kernel."""

from __future__ import annotations

import re
from typing import Any

import pytest

from jupyter_tpu.fleet.models import Operation
from jupyter_tpu.magics import grammar
from jupyter_tpu.magics.kernels import NotebookKernels
from jupyter_tpu.magics.magic import _run
from jupyter_tpu.magics.show import MagicError, OperationDisplay, RemoteError


class Handle:
    """Stands where IPython's display handle is."""

    def __init__(self) -> None:
        self.shown: list[dict[str, str]] = []

    def update(self, bundle: dict[str, str], raw: bool) -> None:
        assert raw
        self.shown.append(bundle)


def operation(progress: float | None, **other: Any) -> Operation:
    return Operation(id="1", kind="connect", tpu="t", progress=progress, **other)


def display() -> tuple[OperationDisplay, Handle]:
    shown, handle = OperationDisplay(), Handle()
    shown._handle = handle
    return shown, handle


def test_progress_is_shown_as_a_bar_and_as_text_and_only_when_it_changes() -> None:
    shown, handle = display()
    for _ in range(3):
        shown.show(operation(0.25), "t: Installing")
    shown.show(operation(None), "t: Waiting")
    shown.show(operation(1.0, state="done"), "")
    texts = [bundle["text/plain"] for bundle in handle.shown]
    assert texts == ["[ 25%] t: Installing", "t: Waiting", "[100%] "]
    assert 'value="0.250"' in handle.shown[0]["text/html"]
    assert "value=" not in handle.shown[1]["text/html"]
    assert "<progress" not in handle.shown[2]["text/html"]


def test_what_a_host_says_cannot_become_markup() -> None:
    shown, handle = display()
    shown.show(operation(0.5), '<script>alert("1")</script>')
    markup = handle.shown[0]["text/html"]
    assert "<script" not in markup
    assert 'alert("' not in markup


def test_an_error_of_ours_is_a_sentence_and_one_of_the_host_its_own_traceback() -> None:
    assert MagicError("No TPU.")._render_traceback_() == ["No TPU."]
    assert RemoteError("why", ["line 1", "line 2"])._render_traceback_() == ["line 1", "line 2"]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("connect", "Missing argument 'NAME'. (see `%tpu connect --help`)"),
        ("conect x", "No such command 'conect'. Did you mean connect"),
        ("tunnel open x y", "'y' is not PORT or PORT:LOCAL"),
        ("connect 'x", "%tpu: no closing quotation"),
    ],
)
def test_a_wrong_line_is_one_sentence_and_does_not_end_the_kernel(
    line: str, complaint: str
) -> None:
    with pytest.raises(MagicError, match=re.escape(complaint)):
        _run(grammar.line, line, NotebookKernels())


@pytest.mark.parametrize("line", ["", "--help", "tunnel open --help"])
def test_help_is_printed_and_runs_nothing(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(grammar.line, line, NotebookKernels()) is None
    assert capsys.readouterr().out.startswith("Usage: %tpu ")


def test_the_line_of_a_cell_names_a_tpu_and_an_environment() -> None:
    assert _run(grammar.cell, "", NotebookKernels()) == (None, None)
    assert _run(grammar.cell, "my-tpu --env other", NotebookKernels()) == ("my-tpu", "other")
    assert _run(grammar.cell, "--help", NotebookKernels()) is None
