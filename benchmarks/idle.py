"""What connected TPUs cost while nothing changes: processor time of the server, bytes of each host.

A real fleet (what Jupyter's server runs) keeps the links to 30 TPUs up, and polls their hosts. The
hosts are real sshds with an agent each (see _hosts.py). Only the Cloud TPU API is replaced, by a
list. This machine has no room for 30 TPUs of 64 hosts: what they cost is calculated from what each
host of a few adds. Bytes are those that the system has counted for the client's sockets. *agent* is
what an agent takes from the processor of its host.

    python benchmarks/idle.py [--hosts 1 2 3] [--seconds 120]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import socket
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).parent))
from _hosts import CloudOfHosts, Hosts, hosts
from _results import write

from jupyter_tpu.fleet import Fleet
from jupyter_tpu.fleet.core.store import Store
from jupyter_tpu.kernels import KernelSpecs
from jupyter_tpu.links import Links
from jupyter_tpu.ssh import KnownHosts

TPUS, HOSTS = 30, 64
#: Goals: percent of a processor for all of them (DESIGN.md, section 7); bytes of a host a minute.
GOALS = {"processor": 5.0, "bytes": 2000}
#: Seconds for the agents' first answers, after they were started.
SETTLE = 10.0
#: Where Linux's `struct tcp_info` has tcpi_bytes_acked and tcpi_bytes_received.
BYTES_AT, TCP_INFO_SIZE = 120, 136


def transferred() -> int:
    """Bytes of all TCP connections of this process, both ways."""
    total = 0
    for connection in psutil.Process().net_connections("tcp"):
        if connection.status == psutil.CONN_ESTABLISHED:
            with socket.socket(fileno=os.dup(connection.fd)) as copy:
                info = copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_SIZE)
            total += sum(struct.unpack_from("=QQ", info, BYTES_AT))
    return total


def agents_used(machines: Hosts) -> float:
    """Processor time that an agent has taken, on average; seconds."""
    times = [psutil.Process(pid).cpu_times() for pid in machines.agents()]
    return statistics.mean(entry.user + entry.system for entry in times)


@contextlib.asynccontextmanager
async def connected_fleet(machines: Hosts) -> AsyncIterator[Fleet]:
    """A fleet with links to all hosts, each of which has answered."""
    os.environ["JUPYTER_TPU_SSH_KEY"] = str(machines.key)
    cloud: Any = CloudOfHosts(machines)
    path = machines.folder / "fleet.sqlite"
    store = await Store.open(path, cloud.identity)
    for node in machines.nodes():
        store.set_connected(node.name, node.id)
    await store.close()
    links = Links(cloud, known_hosts=KnownHosts(machines.folder / "pinned"))
    fleet = await Fleet.open(links, KernelSpecs(machines.folder / "kernels"), path)
    async with contextlib.AsyncExitStack() as opened:
        opened.push_async_callback(links.close)
        opened.push_async_callback(fleet.close)
        while len(machines.agents()) < len(machines.addresses):  # noqa: ASYNC110
            await asyncio.sleep(1.0)
        await asyncio.sleep(SETTLE)
        yield fleet


async def measure(machines: Hosts, seconds: float) -> dict[str, float]:
    """Percent of a processor of the server and of a host, and bytes of each host a minute."""
    async with connected_fleet(machines) as fleet:
        agent, moved = agents_used(machines), transferred()
        used, begun = time.process_time(), time.perf_counter()
        await asyncio.sleep(seconds)
        used, seconds = time.process_time() - used, time.perf_counter() - begun
        agent, moved = agents_used(machines) - agent, transferred() - moved
        assert await all_up(fleet, len(machines.addresses)), "a link was lost"
    return {
        "processor": 100 * used / seconds,
        "agent": 100 * agent / seconds,
        "bytes": 60 * moved / seconds / len(machines.addresses),
    }


async def all_up(fleet: Fleet, count: int) -> bool:
    states = [host.link.state for tpu in (await fleet.tpus()).tpus for host in tpu.hosts]
    return states == ["up"] * count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, nargs="+", default=[1, 2, 3], help="of each TPU")
    parser.add_argument("--seconds", type=float, default=120.0)
    args = parser.parse_args()
    by_hosts = {}
    for per_tpu in args.hosts:
        with tempfile.TemporaryDirectory(prefix="b-", dir="/tmp") as name:
            # The fleet writes entries for the user's `ssh`.
            os.environ.update(HOME=name, JUPYTER_TPU_DATA_DIR=f"{name}/data")
            with hosts(Path(name), TPUS * per_tpu, TPUS) as machines:
                figures = by_hosts[TPUS * per_tpu] = asyncio.run(measure(machines, args.seconds))
        print(
            f"{TPUS} TPUs, {TPUS * per_tpu} hosts: {figures['processor']:.2f} % of a processor, "
            f"agent {figures['agent']:.2f} %, {figures['bytes']:.0f} bytes a minute and host"
        )
    results: dict[str, Any] = {"measured": by_hosts}
    size = max(entry["bytes"] for entry in by_hosts.values())
    print(f"bytes: goal {GOALS['bytes']}: {'reached' if size <= GOALS['bytes'] else 'MISSED'}")
    if len(by_hosts) > 1:
        counts, percents = list(by_hosts), [entry["processor"] for entry in by_hosts.values()]
        line = statistics.linear_regression(counts, percents)
        total = line.intercept + TPUS * HOSTS * line.slope
        reached = "reached" if total <= GOALS["processor"] else "MISSED"
        print(f"calculated for {TPUS} TPUs of {HOSTS} hosts: {total:.1f} % of a processor, goal "
              f"{GOALS['processor']:.0f} %: {reached}")  # fmt: skip
        results["calculated"] = {TPUS * HOSTS: total}
    write("idle", n=1, goals=GOALS, seconds=args.seconds, results=results)


if __name__ == "__main__":
    main()
