"""Which folders of kernels are somebody's, which are left over, and what can't be started."""

import os
import socket
import sys
import time
from pathlib import Path

import pytest

from jupyter_tpu.on_host.agent.daemon import keeper_starter
from jupyter_tpu.on_host.agent.daemon.jobs import HostJobs
from jupyter_tpu.on_host.agent.daemon.keeper_process import ATTEMPTS, KeeperProcess
from jupyter_tpu.on_host.agent.daemon.keeper_starter import KeeperStarter
from jupyter_tpu.on_host.agent.daemon.keepers import (
    NO_PROCESS,
    START_SECONDS,
    Keepers,
    StartError,
)
from jupyter_tpu.on_host.agent.keeper import start
from jupyter_tpu.on_host.agent.protocol.paths import kernel_folder


async def test_a_folder_that_another_daemon_is_making_is_not_cleared_away(tmp_path):
    keepers = Keepers(str(tmp_path), KeeperStarter())
    folder = Path(kernel_folder(str(tmp_path), "young"))
    folder.mkdir()
    assert await keepers.statuses() == []
    assert folder.is_dir()

    long_ago = time.time() - 2 * START_SECONDS
    os.utime(folder, (long_ago, long_ago))
    assert await keepers.statuses() == []
    assert not folder.exists()


async def test_what_a_killed_keeper_left_is_cleared_away_at_once(tmp_path):
    keepers = Keepers(str(tmp_path), KeeperStarter())
    folder = Path(kernel_folder(str(tmp_path), "killed"))
    folder.mkdir()
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(folder / "keeper.sock"))
    assert await keepers.statuses() == []
    assert not folder.exists()


async def test_a_keeper_that_the_host_has_no_room_for_is_a_problem_and_the_next_one_begins(
    tmp_path, monkeypatch
):
    failing = f"""
import os
fork, failures = os.fork, [1] * {2 * ATTEMPTS}
def limited():
    if failures:
        failures.pop()
        raise BlockingIOError(11, "Resource temporarily unavailable")
    return fork()
os.fork = limited
"""
    program = keeper_starter.PROGRAM.replace("; keeper_starter.", failing + "keeper_starter.")
    monkeypatch.setattr(keeper_starter, "PROGRAM", program)
    starter = KeeperStarter()
    job = tmp_path / "job"
    job.mkdir()
    with pytest.raises(StartError, match="its keeper could not be started"):
        await Keepers(str(tmp_path), starter).start("k", {"python": sys.executable, "env": {}})
    with pytest.raises(StartError, match="its keeper could not be started") as caught:
        await HostJobs(starter)._launch(str(job), {})
    assert caught.value.hint == NO_PROCESS
    process = starter._pid
    keeper = await KeeperProcess.start(starter, keeper_starter.KERNEL)
    assert starter._pid == process
    keeper.kill()
    await keeper.wait()
    starter.close()


def test_a_package_that_comes_by_the_kernels_variables_is_not_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(start, "NEEDED", ["from_elsewhere"])
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.symlink_to(os.path.realpath(sys.executable))
    (tmp_path / "from_elsewhere.py").touch()
    assert "from_elsewhere" in start._missing_package(str(python), {})
    assert start._missing_package(str(python), {"PYTHONPATH": str(tmp_path)}) == ""
