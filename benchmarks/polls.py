"""How often Google is asked for TPUs and queued resources, with 1 and with 100 clients.

A real fleet keeps one TPU connected (a real sshd with an agent). Only the Cloud TPU API is
replaced, by lists that count the calls. Each client asks for both lists again and again, at its own
moments, as open panels do, but more often.

    python benchmarks/polls.py [--clients 1 100] [--seconds 180]
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import os
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from _hosts import CloudOfHosts, Hosts, hosts
from _results import write

from jupyter_tpu.cloud import NodeList, QueuedList
from jupyter_tpu.fleet import Fleet
from jupyter_tpu.fleet.core.store import Store
from jupyter_tpu.kernels import KernelSpecs
from jupyter_tpu.links import Links
from jupyter_tpu.ssh import KnownHosts

#: Seconds between two questions of a client; a panel asks every 120 s, or 20 s for the queue.
PERIOD = 20.0
#: Calls that may begin just before or after what is counted.
EDGE = 1


class CountingCloud(CloudOfHosts):
    def __init__(self, machines: Hosts) -> None:
        super().__init__(machines)
        self.calls: collections.Counter[str] = collections.Counter()

    async def list_nodes(self) -> NodeList:
        self.calls["TPUs"] += 1
        return await super().list_nodes()

    async def list_queued(self) -> QueuedList:
        self.calls["queued"] += 1
        return QueuedList(queued=(), unreachable=())


async def measure(machines: Hosts, clients: int, seconds: float) -> dict[str, int]:
    """How often each list was asked for."""
    os.environ["JUPYTER_TPU_SSH_KEY"] = str(machines.key)
    cloud: Any = CountingCloud(machines)
    path = machines.folder / f"{clients}.sqlite"
    store = await Store.open(path, cloud.identity)
    for node in machines.nodes():
        store.set_connected(node.name, node.id)
    await store.close()
    links = Links(cloud, known_hosts=KnownHosts(machines.folder / "pinned"))
    fleet = await Fleet.open(links, KernelSpecs(machines.folder / "kernels"), path)

    async def client(moment: float) -> None:
        await asyncio.sleep(moment)
        while True:
            await asyncio.gather(fleet.tpus(), fleet.queued.list())
            await asyncio.sleep(PERIOD)

    async with contextlib.AsyncExitStack() as opened:
        opened.push_async_callback(links.close)
        opened.push_async_callback(fleet.close)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(client(random.uniform(0, PERIOD))) for _ in range(clients)]
            await asyncio.sleep(2 * PERIOD)
            cloud.calls.clear()
            await asyncio.sleep(seconds)
            calls = dict(cloud.calls)
            for task in tasks:
                task.cancel()
    return calls


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 100])
    parser.add_argument("--seconds", type=float, default=180.0)
    args = parser.parse_args()
    by_clients: dict[int, dict[str, int]] = {}
    for clients in args.clients:
        with tempfile.TemporaryDirectory(prefix="b-", dir="/tmp") as name:
            # The fleet writes entries for the user's `ssh`.
            os.environ.update(HOME=name, JUPYTER_TPU_DATA_DIR=f"{name}/data")
            with hosts(Path(name), 1, 1) as machines:
                by_clients[clients] = asyncio.run(measure(machines, clients, args.seconds))
        asked = ", ".join(f"{what} {count}" for what, count in sorted(by_clients[clients].items()))
        print(f"clients: {clients:4}; calls to Google in {args.seconds:.0f} s: {asked}")
    fewest, most = by_clients[min(by_clients)], by_clients[max(by_clients)]
    reached = all(most[what] <= count + EDGE for what, count in fewest.items())
    print(f"no more calls with more clients: {'reached' if reached else 'MISSED'}")
    write("polls", n=1, seconds=args.seconds, results=by_clients)


if __name__ == "__main__":
    main()
