"""What the magics put into a notebook, without a kernel."""

import re
import traceback
from typing import Any

import pytest

from jupyter_tpu.magics import grammar, kernel_grammar
from jupyter_tpu.magics.failures import MagicError, RemoteError, remote_error
from jupyter_tpu.magics.kernels import NotebookKernels
from jupyter_tpu.magics.magic import _run
from jupyter_tpu.magics.show import ProgressDisplay


class Handle:
    """Stands where IPython's display handle is."""

    def __init__(self) -> None:
        self.shown: list[dict[str, str]] = []

    def update(self, bundle: dict[str, str], raw: bool) -> None:
        assert raw
        self.shown.append(bundle)


def display() -> tuple[ProgressDisplay, Handle]:
    shown, handle = ProgressDisplay(), Handle()
    shown._handle = handle
    return shown, handle


def test_progress_is_shown_as_a_bar_and_as_text_and_only_when_it_changes():
    shown, handle = display()
    for _ in range(3):
        shown.show("t: Installing", 0.25, running=True)
    shown.show("t: Waiting", None, running=True)
    shown.show("", 1.0, running=False)
    texts = [bundle["text/plain"] for bundle in handle.shown]
    assert texts == ["[ 25%] t: Installing", "t: Waiting", "[100%] "]
    assert 'value="0.250"' in handle.shown[0]["text/html"]
    assert "value=" not in handle.shown[1]["text/html"]
    assert "<progress" not in handle.shown[2]["text/html"]


def test_what_a_host_says_cannot_become_markup():
    shown, handle = display()
    shown.show('<script>alert("1")</script>', 0.5, running=True)
    markup = handle.shown[0]["text/html"]
    assert "<script" not in markup
    assert 'alert("' not in markup


def test_an_error_of_ours_is_a_sentence_and_one_of_the_host_its_own_traceback():
    assert MagicError("No TPU.")._render_traceback_() == ["No TPU."]
    assert RemoteError("why", ["line 1", "line 2"])._render_traceback_() == ["line 1", "line 2"]


@pytest.mark.parametrize(
    ("name", "bases", "base"),
    [
        ("ZeroDivisionError", ["ZeroDivisionError"], ZeroDivisionError),
        ("UnicodeDecodeError", ["UnicodeDecodeError"], UnicodeDecodeError),
        ("FileNotFoundError", ["FileNotFoundError"], FileNotFoundError),
        ("JSONDecodeError", ["ValueError", "Exception", "BaseException", "object"], ValueError),
        ("Mine", ["Exception", "BaseException", "object"], RemoteError),
        ("Nothing", [], RemoteError),
        # IPython shows these in its own way, as if they had been raised here.
        ("SyntaxError", ["SyntaxError"], RemoteError),
        ("SystemExit", ["SystemExit", "BaseException"], RemoteError),
        ("ExceptionGroup", ["ExceptionGroup", "Exception"], RemoteError),
    ],
)
def test_an_error_of_the_host_is_caught_as_its_built_in_class(name, bases, base):
    error = remote_error({"ename": name, "evalue": "why", "traceback": ["\x1b[31mline"]}, bases)
    assert type(error).__name__ == name
    assert isinstance(error, base)
    assert isinstance(error, RemoteError)
    assert str(error) == "why"
    assert "On the TPU:\nline" in "".join(traceback.format_exception(error))


def test_an_interrupt_of_the_host_is_not_caught_as_an_ordinary_error():
    error = remote_error({"ename": "KeyboardInterrupt"}, ["KeyboardInterrupt"])
    assert isinstance(error, KeyboardInterrupt)
    assert not isinstance(error, Exception)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("connect", "Missing argument 'NAME'. (see `%tpu connect --help`)"),
        ("conect x", "No such command 'conect'. Did you mean connect"),
        ("tunnel open x y", "'y' is not PORT or PORT:LOCAL"),
        ("connect 'x", "%tpu: no closing quotation"),
    ],
)
def test_a_wrong_line_is_one_sentence_and_does_not_end_the_kernel(line, complaint):
    with pytest.raises(MagicError, match=re.escape(complaint)):
        _run(grammar.line, line, NotebookKernels({}))


@pytest.mark.parametrize("line", ["", "--help", "tunnel open --help"])
def test_help_is_printed_and_runs_nothing(line, capsys):
    assert _run(grammar.line, line, NotebookKernels({})) is None
    assert capsys.readouterr().out.startswith("Usage: %tpu ")


def test_the_line_of_a_cell_names_a_tpu_and_its_options():
    def options(line: str) -> Any:
        return _run(kernel_grammar.cell, line, NotebookKernels({}))

    assert options("") == (None, None, None, True, False, None)
    assert options("my-tpu --env other") == ("my-tpu", "other", None, True, False, None)
    assert options("--no-wait --out x --unpickle") == (None, None, "x", False, True, None)
    assert options("my-pod --all-hosts").all_hosts is True
    assert options("--help") is None
    with pytest.raises(MagicError, match="'1x' is not the name of a variable"):
        options("--out 1x")


@pytest.mark.parametrize("command", ["push", "pull", "auto", "status", "connect"])
def test_each_command_has_help(command, capsys):
    assert _run(grammar.line, f"{command} --help", NotebookKernels({})) is None
    assert f"Usage: %tpu {command}" in capsys.readouterr().out
