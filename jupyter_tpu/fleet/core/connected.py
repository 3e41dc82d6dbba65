"""What changes together when a TPU is connected, disconnected or gone, each in one place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...cloud import Cloud, NodeName, is_emulated
from ...environment import single_host_variables
from ..kernelspecs import KernelSpecRegistry
from .connections import HostConnections
from .desired import DesiredState
from .records import EnvironmentRecord


class ConnectedTPUs:
    """Kernelspecs and links of TPUs follow their desired state. What else there is of a TPU here
    ends with it if it was registered by :meth:`ends_with_tpu`.
    """

    def __init__(
        self,
        cloud: Cloud,
        desired: DesiredState,
        kernelspecs: KernelSpecRegistry,
        connections: HostConnections,
    ) -> None:
        self._cloud = cloud
        self._desired = desired
        self._kernelspecs = kernelspecs
        self._connections = connections
        self._on_gone: list[Callable[[NodeName], None]] = []
        self._on_disconnected: list[Callable[[NodeName], None]] = []
        self._on_environment: list[Callable[[NodeName, str], str]] = []
        #: Kernelspecs that this process has written or checked; whether they say "stopped".
        self._registered: dict[tuple[NodeName, str], bool] = {}

    def ends_with_tpu(
        self, end: Callable[[NodeName], None], *, when_disconnected: bool = False
    ) -> None:
        """Calls *end* with a TPU that is gone, and also *when_disconnected*."""
        self._on_gone.append(end)
        if when_disconnected:
            self._on_disconnected.append(end)

    def with_environment(self, add: Callable[[NodeName, str], str]) -> None:
        """Calls *add* with a connected TPU and an environment of it that has become ready. It
        returns the display name of another kernel that it has added, or "".
        """
        self._on_environment.append(add)

    def added_with(self, name: NodeName, environment: str) -> list[str]:
        """Adds what else comes with an environment that is ready; its display names."""
        return [added for add in self._on_environment if (added := add(name, environment))]

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
        environment.kernelspec, environment.display_name = self._write(name, record, (), stopped)
        for chips in self._kernelspecs.choices(**_where(name), environment=environment.name):
            self._write(name, record, chips, stopped)
        if record.hosts > 1:
            environment.pod_kernelspec, environment.pod_display_name = self._write(
                name, record, (), stopped, hosts=record.hosts
            )
        self._registered[name, environment.name] = stopped
        self._desired.save(name, record)

    def register_chips(
        self, name: NodeName, record: EnvironmentRecord, chips: Sequence[int]
    ) -> tuple[str, str]:
        """Writes the kernelspec of a ready environment with these *chips* of host 0 ((): all);
        returns its name and display name.
        """
        stopped = self._registered.get((name, record.environment.name), False)
        return self._write(name, record, chips, stopped)

    def register_slices(
        self, name: NodeName, record: EnvironmentRecord, others: Sequence[NodeName], hosts: int
    ) -> tuple[str, str]:
        """Writes the kernelspec that runs on the *hosts* of this TPU and of *others* in its zone,
        as the slices of one job; returns its name and display name.
        """
        slices = [other.node for other in others]
        return self._write(name, record, (), stopped=False, hosts=hosts, slices=slices)

    def _write(
        self,
        name: NodeName,
        record: EnvironmentRecord,
        chips: Sequence[int],
        stopped: bool,
        hosts: int = 0,
        slices: Sequence[str] = (),
    ) -> tuple[str, str]:
        return self._kernelspecs.register(
            **_where(name),
            worker=0,
            environment=record.environment.name,
            python_version=record.environment.python,
            host_python=record.host_python,
            emulator=self._cloud.target.emulator,
            emulated=is_emulated(self._cloud, name),
            variables={} if hosts else single_host_variables(record.hosts),
            chips=chips,
            hosts=hosts,
            slices=slices,
            stopped=stopped,
        )

    def chips(self, name: NodeName, environment: str) -> list[list[int]]:
        """The groups of chips that have kernelspecs of their own."""
        choices = self._kernelspecs.choices(**_where(name), environment=environment)
        return [list(chips) for chips in choices]

    def split(
        self, name: NodeName, record: EnvironmentRecord, groups: Sequence[Sequence[int]]
    ) -> list[tuple[str, str]]:
        """Writes the kernelspecs with these *groups* of chips, and removes those with others;
        returns their names and display names.
        """
        requested = set(map(tuple, groups))
        environment = record.environment.name
        for chips in self._kernelspecs.choices(**_where(name), environment=environment):
            if tuple(chips) not in requested:
                self._kernelspecs.unregister(**_where(name), environment=environment, chips=chips)
        return [self.register_chips(name, record, chips) for chips in groups]

    def disconnect(self, name: NodeName) -> None:
        """The environments stay on the hosts."""
        self._unregister(name)
        for record in self._desired.environments(name).values():
            self._desired.save(name, record)
        self._desired.disconnect(name)
        self._connections.release(name)
        for end in self._on_disconnected:
            end(name)

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
        for end in self._on_gone:
            end(name)

    def _unregister(self, name: NodeName) -> None:
        self._kernelspecs.unregister(**_where(name))
        for env, record in self._desired.environments(name).items():
            record.environment.kernelspec = record.environment.display_name = ""
            record.environment.pod_kernelspec = record.environment.pod_display_name = ""
            self._registered.pop((name, env), None)


def _where(name: NodeName) -> dict[str, Any]:
    """It, as arguments of a `KernelSpecRegistry`."""
    return {"project": name.project, "zone": name.zone, "tpu": name.node}
