"""The pages in docs/how-to: their commands are typed in their order, with an emulated TPU."""

import re
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from cli_shell import Shell, nodes, running_server
from waiting import until

PAGES = Path(__file__).parents[2] / "docs" / "how-to"
LIMIT = 600.0  # seconds for a command; the first environment downloads JAX
SCRIPT = """\
import os, jax
print(jax.process_index(), "of", jax.device_count())
os.makedirs("results", exist_ok=True)
open("results/devices", "w").write(str(jax.device_count()))
"""
#: What these would fetch is on other people's computers.
ELSEWHERE = ("github.com/me/project",)
#: With a checkpoint in the home folder.
TRAINING = """\
import jax, time
from pathlib import Path
step = Path.home() / "checkpoints" / "step"
print(f"continues after {step.read_text()}" if step.exists() else "begins", jax, flush=True)
step.parent.mkdir(exist_ok=True)
step.write_text("7")
time.sleep(3600)
"""


def commands(page: str, language: str = "") -> Iterator[list[str]]:
    """The words of each command in blocks of this language. ```sh are the old ways on most pages,
    and lines of magics are typed elsewhere.
    """
    text = (PAGES / page).read_text()
    blocks = re.findall(r"^( *)```(\w*)\n(.*?)^\1```$", text, re.MULTILINE | re.DOTALL)
    for lines in [block[2] for block in blocks if block[1] == language]:
        for line in lines.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words and words[0] != "%tpu" and not any(name in line for name in ELSEWHERE):
                yield words


def own_commands(page: str) -> Iterator[list[str]]:
    """The same, where each is one of ``jupyter tpu``; without these two words."""
    for words in commands(page):
        assert words[:2] == ["jupyter", "tpu"], words
        yield words[2:]


def type_command(user: Shell, words: Sequence[str]) -> str:
    done = user.run(*words, limit=LIMIT)
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture
def user(shell: Shell) -> Iterator[Shell]:
    """A user in the folder of a project, whose JupyterLab runs."""
    (shell.folder / "train.py").write_text(SCRIPT)
    subprocess.run(["git", "init", "--quiet", shell.folder], check=True)
    with running_server(shell):
        yield shell
        for hunt in shell.json("hunt", "list", "--json"):
            shell.run("hunt", "stop", hunt["id"], "--yes")
        for tpu in shell.json("list", "--json")["tpus"]:
            shell.run("delete", f"{tpu['zone']}~{tpu['name']}", "--yes")


@pytest.mark.long
@pytest.mark.parametrize(
    ("page", "number"),
    [("overnight.md", 5), ("notebook-on-4-hosts.md", 3), ("no-capacity.md", 2)],
)
def test_the_commands_of_a_page_do_what_it_says(user, page, number):
    typed = list(own_commands(page))
    assert len(typed) == number
    for words in typed:
        type_command(user, words)
        if words[:2] == ["job", "start"]:
            name = words[words.index("--tpu") + 1]
            until(
                lambda name=name: (
                    [job["state"] for job in user.json("job", "list", name, "--json")] == ["ended"]
                ),
                LIMIT,
            )
            assert " of " in type_command(user, ("logs", name))
    for tpu in user.json("list", "--json")["tpus"]:
        assert tpu["state"] == "READY"


@pytest.mark.long
def test_several_notebooks_get_chips_of_their_own(user):
    words = ("--type", "v5litepod-4", "--zone", "us-west4-a", "--connect")
    type_command(user, ("create", "my-tpu", *words))
    for words in own_commands("several-notebooks.md"):
        type_command(user, words)
    assert len(user.json("kernel", "list", "--json")) == 5


@pytest.mark.long
def test_a_hunt_within_a_grant_costs_nothing_and_counts_its_chips(user):
    typed = list(own_commands("free-grant.md"))
    assert [words[:2] for words in typed] == [["grant", "add"], ["grant", "add"], ["hunt", "start"]]
    for words in typed:
        type_command(user, words)
    until(lambda: ready(user, "my-tpu"), LIMIT)
    uses = {use["grant"]["name"]: use for use in user.json("grant", "list", "--json")}
    assert uses["trc-v5e"]["used"] == 8
    (tpu,) = user.json("list", "--json")["tpus"]
    assert tpu["cost"]["usd_per_hour"] == 0


@pytest.mark.long
def test_a_job_goes_on_on_the_tpu_that_a_hunt_finds_after_a_preemption(user, emulator, faults):
    options = ("--type", "v5litepod-8", "--zone", "us-west4-a", "--spot", "--connect")
    type_command(user, ("create", "my-tpu", *options))
    (user.folder / "project").mkdir()
    (user.folder / "project" / "train.py").write_text(TRAINING)
    emulator.request("POST", "/storage/v1/b?project=emulated", {"name": "my-bucket"})
    typed = list(own_commands("survive-preemption.md"))
    assert [words[:2] for words in typed] == [
        ["sync", "project"], ["home", "set"], ["job", "start"], ["hunt", "start"]
    ]  # fmt: skip
    for words in typed:
        type_command(user, words)
    until(lambda: "begins" in user.run("logs", "my-tpu").stdout, LIMIT)
    assert "Saved 1 file" in type_command(user, ("home", "save", "my-tpu"))
    (first,) = nodes(emulator)
    faults(kind="no-capacity", zone="us-west4-a")
    faults(kind="preempt", node=first["name"])

    def again() -> bool:
        now = nodes(emulator)
        return len(now) == 1 and now[0]["id"] != first["id"] and ready(user, "my-tpu")

    until(again, LIMIT)

    def started_again() -> bool:
        return [
            (job["attempts"][-1]["number"], job["state"], job["zone"] != "us-west4-a")
            for job in user.json("job", "list", "my-tpu", "--json")
        ] == [(2, "running", True)]

    until(started_again, LIMIT, lambda: user.run("job", "list", "my-tpu", "--json").stdout)
    until(lambda: "module 'jax'" in user.run("logs", "my-tpu").stdout, LIMIT)
    assert "continues after 7" in user.run("logs", "my-tpu").stdout


@pytest.mark.long
def test_what_a_script_types_needs_no_terminal(user):
    (user.folder / "tests").mkdir()
    (user.folder / "tests" / "on_tpu.py").write_text(SCRIPT)
    typed = [words[2:] for words in commands("from-a-script.md", "sh") if words[0] == "jupyter"]
    assert [words[0] for words in typed] == ["run", "create", "run", "delete", "api", "api"]
    for words in typed[:4]:
        type_command(user, words)
    assert next((user.folder / "results").rglob("devices")).read_text() == "1"
    assert user.json("list", "--json")["tpus"] == []
    for words in typed[4:]:
        type_command(user, words)
    assert ready(user, "ci-tpu")


@pytest.mark.long
def test_the_commands_beside_gclouds_do_the_same(user):
    (user.folder / "data").mkdir()
    (user.folder / "data" / "numbers").write_text("1 2 3\n")
    text = (PAGES / "from-gcloud.md").read_text()
    typed = [shlex.split(command)[2:] for command in re.findall(r"\| `(jupyter tpu .*?)`", text)]
    verbs = ["create", "list", "describe", "ssh", "run", "copy", "copy", "tunnel", "stop"]
    assert [words[0] for words in typed][: len(verbs)] == verbs
    for words in typed[: len(verbs)]:
        if "my-pod:" in words:
            continue  # the same with another TPU
        more = {"ssh": ["true"], "create": ["--yes"], "stop": ["--yes"]}.get(words[0], [])
        type_command(user, (*words, *more))
    assert "1 2 3" in type_command(user, ("start", "my-tpu")) + type_command(
        user, ("run", "my-tpu", "--", "cat", "data/numbers")
    )
    type_command(user, ("connect", "my-tpu"))
    type_command(user, ("env", "list", "my-tpu", "--found"))


def ready(user: Shell, name: str) -> bool:
    return any(
        (tpu["name"], tpu["state"]) == (name, "READY")
        for tpu in user.json("list", "--json")["tpus"]
    )
