"""Kernels on an emulated TPU's host beside local ones, in one run.

    python benchmarks/kernel_start.py [N]

Starts N (5) kernels of each kind in turn and prints, as medians over the kernels: the time to the
kernel's first answer, ``1+1`` (each kernel's own median of 30), restart, shutdown. Both kinds run
in an environment with the same ipykernel and nothing else. The emulator's host is reached over
real SSH on loopback, without added delay.
The figures are also written to benchmarks/out/kernel_start.json.
"""

from __future__ import annotations

import json
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ZONE, TPU = "us-central1-a", "bench"
#: DESIGN.md section 7.
GOALS = {"start": "≤ local + 3 round trips + 0.3 s", "execute": "≤ local + round trip + 4 ms",
         "restart": "≤ 1.5 s"}  # fmt: skip
EMULATOR = """
import asyncio, sys
from pathlib import Path
from jupyter_tpu.emulator import serve
asyncio.run(serve(Path(sys.argv[1]), on_ready=lambda state: print(state.path, flush=True)))
"""
MAKE = """
python="$(readlink -f "$(command -v python3.11 || command -v python3)")"
"$python" -m pip install -q --target ~/uv uv
~/uv/bin/uv venv -q --python "$python" ~/env
~/uv/bin/uv pip install -q --python ~/env/bin/python ipykernel=={version}
"""


def timed(what: Callable[[], Any]) -> float:
    """Seconds that *what* takes."""
    begun = time.perf_counter()
    what()
    return time.perf_counter() - begun


def measure(kernel_name: str) -> dict[str, float]:
    """One kernel's figures, in seconds."""
    from jupyter_client.manager import KernelManager

    manager = KernelManager(kernel_name=kernel_name)
    figures = {}

    def start() -> None:
        nonlocal client
        manager.start_kernel()
        client = manager.client()
        client.start_channels()
        client.kernel_info(reply=True, timeout=60)

    def restart() -> None:
        manager.restart_kernel()
        client.kernel_info(reply=True, timeout=60)

    client: Any = None
    figures["start"] = timed(start)
    client.wait_for_ready(timeout=60)
    runs = [timed(lambda: client.execute("1+1", reply=True, timeout=60)) for _ in range(30)]
    figures["execute"] = statistics.median(runs)
    figures["restart"] = timed(restart)
    client.stop_channels()
    figures["shutdown"] = timed(manager.shutdown_kernel)
    return figures


def prepare_local(folder: Path) -> str:
    """Makes a local environment like the remote one; returns the name of its kernelspec."""
    import ipykernel

    uv, python = Path(sys.executable).with_name("uv"), folder / "local/bin/python"
    requirement = f"ipykernel=={ipykernel.__version__}"
    for command in (
        [uv, "venv", "-q", "--python", os.path.realpath(sys.executable), folder / "local"],
        [uv, "pip", "install", "-q", "--python", python, requirement],
        [python, "-m", "ipykernel", "install", "--name", "local", "--prefix", folder / "jupyter"],
    ):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.environ["JUPYTER_PATH"] = str(folder / "jupyter/share/jupyter")
    return "local"


async def prepare(state_file: str) -> str:
    """Creates a TPU with an environment; returns the name of its kernelspec."""
    import ipykernel

    from jupyter_tpu.cloud import Cloud, NodeName, NodeSpec, Target
    from jupyter_tpu.kernels import KernelSpecs
    from jupyter_tpu.links import HostName, default_links

    target = Target(emulator=state_file)
    cloud = Cloud(target)
    node = NodeName(cloud.project, ZONE, TPU)
    await cloud.create_node(node, NodeSpec(type="v5litepod-4", version="v2-alpha-tpuv5-lite"))
    await cloud.close()
    host = default_links(target).get(HostName(node, 0))
    host.hold()  # "on a connected TPU"
    await host.run(["sh", "-ec", MAKE.replace("{version}", ipykernel.__version__)], timeout=300)
    name, _ = KernelSpecs().register(
        project=node.project,
        zone=ZONE,
        tpu=TPU,
        worker=0,
        environment="default",
        python_version="3",
        host_python="/home/tpu/env/bin/python",
        emulator=state_file,
        emulated=True,
        variables={},
    )
    return name


def report(figures: dict[str, list[dict[str, float]]], n: int) -> dict[str, Any]:
    """Prints the table; returns what is written down."""
    rows = {}
    print(f"median of {n} (least to most), ms\n{'':10}{'local':>24}{'remote':>24}   goal")
    for what in figures["local"][0]:
        cells = []
        rows[what] = {}
        for kind, runs in figures.items():
            values = sorted(run[what] * 1000 for run in runs)
            median = statistics.median(values)
            rows[what][kind] = {"n": n, "median": median, "spread": [values[0], values[-1]]}
            cells.append(f"{median:.1f} ({values[0]:.1f}–{values[-1]:.1f})")
        print(f"{what:10}{cells[0]:>24}{cells[1]:>24}   {GOALS.get(what, '')}")
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=HERE, capture_output=True, text=True
    )
    return {"commit": commit.stdout.strip(), "unit": "ms", "n": n, "figures": rows}


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
        for name in ("JUPYTER_TPU_DATA_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
            os.environ[name] = str(Path(folder, name.lower()))
        os.environ["IPYTHONDIR"] = str(Path(folder, "ipython"))
        # With it the local kernel, but not the host's, would compile its modules at each start.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        logging.disable(logging.WARNING)
        emulator = subprocess.Popen(
            [sys.executable, "-c", EMULATOR, str(Path(folder, "emulator"))], stdout=subprocess.PIPE
        )
        try:
            assert emulator.stdout is not None
            state_file = emulator.stdout.readline().decode().strip()
            from jupyter_tpu.links import core_thread

            remote = core_thread().wait(prepare(state_file))
            measure(remote)  # the agent is there, Python's caches are warm
            local = prepare_local(Path(folder))
            measure(local)
            figures: dict[str, list[dict[str, float]]] = {"local": [], "remote": []}
            for _ in range(n):
                figures["local"].append(measure(local))
                figures["remote"].append(measure(remote))
        finally:
            emulator.terminate()
            emulator.wait(30)
    written = report(figures, n)
    (HERE / "out").mkdir(exist_ok=True)
    (HERE / "out" / "kernel_start.json").write_text(json.dumps(written, indent=1) + "\n")


if __name__ == "__main__":
    main()
