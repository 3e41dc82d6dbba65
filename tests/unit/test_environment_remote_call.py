"""What a program of ours answers from a host may be anybody's."""

import json
from pathlib import Path
from typing import Any

import pytest
from project_host import ProjectHost
from refusals import raises

from jupyter_tpu.environment.host_answers import ENVIRONMENTS
from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.fleet.jobs import host_profiles as profiles
from jupyter_tpu.fleet.jobs.host_profiles import TracedKernel
from jupyter_tpu.ssh.command import CompletedCommand


class SayingHost(ProjectHost):
    """Whatever it is to run, it says *lines*."""

    def __init__(self, home: Path, *lines: str) -> None:
        super().__init__(home)
        self.lines = lines

    async def run(self, *_: Any, on_line: Any, **__: Any) -> CompletedCommand:
        for line in self.lines:
            on_line(line)
        return CompletedCommand(returncode=0, stdout="", stderr="")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ('{"error": 5}', Reason.UNAVAILABLE),
        ('{"error": ["DISK_FULL", "full"]}', Reason.UNAVAILABLE),
        ('{"error": ["NO_REASON", "what", ""]}', Reason.UNAVAILABLE),
        ('{"error": ["DISK_FULL", "full", ""]}', Reason.DISK_FULL),
        ("[" * 100_000, Reason.ENVIRONMENT),
        ('{"part": "x"}', Reason.ENVIRONMENT),
        ('{"part": null}', Reason.ENVIRONMENT),
        ('{"part": NaN}', Reason.ENVIRONMENT),
    ],
)
async def test_an_answer_that_is_none_is_one_clear_error(tmp_path, answer, reason):
    parts: list[float] = []
    host: Any = SayingHost(tmp_path / "h", answer)
    with raises(reason):
        await ENVIRONMENTS.call(host, "probe", log=lambda line: None, part=parts.append, timeout=5)
    assert parts == []


FOLDER = "~/.jupyter-tpu/traces/plugins/profile/run"
KERNEL = TracedKernel(id="k", environment="e", python="", name="host-0")
GOOD = {"path": f"/home/me{FOLDER[1:]}/host-0.xplane.pb", "bytes": 1, "began": 1.0, "ended": 2.0}


async def traced(folder: Path, *answers: Any) -> Any:
    host: Any = SayingHost(folder / "h", json.dumps({"result": list(answers)}))
    return await profiles.trace(
        host, [KERNEL], None, FOLDER, seconds=1, start=0, lead=0, log=lambda line: None
    )


async def test_a_trace_is_where_it_was_asked_for(tmp_path):
    """It is copied to another host, to the same path."""
    (trace,) = await traced(tmp_path, GOOD)
    assert trace.path == GOOD["path"]
    for path in (
        "/home/me/.ssh/authorized_keys",
        f"{GOOD['path']}/../../x",
        GOOD["path"].replace("host-0", "host-1"),
        "",
    ):
        with pytest.raises(TPUError, match="sent an invalid answer"):
            await traced(tmp_path, {**GOOD, "path": path})


@pytest.mark.parametrize(
    "answers", [[], [GOOD, GOOD], [5], [{}], [{**GOOD, "bytes": "1"}], [{"error": ["x"]}]]
)
async def test_traces_that_are_none_are_one_clear_error(tmp_path, answers):
    with pytest.raises(TPUError, match="sent an invalid answer"):
        await traced(tmp_path, *answers)


async def test_a_memory_profile_that_is_none_is_one_clear_error(tmp_path):
    for answer in ({"data": "?", "cells": {}}, {"data": "", "cells": {"a": "b"}}, {"data": 5}):
        host: Any = SayingHost(tmp_path / "h", json.dumps({"result": [answer]}))
        with pytest.raises(TPUError, match="sent an invalid answer"):
            await profiles.profile_memory(host, [KERNEL])


async def locked(folder: Path, answer: Any) -> Any:
    host: Any = SayingHost(folder / "h", json.dumps({"result": answer}))
    return await ENVIRONMENTS.call(host, "lock_packages", log=lambda line: None, timeout=5)


async def test_versions_of_a_host_are_names_with_versions_or_addresses(tmp_path):
    """They are installed on other hosts and TPUs, and written to a file of the user."""
    good = [
        "jax==0.9.0", "jax[tpu]==0.9.0", "x===1!2.0+local.1", "a.b_c-d == 1", "y==1.* ; a == 'b'",
        "x @ git+https://github.com/a/b@0123#egg=x", "x @ https://me:word@example.com/x.whl", "",
    ]  # fmt: skip
    assert (await locked(tmp_path, {"lock": "\n".join(good)})).lock == "\n".join(good)
    for line in (
        "--index-url https://evil.example",
        "-r /etc/passwd",
        "-e .",
        "jax",
        "jax>=0.9",
        "jax==0.9 --hash=sha256:0",
        "jax==0.9\x1b[2J",
        "jax==0.9 ; a == '\x1b[2J'",
        "jax==0.9\u2028--index-url https://evil.example",
        "jax==0.9\r--index-url https://evil.example",
        5,
    ):
        text = f"optax==1\n{line}\n" if isinstance(line, str) else line
        with pytest.raises(TPUError, match="sent an invalid answer"):
            await locked(tmp_path, {"lock": text})


@pytest.mark.parametrize("package", ["--index-url https://x", "a\nb", "", " a", "a\x1b[2J", 5])
async def test_packages_that_a_host_says_were_asked_for_are_no_options(tmp_path, package):
    with pytest.raises(TPUError, match="sent an invalid answer"):
        await locked(tmp_path, {"lock": "", "packages": [package]})
    lock = await locked(tmp_path, {"lock": "", "packages": ["optax>=0.2 ; a", "x @ https://y"]})
    assert lock.requested.packages == ["optax>=0.2 ; a", "x @ https://y"]
