"""What the magics put into a notebook, without a kernel."""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from jupyter_tpu.fleet.models import Operation
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


def test_wrong_words_are_no_exit_of_the_kernel() -> None:
    from jupyter_tpu.magics.magic import _Parser

    parser: argparse.ArgumentParser = _Parser(prog="%tpu connect", add_help=False)
    parser.add_argument("name")
    with pytest.raises(MagicError, match="required: name"):
        parser.parse_args([])
