"""What is started in the user's folder imports none of their files in place of Python's."""

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_tpu.python_command import SAFE_PATH, module_command

REPOSITORY = Path(__file__).parents[2]
PACKAGE = REPOSITORY / "jupyter_tpu"

#: Files that name this Python themselves: those that run on hosts, and those that say why.
ON_HOSTS = ("on_host/", "emulator/hosts/")
OTHERS = {
    "python_command.py": "makes the commands",
    "cli/proxy.py": "-I -S, for a program of the standard library only",
    "commands/job_export.py": "only to ask which Python has a tool",
}


@pytest.mark.parametrize("module", ["select", "queue", "random"])
def test_a_projects_own_files_are_not_imported(module, tmp_path):
    (tmp_path / f"{module}.py").write_text("raise RuntimeError('of the project')")
    program = [*module_command("x")[:1], "-c", f"{SAFE_PATH}import {module}"]
    for command in (module_command("jupyter_tpu.cli", "--version"), program):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


def named_pythons() -> Iterator[str]:
    """Files of the package that name the running Python."""
    for path in PACKAGE.rglob("*.py"):
        name = path.relative_to(PACKAGE).as_posix()
        names = ast.walk(ast.parse(path.read_text()))
        if not name.startswith(ON_HOSTS) and any(
            isinstance(part, ast.Attribute) and part.attr == "executable" for part in names
        ):
            yield name


def test_all_commands_with_this_python_are_made_in_one_place():
    assert set(named_pythons()) == set(OTHERS)


def test_the_extension_of_vs_code_has_one_place_for_them_too():
    places = [
        path.name
        for path in (REPOSITORY / "vscode" / "src").rglob("*.ts")
        for _ in range(path.read_text().count("'-m'"))
    ]
    assert places == ["localServer.ts"]
