"""A command on N hosts whose links are up, beside an `ssh` for each of them.

The hosts are N connections to one sshd on loopback, each with its own channel to an agent. SSH and
the agents are real, but one process serves all agents. CPU-seconds are those of the client only:
of this process, or of the `ssh` processes. `ssh` opens a new connection each time, as with podrun
and gcloud.

    python benchmarks/run.py [--hosts 64 256] [--rounds N]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from tunnel import OUT, Sshd

from jupyter_tpu.agent.bundle import bundle
from jupyter_tpu.cloud import NodeName
from jupyter_tpu.commands.runs import FoldedOutput
from jupyter_tpu.fleet.hosts.runs import Runs
from jupyter_tpu.fleet.models import StartRun
from jupyter_tpu.links import HostName
from jupyter_tpu.ssh import HostAddress, connect
from jupyter_tpu.ssh.agent_client import AgentClient, Stream

COMMAND = ["echo", "meow"]
#: Goal of DESIGN.md, section 7: CPU-seconds of the client for 256 hosts.
GOAL, GOAL_HOSTS = 0.15, 256
#: Connections that are opened at once, below sshd's MaxStartups.
AT_ONCE = 8


class Link:
    """A link that is up: `Link`'s methods that a run uses."""

    def __init__(self, agent: AgentClient) -> None:
        self._agent = agent

    async def agent(self) -> AgentClient:
        return self._agent


class Connections:
    """The links of one TPU, in place of `HostConnections`."""

    def __init__(self, links: list[Link]) -> None:
        self._links = links

    def link(self, host: HostName) -> Link:
        return self._links[host.worker]

    @contextlib.asynccontextmanager
    async def borrow(self, host: HostName, timeout: float) -> AsyncIterator[Link]:
        yield self.link(host)


def start_agent(home: Path) -> str:
    """Starts an agent with a home folder of its own; returns its socket."""
    folder = home / ".jupyter-tpu" / "agent" / bundle().hash
    folder.mkdir(parents=True)
    zipfile.ZipFile(io.BytesIO(bundle().data)).extractall(folder)
    done = subprocess.run(
        [sys.executable, folder, "up"],
        env={**os.environ, "HOME": str(home)},
        capture_output=True,
        check=True,
    )
    return str(json.loads(done.stdout)["socket"])


async def ours(address: HostAddress, socket: str, hosts: int, rounds: int) -> dict[str, Any]:
    gate = asyncio.Semaphore(AT_ONCE)

    async def dial() -> tuple[Any, Link]:
        async with gate:
            connection = await connect(address)
            agent = AgentClient(Stream(*await connection.open_unix(socket)), connection.open_unix)
            await agent.wait_hello()
            return connection, Link(agent)

    opened = await asyncio.gather(*(dial() for _ in range(hosts)))
    node = SimpleNamespace(name=NodeName("p", "z", "pod"), endpoints=[None] * hosts)

    async def find(*_: str) -> Any:
        return node

    finder: Any = SimpleNamespace(find_ready=find, find=lambda ref: _name(node))
    desired: Any = SimpleNamespace(environments=lambda name: {})
    connections: Any = Connections([link for _, link in opened])
    runs = Runs(finder, desired, connections, lambda id: None)
    wall, cpu = [], []
    for _ in range(rounds + 1):  # the first one warms up
        lines: list[bytes] = []
        begun, used = time.perf_counter(), time.process_time()
        run = await runs.start("pod", StartRun(command=COMMAND))
        sink = FoldedOutput(range(hosts), lambda _, line, lines=lines: lines.append(line))
        offset = 0
        while True:
            answer = await runs.output("pod", run.id, str(offset), "0.5")
            sink.show(answer)
            offset = answer.next
            if answer.ended:
                break
        cpu.append(time.process_time() - used)
        wall.append(time.perf_counter() - begun)
        assert all(each.code == 0 for each in run.hosts), run.hosts
        assert sum(line.endswith(b"] meow\n") for line in lines) == len(lines) >= 1
    for connection, link in opened:
        await (await link.agent()).close()
        connection.abort()
    return {"wall s": wall[1:], "client CPU s": cpu[1:]}


async def _name(node: Any) -> Any:
    return node.name


def peer(sshd: Sshd, folder: Path, hosts: int) -> dict[str, Any]:
    """One `ssh` per host, at most `AT_ONCE` of them not yet logged in, as sshd wants it."""
    command = ["ssh", "-F", "none", "-p", str(sshd.port), "-i", str(folder / "user")]
    for option in (
        f"UserKnownHostsFile {folder / 'known'}", "HostKeyAlias bench", "BatchMode yes",
        "KexAlgorithms curve25519-sha256", "Ciphers aes128-gcm@openssh.com",
    ):  # fmt: skip
        command += ["-o", option]
    command += [f"{sshd.user}@127.0.0.1", *COMMAND]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.perf_counter()
    left, running = hosts, []
    while left or running:
        while left and len(running) < AT_ONCE:
            running.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=-1))
            left -= 1
        first = running.pop(0)
        assert first.communicate()[0] == b"meow\n"
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"wall s": [time.perf_counter() - begun], "client CPU s": [cpu]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--rounds", type=int, default=10)
    chosen = parser.parse_args()
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="b-", dir="/tmp") as name:
        folder = Path(name)
        sshd = Sshd(folder)
        try:
            address = HostAddress(
                address="127.0.0.1", port=sshd.port, user=sshd.user, alias="bench",
                host_keys=(sshd.host_key,), identity_file=folder / "user",
            )  # fmt: skip
            for hosts in chosen.hosts:
                (folder / str(hosts)).mkdir()
                socket = start_agent(folder / str(hosts))
                found[f"jupyter tpu run, {hosts} hosts"] = asyncio.run(
                    ours(address, socket, hosts, chosen.rounds)
                )
                found[f"ssh, {hosts} hosts"] = peer(sshd, folder, hosts)
        finally:
            sshd.process.terminate()
            sshd.process.wait()
    for way, figures in found.items():
        print(f"{way:28}" + "".join(
            f"{unit} {statistics.median(values):.3f} ({min(values):.3f}–{max(values):.3f})  "
            for unit, values in figures.items()
        ))  # fmt: skip
    if GOAL_HOSTS in chosen.hosts:
        cpu = statistics.median(found[f"jupyter tpu run, {GOAL_HOSTS} hosts"]["client CPU s"])
        print(f"{cpu:.3f} CPU-s for {GOAL_HOSTS} hosts: goal {GOAL} "
              f"{'reached' if cpu <= GOAL else 'not reached'}")  # fmt: skip
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=OUT.parent, capture_output=True, text=True
    )
    OUT.mkdir(exist_ok=True)
    result = {"commit": commit.stdout.strip(), "n": chosen.rounds, "goal": GOAL, "results": found}
    (OUT / "run.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
