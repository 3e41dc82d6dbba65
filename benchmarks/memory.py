"""Memory that our processes have for themselves: on a host, and in a server with many TPUs.

    python benchmarks/memory.py [--tpus 1 2] [--hosts 64]

*private* is what a process shares with no other (Private_* of smaps_rollup): what its end gives
back. *share* counts what several processes have by its part (Pss): those of all processes add up.
The host is this machine, without SSH; it has a daemon, the process that starts keepers, an idle
kernel and a job. The server keeps the links to all hosts up and polls them, as in idle.py; what 30
TPUs of 64 hosts cost is calculated from what each host adds. pod_kernel.py has the conductor's.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "integration"))
from _hosts import Hosts, hosts
from _results import write
from idle import HOSTS, TPUS, all_up, connected_fleet
from local_host import LocalHost
from waiting import eventually

from jupyter_tpu.on_host.agent.protocol import requests

#: Seconds after a start in which a process loads what it needs.
SETTLE = 5.0
#: Seconds after which a server has given back what connecting has used; see `links.free_memory`.
CALM = 40.0


def memory(pid: int | str = "self") -> dict[str, float]:
    """Private memory and share of a process, MB."""
    fields = [line.split() for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()]
    size = {words[0]: int(words[1]) / 1000 for words in fields[1:]}
    private = size["Private_Clean:"] + size["Private_Dirty:"]
    return {"private": private, "share": size["Pss:"]}


async def on_host(home: Path) -> dict[str, dict[str, float]]:
    """The processes of one host, by what they are."""
    host = LocalHost(home, {"JUPYTER_TPU_AGENT_IDLE": "60"})
    agent = await host.agent()
    kernel = requests.StartKernelRequest(
        id="k", launch="1", python=sys.executable, key="k", secret="s", environment="default"
    )
    kernel_keeper = (await agent.request(kernel))["keeper"]
    sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    job = await agent.request(requests.StartJobRequest(id="j", argv=sleep))

    async def idle() -> bool:
        (status,) = (await agent.request(requests.ListKernelsRequest()))["kernels"]
        return bool(status["state"] == "idle")

    await eventually(idle)
    await asyncio.sleep(SETTLE)
    daemon = agent.hello["pid"]
    starter = psutil.Process(daemon).children()[0].pid
    pids = {
        "daemon": daemon,
        "starter of keepers": starter,
        "keeper of a kernel": kernel_keeper,
        "keeper of a job": job["keeper"],
    }
    figures = {name: memory(pid) for name, pid in pids.items()}
    await agent.request(requests.PrepareDeleteRequest())
    await host.close()
    return figures


async def server(machines: Hosts) -> tuple[float, float]:
    """Private MB of this process, without a link and with all of them."""
    gc.collect()
    before = memory()["private"]
    async with connected_fleet(machines) as fleet:
        await asyncio.sleep(CALM)
        assert await all_up(fleet, len(machines.addresses)), "a link was lost"
        return before, memory()["private"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tpus", type=int, nargs="*", default=[1, 2], help="numbers of TPUs")
    parser.add_argument("--hosts", type=int, default=HOSTS, help=f"of each TPU ({HOSTS})")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="b-", dir="/tmp") as name:
        figures = asyncio.run(on_host(Path(name)))
    print(f"{'MB':24}{'private':>10}{'share':>10}")
    for what, sizes in figures.items():
        print(f"{what:24}{sizes['private']:10.2f}{sizes['share']:10.2f}")
    by_hosts: dict[int, float] = {}
    for tpus in args.tpus:
        with tempfile.TemporaryDirectory(prefix="b-", dir="/tmp") as name:
            # The fleet writes entries for the user's `ssh`.
            os.environ.update(HOME=name, JUPYTER_TPU_DATA_DIR=f"{name}/data")
            count = tpus * args.hosts
            with hosts(Path(name), count, tpus) as machines:
                before, after = asyncio.run(server(machines))
        by_hosts[count] = after
        print(f"server, {count} hosts: {after:.1f} MB, {before:.1f} before")
    results: dict[str, Any] = {"host": figures, "server": by_hosts}
    if len(by_hosts) > 1:
        line = statistics.linear_regression(list(by_hosts), list(by_hosts.values()))
        total = line.intercept + TPUS * HOSTS * line.slope
        each = f"{1000 * line.slope:.0f} kB a host"
        print(f"calculated for {TPUS} TPUs of {HOSTS} hosts: {total:.0f} MB, {each}")
        results["calculated"] = {TPUS * HOSTS: total}
    write("memory", n=1, results=results)


if __name__ == "__main__":
    main()
