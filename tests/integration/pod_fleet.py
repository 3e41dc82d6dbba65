"""A fleet in the test's own process, with a pod whose links stay up from test to test."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from jupyter_tpu.cloud import CloudTPU, Target
from jupyter_tpu.fleet import Fleet
from jupyter_tpu.fleet.models import Run, StartRun
from jupyter_tpu.kernels import KernelSpecs
from jupyter_tpu.links import Links
from jupyter_tpu.ssh import Keepalive


class Pod:
    """A fleet with the pod, whose links stay up from test to test."""

    def __init__(self, fleet: Fleet, links: Links, tpu: str) -> None:
        self.fleet = fleet
        self.links = links
        self.tpu = tpu

    async def start(self, *command: str, **request: Any) -> Run:
        return await self.fleet.runs.start(self.tpu, StartRun(command=[*command], **request))

    async def shell(self, script: str, **request: Any) -> Run:
        return await self.start("sh", "-c", script, **request)

    async def output(self, run: Run, start: int = 0) -> dict[tuple[int, str], bytes]:
        """All that it writes until its end, by host and stream."""
        texts: dict[tuple[int, str], bytes] = {}
        while True:
            answer = await self.fleet.runs.output(self.tpu, run.id, str(start))
            assert answer.start == start, "something is missing"
            for part in answer.output:
                key = part.host, part.stream
                texts[key] = texts.get(key, b"") + part.data
            start = answer.next
            if answer.ended:
                return texts

    async def stdout(self, run: Run) -> list[bytes]:
        """What each host of the run writes."""
        texts = await self.output(run)
        return [texts.get((host.host, "stdout"), b"") for host in run.hosts]


@contextlib.asynccontextmanager
async def open_pod(emulator: Any, tpu: str, folder: Path) -> AsyncIterator[Pod]:
    """The pod *tpu*; the fleet's state is in *folder*."""
    links = Links(CloudTPU(Target(emulator=str(emulator.state_file))), keepalive=Keepalive(1, 2))
    fleet = await Fleet.open(links, KernelSpecs(folder / "kernels"), folder / "fleet.sqlite")
    try:
        yield Pod(fleet, links, tpu)
    finally:
        await fleet.close()
        await links.close()
        await links.cloud.close()


@contextlib.contextmanager
def silent_ssh(init: int) -> Iterator[None]:
    """The host with this *init* neither answers nor refuses: its SSH servers are suspended."""
    suspended = list(_ssh_servers(init))
    assert suspended
    try:
        _signal(suspended, signal.SIGSTOP)
        yield
    finally:
        _signal(suspended, signal.SIGCONT)


def _ssh_servers(init: int) -> Iterator[int]:
    """The pids of sshd and its children."""
    for process in host_processes(init):
        with contextlib.suppress(OSError):
            if (process / "comm").read_text().startswith("sshd"):
                yield int(process.name)


def _signal(pids: list[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # one that was ending
            os.kill(pid, number)


def host_processes(init: int) -> Iterator[Path]:
    """The folders in /proc of the processes of the host with this *init*."""
    there = os.readlink(f"/proc/{init}/ns/pid")
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.readlink(process / "ns/pid") == there:
                yield process
