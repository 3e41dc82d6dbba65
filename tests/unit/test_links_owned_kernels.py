"""Kernels that end with the process that owns them: what the next process finds of it."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from waiting import until

from jupyter_tpu.errors import ConnectionLost
from jupyter_tpu.links import end_orphans, register_owned
from jupyter_tpu.on_host.agent.protocol.requests import EndKernelRequest

OWNER = """
import sys
from jupyter_tpu.links import register_owned
assert register_owned("here", "k", "s")
print("owns", flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("JUPYTER_TPU_DATA_DIR", str(tmp_path))
    return tmp_path / "owned-kernels"


@pytest.fixture
def owner() -> Iterator[subprocess.Popen]:
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", OWNER], stdin=pipe, stdout=pipe) as process:
        assert process.stdout.readline() == b"owns\n"
        yield process
        process.kill()


class Agent:
    """What is asked of an agent; it may not answer."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.lost = False

    async def request(self, request: EndKernelRequest) -> dict[str, Any]:
        self.asked.append(request.params)
        if self.lost:
            raise ConnectionLost("the host")
        return {"ended": True}


def ended(agent: Agent, host_id: str = "here") -> list[str]:
    before = len(agent.asked)
    asyncio.run(end_orphans(agent, host_id))
    return [asked["id"] for asked in agent.asked[before:]]


def test_a_kernel_is_ended_once_its_owner_was_killed_and_not_while_it_sleeps(folder, owner):
    agent = Agent()
    os.kill(owner.pid, signal.SIGSTOP)
    assert ended(agent) == []
    owner.kill()
    owner.wait()
    assert ended(agent, "another host") == []
    agent.lost = True
    assert ended(agent) == ["k"]
    agent.lost = False  # it is unknown whether it has ended: it is asked for again
    assert ended(agent) == ["k"]
    assert agent.asked[-1] == {"id": "k", "now": True, "secret": "s"}
    assert ended(agent) == []
    assert list(folder.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_fork_that_outlives_the_owner_does_not_keep_its_kernel(folder):
    forking = OWNER.replace("print(", "import os, time\nif not os.fork(): time.sleep(600)\nprint(")
    pipe = subprocess.PIPE
    owner = subprocess.Popen(
        [sys.executable, "-c", forking], stdin=pipe, stdout=pipe, start_new_session=True
    )
    try:
        assert owner.stdout.readline() == b"owns\n"
        assert ended(Agent()) == []
        owner.kill()
        owner.wait()
        until(lambda: ended(Agent()) == ["k"])  # the fork may not have run yet
    finally:
        os.killpg(owner.pid, signal.SIGKILL)
        owner.communicate()


def test_what_the_owner_has_ended_itself_is_not_asked_for(folder):
    owned, left = register_owned("here", "one", "s"), register_owned("here", "two", "s")
    owned.close(ended=True)
    left.close(ended=False)
    assert ended(Agent()) == ["two"]


def test_files_that_say_nothing_of_use_are_deleted(folder):
    assert register_owned("here", "k", "s") is not None
    (folder / "damaged.json").write_bytes(b"\0\0")
    (folder / "old.json").write_text('{"place": "far", "kernel": "o", "secret": "s"}')
    os.utime(folder / "old.json", (0, 0))
    assert ended(Agent()) == []
    assert len(list(folder.iterdir())) == 1


def test_a_disk_that_takes_nothing_keeps_no_kernel_from_starting(folder, monkeypatch, caplog):
    def full(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    assert register_owned("here", "k", "s") is None
    assert "Kernel k will not end if this process is killed" in caplog.text
    assert list(folder.iterdir()) == []
