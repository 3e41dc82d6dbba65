"""What is sent to a host is all that a program there needs."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from jupyter_tpu.ssh.host_program import BOOT, COMMAND, NO_PYTHON, argument, program

PROGRAMS = [
    "on_host.agent.keeper.run_keeper",
    "on_host.chips.machine",
    "on_host.environments.main",
    "on_host.profiles.main",
    "on_host.files.project",
    "on_host.unattended.main",
    "on_host.files.requests",
    "on_host.files.copy.main",
    "on_host.ssh.clean_shell",
    "on_host.ssh.install_agent",
]
#: Without the packages of this environment, and with all modules imported, also those that a
#: function imports.
ALONE = """
import importlib, sys
def import_all(name):
    for module in sources:
        importlib.import_module(module)
    print(len(sources))
    sys.exit()
"""


@pytest.mark.parametrize("main", PROGRAMS)
def test_a_program_brings_all_that_it_imports(main: str) -> None:
    head, _, rest = BOOT.rpartition("__import__(main)")
    assert rest
    boot = f"{head}{ALONE}import_all(main)"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", boot], input=program(main), capture_output=True
    )
    assert (done.stderr, done.returncode) == (b"", 0)
    assert int(done.stdout) > 0


@pytest.mark.parametrize("main", PROGRAMS)
def test_a_program_has_no_docstrings_and_the_line_numbers_of_its_sources(main: str) -> None:
    sent = json.loads(zlib.decompress(program(main).partition(b"\n")[2]))
    for name, text in sent.items():
        path = Path(*name.split(".")).with_suffix(".py")
        original = (Path(__file__).parents[2] / path).read_text("utf-8")
        assert text.count("\n") == original.count("\n")
        trees = [ast.parse(source) for source in (text, original)]
        for node in ast.walk(trees[1]):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                doc = node.body[0]
                if ast.get_docstring(node) is not None:
                    doc.value.value = ""  # type: ignore[attr-defined]
        assert ast.dump(trees[0]) == ast.dump(trees[1])


@pytest.mark.parametrize("as_argument", [False, True])
def test_a_package_of_the_same_name_on_the_host_is_not_used(
    tmp_path: Path, as_argument: bool
) -> None:
    other = tmp_path / "jupyter_tpu"
    other.mkdir()
    (other / "__init__.py").write_text("raise SystemExit('another version')")
    main = "on_host.ssh.clean_shell"
    text = argument(main) if as_argument else BOOT
    words = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{text}"]
    done = subprocess.run(
        [*words, "echo $((6 * 7))"],
        input=b"" if as_argument else program(main),
        env={"SHELL": "/bin/sh", "PATH": "/usr/bin:/bin"},
        capture_output=True,
    )
    assert (done.stdout, done.stderr) == (b"42\n", b"")


def test_a_host_without_a_python_says_so(tmp_path: Path) -> None:
    shell = Path("/bin/sh").resolve()
    script = COMMAND[2].replace("/usr/", f"{tmp_path}/").replace("/opt/", f"{tmp_path}/")
    done = subprocess.run(
        [shell, "-c", script, *COMMAND[3:]], env={"PATH": str(tmp_path)}, stdin=subprocess.DEVNULL
    )
    assert done.returncode == NO_PYTHON
