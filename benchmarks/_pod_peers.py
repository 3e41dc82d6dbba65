"""ipyparallel's and jupyter-distributed's figures for pod_kernel.py, in an environment that has
both: `python _pod_peers.py WAY PROCESSES ROUNDS` prints them as JSON.

Neither has other machines: all processes run on this one. For a fair start, JAX joins in them as
it has in a pod kernel, and gathers one array.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

import psutil

LINES = "for i in range(100_000): print('line', i)"
SLEEP = "import time\nprint('begun', flush=True)\ntime.sleep(60)"
JOIN = """\
import jax, numpy
from jax.experimental import multihost_utils
jax.distributed.initialize("127.0.0.1:{port}", {count}, {rank})
assert len(multihost_utils.process_allgather(numpy.array([1]))) == {count}
print(jax.device_count())"""


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def join_code(count: int, rank: str) -> str:
    return JOIN.format(port=free_port(), count=count, rank=rank)


def private(process: psutil.Process) -> int:
    """Bytes that only this process has."""
    return int(process.memory_full_info().uss)


class Parallel:
    """ipyparallel: a client, a controller of several processes, and engines."""

    def __init__(self, count: int) -> None:
        self.count = count

    def start(self) -> None:
        import ipyparallel

        self.cluster = ipyparallel.Cluster(n=self.count, log_level=40)
        self.client = self.cluster.start_and_connect_sync()
        self.view = self.client[:]
        self.view.block = True
        self.view.scatter("rank", list(range(self.count)), flatten=True)
        self.cell(join_code(self.count, "rank"))

    def cell(self, code: str) -> None:
        result = self.view.execute(code, silent=False, block=True)
        result.wait_for_output(120)

    def differing(self) -> None:
        self.cell(f"print('odd' if rank == {self.count - 1} else 'even')")

    def interrupt(self) -> float:
        result = self.view.execute(SLEEP, silent=False, block=False)
        deadline = time.monotonic() + 30
        while not all("begun" in text for text in result.stdout) and time.monotonic() < deadline:
            time.sleep(0.05)
        begun = time.perf_counter()
        self.cluster.signal_engines_sync(2)
        result.wait(60)
        return time.perf_counter() - begun

    def middle(self) -> int:
        """The memory of what is between the client and the processes."""
        engines = "ipyparallel.engine"
        return sum(
            private(process)
            for process in psutil.Process().children(recursive=True)
            if engines not in " ".join(process.cmdline())
        )

    def stop(self) -> None:
        self.client.close()
        self.cluster.stop_cluster_sync()


class Distributed:
    """jupyter-distributed: a kernel that starts kernels."""

    def __init__(self, count: int) -> None:
        self.count = count

    def start(self) -> None:
        from jupyter_client.manager import KernelManager

        self.manager = KernelManager(kernel_name="python3")
        assert self.manager.kernel_spec is not None
        self.manager.kernel_spec.argv = [
            sys.executable, "-m", "jupyter_distributed.kernel", "-f", "{connection_file}",
        ]  # fmt: skip
        self.manager.kernel_spec.interrupt_mode = "message"
        variables = {
            "JUPYTER_DISTRIBUTED_BASE_KERNEL": "python3",
            "JUPYTER_DISTRIBUTED_WORLD_SIZE": str(self.count),
        }
        self.manager.start_kernel(env={**os.environ, **variables})
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=300)
        self.cell(join_code(self.count, "int(__import__('os').environ['RANK'])"))

    def cell(self, code: str) -> None:
        reply = self.client.execute_interactive(code, timeout=300, output_hook=lambda _: None)
        assert reply["content"]["status"] == "ok", reply["content"]

    def differing(self) -> None:
        self.cell(
            f"import os; print('odd' if os.environ['RANK'] == '{self.count - 1}' else 'even')"
        )

    def interrupt(self) -> float:
        request = self.client.execute(SLEEP)
        while True:
            message = self.client.get_iopub_msg(timeout=60)
            if "begun" in json.dumps(message["content"]):
                break
        time.sleep(1.0)  # that was the first rank; one that has not begun would lose the interrupt
        begun = time.perf_counter()
        self.client.control_channel.send(self.client.session.msg("interrupt_request", {}))
        while True:
            reply = self.client.get_shell_msg(timeout=90)
            if reply["parent_header"].get("msg_id") == request:
                return time.perf_counter() - begun

    def middle(self) -> int:
        assert self.manager.provisioner is not None
        return private(psutil.Process(getattr(self.manager.provisioner, "pid", 0)))

    def stop(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


def main() -> None:
    ways: dict[str, Any] = {"ipyparallel": Parallel, "jupyter-distributed": Distributed}
    way = ways[sys.argv[1]](int(sys.argv[2]))
    rounds = int(sys.argv[3])
    figures: dict[str, list[float]] = {}

    def note(what: str, value: float) -> None:
        figures.setdefault(what, []).append(value)
        # What comes next may fail, or take too long.
        Path(sys.argv[4]).write_text(json.dumps(figures))

    def timed(what: str, act: Any) -> None:
        begun = time.perf_counter()
        act()
        note(what, time.perf_counter() - begun)

    before = private(psutil.Process())
    for round in range(rounds):
        timed("start", way.start)
        if round < rounds - 1:
            way.stop()
    note("client memory", private(psutil.Process()) - before)
    for _ in range(20 * rounds):
        timed("cell", lambda: way.cell("1+1"))
    for _ in range(5 * rounds):
        timed("one differs", way.differing)
    for _ in range(rounds):
        note("interrupt", way.interrupt())
    note("middle memory", way.middle())
    timed("100k lines", lambda: way.cell(LINES))
    note("middle memory after that", way.middle())
    way.stop()


if __name__ == "__main__":
    main()
