"""Warm kernels on connected TPUs: desired here, started and counted by the agent of host 0.

The agent keeps them for as long as this process is connected to it. So they end with the
connection; they are asked for at each poll, and so come back with it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from ...agent.protocol import requests
from ...cloud import NodeName
from ...environment import single_host_variables
from ...errors import InvalidInput, Reason, TPUError
from ..core.core import Core
from ..models import KeepWarm, WarmKernel
from ..models.core import validated
from .pod_hosts import PodHosts


class WarmKernelSpec(Struct, frozen=True, kw_only=True):
    """An environment that should have a warm kernel, in the agent's words."""

    python: str  # on the host
    imports: list[str]
    env: dict[str, str]
    pod: requests.PodAddress | None = None  # one of all hosts, too


class WarmKernelMonitor:
    """The warm kernels of all connected TPUs.

    by_default: whether an environment has one if that was not decided for it.
    pods: the pods of which all hosts can have one.
    """

    def __init__(self, core: Core, pods: PodHosts, *, by_default: bool) -> None:
        self._pods = pods
        self._connections = core.connections
        self._desired = core.desired
        self._changes = core.changes
        self._by_default = by_default
        self._reported: dict[NodeName, dict[str, WarmKernel]] = {}
        self._stopped: set[NodeName] = set()

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
                    pod=self._pods.address(name) if record.hosts > 1 else None,
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
        """Takes the agent's report, its answer to *specs*."""
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
        """Ends those of a TPU, whatever is desired, until `resume`; returns when the agent knows
        it.
        """
        self._stopped.add(name)
        if self._reported.pop(name, None):
            with contextlib.suppress(TPUError):  # they end with the connection, too
                await self._connections.request(name, requests.KeepWarm(environments=[]))

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
