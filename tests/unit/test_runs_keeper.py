"""The keeper of a run that began on a host without an agent, by itself and beside an agent."""

import asyncio
import base64
import contextlib
import os
import subprocess
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from waiting import eventually, until

from jupyter_tpu.on_host.agent.daemon.handlers import OperationError, handlers
from jupyter_tpu.on_host.agent.daemon.keeper_starter import KeeperStarter
from jupyter_tpu.on_host.agent.daemon.runs import Runs
from jupyter_tpu.on_host.agent.protocol.paths import run_folder, run_socket
from jupyter_tpu.on_host.agent.protocol.process_env import process_environment
from jupyter_tpu.on_host.agent.protocol.processes import start_time
from jupyter_tpu.on_host.agent.protocol.requests import REQUESTS
from jupyter_tpu.on_host.agent.protocol.run_client import RunClient, SocketStream, encoded_order
from jupyter_tpu.on_host.packing import argument

KEEPER = "agent.keeper.run_keeper"
PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else "python3"


class Program(subprocess.Popen[bytes]):
    """The keeper of a run, started without an agent."""

    def __init__(
        self,
        *command: str,
        id: str = "r1",
        program: str = "",
        again: bool = False,
        **request: Any,
    ) -> None:
        words = [PYTHON, "-I", "-S", "-c", program or argument(KEEPER)]
        super().__init__(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        order = REQUESTS["run"](id=id, command=[*command], **request)
        self.say(encoded_order(order, again=again))

    def say(self, data: bytes) -> None:
        self.stdin.write(data)
        self.stdin.flush()

    def line(self) -> list[bytes]:
        return self.stdout.readline().split()

    def begin(self) -> int:
        """The process id of the command."""
        word, pid, *_ = self.line()
        assert word == b"running"
        return int(pid)

    def read(self, start: int) -> tuple[bytes, list[bytes]]:
        """What is there of stdout, and the words that end the answer. The dynamic linker may have
        said something on stderr before.
        """
        assert self.stdout is not None
        self.say(b"read %d 20\n" % start)
        out = b""
        while (words := self.line())[0] == b"output":
            data = self.stdout.read(int(words[2]))
            out += data if words[1] == b"1" else b""
        return out, words

    def output(self, start: int = 0) -> bytes:
        """The first output from *start* on."""
        while not (answer := self.read(start))[0]:
            assert answer[1] == [b"next"]
        return answer[0]

    def end(self, start: int = 0) -> list[bytes]:
        """How it has ended: exit code, signal, cause."""
        while (answer := self.read(start))[1][0] != b"ended":
            pass
        return answer[1][1:4]


def changed_program(text: bytes, other: bytes) -> str:
    """The program with *other* in place of *text*."""
    head, data, tail = argument(KEEPER).split("'")
    source = zlib.decompress(base64.b64decode(data))
    assert source.count(text) == 1
    source = source.replace(text, other)
    return f"{head}'{base64.b64encode(zlib.compress(source)).decode()}'{tail}"


class Agent:
    """The agent's runs, and a client that knows where the keeper's socket is."""

    def __init__(self) -> None:
        self.runs = Runs(KeeperStarter())

    async def ask(self, op: str, id: str = "r1", **params: Any) -> dict[str, Any]:
        request = REQUESTS[op](id=id, **params)
        request.client = self
        return await handlers(self.runs)[op](request)

    async def keeper(self, id: str = "r1") -> RunClient:
        path = run_socket(run_folder(), id)
        keeper = RunClient(SocketStream(*await asyncio.open_unix_connection(path)))
        await keeper.begin()
        return keeper


async def rest(keeper: RunClient, start: int) -> tuple[list[tuple[int, bytes]], Any]:
    """All output from *start* on, and the end."""
    output: list[tuple[int, bytes]] = []
    while True:
        more, size, ended = await keeper.read(start)
        output += more
        start += size
        if ended:
            await keeper.forget()
            keeper.close()
            return output, ended


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Short enough for unix sockets, which a folder of pytest's may not be."""
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setenv("HOME", folder)
        yield Path(folder)
        until(lambda: not list(sockets(Path(folder))))


def sockets(home: Path) -> Iterator[Path]:
    return (home / ".jupyter-tpu" / "run").glob("*")


@pytest.fixture
def agent(home: Path) -> Agent:
    return Agent()


@pytest.mark.parametrize(
    "base",
    [
        {},
        {"LD_PRELOAD": "/x/libtcmalloc.so.4 /y.so", "PYTHONPATH": "/z", "SSH_TTY": "1"},
        {"TPU_VISIBLE_DEVICES": "0,1"},
    ],
)
def test_its_variables_are_those_of_the_agent(home, base, monkeypatch):
    for name in ("LINES", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in base.items():
        monkeypatch.setenv(name, value)
    variables = {"MINE": "it's\n1", "TPU_HOST_BOUNDS": "1,1,1"}
    with Program("env", "-0", env=variables, python="/e/bin/python") as program:
        program.begin()
        environment = dict(
            pair.split("=", 1) for pair in program.output().decode().split("\0") if pair
        )
        program.say(b"forget\n")
    for name in ("LINES", "COLUMNS"):  # set by libraries of this process, without Python
        environment.pop(name, None)
    assert environment == process_environment("/e/bin/python", variables)


def test_one_that_was_stopped_sleeps_until_its_end_is_acknowledged(home):
    impatient = changed_program(b"GRACE_SECONDS = 3.0", b"GRACE_SECONDS = 0.0")
    with Program("sleep", "1000", program=impatient) as program:
        program.begin()
        program.say(b"stop\n")
        assert program.line() == [b"stopped"]
        program.end()
        stat = Path(f"/proc/{program.pid}/stat")
        until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "S")
        program.say(b"forget\n")
        assert program.wait(60) == 0


@pytest.mark.parametrize("how", ["stopped", "timeout"])
def test_it_is_stopped_when_it_is_asked_for_or_the_time_is_over(home, how):
    limit = 2.0 if how == "timeout" else None
    script = "setsid sh -c 'echo $$; exec sleep 1000'; true"
    with Program("sh", "-c", script, limit=limit) as program:
        program.begin()
        child = int(output := program.output())  # in a group of its own
        assert os.getpgid(child) == child
        if how == "stopped":
            program.say(b"stop\n")
            assert program.line() == [b"stopped"]
        assert program.end(len(output)) == [b"-1", b"2", how.encode()]
        program.say(b"forget\n")
    until(lambda: not start_time(child))


async def test_the_client_goes_on_at_its_socket_with_output_input_and_end(home, agent):
    script = "echo one; read line; echo two $line >&2; cat; exit 3"
    with Program("sh", "-c", script, input=True) as program:
        program.begin()
        assert program.output() == b"one\n"
        keeper = await agent.keeper()
        program.stdin.close()
        assert await keeper.read(0) == ([(1, b"one\n")], 4, None)
        assert await keeper.write(0, b"x\n", False)
        assert not await keeper.write(2, b"rest", True)
        output, ended = await rest(keeper, 4)
        assert sorted(output) == [(1, b"rest"), (2, b"two x\n")]
        assert (ended["code"], ended["signal"], ended["cause"]) == (3, None, "")


async def test_an_end_that_the_client_did_not_hear_of_is_not_lost(home, agent):
    with Program("sh", "-c", "echo one; exit 5") as program:
        program.end()
        program.stdin.close()
        output, ended = await rest(await agent.keeper(), 0)
    assert (output, ended["code"]) == ([(1, b"one\n")], 5)


@pytest.mark.parametrize("how", ["stopped", "nothing shall be left"])
async def test_the_agent_stops_what_began_without_it(home, agent, how):
    with Program("sh", "-c", "echo $$; exec sleep 1000") as program:
        program.begin()
        pid = int(program.output())
        if how == "stopped":
            assert (await agent.ask("stop_run"))["ended"]
            assert program.end() == [b"-1", b"2", b"stopped"]
            program.say(b"forget\n")
        else:
            # Its owner, where it holds chips.
            assert await agent.runs.processes() == {"r1": pid}
            await agent.runs.end_all()
        await eventually(lambda: not start_time(pid))


async def test_it_is_started_once_whoever_comes_first(home, agent):
    with Program("sh", "-c", "echo x >> count", again=True) as program:
        program.end()
        with Program("sh", "-c", "echo x >> count") as other:
            assert other.line()[:2] == [b"refused", b"run"]
        program.say(b"forget\n")
        program.stdout.close()
        late = await asyncio.to_thread(Program, "sh", "-c", "echo x >> count")
        with late:
            assert late.line()[:2] == [b"refused", b"run"]
        with pytest.raises(OperationError, match="does not exist"):
            await agent.ask("run", command=["false"])
        program.kill()  # it would wait for others
    assert (home / "count").read_text() == "x\n"
    for path in sockets(home):
        path.unlink()


async def test_who_asks_for_what_can_not_be_is_sent_away_and_the_command_goes_on(home, agent):
    with Program("sh", "-c", "read line; echo $line", input=True) as program:
        program.begin()
        for nonsense in (b"read x 1\n", b"read 0\n", b"write 1\n", b"read 0 y\n", b"dance\n"):
            reader, writer = await asyncio.open_unix_connection(run_socket(run_folder(), "r1"))
            writer.write(nonsense)
            assert (await reader.read()).startswith(b"running")
            writer.close()
        keeper = await agent.keeper()
        await keeper.write(0, b"here\n", True)
        output, ended = await rest(keeper, 0)
    assert (output, ended["code"]) == ([(1, b"here\n")], 0)


async def test_without_a_client_it_is_ended(home):
    impatient = changed_program(b"ABANDONED_SECONDS = 300.0", b"ABANDONED_SECONDS = 0.1")
    with Program("sh", "-c", "exec sleep 1000", program=impatient) as started:
        pid = started.begin()
        started.stdin.close()
        with contextlib.suppress(BrokenPipeError):
            await eventually(lambda: not start_time(pid))


LINES = st.lists(st.binary(min_size=1, max_size=300), max_size=6)


@settings(max_examples=15, deadline=None)
@given(pieces=LINES, cuts=st.lists(st.integers(0, 6), max_size=3))
def test_output_is_whole_wherever_a_connection_is_cut(pieces, cuts):
    asyncio.run(_read_with_cuts(pieces, cuts))


async def _read_with_cuts(pieces: list[bytes], cuts: list[int]) -> None:
    """Reads what a command writes; after some of the answers the connection is another one."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", folder)
        with Program("cat", input=True) as program:
            program.begin()
            agent = Agent()
            keeper, received, written, number = await agent.keeper(), b"", 0, 0
            ended: Any = None
            for piece in pieces:
                await keeper.write(written, piece, False)
                written += len(piece)
            await keeper.write(written, b"", True)
            while ended is None:
                output, _, ended = await keeper.read(len(received))
                lost = number in cuts and ended is None
                number += 1
                if lost:  # with the answer
                    keeper.close()
                    keeper = await agent.keeper()
                    continue
                received += b"".join(data for _, data in output)
            await keeper.forget()
            keeper.close()
        assert received == b"".join(pieces)
        assert ended["code"] == 0
