"""What jupyter-tpu adds to the start of a Jupyter server, of a command, and of a notebook.

    python benchmarks/startup.py [--rounds N]

A server is started without extensions, with ours and with jupyter-server-proxy's, in turn, until
its first answer. `jupyter tpu --help` stands beside Python itself and `jupyter kernelspec --help`;
`%load_ext jupyter_tpu` beside that of IPython's own `autoreload`, in an IPython that has started.
CPU-seconds, as they are less noisy than those of the clock.
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
import urllib.request
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parent))
from _results import summaries, write
from tunnel import free_port, used

BARE, OURS, PEER = "no extension", "jupyter_tpu", "jupyter_server_proxy"
#: DESIGN.md, section 7, and what a command may take.
GOALS = {"server": 0.060, "--help": 0.25}

LOAD = """
import time
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
before = time.process_time()
shell.run_line_magic("load_ext", {name!r})
print(time.process_time() - before)
"""


def server(extension: str, folder: str) -> float:
    """CPU-seconds of a server until its first answer."""
    port = free_port()
    extensions = {} if extension == BARE else {extension: True}
    command = [
        *(sys.executable, "-m", "jupyter_server", f"--ServerApp.port={port}", "--allow-root"),
        *("--ServerApp.ip=127.0.0.1", "--ServerApp.open_browser=False"),
        *(f"--ServerApp.root_dir={folder}", f"--ServerApp.jpserver_extensions={extensions}"),
    ]
    names = ("HOME", "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR")
    # Without the configuration of this environment, which may load other extensions.
    environment = {
        **os.environ,
        **dict.fromkeys(names, folder),
        "JUPYTER_TPU_DATA_DIR": folder,
        "JUPYTER_NO_CONFIG": "1",
    }
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    try:
        while True:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/api", timeout=60).close()
                return used(psutil.Process(process.pid))
            if process.poll() is not None:
                raise SystemExit(f"the server with {extension} ended")
            time.sleep(0.01)
    finally:
        process.terminate()
        process.wait(60)


def command(argv: Sequence[str]) -> float:
    """CPU-seconds of a command."""
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, argv
    return usage.ru_utime + usage.ru_stime


def load(name: str) -> float:
    """CPU-seconds of `%load_ext`."""
    code = LOAD.format(name=name)
    return float(subprocess.run([sys.executable, "-c", code], stdout=-1, check=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10)
    rounds = parser.parse_args().rounds
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # each start would compile our modules
    jupyter = str(Path(sys.executable).with_name("jupyter"))
    results: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        measured: dict[str, dict[str, Callable[[], float]]] = {
            "server": {variant: partial(server, variant, folder) for variant in (BARE, OURS, PEER)},
            "--help": {
                "jupyter tpu": partial(command, [jupyter, "tpu", "--help"]),
                "python -c pass": partial(command, [sys.executable, "-c", "pass"]),
                "jupyter kernelspec": partial(command, [jupyter, "kernelspec", "--help"]),
            },
            "%load_ext": {loaded: partial(load, loaded) for loaded in (OURS, "autoreload")},
        }
        for _ in range(rounds + 1):  # the first one warms up
            for what, ways in measured.items():
                for way, measure in ways.items():
                    results.setdefault(what, {}).setdefault(way, []).append(measure())
    for times in results.values():
        for values in times.values():
            del values[0]
    report(results)
    write("startup", n=rounds, unit="CPU-s", goals=GOALS, results=summaries(results))


def report(results: dict[str, dict[str, list[float]]]) -> None:
    print(f"CPU-seconds, load {os.getloadavg()[0]:.1f}")
    for what, ways in results.items():
        for way, values in ways.items():
            low, middle, high = min(values), statistics.median(values), max(values)
            print(f"  {what:12}{way:24}{middle:.3f} ({low:.3f}–{high:.3f})")
    # Pairs that follow each other, as the machine's load changes.
    pairs = zip(results["server"][OURS], results["server"][BARE], strict=True)
    added = statistics.median(ours - bare for ours, bare in pairs)
    helped = statistics.median(results["--help"]["jupyter tpu"])
    for what, value in (("server", added), ("--help", helped)):
        reached = "reached" if value <= GOALS[what] else "not reached"
        print(f"{what}: {value * 1e3:.0f} ms, goal {GOALS[what] * 1e3:.0f} ms {reached}")


if __name__ == "__main__":
    main()
