"""What the command line prints: clean, whatever a host says, and in any terminal or none."""

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from jupyter_tpu.commands.scripts import as_text
from jupyter_tpu.errors import TPUError
from jupyter_tpu.terminal.printing import note, print_json
from jupyter_tpu.terminal.questions import ask
from jupyter_tpu.terminal.streams import clean_console, clean_output, write_plain
from jupyter_tpu.terminal.tables import state_text, table
from jupyter_tpu.wording import printable

#: What a terminal obeys: colours, a title, the clipboard, other lines, text that is turned around.
EVIL = "a\x1b[31mb\x1b]0;title\x07\x1b]52;c;ZXZpbA==\x1b\\\x1b[2K\rc\x9b2Jd\u202ee\x00\x7f"
OBEYED = {"\x1b", "\x07", "\r", "\x9b", "\u202e", "\x00", "\x7f"}


class Terminal(io.TextIOWrapper):
    """A stream that says it is a terminal."""

    def __init__(self, encoding: str = "utf-8") -> None:
        super().__init__(io.BytesIO(), encoding=encoding, write_through=True)

    def isatty(self) -> bool:
        return True

    def text(self) -> str:
        raw: Any = self.buffer
        return raw.getvalue().decode(self.encoding)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return Terminal()


@contextlib.contextmanager
def shown_on(terminal: Terminal) -> Iterator[None]:
    """What is printed is cleaned, and goes to *terminal*."""
    with contextlib.redirect_stdout(terminal), contextlib.redirect_stderr(terminal), clean_output():
        yield


def test_printable_text_keeps_lines_and_letters():
    assert printable("one\ttwo\r\nünf 🍰 שלום\n") == "one\ttwo\nünf 🍰 שלום\n"
    assert printable("a\x1bb") == "a\\u001bb"
    assert not OBEYED & set(printable(EVIL))


def test_what_is_printed_and_asked_is_clean(terminal):
    with shown_on(terminal):
        print(EVIL)
        note(EVIL)
        print(table(["NAME"], [[EVIL], ["x\ny"]]))
        with contextlib.suppress(OSError, ValueError, AttributeError):
            ask(f"Delete {EVIL}? ")
    text = terminal.text().replace("\x1b[1m", "").replace("\x1b[0m", "")
    assert text.count("\\u009b2Jd") == 4
    assert "x\\u000ay" in text
    assert not OBEYED & set(text)


def test_our_own_colours_and_a_program_s_own_output_pass(terminal):
    with shown_on(terminal):
        print(table(["STATE"], [[state_text("READY")]]))
        write_plain(sys.stdout, EVIL)
        write_plain(sys.stdout, b"\x1b[1mbytes\xff")
    raw: Any = terminal.buffer
    assert "\x1b[32mREADY\x1b[0m" in raw.getvalue().decode(errors="replace")
    assert EVIL.encode() + b"\x1b[1mbytes\xff" in raw.getvalue()


def test_a_bar_s_text_is_clean(terminal):
    from rich.progress import Progress, TextColumn

    with shown_on(terminal):
        console = clean_console(sys.stdout, force_jupyter=False)
        with Progress(TextColumn("{task.description}", markup=False), console=console) as bar:
            bar.add_task(EVIL, total=None)
            bar.refresh()
    assert "\\u001b]0;title" in terminal.text()
    assert "\x1b]" not in terminal.text()


def test_json_that_is_cleaned_means_the_same(terminal):
    with shown_on(terminal):
        print_json({"name": EVIL})
    assert json.loads(terminal.text()) == {"name": EVIL}
    assert not OBEYED & set(terminal.text())


def test_an_error_that_quotes_a_host_is_clean_also_in_a_log():
    error = TPUError(f"It says {EVIL}", hint=EVIL)
    assert not OBEYED & set(f"{error} {error.message} {error.hint} {error!r}")


def test_a_terminal_that_lacks_letters_gets_others_that_json_reads():
    terminal = Terminal("ascii")
    with shown_on(terminal):
        print_json({"notebook": "naïve 🍰.ipynb"})
        print("… done")
    shown, _, rest = terminal.text().partition("\\u2026")
    assert json.loads(shown) == {"notebook": "naïve 🍰.ipynb"}
    assert rest == " done\n"


# ---- the process --------------------------------------------------------------------------------


def cli(shell: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """``jupyter tpu`` in a line of bash, where it is $TPU."""
    variables = {"TPU": f"{sys.executable} -m jupyter_tpu.cli", **variables}
    return subprocess.run(
        ["bash", "-c", shell], env={**os.environ, **variables}, capture_output=True, text=True
    )


@pytest.mark.parametrize(
    ("shell", "says"),
    [
        ("$TPU --help > /dev/full", "Can't write to stdout: No space left on device."),
        ("$TPU --help >&-", "Can't write to stdout: Bad file descriptor."),
        ("$TPU describe x 2> /dev/full", ""),
        ("$TPU --help >&- 2>&-", ""),
    ],
)
def test_an_output_that_can_not_be_written_is_one_line(shell, says):
    done = cli(shell)
    assert done.returncode == 1
    assert done.stderr == (f"jupyter tpu: {says}\n" if says else "")


def test_a_closed_input_and_an_ascii_terminal_are_no_problem(tmp_path):
    assert cli("$TPU --version <&-").returncode == 0
    done = cli("$TPU --help", PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    done = cli("$TPU create --type 'größe' --zone z n", PYTHONIOENCODING="ascii")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["describe", "job list", "kernel list"])
def test_bytes_that_are_no_text_are_one_line(command):
    done = cli(f"$TPU {command} $'a\\xe4b'")
    assert done.returncode in (1, 2)
    assert done.stderr.startswith("jupyter tpu: ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_command_with_bytes_that_are_no_text_runs_with_them(shell):
    words = [b"a\xe4b", b"two words", b"$(x) 'q' \\ %s", b"end\n\n", b"", "\u00e9".encode()]
    show = "import os, sys; sys.stdout.write(repr([os.fsencode(a) for a in sys.argv[1:]]))"
    command = [sys.executable, "-c", show, *(os.fsdecode(word) for word in words)]
    sent = as_text(command)
    json.dumps(sent).encode("ascii")
    assert not any("\ud800" <= character <= "\udfff" for character in "".join(sent))
    done = subprocess.run([shell, *sent[1:]], capture_output=True, text=True, check=True)
    assert done.stdout == repr(words)
    assert as_text(["echo", "ä b"]) == ["echo", "ä b"]
