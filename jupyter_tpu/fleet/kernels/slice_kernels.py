"""Kernels that need more than one host, and warm kernels.

Hosts of pods can log in to each other before the first pod kernel needs it. One kernel can run on
all hosts of several TPUs, which are the slices of one job ("multislice").

Warm kernels are desired here, started and counted by the daemon of host 0. It keeps them for
as long as this process is connected to it. So they end with the connection; they are asked for at
each poll, and so come back with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from ...cloud import Node, NodeName
from ...environment import single_host_variables
from ...errors import InvalidInput, Reason, TPUError
from ...links import LinkState
from ...on_host.agent.protocol import requests
from ...on_host.agent.protocol.requests import PodAddress
from ..core.core import Core
from ..core.records import EnvironmentRecord
from ..models import AddSlicesKernel, KeepWarm, SlicesKernel, WarmKernel
from ..models.core import validated
from ..models.environments import POD_KERNEL_HINT, POD_KERNEL_NEEDS_JAX

log = logging.getLogger(__name__)

#: Seconds until the hosts of a pod that could not be authorized are tried again.
RETRY_SECONDS = 60.0


class PodAuthorizer:
    """Authorizes the hosts of each connected TPU that has several, once the links to all are up.

    on_ready: called when another pod is ready.
    """

    def __init__(self, core: Core) -> None:
        self._connections = core.connections
        self._on_ready = core.polled.wake
        self._addresses: dict[NodeName, PodAddress] = {}
        self._begun: set[NodeName] = set()
        self._changed = asyncio.Event()
        core.connections.changed.add(lambda _: self._changed.set())
        core.loops.register("pods", self.run)

    def address(self, name: NodeName) -> PodAddress | None:
        """Where the daemon of host 0 reaches the others; None if it can't yet."""
        return self._addresses.get(name)

    async def run(self) -> None:
        """Runs until it is cancelled."""
        self._begun = set(self._addresses)  # after an error, the others are tried again
        async with asyncio.TaskGroup() as tasks:
            while True:
                self._changed.clear()
                connected = set(self._connections.names())
                for name in self._begun - connected:
                    self._begun.discard(name)
                    self._addresses.pop(name, None)
                for name in filter(self._is_up, connected - self._begun):
                    self._begun.add(name)
                    tasks.create_task(self._authorize(name))
                await self._changed.wait()

    def _is_up(self, name: NodeName) -> bool:
        links = self._connections.links(name)
        return len(links) > 1 and all(link.state is LinkState.UP for link in links)

    async def _authorize(self, name: NodeName) -> None:
        try:
            link = self._connections.links(name)[0]
            addresses = await link.pod_addresses()
            await link.authorize_pod()
        except (TPUError, IndexError) as error:
            log.info("The hosts of %s can't log in to each other yet: %s", name, error)
            await asyncio.sleep(RETRY_SECONDS)
            self._begun.discard(name)
            self._changed.set()
            return
        if name in self._connections:
            self._addresses[name] = {"hosts": len(addresses), "address": addresses[0]}
            self._on_ready()


class WarmKernelSpec(Struct, frozen=True, kw_only=True):
    """An environment that should have a warm kernel, in the daemon's words."""

    python: str  # on the host
    imports: list[str]
    env: dict[str, str]
    pod: requests.PodAddress | None = None  # one of all hosts, too


class WarmKernelMonitor:
    """The warm kernels of all connected TPUs.

    by_default: whether an environment has one if that was not decided for it.
    pods: the pods of which all hosts can have one.
    """

    def __init__(self, core: Core, pods: PodAuthorizer, *, by_default: bool) -> None:
        self._pods = pods
        self._connections = core.connections
        self._desired = core.desired
        self._changes = core.changes
        self._by_default = by_default
        self._reported: dict[NodeName, dict[str, WarmKernel]] = {}
        self._stopped: set[NodeName] = set()
        core.runner.ended.add(self.resume)

    def specs(self, name: NodeName) -> dict[str, WarmKernelSpec]:
        """What a TPU should have, by environment."""
        warm_kernel_specs: dict[str, WarmKernelSpec] = {}
        if name in self._stopped:
            return warm_kernel_specs
        for env, record in self._desired.environments(name).items():
            decided = record.warm or KeepWarm()
            keep = self._by_default if decided.wanted is None else decided.wanted
            connected = name in self._desired.connected
            if keep and connected and record.environment.state == "ready":
                warm_kernel_specs[env] = WarmKernelSpec(
                    python=record.host_python,
                    imports=decided.imports,
                    env=single_host_variables(record.hosts),
                    pod=self._pods.address(name) if record.has_pod_kernel else None,
                )
        return warm_kernel_specs

    def status(self, name: NodeName, environment: str) -> WarmKernel:
        """The state of one environment's, as far as known."""
        spec = self.specs(name).get(environment)
        if spec is None or name not in self._connections:
            return WarmKernel(state="off")
        known = self._reported.get(name, {}).get(environment)
        return known or WarmKernel(state="starting", imports=spec.imports)

    def configure(self, name: NodeName, environment: str, options: KeepWarm) -> None:
        """Sets whether an environment has one. Raises INVALID and NOT_FOUND."""
        options = validated(options)
        check_modules(options.imports)
        environments = self._desired.environments(name)
        record = environments.get(environment)
        if record is None:
            raise TPUError(
                f"{name.node} has no environment {environment}.",
                Reason.NOT_FOUND,
                f"Its environments: {', '.join(environments)}." if environments else "",
            )
        record.warm = options
        self._desired.save(name, record)

    def update(
        self,
        name: NodeName,
        specs: Mapping[str, WarmKernelSpec],
        reports: Sequence[Mapping[str, Any]],
    ) -> None:
        """Takes the daemon's report, its answer to *specs*."""
        by_python = {report["python"]: report for report in reports if not report.get("pod")}
        now = {
            environment: _warm_kernel(by_python[spec.python], spec)
            for environment, spec in specs.items()
            if spec.python in by_python
        }
        if self._reported.get(name, {}) != now:
            self._reported[name] = now
            self._changes.mark_tpu_changed(name)

    def forget_disconnected(self) -> None:
        """Forgets those that ended with their connections."""
        for name in set(self._reported) - set(self._connections.names()):
            del self._reported[name]

    async def stop(self, name: NodeName) -> None:
        """Ends those of a TPU, whatever is desired, until `resume`; returns when the daemon knows
        it.
        """
        self._stopped.add(name)
        if self._reported.pop(name, None):
            with contextlib.suppress(TPUError):  # they end with the connection, too
                await self._connections.request(name, requests.KeepWarmRequest(environments=[]))

    def resume(self, name: NodeName) -> None:
        """Those that are desired start again."""
        self._stopped.discard(name)


def _warm_kernel(report: Mapping[str, Any], spec: WarmKernelSpec) -> WarmKernel:
    return WarmKernel(
        state=report["state"],
        memory=report["memory"],
        imports=spec.imports,
        problem=report["problem"],
    )


def check_modules(names: Iterable[str]) -> None:
    """Raises INVALID for what can't be the name of a Python module."""
    for name in names:
        if not all(part.isidentifier() for part in name.split(".")):
            raise InvalidInput(
                f"{name!r} is not the name of a module.",
                "Give what follows `import`, such as numpy.",
            )


#: Instead of names: the other TPUs of the queued resource.
QUEUED = "queued"


class SliceKernelService:
    """A :class:`~jupyter_tpu.fleet.api.SliceKernelsAPI`."""

    def __init__(self, core: Core) -> None:
        self._finder = core.finder
        self._desired = core.desired
        self._observed = core.observed
        self._connected = core.connected
        core.connected.with_environment(self._add_of_queued)

    async def add(self, ref: str, request: AddSlicesKernel) -> SlicesKernel:
        request = validated(request)
        first = await self._finder.find(ref)
        if request.slices == [QUEUED]:
            others = self._of_queued(first)[1:]
            if not others:
                raise InvalidInput(f"{first.node} is the only TPU of its queued resource.")
        else:
            others = [await self._finder.find(other) for other in request.slices]
        return self._register([first, *others], request.environment)

    def _of_queued(self, name: NodeName) -> list[NodeName]:
        """The TPUs of its queued resource: it, and then the others in Google's order."""
        node = self._observed.node(name)
        if node is None or not node.queued:
            return [name]
        others = [
            other.name
            for other in self._observed.nodes.values()
            if other.queued == node.queued and other.name != name
            if (other.name.project, other.name.zone) == (name.project, name.zone)
        ]
        # Google numbers them: job-2 comes before job-10.
        return [name, *sorted(others, key=_order)]

    def _add_of_queued(self, name: NodeName, environment: str) -> str:
        """Adds the kernel on all TPUs of a queued resource, if this was the last one of them to be
        connected. Returns its display name; "" if there is none.
        """
        names = sorted(self._of_queued(name), key=_order)
        if len(names) < 2:
            return ""
        try:
            return self._register(names, environment).display_name
        except TPUError:  # another one is not connected, or has another Python
            return ""

    def _register(self, names: Sequence[NodeName], environment: str) -> SlicesKernel:
        """Raises INVALID, NOT_FOUND, CONFLICT."""
        if len(set(names)) < len(names):
            raise InvalidInput("A TPU is named twice.")
        first, *others = names
        for other in others:
            if (other.project, other.zone) != (first.project, first.zone):
                raise InvalidInput(
                    f"{other.node} is in another zone than {first.node}.",
                    "The slices of one job are in one zone.",
                )
        records = [self._record(name, environment) for name in names]
        pythons = sorted({_minor(record.environment.python) for record in records})
        if len(pythons) > 1:
            raise TPUError(
                f"The environments {environment} differ: {', '.join(pythons)}.",
                Reason.CONFLICT,
                "The hosts of one job need the same version of Python.",
            )
        hosts = sum(len(self._node(name).endpoints) for name in names)
        kernelspec, display_name = self._connected.register_slices(first, records[0], others, hosts)
        return SlicesKernel(
            tpu=first.node,
            zone=first.zone,
            environment=environment,
            slices=[name.node for name in names],
            hosts=hosts,
            kernelspec=kernelspec,
            display_name=display_name,
        )

    def _record(self, name: NodeName, environment: str) -> EnvironmentRecord:
        record = self._desired.environments(name).get(environment)
        ready = record is not None and record.environment.state == "ready"
        if record is None or not ready or name not in self._desired.connected:
            raise TPUError(
                f"{name.node} has no connected environment {environment}.",
                Reason.NOT_FOUND,
                f"Connect it first: jupyter tpu connect {name.node} --env {environment}",
            )
        if record.environment.has_torch:
            raise InvalidInput(POD_KERNEL_NEEDS_JAX, POD_KERNEL_HINT)
        return record

    def _node(self, name: NodeName) -> Node:
        node = self._observed.node(name)
        if node is None:
            raise TPUError(f"There is no TPU {name.node} any more.", Reason.NOT_FOUND)
        return node


def _order(name: NodeName) -> tuple[int, str]:
    return len(name.node), name.node


def _minor(python: str) -> str:
    """ "Python 3.12" """
    return "Python " + ".".join(python.split(".")[:2])
