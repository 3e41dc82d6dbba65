"""A call on a host whose connection is lost in the middle: the program is real, the line is not."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from jupyter_tpu.cloud import NodeName
from jupyter_tpu.environment.host_answers import ENVIRONMENTS
from jupyter_tpu.environment.packages import uv_path
from jupyter_tpu.errors import ConnectionLost, Reason, TPUError
from jupyter_tpu.links import HostName
from jupyter_tpu.links.host_calls import MOST_ATTEMPTS
from jupyter_tpu.ssh import CompletedCommand


class CutHost:
    """This machine, behind a line that is cut after the first line of each of some answers."""

    host = HostName(NodeName("p", "z", "pod"), 1)

    def __init__(self, cuts: int) -> None:
        self.cuts = cuts
        self.runs = 0

    async def run(
        self, argv: Sequence[str], *, input: bytes = b"", on_line: Any = None, **options: Any
    ) -> CompletedCommand:
        self.runs += 1
        process = await asyncio.create_subprocess_exec(
            *argv, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        out, _ = await process.communicate(input)
        for line in out.decode().splitlines():
            on_line(line)
            if self.runs <= self.cuts:
                raise ConnectionLost("pod host 1")
        return CompletedCommand(returncode=process.returncode or 0, stdout="", stderr="")


async def reach(host: CutHost, attempts: int) -> tuple[Any, list[str]]:
    lines: list[str] = []
    answer = await ENVIRONMENTS.call(
        host,
        "reach",
        log=lines.append,
        timeout=60,
        attempts=attempts,
        address="127.0.0.1",
        ports=[],
    )
    return answer, lines


async def test_what_continues_is_called_again_when_the_host_is_back():
    host = CutHost(cuts=2)
    answer, lines = await reach(host, MOST_ATTEMPTS)
    assert (answer, host.runs) == ([], 3)
    said = "host 1: the connection was lost. This continues when the host can be reached"
    assert lines == [said] * 2


@pytest.mark.parametrize("attempts", [1, 3])
async def test_a_call_that_is_given_up_says_what_to_do(attempts):
    host = CutHost(cuts=9)
    with pytest.raises(TPUError, match="The connection to pod host 1 was lost") as caught:
        await reach(host, attempts)
    assert host.runs == attempts
    assert caught.value.reason is Reason.UNREACHABLE
    assert caught.value.hint == "Try again. It continues where it stopped."


class DownloadingHost(CutHost):
    """A host without uv, with a package index that has one."""

    async def run(
        self, argv: Sequence[str], *, input: bytes = b"", on_line: Any = None, **options: Any
    ) -> CompletedCommand:
        for line in (
            '{"log": "Downloading uv-0.9-py3-none-any.whl"}',
            '{"result": {"uv": "/bin/uv"}}',
        ):
            on_line(line)
        return CompletedCommand(returncode=0, stdout="", stderr="")


async def test_the_download_of_uv_is_in_the_log():
    lines: list[str] = []
    assert await uv_path(DownloadingHost(cuts=0), lines.append) == "/bin/uv"
    assert lines == ["host 1: Downloading uv-0.9-py3-none-any.whl"]
