"""One notebook on all hosts of a pod, beside ipyparallel and jupyter-distributed.

The pod's hosts are emulated on this machine, and reached over real SSH. The others have no hosts:
their processes run on this machine, too. In all of them JAX has joined and gathered an array before
the start counts as done. Of a first start, which compiles Python's files, nothing is counted.

    python benchmarks/pod_kernel.py [--rounds N] [--type v5litepod-16] [--no-peers]

64 hosts (v5litepod-256) need 20 GB of memory and two cores that do nothing else.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "integration"))
from _kernel_ways import Emulator, Line
from _pod_peers import LINES, SLEEP, private
from _results import summaries, write
from shared_packages import MAKE_ENVIRONMENT

ZONE, TPU, PYTHON = "us-west4-a", "bench-pod", "/home/tpu/env/bin/python"
PEERS = {"ipyparallel": "9.2.0", "jupyter-distributed": "0.1.1"}
#: Seconds for all of a peer's figures.
PEER_LIMIT = 400
#: Hosts up to which there is memory for a second, warm kernel on each while the first one runs.
TWO_KERNELS = 32
#: Parts of the pod kernel, by the name of a process or a word of its command line.
PARTS = {
    "sshd": "sshd",
    "ssh": "ssh",
    "conductor": "conductor",
    "pod-member": "members",
    "ipython_kernel.py": "kernels",
    "keeper": "keeper",
}
#: Seconds, one way.
DELAY = 0.02


async def prepare(emulator: Emulator) -> None:
    """Creates the environment on host 0."""
    from jupyter_tpu.cloud import CloudTPU, NodeName, Target
    from jupyter_tpu.links import HostName, Links

    links = Links(CloudTPU(Target(emulator=emulator.state_file)))
    node = NodeName(emulator._state["project"], ZONE, TPU)
    make = MAKE_ENVIRONMENT.replace("ipykernel ipywidgets", "ipykernel jax")
    await links.get(HostName(node, 0)).run(["sh", "-ec", make], timeout=900)
    await links.close()
    await links.cloud.close()


def copy_environment(emulator: Emulator) -> None:
    """Gives the other hosts the environment of host 0: links into a cache that all share."""
    hosts = emulator.call("GET", "/emulator/v1/hosts")["hosts"]
    first, *others = (
        Path(host["folder"], "home/tpu/env")
        for host in sorted(hosts, key=lambda host: host["worker"])
    )
    for other in others:
        subprocess.run(["cp", "-a", first, other], check=True)


class Pod:
    """The pod kernel, as jupyter_client sees it."""

    def __init__(self, emulator: Emulator, spec: str, hosts: int) -> None:
        from jupyter_tpu.cloud import CloudTPU, NodeName, Target
        from jupyter_tpu.links import HostName, core_thread, default_links

        self._emulator, self._spec, self.hosts = emulator, spec, hosts
        target = Target(emulator=emulator.state_file)
        self._host = HostName(NodeName(CloudTPU(target).project, ZONE, TPU), 0)
        self._links = default_links(target)
        self._wait = core_thread().wait

    async def connect(self) -> None:
        """The TPU is connected, as the server does it."""
        for worker in range(self.hosts):
            self._links.get(HostName_of(self._host, worker)).acquire()
        link = self._links.get(self._host)
        await link.pod_addresses()
        await link.authorize_pod()

    async def keep_warm(self) -> None:
        """Returns when a pod kernel is warm."""
        from jupyter_tpu.on_host.agent.protocol.requests import KeepWarmRequest, WarmEnvironment

        link = self._links.get(self._host)
        addresses = await link.pod_addresses()
        environments: list[WarmEnvironment] = [
            {"python": PYTHON, "pod": {"hosts": len(addresses), "address": addresses[0]}}
        ]
        agent = await link.agent()
        while True:
            kernels = (await agent.request(KeepWarmRequest(environments=environments)))["warm"]
            states = [kernel["state"] for kernel in kernels if kernel.get("pod")]
            if states == ["ready"]:
                return
            assert states != ["failed"], kernels
            await asyncio.sleep(0.1)

    async def keep_none(self) -> None:
        from jupyter_tpu.on_host.agent.protocol.requests import KeepWarmRequest

        agent = await self._links.get(self._host).agent()
        await agent.request(KeepWarmRequest(environments=[]))

    def warm(self) -> None:
        self._wait(self.keep_warm())

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
        return sum(len(str(message["content"].get("text", ""))) for message in seen)

    def differing(self) -> None:
        last = self.hosts - 1
        _, seen = self.notebook.run(
            f"import jax; print('odd' if jax.process_index() == {last} else 'even')"
        )
        shown = [message for message in seen if message["msg_type"] == "display_data"]
        assert len(shown) == 1, "one host differs, and is shown once"

    def interrupt(self) -> float:
        request = self.notebook.client.execute(SLEEP)
        self.notebook.until_output(request, "begun")
        begun = time.perf_counter()
        self.manager.interrupt_kernel()
        self.notebook.until_idle(request)
        taken = time.perf_counter() - begun
        # Many hosts on two cores take longer than the kernel waits for them.
        while self.notebook.run("1")[0]["status"] != "ok":
            assert time.perf_counter() < begun + 120, "the hosts are out of step"
            time.sleep(1)
        return taken

    def restart(self) -> None:
        self.manager.restart_kernel(now=True)
        self.notebook.client.wait_for_ready(timeout=300)
        self.cell("1")

    def stop(self) -> None:
        self.notebook.close()
        self.manager.shutdown_kernel(now=True)

    def processes(self, word: str) -> list[Any]:
        """The hosts' processes whose command line has a *word*."""
        import psutil

        emulator = psutil.Process(self._emulator._state["pid"])
        return [
            process
            for process in emulator.children(recursive=True)
            if word in process.cmdline() and process.name() != "ssh"
        ]

    def cpu_by_part(self) -> dict[str, float]:
        """CPU seconds of what now runs on the hosts, and of this process."""
        import psutil

        emulator = psutil.Process(self._emulator._state["pid"])
        seconds: dict[str, float] = {"client": time.process_time()}
        for process in emulator.children(recursive=True):
            with contextlib.suppress(OSError, psutil.Error):
                words = (
                    process.name().split("-")[0],
                    *(Path(word).name for word in process.cmdline()),
                )
                part = next((name for word, name in PARTS.items() if word in words), "other")
                tasks = Path(f"/proc/{process.pid}/task").glob("*/schedstat")
                spent = sum(int(task.read_text().split()[0]) for task in tasks) / 1e9
                seconds[part] = seconds.get(part, 0.0) + spent
        return seconds

    def cpu(self) -> float:
        """CPU seconds of the hosts so far, also of what has ended and was waited for."""
        import psutil

        seconds = 0.0
        emulator = psutil.Process(self._emulator._state["pid"])
        for process in [emulator, *emulator.children(recursive=True)]:
            try:
                seconds += sum(process.cpu_times()[:4])
            except psutil.Error:
                continue
        return seconds


def HostName_of(host: Any, worker: int) -> Any:
    from jupyter_tpu.links import HostName

    return HostName(host.node, worker)


def measure(pod: Pod, line: Line, rounds: int) -> dict[str, list[float]]:
    """Seconds, bytes and CPU seconds of each figure."""
    import psutil

    figures: dict[str, list[float]] = {}

    def add(what: str, value: float) -> None:
        figures.setdefault(what, []).append(value)

    def timed(what: str, act: Callable[[], Any]) -> Any:
        begun = time.perf_counter()
        result = act()
        add(what, time.perf_counter() - begun)
        return result

    pod._wait(pod.connect())
    pod.start()
    pod.stop()
    warm = pod.hosts <= TWO_KERNELS
    for round in range(rounds):
        before = pod.cpu()
        timed("start", pod.start)
        add("start, CPU of hosts", pod.cpu() - before)
        timed("restart", pod.restart)
        if warm or round < rounds - 1:
            pod.stop()
    for round in range(rounds if warm else 0):
        pod.warm()
        mine, before = private(psutil.Process()), pod.cpu()
        timed("warm start", pod.start)
        add("warm start, CPU of hosts", pod.cpu() - before)
        if round == 0:
            add("client memory", private(psutil.Process()) - mine)
        pod.warm()
        timed("warm restart", pod.restart)
        if round < rounds - 1:
            pod.stop()
    pod._wait(pod.keep_none())
    pod.cell("1+1")
    parts = pod.cpu_by_part()
    for _ in range(20 * rounds):
        timed("cell", lambda: pod.cell("1+1"))
    after = pod.cpu_by_part()
    for part in sorted(set(parts) & set(after)):
        add(f"cell, CPU of {part}", (after[part] - parts[part]) / (20 * rounds))
    for _ in range(5 * rounds):
        timed("one differs", pod.differing)
    for _ in range(rounds):
        add("interrupt", pod.interrupt())
        line.carried()
        add("characters", timed("100k lines", lambda: pod.cell(LINES)))
        add("bytes of 100k lines on the line", line.carried())
    conductor = pod.processes("conductor")
    members = pod.processes("pod-member")
    add("middle memory", sum(map(private, conductor)))
    add("member memory", statistics.median(map(private, members)))
    line(f"delay {DELAY}")
    for _ in range(5 * rounds):
        timed("cell at 40 ms", lambda: pod.cell("1+1"))
    for _ in range(rounds):
        add("interrupt at 40 ms", pod.interrupt())
    line("delay 0.0000001")
    pod.stop()
    return figures


def measure_peer(way: str, folder: Path, hosts: int, rounds: int) -> dict[str, list[float]]:
    """The same of another program, in an environment of its own."""
    environment, results = str(folder / "peers"), folder / f"{way}.json"
    python = f"{environment}/bin/python"
    uv = str(Path(sys.executable).with_name("uv"))
    if not os.path.exists(python):
        packages = [f"{name}=={version}" for name, version in PEERS.items()]
        install = [uv, "pip", "install", "-q", "--python", python, "--compile-bytecode"]
        base = os.path.realpath(sys.executable)
        subprocess.run([uv, "venv", "-q", "--python", base, environment], check=True)
        subprocess.run([*install, *packages, "ipykernel", "jax", "psutil"], check=True)
        kernel = ["-m", "ipykernel", "install", "--prefix", environment, "--name", "python3"]
        subprocess.run([python, *kernel], check=True, capture_output=True)
    script = Path(__file__).with_name("_pod_peers.py")
    variables = {**os.environ, "JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "4"}
    command = [python, str(script), way, str(hosts), str(rounds), str(results)]
    process = subprocess.Popen(command, env=variables, start_new_session=True)
    try:
        if process.wait(timeout=PEER_LIMIT):
            print(f"{way} with {hosts} processes failed")
    except subprocess.TimeoutExpired:
        print(f"{way} with {hosts} processes printed 100,000 lines for too long")
        os.killpg(process.pid, 9)
    figures: dict[str, list[float]] = json.loads(results.read_text())
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--type", default="v5litepod-16", help="the pod's type")
    parser.add_argument("--no-peers", action="store_true", help="the pod kernel only")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as name:
        os.environ["JUPYTER_DATA_DIR"] = str(Path(name, "data"))
        emulator = Emulator(Path(name, "emulator"))
        results = {}
        try:
            hosts = create(emulator, options.type)
            from jupyter_tpu.kernel_place import KernelPlace
            from jupyter_tpu.kernels import KernelSpecs
            from jupyter_tpu.links import core_thread

            core_thread().wait(prepare(emulator))
            copy_environment(emulator)
            spec, _ = KernelSpecs().register(
                KernelPlace(
                    project=emulator._state["project"],
                    zone=ZONE,
                    tpu=TPU,
                    host_python=PYTHON,
                    emulator=emulator.state_file,
                    hosts=hosts,
                ),
                python_version="3.11",
                emulated=True,
            )
            first = emulator.call("GET", "/emulator/v1/hosts")["hosts"][0]
            line = Line(first["address"], first["port"])
            fault = {"kind": "line", "node": TPU, "port": line.port}
            emulator.call("POST", "/emulator/v1/faults", fault)
            results["pod kernel"] = measure(Pod(emulator, spec, hosts), line, options.rounds)
            show("pod kernel", hosts, results["pod kernel"])
            line.close()
        finally:
            emulator.close()
        for way in () if options.no_peers else PEERS:
            try:
                results[way] = measure_peer(way, Path(name), hosts, options.rounds)
                show(way, hosts, results[way])
            except (subprocess.SubprocessError, OSError, ValueError) as error:
                print(f"{way} with {hosts} processes failed: {error}")
    write("pod_kernel", n=options.rounds, hosts=hosts, results=summaries(results))


def show(way: str, hosts: int, figures: dict[str, list[float]]) -> None:
    """Prints the figures of one program."""
    print(f"\n{way}: {hosts} hosts; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    for what, values in figures.items():
        value, unit = statistics.median(values), " s"
        if "memory" in what or "bytes" in what:
            value, unit = value / 1e6, " MB"
        elif what == "characters":
            unit = ""
        print(f"  {what:32} {value:12.3f}{unit}   n={len(values)}", flush=True)


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
