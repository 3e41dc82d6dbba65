"""Memory and load of chips, sampled by daemons: often while someone looks, else once a minute.

The poll of each connected host carries the samples. Other hosts, and those of a command without a
server, are asked when someone looks. The last samples are kept in memory.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import convert

from ...cloud import Node, NodeName, is_attached
from ...concurrency import gather_or_cancel
from ...errors import TPUError
from ...links import HostName, LinkState
from ...on_host.agent.protocol import requests
from ..core.core import Core
from ..core.host_numbers import host_numbers
from ..models import ChipBooking, ChipLoad, HostLoad, LoadQuery, LoadSample, Problem, TPULoad

#: Seconds between two samples while someone looks, and while no one does.
LOOKED_AT_SECONDS, UNSEEN_SECONDS = 2.0, 60.0
#: Seconds for which a look counts, and for which one waits for a recent sample.
LOOK_SECONDS, SAMPLE_SECONDS = 15.0, 5.0
#: Seconds in which a host that is not polled must answer, and one that did not before.
ANSWER_SECONDS, ANSWER_AGAIN = 30.0, 4.0
#: Samples that are kept of each host, and of all hosts together; but at least so many.
HOST_SAMPLES, ALL_SAMPLES, LEAST_SAMPLES = 300, 60_000, 20

_MESSAGES = {
    "idle": "No process uses the chips.",
    "no_port": "A process uses the chips, but libtpu reports no figures. It may have been started "
    "without TPU_RUNTIME_METRICS_PORTS, or another process has its port.",
    "no_device": "The host has no TPU chips.",
}


class _Sample(NamedTuple):
    number: int  # by which clients ask for later ones
    sample: LoadSample


class _Host:
    """What is known of one host."""

    def __init__(self) -> None:
        self.samples: deque[_Sample] = deque()
        self.node_id = ""  # once it is known
        self.after = 0  # the daemon's own number of the latest
        self.chips = 0
        self.bookings: list[ChipBooking] = []
        self.message = ""
        self.errors: list[str] = []
        self.problem: Problem | None = None


class Metrics:
    """A :class:`~jupyter_tpu.fleet.api.MetricsAPI`."""

    def __init__(self, core: Core) -> None:
        self._finder = core.finder
        self._desired = core.desired
        self._observed = core.observed
        self._connections = core.connections
        self._polled = core.polled
        self._emulated = core.cloud.emulated
        self._hosts: dict[HostName, _Host] = {}
        self._looks: dict[NodeName, float] = {}  # until when each counts
        self._number = 0
        self._sampled = asyncio.Event()  # replaced at each sample

    # ---- for the poller ----

    def every(self, name: NodeName) -> float:
        """How often the hosts of a TPU are to be sampled, in seconds."""
        looked_at = self._looks.get(name, 0.0) > time.monotonic()
        return LOOKED_AT_SECONDS if looked_at else UNSEEN_SECONDS

    def after(self, host: HostName) -> int:
        """The number of the last sample that the host's daemon has sent; 0 if there is none."""
        return self._hosts[host].after if host in self._hosts else 0

    def update(self, host: HostName, samples: Iterable[Mapping[str, Any]]) -> None:
        """Takes a daemon's samples."""
        known = self._hosts.setdefault(host, _Host())
        for reading in samples:
            self._number += 1
            known.after = reading["number"]
            known.chips = reading.get("of", 0)
            known.errors = reading.get("errors", [])
            known.bookings = convert(reading.get("bookings", []), list[ChipBooking])
            known.problem = None
            sample = _sample(reading)
            known.message = _message(sample, reading)
            known.samples.append(_Sample(self._number, sample))
        while len(known.samples) > min(
            HOST_SAMPLES, max(LEAST_SAMPLES, ALL_SAMPLES // len(self._hosts))
        ):
            known.samples.popleft()
        event, self._sampled = self._sampled, asyncio.Event()
        event.set()

    # ---- for faces ----

    async def get(self, ref: str, query: LoadQuery | None = None) -> TPULoad:
        query = query or LoadQuery()
        node = await self._finder.find_ready(ref)
        count = max(1, len(node.endpoints))
        numbers = host_numbers(query.hosts or "all", count, node.name.node)
        hosts = [HostName(node.name, number) for number in numbers]
        self._forget_gone()
        before = self.every(node.name)
        self._looks[node.name] = time.monotonic() + LOOK_SECONDS
        if before != self.every(node.name):
            self._polled.wake()
        polled = [host for host in hosts if self._polled.polls(host)]
        others = [self._ask(host) for host in hosts if host not in polled]
        await gather_or_cancel([self._wait_for_samples(polled), *others])
        return self._view(node, hosts, query.start)

    async def list(self) -> Sequence[TPULoad]:
        await self._finder.reload()
        self._forget_gone()
        nodes = [self._observed.node(name) for name in sorted(self._desired.connected)]
        return [
            self._view(node, [HostName(node.name, n) for n in range(len(node.endpoints))], None)
            for node in nodes
            if node is not None and self._observed.is_ready(node.name)
        ]

    def _forget_gone(self) -> None:
        """Hosts of TPUs that are gone, also where another one has the name now."""
        nodes = self._observed.nodes
        for host, known in list(self._hosts.items()):
            node = nodes.get(host.node)
            known.node_id = known.node_id or (node.id if node else "")
            if node is None or node.id != known.node_id:
                del self._hosts[host]

    async def _wait_for_samples(self, hosts: Sequence[HostName]) -> None:
        """For a recent one of each host whose link is up; not for long."""
        recent = time.time() - 2 * LOOKED_AT_SECONDS
        try:
            async with asyncio.timeout(SAMPLE_SECONDS):
                while not all(self._is_recent(host, recent) for host in hosts):
                    await self._sampled.wait()
        except TimeoutError:
            return  # what is known is shown with its time

    def _is_recent(self, host: HostName, since: float) -> bool:
        link = self._connections.link(host)
        if link.state is not LinkState.UP:
            return True
        known = self._hosts.get(host)
        return known is not None and bool(known.samples) and known.samples[-1].sample.time >= since

    async def _ask(self, host: HostName) -> None:
        """Samples a host that is not polled."""
        known = self._hosts.setdefault(host, _Host())
        seconds = ANSWER_SECONDS if known.problem is None else ANSWER_AGAIN
        try:
            answer = await self._connections.request_host(host, requests.GetLoadRequest(), seconds)
        except TPUError as error:
            known.problem = Problem.of(error)
        else:
            self.update(host, answer["load"])

    def _view(self, node: Node, hosts: Sequence[HostName], start: int | None) -> TPULoad:
        return TPULoad(
            tpu=node.name.node,
            zone=node.name.zone,
            type=node.type,
            emulated=self._emulated and not is_attached(node.name),
            hosts=[self._host_view(host, start) for host in hosts],
            next=self._number,
        )

    def _host_view(self, host: HostName, start: int | None) -> HostLoad:
        known = self._hosts.get(host) or _Host()
        problem = known.problem
        if host.node in self._connections:
            link = self._connections.link(host)
            if link.state is not LinkState.UP and link.problem is not None:
                problem = Problem.of(link.problem)
        if start is None:
            samples = [sample.sample for sample in list(known.samples)[-1:]]
        else:
            samples = [sample.sample for sample in known.samples if sample.number > start]
        return HostLoad(
            host=host.number,
            chips=known.chips,
            samples=samples,
            bookings=known.bookings,
            message=known.message,
            errors=known.errors,
            problem=problem,
        )


def _sample(report: Mapping[str, Any]) -> LoadSample:
    chips = [
        ChipLoad(memory_used=used, memory_total=total, duty_cycle=duty)
        for used, total, duty in report.get("chips", ())
    ]
    sampled = time.time() - float(report["age"])
    return LoadSample(
        time=round(sampled, 1), state=report["state"], chips=chips, queue=report.get("queue")
    )


def _message(sample: LoadSample, report: Mapping[str, Any]) -> str:
    if sample.state == "unreadable":
        return f"libtpu's figures can't be read ({report.get('why', '')})."
    if silent := report.get("silent", 0):
        return (
            f"{'A program that uses' if silent == 1 else 'Programs that use'} the chips can't "
            "report figures: another program has the port 8431. Start each with a port of its own, "
            "such as TPU_RUNTIME_METRICS_PORTS=8432."
        )
    chips = report.get("of", 0)
    if sample.state == "ok" and len(sample.chips) < chips:
        return f"libtpu reports {len(sample.chips)} of the host's {chips} chips."
    return _MESSAGES.get(sample.state, "")
