"""How commands are spelled for a host's shell, and what their failure is called."""

import pickle
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_tpu.errors import ConnectionLost, Reason
from jupyter_tpu.ssh.command import CompletedCommand, command_error, command_line, relative_to_home

WORDS = st.lists(st.text(st.characters(exclude_characters="\0")), min_size=1)


@given(WORDS)
def test_a_shell_sees_the_very_words(words):
    assert shlex.split(command_line(words)) == ["exec", *words]


@given(WORDS, st.text(st.characters(exclude_characters="\0")))
def test_variables_and_folder_are_quoted_too(words, value):
    line = command_line(words, {"NAME": value}, value)
    start = ["cd", relative_to_home(value), "&&", "exec", "env", f"NAME={value}"]
    assert shlex.split(line) == [*start, *words]


@pytest.mark.parametrize("name", ["A B", "A=B", "1A", "", "A;rm"])
def test_a_variables_name_must_be_one(name):
    with pytest.raises(ValueError, match="variable"):
        command_line(["true"], {name: ""})


def test_the_home_folder_is_where_a_session_starts():
    assert relative_to_home("~") == "."
    assert relative_to_home("~/a b") == "./a b"
    assert relative_to_home("~//etc") == "./etc"
    assert relative_to_home("~other/x") == "~other/x"
    assert relative_to_home("/tmp/~") == "/tmp/~"


def failed(returncode: int, stderr: str):
    return command_error(
        ["/usr/bin/uv", "x"],
        CompletedCommand(returncode=returncode, stdout="", stderr=stderr),
        "my-tpu",
    )


def test_a_failure_is_named_by_its_last_line_and_keeps_its_output():
    error = failed(2, "warning\nno such package: jaxx\n\n")
    assert error.message == "uv failed on my-tpu with status 2: no such package: jaxx."
    assert error.completed.stderr.startswith("warning")
    again = pickle.loads(pickle.dumps(error))
    assert (again.message, again.completed) == (error.message, error.completed)


def test_a_full_disk_a_signal_and_a_missing_command_are_told_apart():
    assert failed(1, "write error: No space left on device").reason is Reason.DISK_FULL
    assert "signal 9" in failed(-9, "").message
    assert "uv was not found on my-tpu" in failed(127, "").message


def test_a_lost_connection_is_the_same_error_in_another_process():
    error = ConnectionLost("my-tpu", "no answer")
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert again.message == "The connection to my-tpu was lost: no answer."
    assert (again.reason, again.peer, again.cause) == (Reason.UNREACHABLE, "my-tpu", "no answer")
