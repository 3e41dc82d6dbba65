"""How a run is followed over a link that fails: the keeper is real, the link is the test's."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from waiting import eventually, until

from jupyter_tpu.cloud import NodeName
from jupyter_tpu.errors import ConnectionLost, Reason, TPUError
from jupyter_tpu.fleet.jobs import host_run
from jupyter_tpu.fleet.jobs.host_run import FollowedRun
from jupyter_tpu.links import HostName
from jupyter_tpu.on_host.agent.protocol.run_client import SocketStream
from jupyter_tpu.ssh.command import NotListening

HOST = HostName(NodeName("project", "zone", "tpu"), 0)


class LocalLink:
    """Programs and sockets of this machine, and no agent.

    deaf: of so many programs, the answers are lost with the connection. forwards: whether sockets
    can be reached.
    """

    has_agent = False

    def __init__(self, deaf: int = 0, forwards: bool = True) -> None:
        self.deaf = deaf
        self.forwards = forwards
        self.programs: list[subprocess.Popen[bytes]] = []
        self.streams: list[SocketStream] = []

    @contextlib.asynccontextmanager
    async def borrow(self, *_: Any) -> AsyncIterator[LocalLink]:
        yield self

    def link(self, host: HostName) -> LocalLink:
        return self

    @contextlib.asynccontextmanager
    async def stream(self, argv: list[str]) -> AsyncIterator[Any]:
        stream = SocketStream(*await asyncio.open_unix_connection(sock=self._launch(argv)))
        if self.deaf:
            self.deaf -= 1
            reading = stream.read_line

            async def read_line() -> bytes:
                await reading()
                raise ConnectionLost("tpu")

            stream.read_line = read_line
        self.streams.append(stream)
        yield stream
        stream.close()

    def _launch(self, argv: list[str]) -> socket.socket:
        ours, theirs = socket.socketpair()
        with theirs:
            self.programs.append(subprocess.Popen(argv, stdin=theirs, stdout=theirs))
        return ours

    async def open_unix(self, path: str) -> Any:
        if not self.forwards:
            raise TPUError("tpu does not forward unix sockets.", Reason.PERMISSION)
        try:
            reader, writer = await asyncio.open_unix_connection(path)
        except OSError as error:
            raise NotListening("nobody there", Reason.NOT_FOUND) from error
        self.streams.append(SocketStream(reader, writer))
        return reader, writer

    def cut(self) -> None:
        for stream in self.streams:
            stream._writer.transport.abort()


class Followed:
    """One that is followed, and its output."""

    def __init__(self, link: Any, *command: str, **request: Any) -> None:
        self.output = b""
        order = {"command": [*command], **request}
        self.run = FollowedRun(link, HOST, "r1", order, self._received, lambda: None)

    async def _received(self, stream: int, data: bytes) -> None:
        self.output += data


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setenv("HOME", folder)
        monkeypatch.setattr(host_run, "FIRST_CONNECTION_SECONDS", 0.2)
        yield Path(folder)


async def test_where_sockets_are_not_forwarded_a_long_command_stays_on_its_first_connection(home):
    link = LocalLink(forwards=False)
    followed = Followed(link, "sh", "-c", "echo 1; until [ -e go ]; do sleep 0.05; done; echo 2")
    await eventually(lambda: followed.run._soon is None and followed.run.state.state == "running")
    (home / "go").touch()
    await followed.run.wait()
    assert (followed.output, followed.run.state.code) == (b"1\n2\n", 0)


async def test_a_command_whose_start_was_not_heard_of_is_started_once(home):
    link = LocalLink(deaf=1)
    followed = Followed(link, "sh", "-c", "echo x >> count; echo done; exit 3")
    await followed.run.wait()
    assert (followed.output, followed.run.state.code) == (b"done\n", 3)
    assert len(link.programs) == 2
    assert (home / "count").read_text() == "x\n"


async def test_a_host_that_does_not_say_whether_it_starts_is_not_waited_for_without_end(
    home, monkeypatch
):
    monkeypatch.setattr(host_run, "REACH_SECONDS", 0.3)
    link = LocalLink()
    launch = link._launch
    monkeypatch.setattr(link, "_launch", lambda argv: launch(["sleep", "1000"]))
    followed = Followed(link, "true")
    async with asyncio.timeout(20):
        await followed.run.wait()
    for program in link.programs:
        program.kill()
    problem = followed.run.state.problem
    assert followed.run.state.state == "unknown"
    assert "may still run" in problem.message


async def test_output_and_input_go_on_where_a_connection_was_cut(home):
    link = LocalLink()
    followed = Followed(link, "cat", input=True)
    sent = b"".join(b"%d\n" % number for number in range(300))
    for start in range(0, len(sent), 400):
        assert await followed.run.write(start, sent[start : start + 400], False)
        link.cut()
    assert not await followed.run.write(len(sent), b"", True)
    await followed.run.wait()
    assert (followed.output, followed.run.state.code) == (sent, 0)


async def test_without_its_keeper_the_end_is_not_known(home):
    link = LocalLink()
    followed = Followed(link, "sh", "-c", "echo $$; exec sleep 1000")
    await eventually(lambda: followed.output)
    link.programs[0].kill()
    await followed.run.wait()
    os.kill(int(followed.output), 9)
    assert followed.run.state.state == "unknown"
    assert "process that kept the command" in followed.run.state.problem.message


async def test_a_folder_that_is_not_there_starts_nothing(home):
    followed = Followed(LocalLink(), "true", cwd="nowhere")
    await followed.run.wait()
    problem = followed.run.state.problem
    assert (followed.run.state.state, problem.reason) == ("not-started", Reason.NO_FOLDER)


async def test_a_stop_ends_it(home):
    link = LocalLink()
    followed = Followed(link, "sh", "-c", "echo $$; exec sleep 1000")
    await eventually(lambda: followed.output)
    await followed.run.stop()
    assert (followed.run.state.signal, followed.run.state.cause) == ("SIGINT", "stopped")
    until(lambda: link.programs[0].poll() is not None)
