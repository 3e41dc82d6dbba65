"""The conductor's main: at once, or ahead, as a warm pod kernel.

A warm one has its connections to all hosts, and on each a warm kernel that has imported JAX. It
has joined nothing and uses no chips. When it is needed, it is told which kernel it is.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from typing import Any, Dict, List

from .conductor import Conductor
from .hosts import PodHosts
from .slices import use_slices


def run_conductor(sources: str) -> int:
    """Runs ``conductor -f FILE``: what to do is in ``pod.json``, next to the connection file. Or
    ``conductor --warm``, which gets it from its standard input, a socket.
    """
    code = asyncio.run(
        _conduct_warm(sources) if sys.argv[2] == "--warm" else _conduct(sys.argv[3], sources)
    )
    os._exit(code if 0 <= code < 256 else 1)


async def _conduct(connection_file: str, sources: str) -> int:
    with open(os.path.join(os.path.dirname(connection_file), "pod.json")) as file:
        spec = json.load(file)
    use_slices(spec)
    warm = WarmPod(spec["hosts"])  # until the conductor is there, an instant later
    hosts = PodHosts(spec["hosts"], spec["member"], sources, warm)
    return await Conductor(_read(connection_file), spec, hosts).run()


async def _conduct_warm(sources: str) -> int:
    reader, writer = await asyncio.open_connection(sock=socket.socket(fileno=os.dup(0)))
    spec = json.loads(await reader.readline())
    warm = WarmPod(spec["hosts"])
    member = {**spec["member"], "warm": spec["warm"]}
    hosts = PodHosts(spec["hosts"], member, sources, warm)
    ended = asyncio.ensure_future(warm.ended.wait())
    await asyncio.wait(
        [ended, asyncio.ensure_future(warm.ready.wait())], return_when=asyncio.FIRST_COMPLETED
    )
    writer.write(json.dumps(warm.report).encode() + b"\n")
    line = asyncio.ensure_future(reader.readline())
    await asyncio.wait([line, ended], return_when=asyncio.FIRST_COMPLETED)
    if warm.ended.is_set() or not line.done() or not line.result():
        await hosts.close(1.0)
        return 1
    writer.write(b"\n")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.close(null)
    assignment = json.loads(line.result())
    conductor = Conductor(_read(assignment["file"]), assignment["pod"], hosts)
    hosts.assign(assignment["pod"]["member"])
    return await conductor.run()


class WarmPod:
    """Hears of hosts until they are assigned.

    Attributes
    ----------
    ready: all kernels are warm.
    ended: a host is lost, so this can't become a pod kernel any more.
    report: as `keeper.ipython_kernel` makes it, of host 0, with a problem of any.
    """

    def __init__(self, hosts: int) -> None:
        self.ready, self.ended = asyncio.Event(), asyncio.Event()
        self.report: Dict[str, Any] = {"folders": [], "installed": 0, "problem": ""}
        self._missing = set(range(hosts))

    def heard(self, host: int, channel: int, parts: List[bytes]) -> None:
        """A warm kernel says nothing."""

    def noted(self, host: int, note: Dict[str, Any]) -> None:
        if note.get("event") != "warm":
            return
        report = dict(note["report"])
        problem = self.report["problem"] or str(report.get("problem", ""))[:2000]
        self.report = {**(self.report if host else report), "problem": problem}
        self._missing.discard(host)
        if not self._missing:
            self.ready.set()

    def gone(self, host: int, reason: str) -> None:
        self.report = {**self.report, "problem": reason}
        self.ended.set()


def _read(path: str) -> Dict[str, Any]:
    with open(path) as file:
        content: Dict[str, Any] = json.load(file)
    return content
