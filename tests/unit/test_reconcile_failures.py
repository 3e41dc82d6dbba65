"""What goes wrong with one TPU is shown and retried, and keeps no other one waiting."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

from core_parts import core_of
from waiting import eventually

from jupyter_tpu.cloud import NodeName
from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.fleet.core.changes import ChangeFeed
from jupyter_tpu.fleet.core.connections import PolledHosts
from jupyter_tpu.fleet.core.loops import PAUSES, TPUFailures
from jupyter_tpu.fleet.kernels.slice_kernels import WarmKernelSpec
from jupyter_tpu.fleet.models import Change
from jupyter_tpu.fleet.reconcile import poller
from jupyter_tpu.fleet.reconcile.poller import HostPoller
from jupyter_tpu.links import HostName, LinkState
from jupyter_tpu.on_host.agent.protocol.requests import GetStatusRequest
from jupyter_tpu.subscribers import Subscribers

BAD, GOOD = NodeName("p", "us-west4-a", "bad"), NodeName("p", "us-west4-a", "good")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_pauses_grow_up_to_a_bound_and_end_with_success():
    clock, changed = Clock(), []
    failures = TPUFailures(clock, changed.append)
    pauses = [failures.record(BAD, "Tunnels", OSError(28, "full")) for _ in range(8)]
    assert pauses == [2.0, 4.0, 8.0, 16.0, 32.0, PAUSES.longest, PAUSES.longest, PAUSES.longest]
    assert failures.waits(BAD, "Tunnels")
    assert not failures.waits(GOOD, "Tunnels")
    assert not failures.waits(BAD, "Kernels")
    clock.now = PAUSES.longest
    assert not failures.waits(BAD, "Tunnels")
    [shown] = failures.all()
    assert (shown.tpu, shown.what, shown.failures) == ("bad", "Tunnels", 8)
    assert shown.since < shown.retry_at
    problem = failures.problem(BAD)
    assert problem.message == "bad can't be kept up to date (Tunnels): OSError: [Errno 28] full."
    failures.clear(BAD, "Tunnels")
    assert failures.problem(BAD) is None
    assert failures.all() == []
    assert set(changed) == {BAD}


def test_a_reason_that_google_gave_is_kept():
    failures = TPUFailures(Clock(), lambda _: None)
    failures.record(BAD, "Tunnels", TPUError("No.", Reason.PERMISSION, "Ask."))
    problem = failures.problem(BAD)
    assert (problem.message, problem.reason, problem.hint) == ("No.", Reason.PERMISSION, "Ask.")
    failures.retain("Tunnels", [GOOD])
    assert failures.all() == []


class Hosts:
    """Two connected TPUs; the agent of one answers what nobody can read."""

    def __init__(self) -> None:
        self.changed = Subscribers[NodeName]()
        self.asked: list[dict[str, Any]] = []  # the parameters of each poll of the other
        self.news = asyncio.Event()
        self.cut: TPUError | None = None

    def names(self) -> list[NodeName]:
        return [BAD, GOOD]

    def links(self, name: NodeName) -> list[Any]:
        return [self.link(HostName(name, 0))]

    def link(self, host: HostName) -> Any:
        def ignore(*, in_use: bool) -> None: ...

        return SimpleNamespace(host=host, state=LinkState.UP, acquire=ignore, release=ignore)

    def __contains__(self, name: NodeName) -> bool:
        return True

    async def request_host(
        self, host: HostName, request: GetStatusRequest, timeout: float, *, in_use: bool
    ) -> Any:
        await asyncio.sleep(0 if host.node == BAD else 0.01)
        if host.node == GOOD:
            self.asked.append(request.params)
        if request.version:
            await self.news.wait()
            if self.cut is not None:
                raise self.cut
        garbage, good = {"version": "1"}, {"kernels": ["a kernel"], "warm": [], "packages": {}}
        return garbage if host.node == BAD else {**garbage, **good, "jobs": {}}


class Monitors:
    def __init__(self) -> None:
        self.updated: list[NodeName] = []
        self.enough = asyncio.Event()
        self.kept_warm: dict[str, WarmKernelSpec] = {}
        self.jobs: dict[HostName, list[str]] = {}
        self.unknown: list[object] = []

    def specs(self, name: NodeName) -> dict[str, Any]:
        return self.kept_warm

    def followed(self) -> dict[HostName, list[str]]:
        return self.jobs

    def report(self, *report: Any) -> None:
        pass

    def unreachable(self, host: HostName, jobs: list[str], error: TPUError) -> None:
        self.unknown.append((host, jobs, error))

    def forget_disconnected(self) -> None:
        pass

    def every(self, name: NodeName) -> float:
        return 60.0

    def after(self, host: HostName) -> int:
        return 0

    def update(self, name: NodeName, *reports: Any) -> None:
        self.updated.append(name)
        self.enough.set()


@contextlib.asynccontextmanager
async def polling(hosts: Hosts, monitors: Monitors) -> AsyncIterator[TPUFailures]:
    """A poller that has asked each host once."""

    async def ignore(name: NodeName, reports: Any) -> None:
        pass

    failures = TPUFailures(asyncio.get_running_loop().time, lambda _: None)
    polled = PolledHosts(hosts)
    core = core_of(connections=hosts, polled=polled, failures=failures)
    monitor: Any = monitors
    poller = HostPoller(core, *4 * [monitor], ignore, *3 * [lambda name, report: None])
    task = asyncio.create_task(poller.run())
    async with asyncio.timeout(20):
        await monitors.enough.wait()
        yield failures
    assert not task.done()
    task.cancel()
    await asyncio.wait([task])


async def test_an_agent_that_answers_nonsense_keeps_no_other_tpu_from_being_asked():
    monitors = Monitors()
    async with polling(Hosts(), monitors) as failures:
        assert GOOD in monitors.updated
        assert BAD not in monitors.updated
        assert [failure.tpu for failure in failures.all()] == ["bad"]


async def test_the_next_poll_starts_no_warm_kernel_again_that_was_just_stopped():
    hosts, monitors = Hosts(), Monitors()
    spec = WarmKernelSpec(python="/venv/bin/python", imports=[], env={})
    monitors.kept_warm = {"default": spec}
    async with polling(hosts, monitors):
        await eventually(lambda: len(hosts.asked) == 2)
        monitors.kept_warm = {}
        hosts.news.set()
        await eventually(lambda: len(hosts.asked) > 2)
    assert [len(asked["environments"]) for asked in hosts.asked[:3]] == [1, 1, 0]


async def test_what_a_host_runs_is_not_known_while_the_line_is_cut_and_asked_anew_after_that(
    monkeypatch,
):
    monkeypatch.setattr(poller, "RETRY_SECONDS", 0.01)
    hosts, monitors = Hosts(), Monitors()
    host = HostName(GOOD, 0)
    monitors.jobs = {host: ["a-1"]}
    async with polling(hosts, monitors):
        await eventually(lambda: len(hosts.asked) == 2)
        hosts.cut = TPUError("The line is cut.", Reason.UNREACHABLE)
        hosts.news.set()
        await eventually(lambda: len(hosts.asked) > 2)
    assert monitors.unknown[0] == (host, ["a-1"], hosts.cut)
    # It answers with all there is, not only if that has changed.
    assert [asked["version"] for asked in hosts.asked[:3]] == ["", "1", ""]
    assert [asked["jobs"] for asked in hosts.asked[:3]] == [["a-1"]] * 3


async def test_a_change_that_can_not_be_published_takes_no_other_along():
    feed, heard = ChangeFeed(interval=0.001), []

    def describe(name: NodeName) -> Change:
        if name == BAD:
            raise ValueError("a state that nobody knows")
        return Change(what="tpu", id=name.node)

    def deaf(change: Change) -> None:
        raise OSError("closed")

    feed.register_tpus(describe)
    feed.subscribe(deaf)
    feed.subscribe(lambda change: heard.append(change.id))
    for name in (BAD, GOOD):
        feed.mark_tpu_changed(name)
    feed.flush()
    assert heard == ["good"]
