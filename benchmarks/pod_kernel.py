"""One notebook on all hosts of a pod: start, a small cell, interrupt, 100,000 equal lines.

Beside ipyparallel, with as many engines as processes on this machine: it has no hosts. The pod's
hosts are emulated on this machine, too, and reached over real SSH; their JAX has joined, and a
collective was checked, before the first cell. ipyparallel's engines do neither.

    python benchmarks/pod_kernel.py [--rounds N] [--type v5litepod-16]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "integration"))
from _kernel_ways import Emulator
from _results import summaries, write
from conftest import MAKE_ENVIRONMENT

ZONE, TPU = "us-west4-a", "bench-pod"
LINES = "for i in range(100_000): print('line', i)"
SLEEP = "import time\nprint('begun', flush=True)\ntime.sleep(60)"


async def prepare(emulator: Emulator, hosts: int) -> None:
    """Creates the environment on all hosts."""
    from jupyter_tpu.cloud import CloudTPU, NodeName, Target
    from jupyter_tpu.links import HostName, Links

    links = Links(CloudTPU(Target(emulator=emulator.state_file)))
    node = NodeName(emulator._state["project"], ZONE, TPU)
    make = MAKE_ENVIRONMENT.replace("ipykernel ipywidgets", "ipykernel jax")
    for group in ([0], range(1, hosts)):
        running = (links.get(HostName(node, host)).run(["sh", "-ec", make], timeout=900)
                   for host in group)  # fmt: skip
        await asyncio.gather(*running)
    await links.close()
    await links.cloud.close()


class Pod:
    """The pod kernel, as jupyter_client sees it."""

    def __init__(self, spec: str) -> None:
        self._spec = spec
        self._carried = 0

    def start(self) -> None:
        from jupyter_client.manager import KernelManager
        from local_kernels import Notebook

        self.manager = KernelManager(kernel_name=self._spec)
        self.manager.start_kernel(env={**os.environ, "JUPYTER_TPU_PROJECT_SYNC": "off"})
        self.notebook = Notebook(self.manager)
        self.cell("1")

    def cell(self, code: str) -> int:
        """Runs a cell; returns the characters that came."""
        content, seen = self.notebook.run(code, timeout=300)
        assert content["status"] == "ok", content
        return sum(len(str(each["content"].get("text", ""))) for each in seen)

    def interrupt(self) -> float:
        request = self.notebook.client.execute(SLEEP)
        self.notebook.until_output(request, "begun")
        begun = time.perf_counter()
        self.manager.interrupt_kernel()
        self.notebook.until_idle(request)
        return time.perf_counter() - begun

    def restart(self) -> None:
        self.manager.restart_kernel(now=True)
        self.notebook.client.wait_for_ready(timeout=300)
        self.cell("1")

    def stop(self) -> None:
        self.notebook.close()
        self.manager.shutdown_kernel(now=True)


class Parallel:
    """ipyparallel's engines on this machine."""

    def __init__(self, engines: int) -> None:
        self._engines = engines

    def start(self) -> None:
        import ipyparallel

        self.cluster = ipyparallel.Cluster(n=self._engines, log_level=40)
        self.client = self.cluster.start_and_connect_sync()
        self.view = self.client[:]
        self.view.block = True
        self.cell("1")

    def cell(self, code: str) -> int:
        result = self.view.execute(code, silent=False, block=True)
        result.wait_for_output(60)
        return sum(len(each) for each in result.stdout)

    def interrupt(self) -> float:
        result = self.view.execute("import time; time.sleep(60)", silent=False, block=False)
        time.sleep(0.5)  # its engines tell nobody that they have begun
        begun = time.perf_counter()
        self.cluster.signal_engines_sync(2)
        result.wait(60)
        return time.perf_counter() - begun

    def stop(self) -> None:
        self.client.close()
        self.cluster.stop_cluster_sync()


def measure(way: Any, rounds: int) -> dict[str, list[float]]:
    """Seconds of each figure, and characters of the lines."""
    found: dict[str, list[float]] = {}

    def add(what: str, value: float) -> None:
        found.setdefault(what, []).append(value)

    begun = time.perf_counter()
    way.start()
    add("start", time.perf_counter() - begun)
    for _ in range(10 * rounds):
        begun = time.perf_counter()
        way.cell("1+1")
        add("cell", time.perf_counter() - begun)
    for _ in range(rounds):
        add("interrupt", way.interrupt())
        begun = time.perf_counter()
        add("characters", way.cell(LINES))
        add("lines", time.perf_counter() - begun)
        if hasattr(way, "restart"):
            begun = time.perf_counter()
            way.restart()
            add("restart", time.perf_counter() - begun)
    way.stop()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--type", default="v5litepod-16", help="the pod's type")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as name:
        os.environ["JUPYTER_DATA_DIR"] = str(Path(name, "data"))
        emulator = Emulator(Path(name, "emulator"))
        try:
            hosts = create(emulator, options.type)
            from jupyter_tpu.kernels import KernelSpecs
            from jupyter_tpu.links import core_thread

            core_thread().wait(prepare(emulator, hosts))
            spec, _ = KernelSpecs().register(
                project=emulator._state["project"],
                zone=ZONE,
                tpu=TPU,
                worker=0,
                environment="default",
                python_version="3.11",
                host_python="/home/tpu/env/bin/python",
                emulator=emulator.state_file,
                emulated=True,
                variables={},
                hosts=hosts,
            )
            found = {
                "pod kernel": measure(Pod(spec), options.rounds),
                "ipyparallel": measure(Parallel(hosts), options.rounds),
            }
        finally:
            emulator.close()
    print(f"{hosts} hosts; load {os.getloadavg()[0]:.1f}")
    for way, figures in found.items():
        for what, values in figures.items():
            unit = "" if what == "characters" else " s"
            print(f"{way:12} {what:10} {statistics.median(values):12.3f}{unit}   n={len(values)}")
    write("pod_kernel", n=options.rounds, hosts=hosts, results=summaries(found))


def create(emulator: Emulator, type: str) -> int:
    """Creates the pod; returns the number of its hosts."""
    path = f"/v2/projects/{emulator._state['project']}/locations/{ZONE}/nodes"
    body = {"acceleratorType": type, "runtimeVersion": "v2-alpha-tpuv5-lite"}
    emulator.call("POST", f"{path}?nodeId={TPU}", body)
    while True:
        node = emulator.call("GET", f"{path}/{TPU}")
        if node.get("state") == "READY":
            return len(node["networkEndpoints"])
        time.sleep(0.2)


if __name__ == "__main__":
    main()
