"""An attached machine is used like a TPU: `jupyter tpu` beside a server, and a real host."""

from __future__ import annotations

import contextlib
import re
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from cli_shell import Shell, running_server
from jupyter_client import KernelManager
from own_sshd import path_with_ssh
from ports import free_port
from waiting import until


@pytest.mark.long
def test_kernels_runs_files_jobs_and_tunnels_of_an_attached_machine(
    emulator: Any, create_tpu: Any, tmp_path: Path
) -> None:
    """The machine is a host of the emulator, behind a ProxyCommand of the user's ssh."""
    tpu = create_tpu(type="v5litepod-1")["name"].rpartition("/")[2]
    config = tmp_path / "ssh_config"
    shell = Shell(tmp_path, **emulator.environment, PATH=path_with_ssh(tmp_path / "bin", config))
    config.write_text(shell.out("ssh-config"))
    subprocess.run(["ssh", tpu, "true"], env=shell.environment, check=True)  # it pins the key
    assert "is not the name of a machine" in shell.complaint("attach", "a;b")
    assert "`ssh nowhere.invalid` works" in shell.complaint("attach", "nowhere.invalid")
    with running_server(shell):
        said = shell.out("attach", tpu, "--name", "box")
        assert said.startswith("box is attached (no TPU chips). JAX uses its CPU.")
        assert shell.out("attach", tpu, "--name", "box") == said  # again
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
        assert in_kernel(shell, spec["kernelspec"], code) == f"cpu {hostname}\n"

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


def does(shell: Shell, *words: str) -> str:
    """What a command says that succeeds, and may tell of its progress."""
    done = shell.run(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def in_kernel(shell: Shell, kernelspec: str, code: str) -> str:
    """What a cell prints."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in shell.environment.items():
            patch.setenv(name, value)
        manager = KernelManager(kernel_name=kernelspec)
        manager.start_kernel()
        client = manager.client()
        client.start_channels()
        client.wait_for_ready(timeout=60)
        printed: list[str] = []
        client.execute_interactive(
            code,
            timeout=60,
            output_hook=lambda each: printed.append(each["content"].get("text", "")),
        )
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    return "".join(printed)
