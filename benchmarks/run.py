"""`echo meow` on all hosts: ours, podrun's ways, OpenSSH with ControlMaster, and parallel-ssh.

The hosts are real sshds with as many addresses of this machine, each with a home folder and an
agent of its own (see _hosts.py). Only the Cloud TPU API is replaced, by a list of them. All share
this machine's processors with the clients, so seconds of the clock say little. CPU-seconds are
those of the client alone. *first* is when nothing of ours is on the hosts yet; *cold* without any
connection; *connected* with one to each host and its agent, as a server has them. `--cold`: this
only, without agents, of which two cores can't start 256 at once.

    python benchmarks/run.py [--hosts 4 32 64 256] [--rounds N] [--cold]

podrun is a shell loop of `ssh HOST … &` in one version and Fabric's ThreadingGroup in the other.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).parent))
from _hosts import NAME, Hosts, connections, hosts
from _results import summary, write

from jupyter_tpu.commands.run_output import FoldedOutput
from jupyter_tpu.commands.run_output import summary as summary_lines
from jupyter_tpu.fleet.jobs.runs import RunService
from jupyter_tpu.fleet.models import StartRun

COMMAND = ["echo", "meow"]
#: Goals of DESIGN.md, section 7: CPU-seconds of the client for 256 hosts.
GOALS, GOAL_HOSTS = {"connected": 0.15, "cold": 1.0}, 256
OURS, LOOP, SHARED = "jupyter tpu run", "ssh & (podrun)", "ssh ControlMaster"
#: How the loop reads its hosts, what it does with each of them, and its end: podrun's.
SCRIPT = 'while read host; do ssh -F "$1" $host "$3" & done <"$2"; wait'
#: The same, but no `ssh` reads the names of the hosts, which are then left out.
SCRIPT_NULL = 'while read host; do ssh -F "$1" $host "$3" </dev/null & done <"$2"; wait'

STATES = "cold", "connected"

#: CPU-seconds of the client, seconds, hosts that answered.
Figures = tuple[float, float, int]


async def ours(machines: Hosts, states: Sequence[str] = STATES) -> dict[str, Figures]:
    """As the process does that has the links: Jupyter's server, or the command itself."""
    node = machines.node()

    async def find(*_: str) -> Any:
        return node

    async def find_name(ref: str) -> Any:
        return NAME

    finder: Any = SimpleNamespace(find_ready=find, find=find_name)
    desired: Any = SimpleNamespace(environments=lambda name: {})
    changes = SimpleNamespace(marker=lambda what: lambda id: None, register=lambda *_: None)
    ending = SimpleNamespace(push_async_callback=lambda _: None)
    results = {}
    begun, used = time.perf_counter(), time.process_time()
    async with connections(machines) as opened:
        for state in states:
            if state == "connected":
                await asyncio.gather(*(link.agent() for link in opened.links(NAME)))
                begun, used = time.perf_counter(), time.process_time()
            core: Any = SimpleNamespace(
                finder=finder,
                desired=desired,
                connections=opened,
                changes=changes,
                ending=ending,
                connected=SimpleNamespace(is_of_agent=lambda _: False),
            )
            answered = await run(RunService(core), len(node.endpoints))
            results[state] = (time.process_time() - used, time.perf_counter() - begun, answered)
    return results


async def run(runs: RunService, count: int) -> int:
    """How many hosts answered."""
    lines: list[bytes] = []
    sink = FoldedOutput(range(count), lambda stream, line: lines.append(line))
    started = await runs.start(NAME.node, StartRun(command=COMMAND))
    offset = 0
    while True:
        answer = await runs.output(NAME.node, started.id, str(offset))
        sink.show(answer)
        offset = answer.next
        if answer.ended:
            break
    assert all(line.endswith(b"] meow\n") for line in lines), lines
    if answer.run.code:
        print(*summary_lines(answer.run), sep="\n")
    return sum(host.code == 0 for host in answer.run.hosts)


def ssh_loop(machines: Hosts, config: Path, script: str) -> Figures:
    names = machines.folder / "podips.txt"
    names.write_text("".join(f"{address}\n" for address in machines.addresses))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.perf_counter()
    command = ["bash", "-c", script, "bash"]
    answers = subprocess.run(
        [*command, config, names, " ".join(COMMAND)], stdout=subprocess.PIPE, check=True
    ).stdout
    took = time.perf_counter() - begun
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, took, answers.count(b"meow\n")


@contextmanager
def masters(machines: Hosts) -> Iterator[tuple[Path, Callable[[], float]]]:
    """A connection to each host that `ssh` uses with the given configuration; their CPU-seconds."""
    config = machines.folder / "shared"
    config.write_text(machines.config.read_text() + f"  ControlPath {machines.folder}/%h.sock\n")
    processes = [
        subprocess.Popen(["ssh", "-F", config, "-M", "-N", address], stdin=subprocess.DEVNULL)
        for address in machines.addresses
    ]
    try:
        for address in machines.addresses:
            while not (machines.folder / f"{address}.sock").exists():
                time.sleep(0.02)
        watched = [psutil.Process(process.pid) for process in processes]

        def used() -> float:
            times = [peer_process.cpu_times() for peer_process in watched]
            return sum(spent.user + spent.system for spent in times)

        yield config, used
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()


def openssh(machines: Hosts) -> dict[str, dict[str, Figures]]:
    results = {LOOP: {"cold": ssh_loop(machines, machines.config, SCRIPT)}}
    with masters(machines) as (config, used):
        before = used()
        cpu, took, answered = ssh_loop(machines, config, SCRIPT_NULL)
        results[SHARED] = {"connected": (cpu + used() - before, took, answered)}
    return results


def library(machines: Hosts, name: str) -> dict[str, Figures]:
    file = machines.folder / "hosts.json"
    known = {"addresses": machines.addresses, "port": machines.port, "user": machines.user}
    file.write_text(json.dumps({**known, "key": str(machines.key), "command": " ".join(COMMAND)}))
    peers = str(Path(__file__).with_name("_run_peers.py"))
    command = [sys.executable, peers, name, str(file)]
    return {
        state: tuple(figures)
        for state, figures in json.loads(
            subprocess.run(command, stdout=-1, check=True).stdout
        ).items()
    }


def measure(
    machines: Hosts, rounds: int, states: Sequence[str] = STATES
) -> dict[str, list[Figures]]:
    results: dict[str, list[Figures]] = {}

    def note(way: str, figures: dict[str, Figures]) -> None:
        for state, measured in figures.items():
            results.setdefault(f"{way}, {state}", []).append(measured)

    if states == STATES:
        note(OURS, {"first": asyncio.run(ours(machines))["cold"]})
    for _ in range(rounds):
        note(OURS, asyncio.run(ours(machines, states)))
        for name in ("fabric", "parallel-ssh"):
            note(name, library(machines, name))
        if states == STATES:
            for way, figures in openssh(machines).items():
                note(way, figures)
    return results


def report(count: int, rounds_by_way: dict[str, list[Figures]]) -> dict[str, Any]:
    """Prints the figures of *count* hosts and returns them for the file."""
    print(f"{count} hosts, load {os.getloadavg()[0]:.1f}")
    results = {}
    for way, rounds in rounds_by_way.items():
        cpu, seconds, answered = zip(*rounds, strict=True)
        goal = GOALS.get(way.rpartition(", ")[2]) if count == GOAL_HOSTS else None
        reached = "reached" if goal and statistics.median(cpu) <= goal else "not reached"
        print(
            f"  {way:30}{statistics.median(cpu):8.3f} CPU-s ({min(cpu):.3f}–{max(cpu):.3f})"
            f"{statistics.median(seconds):8.2f} s   {min(answered)} of {count} answered"
            + (f"   goal {goal}: {reached}" if goal and way.startswith(OURS) else "")
        )
        results[way] = {"CPU-s": summary(cpu), "s": summary(seconds), "answered": min(answered)}
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, nargs="+", default=[4, 32, 64, 256])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cold", action="store_true", help="only without connections")
    args = parser.parse_args()
    states = STATES[:1] if args.cold else STATES
    results = {}
    for count in args.hosts:
        with tempfile.TemporaryDirectory(prefix="b-", dir="/tmp") as name:
            os.environ["JUPYTER_TPU_DATA_DIR"] = f"{name}/data"
            with hosts(Path(name), count) as machines:
                results[count] = report(count, measure(machines, args.rounds, states))
    write("run", n=args.rounds, goals=GOALS, results=results)


if __name__ == "__main__":
    main()
