"""The lesson of docs/tutorial/emulator.md: each of its commands is typed into a real terminal, each
of its cells runs in a notebook's kernel, and what the page says they print is what they print.
"""

import ast
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pexpect
import pytest
from adoption_server import FOLDERS, CountingClient, Server
from waiting import until

PAGE = Path(__file__).parents[2] / "docs" / "tutorial" / "emulator.md"
#: They run until Ctrl-C.
SERVERS = ("jupyter tpu emulator", "jupyter lab")
#: These lines are typed by test_readme.py; here the package is this repository's.
INSTALL = (
    "git clone https://github.com/jupyter-tpu/jupyter-tpu",
    "pip install ./jupyter-tpu jupyterlab",
)
SHUT_DOWN = "<!-- The test shuts the kernel down. -->"
PROMPT = "[ready]"
LIMIT = 240  # seconds for a command; the first environment downloads JAX


class Part(NamedTuple):
    """A block of code of the page, or a comment to the test."""

    kind: str  # "bash", "python", "text", or "comment"
    title: str
    text: str


def parts(page: str) -> Iterator[Part]:
    pattern = r'^```(\w+)(?: title="([^"]*)")?\n(.*?)^```$|^(<!-- The test .*? -->)$'
    for match in re.finditer(pattern, page, re.MULTILINE | re.DOTALL):
        if match[4]:
            yield Part("comment", "", match[4])
        else:
            yield Part(match[1], match[2] or "", match[3])


def lacks(expected: str, printed: str) -> list[str]:
    """The lines of *expected*, in which "…" is any text, that are not among those printed. A step
    that is over at once ("my-tpu: Check the hosts") may be missing.
    """
    lines = [line.rstrip() for line in printed.splitlines()]
    lasting = (line for line in expected.splitlines() if not line.startswith("my-tpu: "))
    patterns = (re.escape(line).replace("…", ".*") for line in lasting)
    return [pattern for pattern in patterns if not any(re.fullmatch(pattern, x) for x in lines)]


class Terminal:
    """A shell in a terminal."""

    def __init__(self, environment: dict[str, str], folder: Path) -> None:
        self.shell = pexpect.spawn(
            "bash",
            ["--norc", "--noprofile"],
            env={**environment, "PS1": PROMPT, "TERM": "dumb", "COLUMNS": "150"},
            cwd=str(folder),
            encoding="utf-8",
            codec_errors="replace",
            echo=False,
            dimensions=(50, 150),
            timeout=LIMIT,
        )
        self.printed = ""
        self.serves = False
        self._wait()

    def type(self, commands: str) -> None:
        """Types lines. Each must succeed; one that serves goes on."""
        if self.serves:
            self.interrupt()
        self.printed = ""
        for line in commands.splitlines():
            if line in INSTALL:
                continue
            self.shell.sendline(line)
            self.serves = line in SERVERS
            if self.serves:
                return
            self._wait()
            output = self.printed
            self.shell.sendline("echo exit code $?")
            self._wait()
            assert self.printed.removeprefix(output).strip() == "exit code 0", self.printed
            self.printed = output

    def show(self, expected: str) -> None:
        """Waits until the lines that are expected are there."""
        while self.serves and lacks(expected, self.printed):
            try:
                self.printed += self.shell.read_nonblocking(4096, LIMIT)
            except (pexpect.TIMEOUT, pexpect.EOF):
                break
        assert lacks(expected, self.printed) == [], self.printed

    def interrupt(self) -> None:
        """Ctrl-C, and again where Jupyter asks whether that is meant."""
        self.shell.sendintr()
        if self.shell.expect_exact([PROMPT, "Shut down this Jupyter server"]) == 1:
            self.shell.sendintr()
            self._wait()
        self.serves = False

    def close(self) -> None:
        if self.serves:
            self.interrupt()
        self.shell.close(force=True)

    def _wait(self) -> None:
        self.shell.expect_exact(PROMPT)
        self.printed += self.shell.before


class Lab(Server):
    """The JupyterLab that the lesson starts: opened by the address that it prints."""

    def __init__(self) -> None:
        self.process = None

    def open(self, printed: str) -> None:
        address = re.search(r"http://localhost:(\d+)/lab\?token=(\w+)", printed)
        assert address, printed
        self.port, self.token = int(address[1]), address[2]
        until(self.is_open)

    def is_open(self) -> bool:
        try:
            self.request("GET", "/api/kernels")
        except OSError:
            return False
        return True


class Notebook:
    """A notebook on the TPU, by the websocket that JupyterLab's page uses."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        specs = lab.request("GET", "/api/kernelspecs")["kernelspecs"]
        [name] = [n for n, spec in specs.items() if " · my-tpu" in spec["spec"]["display_name"]]
        body = {"name": "", "path": "Untitled.ipynb", "type": "notebook", "kernel": {"name": name}}
        self.kernel = lab.request("POST", "/api/sessions", body)["kernel"]["id"]
        self.client = CountingClient(lab, self.kernel)
        self.client.connect(LIMIT)
        self.cells: list[str] = []

    def run(self, code: str) -> None:
        """Starts a cell; what it prints is for `show`."""
        self.cells.append(self.client.execute(code))
        self.client.until(lambda message: message["msg_type"] == "execute_input", LIMIT)

    def show(self, expected: str) -> None:
        self.client.until_done(self.cells[-1], LIMIT)
        printed = self.client.printed(self.cells[-1])
        assert lacks(expected, printed) == [], printed
        errors = [m["content"] for m in self.client.messages if m["msg_type"] == "error"]
        assert errors == []

    def leave(self) -> None:
        """When the cell has printed something; its output is then left to the next server."""
        self.client.until(lambda message: message["msg_type"] == "stream", LIMIT)
        self.close()

    def shut_down(self) -> None:
        self.close()
        self.lab.request("DELETE", f"/api/kernels/{self.kernel}")

    def close(self) -> None:
        self.client.socket.close()


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The environment of a new user, whose Jupyter may be root's and opens no browser."""
    own = {name: value for name, value in os.environ.items() if name != "JUPYTER_TPU_EMULATOR"}
    for variable, name in FOLDERS.items():
        (tmp_path / name).mkdir(mode=0o700)
        own[variable] = str(tmp_path / name)
    (tmp_path / "config" / "jupyter_server_config.json").write_text(
        '{"ServerApp": {"allow_root": true}, "LabApp": {"open_browser": false}}'
    )
    own["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{own['PATH']}"
    return own


@pytest.mark.long
def test_what_the_lesson_says_is_what_happens(environment, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    terminals: dict[str, Terminal] = {}
    lab, notebook = Lab(), None
    last: Terminal | Notebook | None = None
    ran: list[str] = []
    try:
        for part in parts(PAGE.read_text()):
            if part.kind == "bash":
                if part.title not in terminals:
                    terminals[part.title] = Terminal(environment, work)
                last = terminals[part.title]
                if last.serves and notebook:
                    notebook.leave()
                last.type(part.text)
                ran += part.text.splitlines()
            elif part.kind == "python" and part.title.endswith(".py"):
                (work / part.title).write_text(part.text)
            elif part.kind == "python":
                last = notebook = notebook or Notebook(lab)
                notebook.run(part.text)
            elif part.kind == "comment":
                assert part.text == SHUT_DOWN
                assert notebook
                notebook.shut_down()
            else:
                if part.title == "The cell":
                    assert notebook
                    last = notebook
                    notebook.client.connect(LIMIT)
                assert last
                last.show(part.text)
                if isinstance(last, Terminal) and "/lab?token=" in part.text:
                    lab.open(last.printed)
    finally:
        for terminal in reversed(terminals.values()):
            terminal.close()
    assert len(ran) >= 12
    assert notebook
    assert len(notebook.cells) == 3


def test_the_lesson_has_nothing_that_its_test_would_skip():
    """Every block is of a kind that the test runs or compares."""
    page = PAGE.read_text()
    blocks = list(parts(page))
    assert page.count("\n```") == 2 * sum(part.kind != "comment" for part in blocks)
    assert {part.kind for part in blocks} == {"bash", "python", "text", "comment"}
    for part in blocks:
        if part.kind == "python":
            ast.parse(part.text)
        elif part.kind == "bash":
            assert re.fullmatch(r"Terminal [123]", part.title)
    # What comes first in a block of output is what has just been started.
    assert blocks[0].kind == "bash"


def test_three_dots_are_any_text_and_missing_lines_are_named():
    assert lacks("a…b\nc", "x\na (5) b\nc \n") == []
    assert lacks("step 2\nstep 1", "step 1\nstep 3\n") == [re.escape("step 2")]
