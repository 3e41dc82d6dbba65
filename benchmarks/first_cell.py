"""From nothing to the first cell on a TPU: ours, and with the commands of the guides.

Ours: `create`, `connect`, a kernel, a cell that uses JAX; then the connection is lost and another
cell runs, and once more on a TPU that is created with the environment of the first one. The guides:
`ssh`, `python -m venv`, `pip install`, and the same lines by `ssh`. Both install the same packages
on an emulated host, from one package index on loopback whose bytes are counted, with empty caches.

    python benchmarks/first_cell.py [--rounds N]

Nothing of an emulated TPU waits for Google, so its creation takes almost no time. uv makes symbolic
links into its cache on emulated hosts, and hard links on real ones.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from _index import Index, serve
from _results import OUT, summaries, write
from conftest import EmulatorProcess
from fault_proxy import FaultProxy
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager

from jupyter_tpu.environment.models import EnvironmentSpec
from jupyter_tpu.environment.requirements import requirements

ZONE, TYPE = "us-central1-a", "v5litepod-4"
TPU = [sys.executable, "-m", "jupyter_tpu.cli"]
PYTHON = "3.12"
CELL = "import jax; print(len(jax.devices()), jax.numpy.ones(8).sum())"
OURS, AGAIN, GUIDES = "jupyter-tpu", "jupyter-tpu, next TPU", "venv and pip"
#: DESIGN.md, section 7: megabytes from the laptop, and kilobytes to reconnect.
GOALS = {"MB from the laptop": 5.0, "kB to reconnect": 50.0}

GUIDE = """
set -e
python{python} -m venv ~/venv
. ~/venv/bin/activate
pip install --quiet -U pip
pip install --quiet -U wheel
pip install --quiet {packages}
"""


def run(*argv: str, **options: Any) -> str:
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, **options)
    if done.returncode:
        raise SystemExit(f"{' '.join(argv)[:200]}: exit code {done.returncode}")
    return done.stdout


def wheels(packages: list[str]) -> Path:
    """A folder with all that is installed; downloaded if it is not there yet."""
    folder = OUT / f"wheels-{PYTHON}"
    if not folder.exists():
        part = folder.with_name(folder.name + ".part")
        download = ["-m", "pip", "download", "--quiet", "--only-binary", ":all:"]
        download += ["--python-version", PYTHON, "--dest", str(part)]
        run(sys.executable, *download, *packages, "uv", "pip", "wheel", "setuptools")
        part.rename(folder)
    return folder


class Host:
    """The one host of an emulated TPU, over a line that counts."""

    def __init__(self, emulator: EmulatorProcess, tpu: str, line: FaultProxy) -> None:
        self.line = line
        self._emulator = emulator
        self._tpu = tpu

    def cpu(self) -> float:
        """CPU-seconds of all its processes since it was started, apart from those that run in the
        background now; their children's are theirs once they have ended.
        """
        [host] = self._emulator.hosts(self._tpu)
        init = psutil.Process(host["init_pid"])
        return sum(
            sum(process.cpu_times()[:4]) for process in (init, *init.children(recursive=True))
        )

    def carried(self) -> float:
        """Megabytes from the laptop since the last call."""
        return self.line.count()[0] / 1e6


@contextlib.contextmanager
def tpu(emulator: EmulatorProcess, name: str) -> Iterator[tuple[float, Host]]:
    """Creates a TPU, as a user does; gives the seconds that it took."""
    begun = time.perf_counter()
    run(*TPU, "create", name, "--type", TYPE, "--zone", ZONE)
    took = time.perf_counter() - begun
    try:
        [host] = emulator.hosts(name)
        with FaultProxy(host["address"], host["port"], address=host["address"]) as line:
            fault = {"kind": "line", "node": name, "port": line.port}
            emulator.request("POST", "/emulator/v1/faults", fault)
            yield took, Host(emulator, name, line)
    finally:
        run(*TPU, "delete", name, "--yes")


class Kernel:
    """The kernel that `connect` has added."""

    def __init__(self, tpu: str) -> None:
        specs = KernelSpecManager().get_all_specs()
        [name] = [name for name, spec in specs.items() if tpu in spec["spec"]["display_name"]]
        self._manager = KernelManager(kernel_name=name)
        self._manager.start_kernel()
        self._client = self._manager.client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=120)

    def run(self, code: str) -> str:
        text: list[str] = []

        def note(message: dict[str, Any]) -> None:
            text.append(message["content"].get("text", ""))

        reply = self._client.execute_interactive(code, output_hook=note, timeout=300)
        assert reply["content"]["status"] == "ok", reply["content"]
        return "".join(text)

    def close(self) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)


def ours(emulator: EmulatorProcess, index: Index, name: str, *options: str) -> dict[str, float]:
    with tpu(emulator, name) as (created, host):
        sent, cpu = index.sent, host.cpu()
        begun = time.perf_counter()
        run(*TPU, "connect", name, *options)
        connected = time.perf_counter() - begun
        figures = {
            "create s": created,
            "environment s": connected,
            "environment CPU-s of the host": host.cpu() - cpu,
            "environment MB from the index": (index.sent - sent) / 1e6,
        }
        begun = time.perf_counter()
        kernel = Kernel(name)
        try:
            assert kernel.run(CELL) == "4 8.0\n"
            figures["first cell s"] = time.perf_counter() - begun
            figures["MB from the laptop"] = host.carried()
            host.line.reset()
            assert kernel.run("print('here')") == "here\n"
            figures["kB to reconnect"] = host.carried() * 1e3
        finally:
            kernel.close()
        figures["all s"] = figures["create s"] + figures["environment s"] + figures["first cell s"]
        return figures


def guides(
    emulator: EmulatorProcess, index: Index, name: str, packages: list[str], folder: Path
) -> dict[str, float]:
    with tpu(emulator, name) as (created, host):
        config = folder / "config"
        config.write_text(run(*TPU, "ssh-config"))
        ssh = ("ssh", "-F", str(config), name)
        sent, cpu = index.sent, host.cpu()
        begun = time.perf_counter()
        script = GUIDE.format(python=PYTHON, packages=" ".join(packages))
        run(*ssh, "sh -s", input=script)
        environment_s = time.perf_counter() - begun
        figures = {
            "create s": created,
            "environment s": environment_s,
            "environment CPU-s of the host": host.cpu() - cpu,
            "environment MB from the index": (index.sent - sent) / 1e6,
        }
        begun = time.perf_counter()
        assert run(*ssh, "~/venv/bin/python -", input=CELL).endswith("4 8.0\n")
        figures["first cell s"] = time.perf_counter() - begun
        figures["MB from the laptop"] = host.carried()
        figures["all s"] = created + environment_s + figures["first cell s"]
        return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    packages = requirements(EnvironmentSpec(environment="bench"), emulated=True).split()
    results: dict[str, dict[str, list[float]]] = {}
    with (
        tempfile.TemporaryDirectory(prefix="b-", ignore_cleanup_errors=True) as name,
        serve(wheels(packages)) as index,
    ):
        folder = Path(name)
        os.environ |= {
            "JUPYTER_TPU_DATA_DIR": f"{name}/tpu",
            "JUPYTER_DATA_DIR": f"{name}/jupyter",
            "JUPYTER_RUNTIME_DIR": f"{name}/runtime",
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_INDEX_URL": index.url,
            "PIP_NO_CACHE_DIR": "1",
        }
        for variable in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "UV_INDEX", "UV_FIND_LINKS"):
            os.environ.pop(variable, None)
        for number in range(rounds):
            # Each has an uv cache of its own, which is empty.
            emulator = EmulatorProcess(folder / f"emulator-{number}")
            os.environ |= emulator.environment
            environment = ("--env", f"bench-{number}", "--python", PYTHON)
            try:
                figures = {
                    OURS: ours(emulator, index, "first", *environment),
                    AGAIN: ours(emulator, index, "next", *environment[:2]),
                    GUIDES: guides(emulator, index, "guide", packages, folder),
                }
            finally:
                emulator.stop()
            for way, measured in figures.items():
                for what, value in measured.items():
                    results.setdefault(way, {}).setdefault(what, []).append(value)
    report(results)
    write("first_cell", n=rounds, goals=GOALS, results=summaries(results))


def report(results: dict[str, dict[str, list[float]]]) -> None:
    print(f"load {os.getloadavg()[0]:.1f}".ljust(34) + "".join(f"{way:>24}" for way in results))
    for what in results[OURS]:
        cells = [statistics.median(of[what]) if what in of else None for of in results.values()]
        shown = "".join(f"{'' if cell is None else format(cell, '.3g'):>24}" for cell in cells)
        print(f"{what:34}{shown}" + (f"   goal {GOALS[what]:g}" if what in GOALS else ""))


if __name__ == "__main__":
    main()
