"""What can keep JAX from the chips of a TPU: checks of its hosts, and announced maintenance."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence

from msgspec import structs

from ... import environment, own_log
from ...catalog import AcceleratorType
from ...cloud import Cloud, Maintenance, Node, NodeName, NodeState, is_attached
from ...cloud.host_numbers import HostNumbers
from ...errors import TPUError
from ...links import HostName, Link, read_host_number
from ..core.core import Core
from ..core.observer import ObservedState
from ..models import CheckSetup, Diagnosis, HostDifference, HostVersions, OwnLog, OwnLogQuery
from ..models.core import known_type, timestamp, validated
from ..models.setup import image_finding


class Doctor:
    """The fleet's part ``doctor``."""

    def __init__(self, core: Core, preflight: Callable[[CheckSetup], Awaitable[Diagnosis]]) -> None:
        self._preflight = preflight
        self._finder = core.finder
        self._desired = core.desired
        self._connections = core.connections
        self._emulated = core.cloud.emulated

    async def preflight(self, request: CheckSetup | None = None) -> Diagnosis:
        return await self._preflight(request or CheckSetup())

    async def log(self, query: OwnLogQuery | None = None) -> OwnLog:
        query = validated(query or OwnLogQuery())
        kept, _ = await asyncio.to_thread(own_log.read)
        return OwnLog(lines=own_log.chosen(kept, query.search, query.tail))

    async def check(self, ref: str) -> Diagnosis:
        node = await self._finder.find_ready(ref)
        kind = known_type(node.type)
        ready = {
            name: record.environment.python_path
            for name, record in self._desired.environments(node.name).items()
            if record.environment.state == "ready"
        }
        began = timestamp()
        links = [
            self._connections.link(HostName(node.name, number))
            for number in range(len(node.endpoints))
        ]
        for link in links:
            link.acquire()
        try:
            hosts = await environment.examine(links, ready, node.endpoints[0].internal)
            numbers = await _changed_numbers(node, links)
        finally:
            for link in links:
                link.release()
        if len(hosts) > 1:
            for name in ready:
                self._remember_versions(node, name, hosts, began)
        counted = (node.chips or 0) // len(node.endpoints)
        expected = environment.ExpectedTPU(
            name=node.name.node,
            zone=node.name.zone if node.version else "",
            network=_network(node),
            emulated=self._emulated and node.chips is None,
            cpu_only=node.chips == 0,
            chips_per_host=kind.chips_per_host if kind else counted,
            devices_per_host=kind.devices_per_host if kind else 0,
        )
        findings = environment.diagnose(hosts, expected)
        if kind is not None and (image := _image(node, kind, hosts)) is not None:
            findings.insert(0, image)
        findings += numbers
        return Diagnosis(
            tpu=node.name.node,
            zone=node.name.zone,
            emulated=expected.emulated,
            healthy=environment.healthy(findings),
            findings=findings,
        )

    def _remember_versions(
        self, node: Node, name: str, hosts: Sequence[environment.ExaminedHost], began: str
    ) -> None:
        """Keeps whether an environment is the same on all hosts, unless it changed meanwhile."""
        record = self._desired.environments(node.name).get(name)
        if record is None or record.node_id != node.id or record.environment.state != "ready":
            return
        last = record.environment.versions
        if last is not None and last.time >= began:
            return
        differences = environment.differences(hosts, name)
        record.environment.versions = HostVersions(
            time=began,
            different=[
                HostDifference(host=host, versions=v) for host, v in differences.items() if v
            ],
            unchecked=[host for host, versions in differences.items() if versions is None],
        )
        self._desired.save(node.name, record)


async def _changed_numbers(node: Node, links: Sequence[Link]) -> list[environment.Finding]:
    """Whether the hosts of a slice of Compute Engine still have the numbers by which they are
    listed. If not, the new ones are used from now on.
    """
    if node.api != "compute" or len(links) < 2:
        return []
    said = await asyncio.gather(*map(read_host_number, links))
    changed = [(host, now) for host, now in enumerate(said) if now is not None and now != host]
    if not changed:
        return []
    numbers = {node.endpoints[host].id: now for host, now in changed}
    await asyncio.to_thread(HostNumbers().put, numbers)
    which = ", ".join(f"host {host} is Google's worker {now}" for host, now in changed)
    return [
        environment.Report().warning(
            "numbers",
            f"Google has renumbered the hosts: {which}.",
            "jupyter-tpu uses the new numbers from now on. Restart kernels and jobs of this TPU.",
        )
    ]


def _network(node: Node) -> str:
    """The name of the VPC network that its hosts are in."""
    return (node.request.network or "").rpartition("/")[2] or "default"


def _image(
    node: Node, kind: AcceleratorType, hosts: Sequence[environment.ExaminedHost]
) -> environment.Finding | None:
    """Whether the TPU's runtime version fits. It does no harm where the chips have a driver."""
    if not node.version:
        return None
    name, zone = node.name.node, node.name.zone
    finding = image_finding(
        kind,
        node.version,
        "If JAX does not find the chips, delete the TPU and create it again with its type's "
        f"runtime version: jupyter tpu delete {name} --zone {zone}, and then "
        f"jupyter tpu create {name} --type {kind.name} --zone {zone} --version "
        f"{kind.version_of(node.api)}",
    )
    driven = any(
        isinstance(host.facts, environment.HostFacts) and host.facts.hardware.device_files
        for host in hosts
    )
    if driven and finding.state == "unknown":
        return None
    return structs.replace(finding, state="warning") if driven and finding.hint else finding


log = logging.getLogger(__name__)

#: Seconds between two calls, while the TPUs that run are the same. Google announces maintenance
#: seven days before; people who try it with an emulator should see it soon.
CALL_INTERVAL_SECONDS = 600.0
EMULATED_INTERVAL = 10.0
#: For how long a user waits for the answer; seconds.
AT_ONCE = 2.0


class MaintenanceWatch:
    """Keeps `observed.maintenance` up to date, on the core thread's loop.

    changed(names): called with the TPUs of which something else is announced.
    """

    def __init__(
        self,
        cloud: Cloud,
        observed: ObservedState,
        changed: Callable[[Iterable[NodeName]], None],
    ) -> None:
        self._cloud = cloud
        self._observed = observed
        self._changed = changed
        self._interval = EMULATED_INTERVAL if cloud.emulated else CALL_INTERVAL_SECONDS
        self._wake = asyncio.Event()
        self._known = asyncio.Event()  # what is announced of those in the last list
        self._known.set()
        self._asked_at = float("-inf")
        self._running: frozenset[tuple[str, str]] = frozenset()

    def polled(self) -> None:
        """There is a new list of TPUs: asks what is announced of those that run, if it is time."""
        now = asyncio.get_running_loop().time()
        running = frozenset(
            (node.id, node.health)
            for node in self._observed.nodes.values()
            if node.state is NodeState.READY and not is_attached(node.name)
        )
        before, self._running = self._running, running
        if running and (running != before or now - self._asked_at >= self._interval):
            self._asked_at = now
            self._known.clear()
            self._wake.set()

    async def ensure_known(self) -> None:
        """Returns when it is known what is announced, or that takes too long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(AT_ONCE):
                await self._known.wait()

    async def run(self) -> None:
        """Asks when it is time, until it is cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                self._apply(await self._cloud.maintenance())
            except TPUError as error:  # what was announced stays so
                log.info("Announced maintenance is not known now: %s", error)
            finally:
                if not self._wake.is_set():
                    self._known.set()

    def _apply(self, maintenance: dict[str, Maintenance]) -> None:
        before, self._observed.maintenance = self._observed.maintenance, maintenance
        nodes = self._observed.nodes.items()
        changed = [name for name, node in nodes if before.get(node.id) != maintenance.get(node.id)]
        self._changed(changed)
