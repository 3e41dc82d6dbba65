"""What hosts cost while nothing changes: the benchmark's real fleet and sshds, for a minute."""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from _hosts import Hosts, hosts
from idle import measure

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin") is None,
        reason="SKIPPED FOR WANT OF sshd: install openssh-server",
    ),
]


@pytest.fixture
def pod(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hosts]:
    """64 hosts; the paths of their sockets must be short."""
    for name in ("JUPYTER_TPU_SSH_KEY", "JUPYTER_TPU_SSH_USER"):
        monkeypatch.setenv(name, "")  # they are set for the hosts, and must be as before then
    with tempfile.TemporaryDirectory(prefix="i-", dir="/tmp") as folder:
        monkeypatch.setenv("HOME", folder)  # the fleet writes entries for the user's `ssh`
        monkeypatch.setenv("JUPYTER_TPU_DATA_DIR", f"{folder}/data")
        with hosts(Path(folder), 64) as made:
            yield made


async def test_each_of_64_hosts_costs_at_most_2_kb_a_minute_while_nothing_changes(pod):
    figures = await measure(pod, 60.0)
    # 352 are the signs of life of their connections.
    assert 370 < figures["bytes"] < 2000, figures
