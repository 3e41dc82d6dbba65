"""Which folders of kernels are somebody's, and which are left over."""

import os
import socket
import time
from pathlib import Path

from jupyter_tpu.on_host.agent.daemon.keeper_starter import KeeperStarter
from jupyter_tpu.on_host.agent.daemon.keepers import START_SECONDS, Keepers
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
