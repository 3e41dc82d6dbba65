"""What holds the chips of a pod's hosts, and how they are freed: real processes there."""

import shlex
import subprocess
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import pytest_asyncio
from cli_shell import COMMAND, LIMIT
from pod_fleet import Pod, open_pod, silent_ssh
from waiting import eventually

from jupyter_tpu.commands.chips import use_table
from jupyter_tpu.fleet.chips import chips
from jupyter_tpu.fleet.models import (
    ChipHolder,
    FreeChips,
    FreedChips,
    HolderToEnd,
    Job,
    LoadQuery,
    StartJob,
)

LOCK = "/tmp/libtpu_lockfile"
#: What libtpu does with its lock and the first chip of a host; then it says its pid and waits.
HOLD = f"""
import fcntl, os, signal, sys, time
lock = os.open({LOCK!r}, os.O_CREAT | os.O_RDWR, 0o600)
fcntl.lockf(lock, fcntl.LOCK_EX)
chip = os.open("/dev/accel0", os.O_RDWR)
print(os.getpid(), flush=True)
time.sleep(600)
"""
#: The same of a program that ignores SIGTERM, and without the lock.
STUBBORN = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
chip = os.open("/dev/accel1", os.O_RDWR)
print(os.getpid(), flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def tpu(emulator: Any) -> Iterator[str]:
    """The name of a pod of two hosts."""
    with emulator.tpu("chips", "v4-16", "us-central2-b") as node:
        yield node["name"].rpartition("/")[2]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pod(emulator: Any, tpu: str, tmp_path_factory: Any) -> AsyncIterator[Pod]:
    async with open_pod(emulator, tpu, tmp_path_factory.mktemp("chips")) as opened:
        yield opened


in_pod = pytest.mark.asyncio(loop_scope="module")


async def holders(pod: Pod) -> list[ChipHolder]:
    use = await pod.fleet.chips.list(pod.tpu)
    assert [host.problem for host in use.hosts] == [None, None]
    assert all(len(host.devices) == 4 for host in use.hosts)
    return [holder for host in use.hosts for holder in host.holders]


async def free(
    pod: Pod, *asked: ChipHolder, patience: float = 0.5, locks: Sequence[int] = ()
) -> FreedChips:
    chosen = [HolderToEnd(host=holder.host, pid=holder.pid, start=holder.start) for holder in asked]
    return await pod.fleet.chips.free(
        pod.tpu, FreeChips(holders=chosen, patience=patience, locks=[*locks])
    )


async def detached(pod: Pod, host: int, code: str, prefix: str = "") -> int:
    """Starts a program that belongs to nothing of ours; returns its pid."""
    script = f"{prefix}setsid python3 -c {shlex.quote(code)} >pid.txt 2>&1 & disown"
    await pod.output(await pod.start("bash", "-c", script, hosts=str(host)))

    async def pid() -> str:
        run = await pod.shell("cat pid.txt", hosts=str(host))
        return (await pod.stdout(run))[0].decode().strip()

    await eventually(pid)
    return int(await pid())


async def job_holding(pod: Pod, host: int) -> Job:
    job = await pod.fleet.jobs.start(
        pod.tpu, StartJob(command=["python3", "-c", HOLD], hosts=str(host))
    )

    async def holds() -> bool:
        return job.id in [holder.job for holder in await holders(pod)]

    await eventually(holds)
    return job


@in_pod
async def test_a_host_whose_chips_serve_no_figures_is_told_apart_from_one_that_is_idle(pod):
    """The TPU is not connected: its hosts are asked when somebody looks."""
    run = await pod.start("python3", "-c", HOLD, hosts="0")

    async def held() -> bool:
        return len(await holders(pod)) == 1

    await eventually(held)
    load = await pod.fleet.metrics.get(pod.tpu)
    assert [(host.chips, host.samples[-1].state) for host in load.hosts] == [
        (4, "no_port"),
        (4, "idle"),
    ]
    assert "libtpu reports no figures" in load.hosts[0].message
    assert load.hosts[1].message == "No process uses the chips."
    await pod.fleet.runs.stop(pod.tpu, run.id)
    news = await pod.fleet.metrics.get(pod.tpu, LoadQuery(start=load.next, hosts="0"))
    [host] = news.hosts
    assert host.problem is None
    assert [sample.state for sample in host.samples] == ["idle"]
    everything = await pod.fleet.metrics.get(pod.tpu, LoadQuery(start=0))
    assert [len(host.samples) for host in everything.hosts] == [3, 2]


@in_pod
async def test_what_holds_the_chips_is_named_on_each_host_and_ended_in_its_own_way(pod):
    begun = datetime.now(UTC) - timedelta(seconds=2)
    run = await pod.start("python3", "-c", HOLD, hosts="0")
    job = await job_holding(pod, 1)
    stubborn = await detached(pod, 0, STUBBORN)
    roots = await detached(pod, 1, STUBBORN.replace("SIG_IGN", "SIG_DFL"), "sudo -n ")

    async def all_hold() -> bool:
        return len(await holders(pod)) == 4

    await eventually(all_hold)
    before = await holders(pod)
    by_owner = {(holder.host, holder.run, holder.job): holder for holder in before}
    of_run, of_job = by_owner[0, run.id, ""], by_owner[1, "", job.id]
    # Each host counts its processes by itself, so both may have the same number.
    others = {
        (holder.host, holder.pid): holder for holder in before if not holder.run and not holder.job
    }
    assert set(others) == {(0, stubborn), (1, roots)}
    of_stubborn, of_roots = others[0, stubborn], others[1, roots]
    assert of_roots.user == "root"
    assert of_stubborn.user != "root"
    assert (of_run.devices, of_stubborn.devices) == (["/dev/accel0"], ["/dev/accel1"])
    assert of_job.command.startswith("python3 -c")
    for process in before:
        assert begun <= datetime.fromisoformat(process.since) <= datetime.now(UTC)
        assert not process.kernel

    # A process that has the same number, but is another one, is left alone.
    wrong = HolderToEnd(host=0, pid=stubborn, start=f"{of_stubborn.start}0")
    freed = await pod.fleet.chips.free(pod.tpu, FreeChips(holders=[wrong]))
    assert ([holder.outcome for holder in freed.ended], freed.free) == (["gone"], False)
    assert len(await holders(pod)) == 4

    # Only what was named is ended.
    freed = await free(pod, of_run, of_stubborn)
    assert [holder.outcome for holder in freed.ended] == ["ended", "killed"]
    assert freed.free, "host 0 is"
    left = {(holder.host, holder.pid) for holder in await holders(pod)}
    assert left == {(1, of_job.pid), (1, roots)}
    assert (await pod.fleet.runs.get(pod.tpu, run.id)).hosts[0].cause == "stopped"

    freed = await free(pod, of_job, of_roots)
    assert [holder.outcome for holder in freed.ended] == ["ended", "ended"]
    assert freed.free

    async def job_stopped() -> bool:
        return (await pod.fleet.jobs.get(pod.tpu, job.id)).state == "stopped"

    await eventually(job_stopped)  # its host reports it when it has looked
    assert await pod.stdout(await pod.shell(f"ls {LOCK}")) == [f"{LOCK}\n".encode()] * 2


def test_chips_are_listed_and_freed_from_the_command_line(shell, tpu):
    command = [*COMMAND, "run", tpu, "--no-stdin", "--", "python3", "-u", "-c", HOLD]
    running = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=shell.environment
    )
    assert running.stdout is not None
    held: set[str] = set()
    while held != {"0", "1"}:
        line = running.stdout.readline()
        assert line.startswith("["), (line, running.communicate())
        held |= set(line[1 : line.index("]")].split("-"))  # one line if both had the same pid
    listed = shell.run("chips", "list", tpu).stdout
    for host in (0, 1):
        (line,) = [line for line in listed.splitlines() if line.startswith(str(host))]
        assert "command of `jupyter tpu run`" in line
    refused = shell.complaint("chips", "free", tpu)
    assert "Add --yes to end them without asking." in refused
    assert "Host 1: command of `jupyter tpu run` (process" in refused

    # One host first, with what is run there afterwards.
    alone = shell.run("run", "-c", "--yes", tpu, "--worker", "1", "--", "echo", "free now")
    assert (alone.returncode, alone.stdout) == (0, "free now\n"), alone.stderr
    assert f"The chips of {tpu} are free." in alone.stderr
    freed = shell.run("chips", "free", tpu, "--yes")
    assert freed.stdout.endswith(f"The chips of {tpu} are free.\n"), freed.stderr
    running.communicate(timeout=LIMIT)
    assert running.returncode


@in_pod
async def test_a_host_that_cannot_be_asked_is_named_and_the_others_are_freed(
    pod,
    emulator,
    monkeypatch,
):
    job = await job_holding(pod, 0)
    held = await holders(pod)
    assert [holder.job for holder in held] == [job.id]
    monkeypatch.setattr(chips, "REACH_SECONDS", 3.0)
    (last,) = [host for host in emulator.hosts(pod.tpu) if host["worker"] == 1]
    with silent_ssh(last["init_pid"]):
        freed = await free(pod, *held, ChipHolder(host=1, pid=4242, start="1"))
    assert [(holder.host, holder.outcome) for holder in freed.ended] == [
        (0, "ended"),
        (1, "unknown"),
    ]
    assert not freed.free, "nobody knows of host 1"
    assert [host.problem is None for host in freed.use.hosts] == [True, False]
    assert "Host 1 did not answer: " in use_table(freed.use)
