"""The emulator's state folder: one owner at a time, nothing readable by others."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from ports import free_port
from refusals import raises

from jupyter_tpu.catalog import accelerator_type
from jupyter_tpu.emulator import EmulatorState, environment_lines, state_file
from jupyter_tpu.emulator.hosts import etc
from jupyter_tpu.emulator.model.host_profile import host_variables
from jupyter_tpu.emulator.model.records import HostRecord, NodeRecord
from jupyter_tpu.emulator.model.snapshot import EmulatorSnapshot
from jupyter_tpu.emulator.state_folder import EmulatorToken, StateFolder
from jupyter_tpu.errors import Reason, TPUError


def state(folder: Path) -> EmulatorState:
    return EmulatorState(
        id="ab",
        pid=1,
        rest="http://127.0.0.1:1",
        grpc="127.0.0.1:2",
        token_file=str(folder / "to ken"),
        state_dir=str(folder),
    )


def test_a_second_emulator_is_refused_with_the_pid_of_the_first(tmp_path):
    first = StateFolder(tmp_path / "state")
    with raises(Reason.CONFLICT, rf"already runs in .*state \(process {os.getpid()}\)"):
        StateFolder(tmp_path / "state")
    first.close()
    StateFolder(tmp_path / "state").close()


def test_all_files_are_their_owners_alone(tmp_path):
    folder = StateFolder(tmp_path / "state")
    folder.save(EmulatorSnapshot(id="ab"))
    folder.publish(state(folder.path))
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    for file in folder.path.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) & 0o077 == 0, file
    assert EmulatorState.read(state_file(folder.path)).id == "ab"
    assert folder.load().id == "ab"
    folder.close()
    assert not state_file(folder.path).exists()
    with pytest.raises(TPUError, match="No emulator runs") as it:
        EmulatorState.read(state_file(folder.path))
    assert "jupyter tpu emulator" in it.value.hint


def test_the_token_stays_unless_others_could_have_read_it(tmp_path):
    path = tmp_path / "token"
    token = EmulatorToken(path)
    value = path.read_text()
    assert token.allows(f"Bearer {value}")
    assert not token.allows(f"Bearer {value}x")
    assert not token.allows(value)
    assert not token.allows("")
    EmulatorToken(path)
    assert path.read_text() == value
    path.chmod(0o644)
    EmulatorToken(path)
    assert path.read_text() != value


def test_a_damaged_memory_says_which_file_and_what_to_do(tmp_path):
    folder = StateFolder(tmp_path)
    (folder.path / "memory.json").write_text("{")
    with pytest.raises(TPUError, match=r"memory\.json is damaged") as it:
        folder.load()
    assert "empty emulator" in it.value.hint
    folder.close()


def test_the_lines_for_a_shell_point_gcloud_and_us_at_it(tmp_path):
    lines = environment_lines(state(tmp_path))
    assert "export CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU=http://127.0.0.1:1/" in lines
    assert f"export CLOUDSDK_AUTH_ACCESS_TOKEN_FILE='{tmp_path}/to ken'" in lines
    assert f"export JUPYTER_TPU_EMULATOR={tmp_path}/emulator.json" in lines


def test_a_hosts_variables_are_a_tpu_vms_and_the_machines_package_settings():
    node = NodeRecord(project="p", zone="z", name="pod", id="7", type="v5litepod-16", version="v")
    for worker in range(4):
        node.hosts.append(
            HostRecord(worker=worker, hostname=f"h{worker}", internal=f"127.1.1.{worker + 2}")
        )
    machine = {
        "PIP_INDEX_URL": "https://index.example/simple",
        "PIP_TARGET": "/somewhere",
        "UV_CACHE_DIR": "/mine",
        "HTTPS_PROXY": "http://proxy.example:3128",
        "AWS_SECRET": "not for hosts",
        "PIP_TWO_LINES": "a\nb",
        "PATH": "/usr/bin",
    }
    variables = host_variables(node, node.hosts[2], machine=machine)
    assert variables["JAX_NUM_CPU_DEVICES"] == str(
        accelerator_type("v5litepod-16").devices_per_host
    )
    assert variables["TPU_WORKER_ID"] == "2"
    assert variables["TPU_WORKER_HOSTNAMES"] == "127.1.1.2,127.1.1.3,127.1.1.4,127.1.1.5"
    assert variables["JAX_COORDINATOR_BIND_ADDRESS"] == "127.1.1.2:8482"
    assert variables["PIP_INDEX_URL"] == "https://index.example/simple"
    assert variables["HTTPS_PROXY"] == "http://proxy.example:3128"
    assert not {"PIP_TARGET", "AWS_SECRET", "PIP_TWO_LINES"} & set(variables)
    assert variables.get("UV_CACHE_DIR") != "/mine"


def test_a_program_of_an_emulated_host_may_name_its_own_coordinator_port(tmp_path):
    """As Ray's JaxTrainer does. Shown before: it waits for a port where nobody listens."""
    (tmp_path / "sitecustomize.py").write_text("print('of the environment')\n")
    port, folder = free_port(), Path(etc.__file__).with_name("on_host")
    code = (
        f"import jax; jax.distributed.initialize('127.0.0.1:{port}', 1, 0, "
        "initialization_timeout=20); print(jax.process_count())"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": f"{folder}{os.pathsep}{tmp_path}",
        "JAX_PLATFORMS": "cpu",
        "JAX_COORDINATOR_BIND_ADDRESS": "127.0.0.1:8482",
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == ["of the environment", "1"], done.stderr
