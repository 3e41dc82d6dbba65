"""Commands that the agent runs for a client: output, input, ends. The processes are real."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import shlex
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from waiting import eventually

from jupyter_tpu.agent.daemon import run_process
from jupyter_tpu.agent.daemon import runs as module
from jupyter_tpu.agent.daemon.handlers import OperationError, handlers
from jupyter_tpu.agent.daemon.run_process import BUFFER
from jupyter_tpu.agent.daemon.runs import Runs
from jupyter_tpu.agent.protocol.processes import start_time
from jupyter_tpu.agent.protocol.requests import REQUESTS

pytestmark = pytest.mark.asyncio


class Client:
    """What a client asks of one daemon's runs, over one connection."""

    def __init__(self) -> None:
        self.runs = Runs()

    async def ask(self, op: str, id: str = "r", **params: Any) -> dict[str, Any]:
        request = REQUESTS[op](id=id, **params)
        request.client = self
        return await handlers(self.runs)[op](request)

    async def start(self, *command: str, **params: Any) -> dict[str, Any]:
        return await self.ask("run", command=list(command), **params)

    async def shell(self, script: str, **params: Any) -> dict[str, Any]:
        return await self.start("sh", "-c", script, **params)

    async def rest(self, answer: dict[str, Any]) -> tuple[bytes, bytes, dict[str, Any]]:
        """All that comes after and with *answer*: stdout, stderr, how it ended."""
        texts = {1: bytearray(), 2: bytearray()}
        while True:
            for stream, data in answer["output"]:
                texts[stream] += base64.b64decode(data)
            if answer["ended"] is not None:
                return bytes(texts[1]), bytes(texts[2]), answer["ended"]
            answer = await self.ask("read_run", start=answer["next"])


@pytest_asyncio.fixture
async def client() -> AsyncIterator[Client]:
    client = Client()
    yield client
    await client.runs.close()


def alive(pid: int) -> bool:
    return bool(start_time(pid))


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
    size = 5 * BUFFER
    answer = await client.shell(f"head -c {size} /dev/zero; echo end >&2")
    run = client.runs._runs["r"]
    await eventually(lambda: not run._room.is_set())
    assert run._size < 2 * BUFFER
    assert run.ended is None
    out, err, ended = await client.rest(answer)
    assert len(out) == size
    assert err == b"end\n"
    assert ended["code"] == 0


async def test_a_lost_answer_is_asked_for_again_by_its_offset(client):
    first = await client.shell("echo one; read line; echo two", input=True)
    again = await client.ask("read_run", start=0)
    assert again["output"] == first["output"]
    await client.ask("write_run", data=base64.b64encode(b"\n").decode(), start=0)
    out, _, _ = await client.rest(await client.ask("read_run", start=first["next"]))
    assert out == b"two\n"


async def test_input_is_written_once_however_often_it_is_sent_and_ends(client):
    starting = asyncio.ensure_future(client.start("cat", input=True))
    await eventually(lambda: client.runs._runs)

    async def write(start: int, data: bytes, **more: Any) -> bool:
        encoded = base64.b64encode(data).decode()
        return (await client.ask("write_run", data=encoded, start=start, **more))["reads"]

    assert await write(0, b"abc")
    assert await write(0, b"abc")
    assert await write(1, b"bcd")
    assert not await write(4, b"e", end=True)
    out, _, ended = await client.rest(await starting)
    assert out == b"abcde"
    assert ended["code"] == 0
    assert not await write(5, b"more")


async def test_input_that_nobody_reads_waits_until_the_command_ends(client):
    starting = asyncio.ensure_future(client.shell("read line; echo $line; sleep 600", input=True))
    await eventually(lambda: client.runs._runs)
    data = base64.b64encode(b"first\n" + bytes(1 << 20)).decode()
    writing = asyncio.ensure_future(client.ask("write_run", data=data, start=0))
    answer = await starting
    assert base64.b64decode(answer["output"][0][1]) == b"first\n"
    assert not writing.done()
    await client.ask("stop_run")
    assert await writing == {"reads": False}


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
async def test_a_wrong_request_starts_nothing(client, params, message):
    with pytest.raises(OperationError, match=message):
        await client.ask("run", **params)
    assert not client.runs.running


async def test_the_working_folder_is_relative_to_the_home_folder(client, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "a b").mkdir()
    for cwd, folder in (("a b", "a b"), ("~/a b", "a b"), ("", ""), (str(tmp_path), "")):
        out, _, _ = await client.rest(await client.start("pwd", id=cwd or "-", cwd=cwd))
        assert Path(out.decode().rstrip("\n")) == tmp_path / folder


async def test_the_variables_are_clean_and_the_environments_commands_come_first(
    client, tmp_path, monkeypatch
):
    monkeypatch.setenv("LD_PRELOAD", "/usr/lib/libtcmalloc.so.4")
    python = tmp_path / "env/bin/python"
    out, _, _ = await client.rest(await client.start("env", python=str(python)))
    assert b"LD_PRELOAD" not in out
    assert f"\nPATH={python.parent}{os.pathsep}".encode() in b"\n" + out


async def test_at_its_time_limit_it_is_interrupted_and_its_last_words_are_there(client):
    script = "trap 'echo bye; exit 4' INT; echo hello; while :; do sleep 0.05; done"
    out, _, ended = await client.rest(await client.shell(script, limit=0.5))
    assert out == b"hello\nbye\n"
    assert ended["cause"] == "timeout"
    assert ended["code"] == 4


async def test_stopping_ends_the_children_too_even_those_that_left_its_group(client):
    code = (
        "import subprocess, time\n"
        "child = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)"
    )
    answer = await client.start(sys.executable, "-c", code)
    child = int(base64.b64decode(answer["output"][0][1]))
    assert await client.ask("stop_run") == {"ended": True}
    await eventually(lambda: not alive(child))  # it was sent the signal, and is not waited for
    _, _, ended = await client.rest(await client.ask("read_run", start=answer["next"]))
    assert ended["cause"] == "stopped"


async def test_what_ignores_interrupts_and_termination_is_killed(client, monkeypatch):
    monkeypatch.setattr(run_process, "KILL_GRACE", 0.2)
    answer = await client.shell("trap '' INT TERM; echo ready; while :; do sleep 0.05; done")
    assert answer["ended"] is None
    while not (await client.ask("stop_run"))["ended"]:
        pass  # after three times KILL_GRACE, on a busy machine
    _, _, ended = await client.rest(await client.ask("read_run", start=answer["next"]))
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


async def test_without_its_client_a_command_is_ended_after_a_while(client, monkeypatch):
    answer = await client.shell("echo started; sleep 600")
    await client.runs.end_abandoned()
    assert client.runs.running, "its client is connected"
    client.runs.client_left(client)
    await client.runs.end_abandoned()
    assert client.runs.running, "its client may come back"
    monkeypatch.setattr(module, "ABANDONED", 0.0)
    await client.runs.end_abandoned()
    _, _, ended = await client.rest(await client.ask("read_run", start=answer["next"]))
    assert ended["cause"] == "abandoned"


async def test_an_unread_end_does_not_keep_a_command_that_is_abandoned(client, monkeypatch):
    await client.shell(f"head -c {2 * BUFFER} /dev/zero")
    run = client.runs._runs["r"]
    await eventually(lambda: not run._room.is_set())  # it waits to write the rest
    monkeypatch.setattr(module, "ABANDONED", 0.0)
    client.runs.client_left(client)
    await client.runs.end_abandoned()
    assert not client.runs.running


async def test_ended_runs_are_forgotten_in_the_end(client):
    for number in range(module.KEPT + 3):
        await client.start("true", id=str(number))
    assert len(client.runs._runs) == module.KEPT
    with pytest.raises(OperationError, match="The run 0 does not exist"):
        await client.ask("read_run", id="0", start=0)


async def test_when_the_daemon_ends_its_commands_end(client):
    answer = await client.shell("echo $$; sleep 600")
    pid = int(base64.b64decode(answer["output"][0][1]))
    await client.runs.close()
    with contextlib.suppress(ChildProcessError):
        await eventually(lambda: not alive(pid))
