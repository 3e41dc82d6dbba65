"""Where the processes of a job are, asked of the real agent, keepers and processes without SSH."""

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from local_host import LocalHost
from test_agent_jobs import ended, first_line, poll, read, start, texts
from waiting import eventually

from jupyter_tpu.on_host.agent.keeper import job_stacks
from jupyter_tpu.on_host.agent.keeper.job_silence import LEAST_SECONDS
from jupyter_tpu.on_host.agent.protocol import requests

#: A regular expression that takes longer than the universe: in C, with the GIL.
LOOP = (
    "import re\ndef step():\n    return re.match('(a+)+$', 'a' * 60 + 'b')\nprint('go')\nstep()\n"
)
NO_PY_SPY = {"PATH": "/usr/bin:/bin"}


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """Below /tmp itself: the paths of sockets must be short."""
    folder = Path(tempfile.mkdtemp(prefix="s-"))
    yield folder
    shutil.rmtree(folder)


@pytest_asyncio.fixture
async def host(home: Path) -> AsyncIterator[LocalHost]:
    local = LocalHost(home)
    yield local
    await (await local.agent()).request(requests.PrepareDeleteRequest())
    await local.close()
    await eventually(lambda: not local.processes())


async def stacks(host: LocalHost, job: str) -> Any:
    return await (await host.agent()).request(requests.GetJobStacksRequest(id=job))


async def start_file(host: LocalHost, job: str, code: str, *options: str, **more: Any) -> Any:
    """A job that runs a file with this *code*; returns when it has printed a line."""
    (host.home / f"{job}.py").write_text(code)
    argv = [sys.executable, *options, f"{job}.py"]
    started = await (await host.agent()).request(
        requests.StartJobRequest(id=job, argv=argv, **more)
    )
    await first_line(host, job)
    return started


async def the_process(host: LocalHost, job: str) -> Any:
    answer = await stacks(host, job)
    [process] = answer["processes"]
    return process


def innermost(process: Any) -> tuple[str, int, str, str]:
    frame = process["frames"][0]
    return frame["file"].rpartition("/")[2], frame["line"], frame["function"], frame["text"]


async def test_a_loop_in_c_is_found_at_its_line_and_goes_on(host):
    started = await start_file(host, "loop", LOOP)
    process = await the_process(host, "loop")
    assert (process["source"], process["state"]) == ("faulthandler", "running")
    assert innermost(process) == (
        "loop.py", 3, "step", "return re.match('(a+)+$', 'a' * 60 + 'b')"
    )  # fmt: skip
    assert process["frames"][-1]["function"] == "match"
    again = await the_process(host, "loop")
    assert again["pid"] == started["pid"] == process["pid"], "it was not disturbed"


async def test_the_main_thread_and_forked_children_answer_each_for_itself(host):
    code = (
        "import multiprocessing, threading, time\n"
        "def wait():\n"
        "    print('up')\n"
        "    time.sleep(600)\n"
        "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n"
        "fork = multiprocessing.get_context('fork')\n"
        "children = [fork.Process(target=wait) for _ in range(3)]\n"
        "[child.start() for child in children]\n"
        "children[0].join()\n"
    )
    await start_file(host, "forks", code, "-W", "ignore")
    await eventually(lambda: printed(host, "forks", 3))
    answer = await stacks(host, "forks")
    places = sorted(innermost(process)[:2] for process in answer["processes"])
    assert places == [("forks.py", 4)] * 3 + [("forks.py", 9)]


async def printed(host: LocalHost, job: str, lines: int) -> bool:
    return (await read(host, job))["last"] >= lines


async def test_a_process_that_ignores_sigterm_and_one_that_is_stopped_say_so(host):
    code = "import signal, time\nsignal.signal(15, signal.SIG_IGN)\nprint('go')\ntime.sleep(600)\n"
    started = await start_file(host, "deaf", code, env=NO_PY_SPY)
    assert innermost(await the_process(host, "deaf"))[:2] == ("deaf.py", 4)
    os.kill(started["pid"], signal.SIGSTOP)
    try:
        await eventually(lambda: is_stopped(started["pid"]))
        stopped = await the_process(host, "deaf")
        assert (stopped["source"], stopped["state"]) == ("proc", "stopped")
        assert stopped["problem"] == "it is stopped; py-spy is not installed"
    finally:
        os.kill(started["pid"], signal.SIGCONT)
    agent = await host.agent()
    await agent.request(requests.StopJobRequest(id="deaf", patience=0.2))
    assert (await ended(host, "deaf"))["code"] == -signal.SIGKILL


def is_stopped(pid: int) -> bool:
    return ") T " in Path(f"/proc/{pid}/stat").read_text()


async def test_a_python_that_takes_no_variables_and_no_py_spy_says_what_the_system_knows(host):
    await start_file(
        host,
        "isolated",
        "print('go', flush=True)\nimport time; time.sleep(600)\n",
        "-I",
        env=NO_PY_SPY,
    )
    process = await the_process(host, "isolated")
    assert (process["source"], process["state"]) == ("proc", "waiting")
    assert process["problem"] == "py-spy is not installed"


@pytest.mark.parametrize("permitted", [True, False])
async def test_py_spy_looks_into_it_where_it_may(host, permitted):
    """A stand-in for the program: what it does is told by its own JSON, or its own refusal."""
    folder = host.home / f"bin{permitted}"
    folder.mkdir()
    answer = (
        """printf '[{"pid": %d, "thread_id": 1, "os_thread_id": %d, "frames": [{"name": "main", """
        """"filename": "/x/train.py", "line": 7}]}]' $5 $5"""
        if permitted
        else "echo 'Permission Denied: Try running again with elevated permissions' >&2; exit 1"
    )
    (folder / "py-spy").write_text(f"#!/bin/sh\n{answer}\n")
    (folder / "py-spy").chmod(0o755)
    job = f"spied{permitted}"
    path = f"{folder}:{os.environ['PATH']}"
    code = "print('go', flush=True)\nimport time; time.sleep(600)\n"
    await start_file(host, job, code, "-I", env={"PATH": path})
    process = await the_process(host, job)
    if permitted:
        assert (process["source"], process["frames"][0]["line"]) == ("py-spy", 7)
    else:
        assert process["source"] == "proc"
        assert process["problem"].startswith("py-spy: Permission Denied")


async def test_the_real_py_spy_answers(host):
    if (program := shutil.which("py-spy")) is None:
        pytest.skip("py-spy is not installed")
    path = f"{os.path.dirname(program)}:{os.environ['PATH']}"
    code = "print('go', flush=True)\nimport time\ntime.sleep(600)\n"
    await start_file(host, "real", code, "-I", env={"PATH": path})
    process = await the_process(host, "real")
    assert process["source"] == "py-spy", process["problem"]
    assert innermost(process)[:2] == ("real.py", 3)


async def test_two_jobs_are_kept_apart(host):
    for job in "one", "two":
        await start_file(host, job, f"print('go')\nimport time\n# {job}\ntime.sleep(600)\n")
    for job in "one", "two":
        assert innermost(await the_process(host, job))[0] == f"{job}.py"


async def test_what_a_program_has_of_its_own_stays(host):
    """Its PYTHONPATH, its sitecustomize, its handlers and its descriptors."""
    (host.home / "mine").mkdir()
    (host.home / "mine" / "sitecustomize.py").write_text("import os; os.environ['MINE'] = 'yes'\n")
    (host.home / "mine" / "helper.py").write_text("value = 42\n")
    code = (
        "import os, signal, sys, helper, sitecustomize\n"
        "print(os.environ['MINE'], helper.value, 'in_job' in ''.join(sys.path), \n"
        "      os.path.basename(os.path.dirname(sitecustomize.__file__)),\n"
        "      os.open('/dev/null', 0), signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL)\n"
    )
    await start_file(host, "own", code, env={"PYTHONPATH": str(host.home / "mine")})
    await ended(host, "own")
    assert texts(await read(host, "own")) == ["yes 42 False mine 3 True"]


async def test_it_can_be_switched_off(host):
    code = "import os\nprint([n for n in os.listdir('/proc/self/fd') if int(n) > 99])\n"
    await start_file(host, "off", code, env={"JUPYTER_TPU_STACKS": ""})
    await ended(host, "off")
    assert texts(await read(host, "off")) == ["[]"]


async def test_a_command_that_is_no_python_and_one_that_has_ended(host):
    agent = await host.agent()
    await agent.request(requests.StartJobRequest(id="plain", argv=["sleep", "600"]))
    process = await the_process(host, "plain")
    assert (process["command"], process["frames"], process["problem"]) == ("sleep 600", [], "")
    await start(host, "over", "print(1); print(2); raise SystemExit(4)")
    end = await ended(host, "over")
    assert end["tail"] == ["1", "2"]
    answer = await stacks(host, "over")
    assert (answer["processes"], answer["status"]["code"]) == ([], 4)


async def test_jax_that_ends_a_process_is_explained(host):
    """The words of JAX 0.12.0.1."""
    said = (
        "F1129 11:33:32 2046 client.h:86] Terminating process because the JAX distributed service "
        "detected fatal errors. This most likely indicates that another task died; UNAVAILABLE: "
        "The following tasks are unhealthy (stopped sending heartbeats):\n3\nThe tasks have crashed"
    )
    await start(host, "jax", f"import os, sys; print({said!r}, file=sys.stderr); os.abort()")
    end = await ended(host, "jax")
    assert "process 3 of jax.distributed sent no heartbeat" in end["cause"]
    assert end["cause"].startswith("The job was ended by signal 6 (SIGABRT).")


@pytest.mark.long
async def test_a_job_that_falls_silent_says_since_when_until_it_prints_again(host):
    """Over a real minute: one line a second, and then none."""
    code = (
        "import pathlib, time\n"
        "for number in range(8): print(number, flush=True); time.sleep(1.1)\n"
        "while not pathlib.Path('again').exists(): time.sleep(0.1)\n"
        "print('again', flush=True); time.sleep(600)\n"
    )
    await start(host, "silent", code)
    silent = await changed(host, "silent", "", lambda job: job["silent_since"])
    assert 1.0 <= silent["usual_gap"] <= 30.0
    assert (await stacks(host, "silent"))["silent"] >= LEAST_SECONDS
    (host.home / "again").touch()
    await changed(host, "silent", "", lambda job: not job["silent_since"])


async def changed(host: LocalHost, job: str, version: str, is_so: Any) -> Any:
    """The report of a job to those who poll, once it is so."""
    while True:
        answer = await poll(host, [job], version, 20)
        version = answer["version"]
        if "jobs" in answer and is_so(answer["jobs"][job]):
            return answer["jobs"][job]


def test_threads_are_told_apart_and_garbage_is_no_stack():
    text = (
        "Thread 0x00007f01bf4786c0 [worker] (most recent call first):\n"
        '  File "a.py", line 1 in f\n'
        "\nCurrent thread 0x00007f01c0297b80 (most recent call first):\n"
        '  File "b.py", line 2 in g\n'
        "  ...\n"
    )
    assert job_stacks.parse_stack(text, "7f01bf4786c0")[0]["file"] == "a.py"
    assert job_stacks.parse_stack(text, "unknown")[0]["file"] == "b.py"
    assert job_stacks.parse_stack("\0\xff nothing", "1") == []
