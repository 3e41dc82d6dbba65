"""What a host does so that the others of its pod can log in, beside whoever else writes there."""

import json
import os
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from jupyter_tpu.on_host.packing import program
from jupyter_tpu.ssh.host_program import COMMAND


def set_up(home: Path, request: dict[str, Any]) -> str:
    """The public key that the host answers."""
    done = subprocess.run(
        COMMAND,
        env={**os.environ, "HOME": str(home)},
        input=program("ssh.pod_keys") + json.dumps(request).encode(),
        capture_output=True,
        timeout=60,
        check=True,
    )
    return done.stdout.decode()


def asked(*addresses: str) -> dict[str, Any]:
    return {
        "files": {"jupyter_tpu_pod_config": f"# {addresses}\n"},
        "authorized": [
            f'from="{address}" ssh-ed25519 AAAA jupyter-tpu-pod' for address in addresses
        ],
        "mark": "jupyter-tpu-pod",
        "include": "Include jupyter_tpu_pod_config",
    }


def test_commands_that_use_a_pod_for_the_first_time_at_once_get_its_one_key(tmp_path):
    with ThreadPoolExecutor() as pool:
        keys = set(pool.map(lambda _: set_up(tmp_path, {}), range(4)))
    assert keys == {(tmp_path / ".ssh/jupyter_tpu_pod.pub").read_text()}
    (tmp_path / ".ssh/jupyter_tpu_pod.pub").unlink()  # as of one that was ended too early
    [key] = keys
    assert set_up(tmp_path, {}).split()[:2] == key.split()[:2]


def test_files_that_are_links_stay_links_and_what_the_user_has_in_them_stays(tmp_path):
    folder, dotfiles = tmp_path / ".ssh", tmp_path / "dotfiles"
    folder.mkdir()
    dotfiles.mkdir()
    for name, text in ("authorized_keys", "ssh-rsa mine"), ("config", "Host mine\n"):
        (dotfiles / name).write_text(text)
        (dotfiles / name).chmod(0o640)
        (folder / name).symlink_to(dotfiles / name)
    set_up(tmp_path, asked("10.0.0.2", "10.0.0.3"))
    set_up(tmp_path, asked("10.0.0.2", "10.0.0.4"))
    assert (folder / "authorized_keys").is_symlink()
    assert (folder / "config").is_symlink()
    lines = (dotfiles / "authorized_keys").read_text().splitlines()
    valid = [line.partition(" ssh-ed25519")[0] for line in lines if line[0] != "#"]
    assert valid == ["ssh-rsa mine", 'from="10.0.0.2"', 'from="10.0.0.4"']
    assert (dotfiles / "config").read_text() == "Include jupyter_tpu_pod_config\nHost mine\n"
    assert (dotfiles / "config").stat().st_mode & 0o777 == 0o640


def test_lines_that_others_add_meanwhile_are_kept(tmp_path):
    (tmp_path / ".ssh").mkdir()
    keys = tmp_path / ".ssh/authorized_keys"
    added: list[str] = []
    done = threading.Event()

    def add() -> None:
        while not done.is_set():
            with keys.open("a") as file:
                file.write(f"ssh-rsa other-{len(added)}\n")
            added.append(f"ssh-rsa other-{len(added)}")

    adding = threading.Thread(target=add)
    adding.start()
    try:
        for number in range(3):
            set_up(tmp_path, asked(f"10.0.0.{number}"))
    finally:
        done.set()
        adding.join()
    lines = keys.read_text().splitlines()
    assert [line for line in lines if "other" in line] == added
    assert [line for line in lines if line.startswith("from")] == asked("10.0.0.2")["authorized"]


@pytest.mark.parametrize("name", ["authorized_keys", "config"])
def test_a_file_that_can_not_be_written_is_said(tmp_path, name):
    (tmp_path / ".ssh" / name).mkdir(parents=True)
    with pytest.raises(subprocess.CalledProcessError) as failed:
        set_up(tmp_path, asked("10.0.0.2"))
    assert f".ssh/{name}" in failed.value.stderr.decode().splitlines()[-1]
