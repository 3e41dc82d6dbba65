"""What changes together when a TPU is connected, disconnected or gone, each in one place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...cloud import Cloud, NodeName, is_emulated
from ...environment import single_host_variables
from ...errors import TPUError
from ..forwarding.apps import Apps
from ..forwarding.tunnels import Tunnels
from ..jobs.jobs import JobService
from ..kernels.kernels import KernelService
from ..kernelspecs import KernelSpecRegistry
from .connections import HostConnections
from .desired import DesiredState
from .operation_progress import OperationProgress
from .operation_runner import OperationRunner
from .records import EnvironmentRecord


class ConnectedTPUs:
    """Kernelspecs, links, kernels, tunnels and apps of TPUs follow their desired state."""

    def __init__(
        self,
        cloud: Cloud,
        desired: DesiredState,
        kernelspecs: KernelSpecRegistry,
        connections: HostConnections,
        kernels: KernelService,
        tunnels: Tunnels,
        apps: Apps,
        jobs: JobService,
        runner: OperationRunner,
    ) -> None:
        self.kernels = kernels
        self.jobs = jobs
        self._cloud = cloud
        self._desired = desired
        self._kernelspecs = kernelspecs
        self._connections = connections
        self._tunnels = tunnels
        self._apps = apps
        self._runner = runner
        #: Kernelspecs that this process has written or checked; whether they say "stopped".
        self._registered: dict[tuple[NodeName, str], bool] = {}

    def unregistered(self, name: NodeName, *, stopped: bool) -> list[EnvironmentRecord]:
        """The ready environments whose kernelspecs this process has not checked yet, or which do
        not say whether the TPU is stopped.
        """
        return [
            record
            for env, record in self._desired.environments(name).items()
            if record.environment.state == "ready" and self._registered.get((name, env)) != stopped
        ]

    def register(self, name: NodeName, record: EnvironmentRecord, *, stopped: bool = False) -> None:
        """Writes (or repairs) the kernelspecs of a ready environment."""
        environment = record.environment
        self._registered[name, environment.name] = stopped
        environment.kernelspec, environment.display_name = self.register_chips(name, record, ())
        for chips in self._kernelspecs.choices(**_where(name), environment=environment.name):
            self.register_chips(name, record, chips)
        self._desired.save(name, record)

    def register_chips(
        self, name: NodeName, record: EnvironmentRecord, chips: Sequence[int]
    ) -> tuple[str, str]:
        """Writes the kernelspec of a ready environment with these *chips* of host 0 ((): all);
        returns its name and display name.
        """
        return self._kernelspecs.register(
            **_where(name),
            worker=0,
            environment=record.environment.name,
            python_version=record.environment.python,
            host_python=record.host_python,
            emulator=self._cloud.target.emulator,
            emulated=is_emulated(self._cloud, name),
            variables=single_host_variables(record.hosts),
            chips=chips,
            stopped=self._registered.get((name, record.environment.name), False),
        )

    def split(
        self, name: NodeName, record: EnvironmentRecord, groups: Sequence[Sequence[int]]
    ) -> list[tuple[str, str]]:
        """Writes the kernelspecs with these *groups* of chips, and removes those with others;
        returns their names and display names.
        """
        wanted = set(map(tuple, groups))
        environment = record.environment.name
        for chips in self._kernelspecs.choices(**_where(name), environment=environment):
            if tuple(chips) not in wanted:
                self._kernelspecs.unregister(**_where(name), environment=environment, chips=chips)
        return [self.register_chips(name, record, chips) for chips in groups]

    def disconnect(self, name: NodeName) -> None:
        """The environments stay on the hosts."""
        self._unregister(name)
        for record in self._desired.environments(name).values():
            self._desired.save(name, record)
        self._desired.disconnect(name)
        self._connections.release(name)
        self.kernels.clear(name, lost=True)
        self._apps.forget(name)

    def remove_environment(self, name: NodeName, environment: str) -> None:
        """It is gone from the hosts. Without any, the TPU is not connected."""
        self._kernelspecs.unregister(**_where(name), environment=environment)
        self._registered.pop((name, environment), None)
        self._desired.remove_environment(name, environment)
        if not self._desired.environments(name) and name in self._desired.connected:
            self.disconnect(name)

    def forget(self, name: NodeName) -> None:
        """The TPU is gone, and all that was on it."""
        self._unregister(name)
        self._desired.forget(name)
        self._connections.release(name)
        self.kernels.clear(name, lost=True)
        self._tunnels.forget(name)
        self._apps.forget(name)
        self.jobs.forget(name)
        self._runner.drop_resumable(name)

    async def require_confirmation(
        self, name: NodeName, act: str, *, end_kernels: bool, end_jobs: bool
    ) -> None:
        """Raises KERNELS_RUNNING or JOBS_RUNNING if such run there, and may not be ended.

        act: what would end them: "Stopping".
        """
        await self.kernels.require_confirmation(name, end_kernels, act)
        await self.jobs.require_confirmation(name, end_jobs, act)

    async def shut_down_kernels(
        self, name: NodeName, why: TPUError, progress: OperationProgress
    ) -> None:
        """The first step of what ends the kernels of a TPU. *why*: see ``shut_down_all``."""
        progress.begin("kernels")
        count = await self.kernels.shut_down_all(name, why, progress.log)
        progress.done("kernels", "done" if count else "skipped")

    def _unregister(self, name: NodeName) -> None:
        self._kernelspecs.unregister(**_where(name))
        for env, record in self._desired.environments(name).items():
            record.environment.kernelspec = record.environment.display_name = ""
            self._registered.pop((name, env), None)


def _where(name: NodeName) -> dict[str, Any]:
    """It, as arguments of a `KernelSpecRegistry`."""
    return {"project": name.project, "zone": name.zone, "tpu": name.node}
