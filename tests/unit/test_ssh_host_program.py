"""What is sent to a host is all that a program there needs."""

import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_tpu.on_host.packing import BOOT, PACKAGE, argument, program
from jupyter_tpu.ssh.host_program import COMMAND, NO_PYTHON

PROGRAMS = [
    "agent.keeper.run_keeper", "chips.machine", "environments.main", "profiles.main",
    "files.project", "unattended.main", "files.requests", "files.copy.main", "ssh.clean_shell",
    "ssh.install_agent",
]  # fmt: skip
#: All modules are imported, also those that a function imports.
IMPORT_ALL = """
import importlib
def run(texts):
    sys.meta_path.insert(0, Sources(texts))
    for module in texts:
        importlib.import_module(module)
    print(len(texts))
run_input()
"""


@pytest.mark.parametrize("main", PROGRAMS)
def test_a_program_brings_all_that_it_imports(main):
    """Without the packages of this environment."""
    boot = BOOT.replace("\nrun_input()", IMPORT_ALL)
    assert boot != BOOT
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", boot], input=program(main), capture_output=True
    )
    assert (done.stderr, done.returncode) == (b"", 0)
    assert int(done.stdout) > 0


@pytest.mark.parametrize("as_argument", [False, True])
def test_a_package_of_the_same_name_on_the_host_is_not_used(tmp_path, as_argument):
    other = tmp_path / PACKAGE
    other.mkdir()
    (other / "__init__.py").write_text("raise SystemExit('another version')")
    main = "ssh.clean_shell"
    text = argument(main) if as_argument else BOOT
    words = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{text}"]
    done = subprocess.run(
        [*words, "echo $((6 * 7))"],
        input=b"" if as_argument else program(main),
        env={"SHELL": "/bin/sh", "PATH": "/usr/bin:/bin"},
        capture_output=True,
    )
    assert (done.stdout, done.stderr) == (b"42\n", b"")


def test_a_host_without_a_python_says_so(tmp_path):
    shell = Path("/bin/sh").resolve()
    script = COMMAND[2].replace("/usr/", f"{tmp_path}/").replace("/opt/", f"{tmp_path}/")
    done = subprocess.run(
        [shell, "-c", script, *COMMAND[3:]], env={"PATH": str(tmp_path)}, stdin=subprocess.DEVNULL
    )
    assert done.returncode == NO_PYTHON
