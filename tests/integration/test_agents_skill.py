"""`jupyter tpu skill`: short, and each of its commands works as it stands there."""

import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_shell import COMMAND, Shell, nodes, running_server


@pytest.fixture
def shell(emulator: Any, tmp_path: Path, faults: Any) -> Iterator[Shell]:
    yield Shell(tmp_path, **emulator.environment, JUPYTER_TPU_PROJECT_SYNC="off")
    for node in nodes(emulator):
        if re.search("/(my-tpu|once-train-[0-9a-f]+)$", node["name"]):
            emulator.wait(emulator.request("DELETE", f"/v2/{node['name']}"))


def test_the_skill_is_short_and_says_what_it_is_for(shell):
    text = shell.out("skill")
    assert len(text.splitlines()) <= 200
    head = text.split("---")[1]
    assert "name: jupyter-tpu" in head
    assert "description: " in head


@pytest.mark.long
def test_each_command_of_the_skill_works_for_an_agent_inside_its_budget(shell, emulator):
    blocks = re.findall(r"^```\n(.*?)^```", shell.out("skill"), re.MULTILINE | re.DOTALL)
    commands = [line for block in blocks for line in block.splitlines()]
    assert len(commands) > 15
    plan = ""
    with running_server(shell):
        shell.out("budget", "set", "agent", "--day", "20")
        project = shell.folder / "root"
        shell.out("budget", "set", "agent", "--folder", str(project))
        (project / "train.py").write_text(
            "import pathlib, sys\n"
            "pathlib.Path('results').mkdir()\n"
            "pathlib.Path('results/log.txt').write_text(' '.join(sys.argv[1:]))\n"
        )
        (project / "notes.txt").write_text("a note")
        environment = {**shell.environment, "JUPYTER_TPU_AGENT": "1"}
        for line in commands:
            words = shlex.split(line.replace("PLAN_ID", plan))
            assert words[:2] == ["jupyter", "tpu"], line
            done = subprocess.run(
                [*COMMAND, *words[2:]],
                env=environment,
                cwd=project,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=900,
            )
            # Emulated hosts have no chips, which the doctor says with its exit code.
            allowed = (0, 1) if "doctor" in words else (0,)
            assert done.returncode in allowed, (line, done.stdout, done.stderr)
            assert "unexpected answer" not in done.stderr, (line, done.stderr)
            if "--plan-only" in words:
                plan = json.loads(done.stdout)["id"]
        assert (project / "results/log.txt").read_text() == "--steps 3"
        assert (project / "back.txt").read_text() == "a note"
        assert not [node for node in nodes(emulator) if "/my-tpu" in node["name"]]
