"""Commands that the agent runs for a client: output, input, ends. The processes are real."""

import asyncio
import base64
import contextlib
import os
import shlex
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from waiting import eventually, until

from jupyter_tpu.on_host.agent.daemon import keeper_starter
from jupyter_tpu.on_host.agent.daemon import runs as module
from jupyter_tpu.on_host.agent.daemon.handlers import OperationError, handlers
from jupyter_tpu.on_host.agent.daemon.runs import Runs
from jupyter_tpu.on_host.agent.keeper.run_command import BUFFER_BYTES
from jupyter_tpu.on_host.agent.protocol.paths import run_folder, run_socket
from jupyter_tpu.on_host.agent.protocol.processes import start_time
from jupyter_tpu.on_host.agent.protocol.requests import REQUESTS
from jupyter_tpu.on_host.agent.protocol.run_client import RunClient, SocketStream


class Client:
    """What a client asks of one daemon's runs, and of their keepers."""

    def __init__(self) -> None:
        self.starter = keeper_starter.KeeperStarter()
        self.runs = Runs(self.starter)

    async def ask(self, op: str, id: str = "r", **params: Any) -> dict[str, Any]:
        request = REQUESTS[op](id=id, **params)
        request.client = self
        return await handlers(self.runs)[op](request)

    async def start(self, *command: str, **params: Any) -> dict[str, Any]:
        return await self.ask("run", command=list(command), **params)

    async def shell(self, script: str, **params: Any) -> dict[str, Any]:
        return await self.start("sh", "-c", script, **params)

    @contextlib.asynccontextmanager
    async def keeper(self) -> AsyncIterator[RunClient]:
        """A connection to the keeper."""
        path = run_socket(run_folder(), "r")
        keeper = RunClient(SocketStream(*await asyncio.open_unix_connection(path)))
        await keeper.begin()
        yield keeper
        keeper.close()

    async def rest(self, answer: dict[str, Any]) -> tuple[bytes, bytes, dict[str, Any]]:
        """All that comes after and with *answer*: stdout, stderr, how it ended."""
        texts = {1: bytearray(), 2: bytearray()}
        ended, size = answer["ended"], 0
        for stream, data in answer["output"]:
            texts[stream] += base64.b64decode(data)
            size += len(base64.b64decode(data))
        if ended is None:
            async with self.keeper() as keeper:
                while ended is None:
                    output, more, ended = await keeper.read(size)
                    size += more
                    for stream, data in output:
                        texts[stream] += data
                await keeper.forget()
        return bytes(texts[1]), bytes(texts[2]), ended


def first_line(answer: dict[str, Any]) -> str:
    """The output that the answer to a start has."""
    return base64.b64decode(answer["output"][0][1]).decode()


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Short enough for unix sockets, which a folder of pytest's may not be."""
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setenv("HOME", folder)
        yield Path(folder)
        until(lambda: not sockets(Path(folder)))


def sockets(home: Path) -> list[Path]:
    return [*(home / ".jupyter-tpu/run").glob("*")]


@pytest_asyncio.fixture
async def client(home: Path) -> AsyncIterator[Client]:
    client = Client()
    yield client
    await client.runs.end_all()
    client.starter.close()


@pytest.fixture
def shorten(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes keepers wait shorter."""

    def shorten(name: str) -> None:
        shorter = f"keeper_starter.run_keeper.{name} = 0.3; keeper_starter.fork_keepers()"
        program = keeper_starter.PROGRAM.replace("keeper_starter.fork_keepers()", shorter)
        monkeypatch.setattr(keeper_starter, "PROGRAM", program)

    return shorten


def alive(pid: int) -> bool:
    return bool(start_time(pid))


def written(pid: int) -> int:
    """Bytes that a process has written."""
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["wchar"])


async def test_one_answer_has_output_exit_code_and_time_of_a_short_command(client):
    answer = await client.start(
        sys.executable, "-c", "import os; os.write(1, b'a\\xff\\0'); os.write(2, b'b'); os._exit(3)"
    )
    out, err, ended = await client.rest(answer)
    assert (out, err) == (b"a\xff\0", b"b")
    assert ended["code"] == 3
    assert ended["signal"] is None
    assert ended["seconds"] > 0
    quick = await client.shell("echo meow", id="quick")
    assert quick["ended"]["code"] == 0
    assert quick["output"] == [(1, base64.b64encode(b"meow\n").decode())]


async def test_a_known_id_starts_nothing_and_answers_with_the_same_output(client, tmp_path):
    script = f"echo once; echo x >> {shlex.quote(str(tmp_path / 'count'))}"
    first = await client.shell(script)
    assert await client.shell(script) == first
    assert (tmp_path / "count").read_text() == "x\n"


async def test_arguments_reach_the_program_as_they_are(client):
    words = ["a b", "$HOME", "'q'", '"d"', "line\nline", "*", ""]
    code = "import sys; print(sys.argv[1:])"
    out, _, _ = await client.rest(await client.start(sys.executable, "-c", code, *words))
    assert out.decode() == f"{words}\n"


async def test_a_command_waits_while_nobody_takes_its_output_and_nothing_is_lost(client):
    code = "import os; [os.write(1, bytes(1 << 16)) for _ in range(80)]; os.write(2, b'end\\n')"
    answer = await client.start(sys.executable, "-c", code)
    pid = (await client.runs.processes())["r"]
    await eventually(lambda: written(pid) >= BUFFER_BYTES)
    assert written(pid) < 2 * BUFFER_BYTES
    assert answer["ended"] is None
    out, err, ended = await client.rest(answer)
    assert len(out) == 80 << 16
    assert err == b"end\n"
    assert ended["code"] == 0


async def test_input_is_written_once_however_often_it_is_sent_and_ends(client):
    answer = await client.start("cat", input=True)
    async with client.keeper() as keeper:
        assert await keeper.write(0, b"abc", False)
        assert await keeper.write(0, b"abc", False)
        assert await keeper.write(1, b"bcd", False)
        assert not await keeper.write(4, b"e", True)
        assert not await keeper.write(5, b"more", False)
    out, _, ended = await client.rest(answer)
    assert out == b"abcde"
    assert ended["code"] == 0


async def test_input_that_nobody_reads_waits_until_the_command_ends(client):
    await client.shell("read line; echo $line; sleep 600", input=True)
    async with client.keeper() as keeper:
        data = b"first\n" + bytes(1 << 20)
        writing = asyncio.ensure_future(keeper.write(0, data, False))
        output, _, _ = await keeper.read(0)
        assert output == [(1, b"first\n")]
        assert not writing.done()
        await client.ask("stop_run")
        assert not await writing


async def test_without_input_the_command_sees_its_end_at_once(client):
    out, _, _ = await client.rest(await client.start("cat"))
    assert out == b""


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        (["no-such-program"], 127, "The program 'no-such-program' does not exist on the host."),
        (["ls | wc"], 127, "sh -c"),
        (["/etc/passwd"], 126, "can't be executed"),
        (["true", "x" * 3_000_000], 126, "Argument list too long"),
    ],
)
async def test_a_command_that_can_not_start_says_why(client, command, code, message):
    answer = await client.start(*command)
    assert answer["ended"]["code"] == code
    assert message in answer["ended"]["message"]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"command": []}, "must begin with a program"),
        ({"command": ["a\0b"]}, "NUL"),
        ({"command": ["true"], "cwd": "nowhere"}, "The folder nowhere does not exist"),
        ({"command": ["true"], "cwd": "/x\0y"}, "does not exist"),
    ],
)
async def test_a_wrong_request_starts_nothing(client, home, params, message):
    with pytest.raises(OperationError, match=message):
        await client.ask("run", **params)
    await eventually(lambda: not sockets(home))


@pytest.mark.parametrize(
    ("cwd", "folder"), [("a b", "a b"), ("~/a b", "a b"), ("", ""), ("/", "/")]
)
async def test_the_working_folder_is_relative_to_the_home_folder(client, home, cwd, folder):
    (home / "a b").mkdir()
    out, _, _ = await client.rest(await client.start("pwd", cwd=cwd))
    assert Path(out.decode().rstrip("\n")) == home / folder


async def test_at_its_time_limit_it_is_interrupted_and_its_last_words_are_there(client):
    script = "trap 'echo bye; exit 4' INT; echo hello; while :; do sleep 0.05; done"
    out, _, ended = await client.rest(await client.shell(script, limit=0.5))
    assert out == b"hello\nbye\n"
    assert ended["cause"] == "timeout"
    assert ended["code"] == 4


async def test_what_ignores_interrupts_and_termination_is_killed(client, shorten):
    shorten("GRACE_SECONDS")
    answer = await client.shell("trap '' INT TERM; echo ready; while :; do sleep 0.05; done")
    assert answer["ended"] is None
    assert await client.ask("stop_run") == {"ended": True}
    _, _, ended = await client.rest({**answer, "ended": None})
    assert ended["signal"] == signal.SIGKILL


async def test_what_is_left_in_the_background_does_not_delay_the_end(client):
    out, _, ended = await client.rest(await client.shell("sleep 600 & echo $!"))
    assert ended["code"] == 0
    child = int(out)
    assert alive(child)
    os.kill(child, signal.SIGKILL)


async def test_output_that_a_child_writes_after_the_end_is_not_lost(client):
    out, _, ended = await client.rest(await client.shell("(sleep 0.2; echo late) & echo early"))
    assert out == b"early\nlate\n"
    assert ended["code"] == 0


async def test_without_its_client_a_command_is_ended_after_a_while(client, home, shorten):
    shorten("ABANDONED_SECONDS")
    script = "trap 'touch trapped; sleep 2; exit 9' INT; echo started; while :; do sleep 0.05; done"
    answer = await client.shell(script)
    await eventually((home / "trapped").exists)
    _, _, ended = await client.rest(answer)
    assert (ended["cause"], ended["code"]) == ("abandoned", 9)


async def test_an_unread_end_does_not_keep_a_command_that_is_abandoned(client, home, shorten):
    shorten("ABANDONED_SECONDS")
    await client.shell(f"head -c {2 * BUFFER_BYTES} /dev/zero")
    await eventually(lambda: not sockets(home))


async def test_a_daemon_waits_for_a_client_that_may_not_have_heard_of_an_end(client, monkeypatch):
    assert not client.runs.awaited()
    await client.rest(await client.start("true"))
    assert client.runs.awaited()
    assert not client.runs.awaited(leaving=client)
    monkeypatch.setattr(module, "RETURN_SECONDS", 0.0)
    assert not client.runs.awaited()


async def test_ended_runs_are_forgotten_in_the_end(client):
    for number in range(module.KEPT_RUNS + 3):
        await client.start("true", id=str(number))
    assert len(client.runs._ends) == module.KEPT_RUNS


async def test_a_run_that_is_not_there_can_not_be_stopped(client):
    with pytest.raises(OperationError, match="The run r does not exist"):
        await client.ask("stop_run")
    with pytest.raises(OperationError, match="does not exist"):
        await client.ask("stop_run", id="../agent")


async def test_when_the_daemon_ends_its_commands_go_on_and_the_next_one_has_all(client, home):
    script = "echo $$; while [ ! -e go ]; do sleep 0.05; done; echo end; exit 3"
    first = await client.shell(script)
    pid = int(first_line(first))
    client.starter.close()
    client.starter = keeper_starter.KeeperStarter()
    client.runs = Runs(client.starter)
    assert await client.runs.processes() == {"r": pid}
    (home / "go").touch()
    out, _, ended = await client.rest(await client.start("false"))
    assert out == f"{pid}\nend\n".encode()
    assert ended["code"] == 3


async def test_when_nothing_shall_be_left_on_the_host_commands_end(client):
    answer = await client.shell("echo $$; sleep 600")
    pid = int(first_line(answer))
    await client.runs.end_all()
    await eventually(lambda: not alive(pid))
