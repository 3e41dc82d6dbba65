"""What sshd is told to run, run here: shells without TCMalloc and with JAX's cache."""

import os
import pty
import subprocess
from pathlib import Path

import pytest

from jupyter_tpu.commands.ssh import _runs_no_shell
from jupyter_tpu.ssh.clean_shell import clean_shell

#: A library that does not exist: the system's loader says so, and goes on.
TCMALLOC = "libtcmalloc.so.4"
SHOW = 'echo "preload=$LD_PRELOAD cache=$JAX_COMPILATION_CACHE_DIR mine=$MINE"'


@pytest.fixture
def login(tmp_path: Path) -> dict[str, str]:
    """The variables of a session at sshd."""
    (tmp_path / "python").mkdir()
    return {
        "HOME": str(tmp_path),
        "SHELL": "/bin/bash",
        "PATH": os.environ["PATH"],
        "SSH_AUTH_SOCK": "/agent",
    }


def run(
    line: str, variables: dict[str, str], **options: object
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(  # as sshd does
        ["/bin/bash", "-c", line], env=variables, capture_output=True, timeout=60, **options
    )


def test_a_command_gets_clean_variables_its_input_and_gives_its_exit_code(login, tmp_path):
    command = f'{SHOW}; echo "it\'s $SSH_AUTH_SOCK"; cat; exit 3'
    done = run(clean_shell(command), {**login, "LD_PRELOAD": TCMALLOC}, input=b"typed\n")
    cache = f"{tmp_path}/.cache/jupyter-tpu/jax"
    assert done.stdout.decode() == f"preload= cache={cache} mine=\nit's /agent\ntyped\n"
    assert done.returncode == 3


def test_a_login_reads_the_login_files_and_is_clean_after_them(login, tmp_path):
    (tmp_path / ".profile").write_text(
        f"export LD_PRELOAD={TCMALLOC} MINE=1 JAX_COMPILATION_CACHE_DIR=gs://mine\n"
    )
    there, here = pty.openpty()
    with subprocess.Popen(
        ["/bin/bash", "-c", clean_shell()],
        env=login,
        stdin=here,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as shell:
        os.write(there, f"{SHOW}; exit 4\n".encode())
        assert shell.stdout.read() == b"preload= cache=gs://mine mine=1\n"
    os.close(there)
    os.close(here)
    assert shell.returncode == 4


def test_a_host_without_python_still_has_a_shell(login, tmp_path):
    programs = {**login, "PATH": str(tmp_path), "MINE": "1"}
    (tmp_path / "sh").symlink_to("/bin/sh")
    done = run(clean_shell(f"{SHOW}; exit 5"), programs)
    assert (done.stdout, done.returncode) == (b"preload= cache= mine=1\n", 5)
    done = run(clean_shell(), programs, input=f"{SHOW}; exit 6\n".encode())
    assert b"mine=1\n" in done.stdout
    assert done.returncode == 6


@pytest.mark.parametrize(
    ("options", "without"),
    [
        ([], False),
        (["-L", "8080:localhost:8080", "-v"], False),
        (["-o", "Number=N", "-A"], False),
        (["-fNL", "8080:localhost:8080"], True),
        (["-W", "localhost:22"], True),
        (["-s"], True),
        (["-O", "exit"], True),
    ],
)
def test_options_with_which_ssh_runs_no_shell_are_known(options, without):
    assert _runs_no_shell(options) is without
