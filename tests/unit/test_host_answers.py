"""What a host says is checked where it enters: whoever is root there can send anything."""

import asyncio
import contextlib
import importlib
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from jupyter_tpu import on_host
from jupyter_tpu.cloud import NodeName
from jupyter_tpu.environment.host_answers import CHIPS, ENVIRONMENTS
from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.files import sharing
from jupyter_tpu.fleet.core.changes import ChangeFeed
from jupyter_tpu.fleet.forwarding import tensorboard
from jupyter_tpu.fleet.jobs import host_profiles
from jupyter_tpu.fleet.models import Change, Kernel
from jupyter_tpu.fleet.ray import hosts as ray
from jupyter_tpu.kernels.attachment import keeper_event, kernel_info
from jupyter_tpu.links import HostName
from jupyter_tpu.on_host.agent.daemon.daemon import Daemon
from jupyter_tpu.on_host.agent.protocol import requests
from jupyter_tpu.on_host.agent.protocol.records import KeeperHello
from jupyter_tpu.on_host.agent.protocol.requests import REQUESTS
from jupyter_tpu.server.adoption.kernel_folder import KernelFolder, kernels_dir
from jupyter_tpu.ssh import CompletedCommand
from jupyter_tpu.ssh.agent_answers import bounded, checked_record
from jupyter_tpu.ssh.agent_client import DaemonClient, DaemonStream
from jupyter_tpu.ssh.host_values import InvalidAnswer

ON_HOST = Path(on_host.__file__).parent
PROGRAMS = {
    program.main: program
    for program in (
        ENVIRONMENTS, CHIPS, sharing.PROGRAM, host_profiles.PROGRAM, tensorboard.PROGRAM,
        ray.STATE_PROGRAM,
    )
}  # fmt: skip
HELLO = {"agent": "0123", "pid": 1, "run": "/home/u/.jupyter-tpu/run", "python": "3", "boot": "b"}
JOB = {
    "id": "1a2b-1", "state": "running", "version": 1, "code": None, "cause": "", "paused": "",
    "pid": 5, "started": "2026-01-01T00:00:00Z", "ended": "", "restarted": False,
}  # fmt: skip
GUARD = {
    "rule": {"action": "stop", "node_id": "7", "idle": None, "notice": 0.0, "limits": {}},
    "host": True, "refused": None, "phase": "watching", "reason": "", "ends": None, "busy": None,
    "problem": None,
}  # fmt: skip


@contextlib.asynccontextmanager
async def agent_that_says(
    tmp_path: Path, answer: Callable[[dict[str, Any]], bytes], hello: Any = HELLO
) -> AsyncIterator[DaemonClient]:
    """A client of a peer that answers each request with a line of its choice."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(json.dumps(hello).encode() + b"\n")
        with contextlib.suppress(OSError):
            while line := await reader.readline():
                writer.write(answer(json.loads(line)) + b"\n")
        writer.close()

    async def open_unix(path: str) -> Any:
        return await asyncio.open_unix_connection(tmp_path / "s")

    server = await asyncio.start_unix_server(serve, tmp_path / "s")
    client = DaemonClient(DaemonStream(*await open_unix("")), open_unix)
    try:
        await client.wait_hello()
        yield client
    finally:
        await client.close()
        server.close()


async def result_of(tmp_path: Path, op: str, result: Any) -> dict[str, Any]:
    """What a caller gets if the agent's answer is *result*."""

    def answer(request: dict[str, Any]) -> bytes:
        return json.dumps({"id": request["id"], "result": result}).encode()

    async with agent_that_says(tmp_path, answer) as client:
        return await client.request(REQUESTS[op]())


# ---- all that is asked is declared --------------------------------------------------------------


def test_each_request_to_the_agent_is_handled_and_each_answer_has_bounds(tmp_path):
    daemon = Daemon(str(tmp_path), "1", "sources")
    assert set(daemon._handlers) == set(REQUESTS)
    for kind in REQUESTS.values():
        assert bounded(kind.answer)


def test_each_function_on_hosts_has_a_declared_answer():
    #: The host asks itself for one, as root, by the program that runs there already.
    own = {"visible_holders"}
    for main, program in PROGRAMS.items():
        functions = set(importlib.import_module(f"jupyter_tpu.on_host.{main}").CALLS) - own
        assert functions - set(CHIPS.answers) == set(program.answers) - set(CHIPS.answers)
    assert own | set(CHIPS.answers) == set(
        importlib.import_module("jupyter_tpu.on_host.chips.main").CALLS
    )
    serving = {
        ".".join(path.relative_to(ON_HOST).with_suffix("").parts)
        for path in ON_HOST.rglob("*.py")
        if "serve(CALLS)" in path.read_text()
    }
    assert serving == set(PROGRAMS)


# ---- the agent ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "result"),
    [
        *(
            ("kernels", {"kernels": [kernel]})
            for kernel in (
                {"id": "/home/user/work", "state": "idle"},
                {"id": "../../work", "state": "idle"},
                {"id": "..", "state": "idle"},
                {"id": "a\n", "state": "idle"},
                {"id": "", "state": "idle"},
                {"state": "idle"},
                {"id": "k" * 200},
                {"id": "k", "booked": ["0"]},
                {"id": "k", "pid": -1},
                {"id": "k", "notebook": "n" * 100_000},
                "k",
                None,
            )
        ),
        ("kernels", {"kernels": [{"id": f"k{n}"} for n in range(10_000)]}),
        ("kernels", {}),
        ("kernels", []),
        ("status", {"version": "1", "kernels": [{"id": "/tmp/x"}]}),
        ("status", {"version": "1", "jobs": {"../j": JOB}}),
        ("status", {"version": "1", "guard": {**GUARD, "ends": 1e300}}),
        ("status", {"version": "1", "load": [{"number": 1, "age": 0, "state": "ok", "of": 10**9}]}),
        ("status", {"version": "1", "packages": {"default": {"revision": "1", "packages": []}}}),
        ("kernel_key", {"key": ["k"]}),
        ("kernel_fate", {"known": False, "ending": "asked"}),
        ("job_status", {**JOB, "state": "paused"}),
        ("job_log", {"lines": [[1, 2, "out"]], "oldest": 1, "next": 2, "last": 1}),
        ("run", {"output": [[1, "not base64!"]], "next": 1, "ended": None}),
        ("run", {"output": [[3, "YQ=="]], "next": 1, "ended": None}),
        ("run", {"output": [], "ended": {"code": 0}}),
        ("process_owners", {"owners": [{"kernel": "", "notebook": "", "job": "", "run": "a b"}]}),
        ("end_kernel", None),
    ],
)
async def test_an_answer_that_can_not_be_is_refused(tmp_path, op, result):
    with pytest.raises(InvalidAnswer, match=f"The host sent an invalid answer \\({op}: ") as caught:
        await result_of(tmp_path, op, result)
    assert caught.value.reason is Reason.UNAVAILABLE


async def test_what_is_not_declared_is_dropped_and_text_can_be_sent_on(tmp_path):
    kernel = {"id": "k", "notebook": "d\udce4t\ud800.ipynb", "limits": [1], "pid": None}
    answer = await result_of(tmp_path, "kernels", {"kernels": [kernel], "more": 1})
    assert answer == {"kernels": [{"id": "k", "notebook": "d�t�.ipynb", "pid": None}]}
    good = await result_of(tmp_path, "run", {"output": [[1, "YQ=="]], "next": 1, "ended": None})
    assert good["output"] == [(1, b"a")]


@pytest.mark.parametrize(
    "line",
    [b"[]", b"3", b"{", b'{"id": 1, "result": ' + b"[" * 99_999, b'{"id":' + b"9" * 5000 + b"}",
     b"\xff", b'{"id": 1}'],
    ids=["list", "number", "cut", "deep", "digits", "bytes", "nothing"],
)  # fmt: skip
async def test_a_line_that_is_no_answer_fails_the_request_and_says_so(tmp_path, line):
    async with agent_that_says(tmp_path, lambda request: line) as client:
        with pytest.raises(InvalidAnswer):
            await client.request(requests.ListKernelsRequest())


@pytest.mark.parametrize("id", [[], {}, "1", 1.0, None])
async def test_an_answer_to_no_request_is_ignored(tmp_path, id):
    def answer(request: dict[str, Any]) -> bytes:
        good = {"id": request["id"], "result": {"key": "k"}}
        return json.dumps({"id": id, "result": 1}).encode() + b"\n" + json.dumps(good).encode()

    async with agent_that_says(tmp_path, answer) as client:
        assert await client.request(requests.GetKernelKeyRequest(id="k")) == {"key": "k"}


@pytest.mark.parametrize("error", ["no", {"reason": "EVIL", "message": "m"}, {"message": "m"}])
async def test_an_error_has_a_known_reason_and_a_message(tmp_path, error):
    def answer(request: dict[str, Any]) -> bytes:
        return json.dumps({"id": request["id"], "error": error}).encode()

    async with agent_that_says(tmp_path, answer) as client:
        with pytest.raises(InvalidAnswer):
            await client.request(requests.ListKernelsRequest())


@pytest.mark.parametrize("hello", [[], {}, {**HELLO, "run": "run"}, {**HELLO, "pid": "1"}])
async def test_a_hello_that_can_not_be_is_refused(tmp_path, hello):
    with pytest.raises(InvalidAnswer):
        async with agent_that_says(tmp_path, lambda request: b"", hello):
            pass


# ---- programs -----------------------------------------------------------------------------------


class AnsweringHost:
    """A host whose programs print *line*."""

    host = HostName(NodeName("p", "z", "t"), 0)

    def __init__(self, line: str) -> None:
        self.line = line

    async def run(self, argv: Any, *, on_line: Any, **options: Any) -> CompletedCommand:
        on_line(self.line)
        return CompletedCommand(returncode=0, stdout="", stderr="")


async def answer_of(function: str, **payload: Any) -> Any:
    host: Any = AnsweringHost(json.dumps(payload))
    [program] = [program for program in PROGRAMS.values() if function in program.answers]
    return await program.call(host, function, log=lambda line: None, timeout=1)


@pytest.mark.parametrize(
    ("function", "result"),
    [
        ("get_uv", {"uv": "uv; reboot"}),
        ("get_uv", {"uv": "/uv\n[Service]"}),
        ("probe", {"free": "much"}),
        ("describe_machine", {"chips": [], "address": "10.0.0.1; reboot"}),
        ("found_pythons", {"asked": "", "pythons": [{"path": 3}]}),
        ("reach", [70_000]),
        ("start_tensorboard", {"port": 0, "logdir": "/l", "reused": False}),
        ("examine_sharing", {"path": "/srv\nWhere=/etc"}),
        ("make_folder", "logs"),
        ("trace", {"path": "/x"}),
    ],
)
async def test_a_program_s_answer_that_can_not_be_is_refused(function, result):
    with pytest.raises(InvalidAnswer, match=function):
        await answer_of(function, result=result)


@pytest.mark.parametrize("error", ["no", ["EVIL", "m", ""], ["INTERNAL", "m"]])
async def test_a_program_s_error_has_a_known_reason(error):
    with pytest.raises(InvalidAnswer):
        await answer_of("get_uv", error=error)
    with pytest.raises(TPUError, match="On host 0: it is full"):
        await answer_of("get_uv", error=["DISK_FULL", "it is full.", ""])


@pytest.mark.parametrize("payload", [{"part": "half"}, {"part": 7}, {"log": {}}, [], 3])
async def test_progress_that_is_none_is_a_line_of_the_log(payload):
    lines: list[str] = []
    host: Any = AnsweringHost(json.dumps(payload))
    with pytest.raises(TPUError, match="ended with status 0"):
        await ENVIRONMENTS.call(host, "get_uv", log=lines.append, timeout=1)
    assert lines == [f"host 0: {json.dumps(payload)}"]


# ---- keepers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "event", [b"[]", b"{", b'{"event": "other"}', b'{"event": "ended", "code": "1"}']
)
def test_an_event_of_a_keeper_that_can_not_be_is_refused(event):
    with pytest.raises(InvalidAnswer):
        keeper_event([event])
    assert keeper_event([b'{"event": "ended", "code": null, "x": 1}']) == {
        "event": "ended",
        "code": None,
    }


@pytest.mark.parametrize("info", [b"[]", b"{", b"\xff", b'{"a": '])
def test_a_kernel_s_information_is_a_json_object(info):
    with pytest.raises(InvalidAnswer):
        kernel_info(info)
    assert kernel_info(b'{"banner": "x"}') == b'{"banner": "x"}'


@pytest.mark.parametrize("fields", [{"status": [1]}, {"status": {"id": "../k"}}, {"info": 3}])
def test_a_hello_of_a_keeper_that_can_not_be_is_refused(fields):
    with pytest.raises(InvalidAnswer):
        checked_record(fields, KeeperHello, "hello")


# ---- what comes after ---------------------------------------------------------------------------


@pytest.mark.parametrize("id", ["../work", "..", ".", "", "a/b"])
def test_no_kernel_has_a_folder_outside_of_all_kernels_folders(tmp_path, id):
    for path in (kernels_dir().parent / "work", kernels_dir() / "a" / "b"):
        path.mkdir(parents=True, exist_ok=True)
        (path / "thesis.tex").touch()
    for name in (id, str(kernels_dir().parent / "work")):
        with pytest.raises(ValueError, match="is not a kernel's id"):
            KernelFolder.create(name)
    assert (kernels_dir().parent / "work" / "thesis.tex").exists()
    assert (kernels_dir() / "a" / "b" / "thesis.tex").exists()


async def test_a_change_that_can_not_be_sent_costs_no_other_change():
    changes = ChangeFeed()
    names = {"bad": "\ud800", "good": "a.ipynb"}

    def find(id: str) -> Kernel:
        return Kernel(id=id, tpu="t", zone="z", environment="", state="", notebook=names[id])

    changes.register("kernel", find)
    published: list[Change] = []
    changes.subscribe(published.append)
    for id in names:
        changes.mark_changed("kernel", id)
    changes.flush()
    assert [change.id for change in published] == ["good"]
    changes.close()
