"""An attached machine is used like a TPU: `jupyter tpu` beside a server, and a real host."""

import contextlib
import json
import re
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from cli_shell import Shell, running_server
from own_sshd import path_with_ssh
from ports import free_port
from running_kernel import running_kernel
from waiting import until


@pytest.mark.long
def test_kernels_runs_files_jobs_and_tunnels_of_an_attached_machine(emulator, create_tpu, tmp_path):
    """The machine is a host of the emulator, behind a ProxyCommand of the user's ssh."""
    tpu = create_tpu(type="v5litepod-1")["name"].rpartition("/")[2]
    shell = shell_that_reaches(emulator, tmp_path, tpu)
    assert "is not the name of a machine" in shell.complaint("attach", "a;b")
    assert "`ssh nowhere.invalid` works" in shell.complaint("attach", "nowhere.invalid")
    with running_server(shell):
        output = shell.out("attach", tpu, "--name", "box")
        assert output.startswith("box is attached (no TPU chips). JAX uses its CPU.")
        assert shell.out("attach", tpu, "--name", "box") == output  # again
        assert "is the name of a TPU in us-central1-a" in shell.complaint("attach", tpu)
        (row,) = [line for line in shell.out("list").splitlines() if line.startswith("box")]
        assert re.split(r"  +", row)[1:3] == ["attached", "no TPU"]
        assert "emulated" not in row
        assert f"ssh {tpu}" in shell.out("describe", "box")

        shell.out("connect", "box", limit=500)
        (tmp_path / "data.txt").write_text("there and back")
        does(shell, "copy", str(tmp_path / "data.txt"), "box:")
        assert shell.out("run", "box", "--", "cat", "data.txt") == "there and back"
        hostname = shell.out("run", "box", "--", "hostname").strip()
        (spec,) = shell.json("describe", "box", "--json")["environments"]
        assert "emulated" not in spec["display_name"]
        assert shell.json("api", "GET", "tpus/box/metrics")["emulated"] is False
        code = "import jax, socket; print(jax.devices()[0].platform, socket.gethostname())"
        with running_kernel(shell.environment, spec["kernelspec"]) as run:
            assert run(code) == f"cpu {hostname}\n"

        port = free_port()
        does(shell, "job", "start", "box", "--", "python3", "-m", "http.server", "8321")
        does(shell, "tunnel", "open", "box", f"8321:{port}")

        def served() -> bool:
            with contextlib.suppress(OSError):
                url = f"http://127.0.0.1:{port}/data.txt"
                return urllib.request.urlopen(url, timeout=30).read() == b"there and back"
            return False

        until(served)
        assert "is an attached machine" in shell.complaint("delete", "box")
        assert "This ends 1 job" in shell.complaint("detach", "box")
        assert "Detached box. Its files stay." in does(shell, "detach", "box", "--yes")
        assert not any(line.startswith("box") for line in shell.out("list").splitlines())
        assert "box" not in shell.out("kernel", "list")
    running = shell.out("run", tpu, "--", "sh", "-c", "ps -e -o args")
    assert "http.server" not in running
    assert "ipykernel" not in running


@pytest.mark.long
def test_two_attached_machines_are_used_as_one_tpu(emulator, create_tpu, tmp_path):
    """The machines are the hosts of an emulated pod, behind a ProxyCommand of the user's ssh."""
    tpu = create_tpu(type="v4-16", zone="us-central2-b")["name"].rpartition("/")[2]
    aliases = [f"{tpu}-1", tpu]  # in another order than that of the pod
    shell = shell_that_reaches(emulator, tmp_path, *aliases)
    hostnames = [ssh(shell, alias, "hostname") for alias in aliases]
    assert "need a name" in shell.complaint("attach", *aliases)
    output = shell.out("attach", *aliases, "--name", "pair")
    assert output.startswith("pair is attached (2 hosts · no TPU chips).")
    described = shell.out("describe", "pair")
    assert f"ssh {aliases[0]}, ssh {aliases[1]}" in described
    assert re.search(r"type +2 SSH hosts without a TPU\n", described)
    with running_server(shell):
        # `jax.distributed` has worked between them when this ends.
        shell.out("connect", "pair", limit=500)
        (environment,) = shell.json("describe", "pair", "--json")["environments"]
        code = "import jax, socket; print(jax.devices()[0].platform, socket.gethostname())"
        with running_kernel(shell.environment, environment["kernelspec"]) as run:
            assert run(code) == f"cpu {hostnames[0]}\n"
        (tmp_path / "data.txt").write_text("there and back")
        does(shell, "copy", "--worker", "all", str(tmp_path / "data.txt"), "pair:")
        command = "import pathlib, socket; print(socket.gethostname(), pathlib.Path('data.txt')"
        command += ".read_text())"
        ran = json.loads(does(shell, "run", "--json", "pair", "--", "python", "-c", command))
        assert [host["stdout"] for host in ran["hosts"]] == [
            f"{name} there and back\n" for name in hostnames
        ]
        on_second = shell.out("ssh", "pair", "--worker", "1", "--command", "hostname")
        assert on_second.strip() == hostnames[1]
        does(shell, "job", "start", "pair", "--", "sh", "-c", "echo at work; sleep 4321")
        assert "Detached pair. Its files stay." in does(shell, "detach", "pair", "--yes")
    for alias in aliases:
        assert "sleep 4321" not in ssh(shell, alias, "ps -e -o args").splitlines()


def shell_that_reaches(emulator: Any, folder: Path, *aliases: str) -> Shell:
    """One whose `ssh` reaches emulated hosts by their names in `ssh-config`, and has their keys."""
    config = folder / "ssh_config"
    shell = Shell(folder, **emulator.environment, PATH=path_with_ssh(folder / "bin", config))
    config.write_text(shell.out("ssh-config"))
    for alias in aliases:
        ssh(shell, alias, "true")  # it pins the key
    return shell


def ssh(shell: Shell, alias: str, command: str) -> str:
    """What *command* prints there."""
    words = ["ssh", alias, command]
    done = subprocess.run(
        words, env=shell.environment, check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout.strip()


def does(shell: Shell, *words: str) -> str:
    """What a command says that succeeds, and may tell of its progress."""
    done = shell.run(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout
