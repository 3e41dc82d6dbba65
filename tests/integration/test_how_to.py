"""The pages in docs/how-to: their commands are typed in their order, with an emulated TPU."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_shell import Shell, running_server
from waiting import until

PAGES = Path(__file__).parents[2] / "docs" / "how-to"
LIMIT = 600.0  # seconds for a command; the first environment downloads JAX
#: What these would fetch is on other people's computers.
ELSEWHERE = ("github.com/me/project",)
SCRIPT = "import jax\nprint(jax.process_index(), 'of', jax.device_count())\n"


def commands(page: str) -> Iterator[list[str]]:
    """The words of each command of the page, but for the old ways beside it (```sh)."""
    text = (PAGES / page).read_text()
    for block in re.findall(r"^( *)```\n(.*?)^\1```$", text, re.MULTILINE | re.DOTALL):
        for line in block[1].replace("\\\n", " ").splitlines():
            if not line.strip() or any(name in line for name in ELSEWHERE):
                continue
            words = shlex.split(line, comments=True)
            assert words[:2] == ["jupyter", "tpu"], line
            yield words[2:]


@pytest.fixture
def user(shell: Shell) -> Iterator[Shell]:
    """A user in the folder of a project, whose JupyterLab runs."""
    (shell.folder / "train.py").write_text(SCRIPT)
    with running_server(shell):
        yield shell


@pytest.mark.long
@pytest.mark.parametrize(
    ("page", "number"),
    [("overnight.md", 5), ("notebook-on-4-hosts.md", 3), ("no-capacity.md", 2)],
)
def test_the_commands_of_a_page_do_what_it_says(user: Shell, page: str, number: int) -> None:
    typed = list(commands(page))
    assert len(typed) == number
    for words in typed:
        done = user.run(*words, limit=LIMIT)
        assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
        if words[:2] == ["job", "start"]:
            name = words[words.index("--tpu") + 1]
            until(
                lambda name=name: (
                    [job["state"] for job in user.json("job", "list", name, "--json")] == ["ended"]
                ),
                LIMIT,
            )
            assert " of " in user.out("logs", name)
    for tpu in user.json("list", "--json")["tpus"]:
        assert tpu["state"] == "READY"
        user.run("delete", tpu["name"], "--yes")


@pytest.mark.long
def test_several_notebooks_get_chips_of_their_own(user: Shell) -> None:
    words = ("--type", "v5litepod-4", "--zone", "us-west4-a", "--connect")
    assert user.run("create", "my-tpu", *words, limit=LIMIT).returncode == 0
    for words in commands("several-notebooks.md"):
        done = user.run(*words, limit=LIMIT)
        assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    assert len(user.json("kernel", "list", "--json")) == 5
    user.run("delete", "my-tpu", "--yes")
