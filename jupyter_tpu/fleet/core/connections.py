"""The links to hosts of connected TPUs, and what else follows when one is connected or gone."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Sequence

from ...cloud import Cloud, NodeName, is_emulated
from ...environment import single_host_variables
from ...errors import Reason, TPUError
from ...kernel_place import KernelPlace
from ...links import HostName, Link, Links, LinkState
from ...on_host.agent.protocol.declarations import Answer, ProtocolRequest
from ...on_host.agent.session import chosen
from ...subscribers import Subscribers
from ..kernelspecs import KernelSpecRegistry
from ..models import SessionSetting
from .desired import DesiredState
from .records import EnvironmentRecord

#: How long a daemon may take to answer, and to be installed and started before; seconds.
ANSWER_SECONDS = 15.0
DEPLOYMENT_SECONDS = 60.0


class HostConnections:
    """The links of each TPU, kept up while it is connected."""

    def __init__(self, links: Links) -> None:
        self._links = links
        #: Called with a TPU when the state of one of its links changes.
        self.changed = Subscribers[NodeName]()
        self._acquired: dict[NodeName, list[Link]] = {}
        self._unsubscribe: dict[NodeName, list[Callable[[], None]]] = {}

    def __contains__(self, name: NodeName) -> bool:
        return name in self._acquired

    def names(self) -> list[NodeName]:
        return list(self._acquired)

    def links(self, name: NodeName) -> list[Link]:
        """The acquired links of a TPU, host by host; [] if there are none."""
        return self._acquired.get(name, [])

    def link(self, host: HostName) -> Link:
        """The link to one host, acquired or not."""
        return self._links.get(host)

    def acquire(self, name: NodeName, hosts: int) -> list[Link]:
        """Keeps the links to all hosts up until :meth:`release`. A second call changes nothing."""
        links = self._acquired.setdefault(name, [])
        unsubscribe = self._unsubscribe.setdefault(name, [])
        for number in range(len(links), hosts):
            link = self._links.get(HostName(name, number))
            unsubscribe.append(link.subscribe(lambda *_: self._mark_changed(name)))
            link.acquire(in_use=False)
            links.append(link)
        self._mark_changed(name)
        return links

    def release(self, name: NodeName) -> None:
        for unsubscribe in self._unsubscribe.pop(name, []):
            unsubscribe()
        for link in self._acquired.pop(name, []):
            link.release(in_use=False)
        self._mark_changed(name)

    def close(self) -> None:
        for name in self.names():
            self.release(name)

    def _mark_changed(self, name: NodeName) -> None:
        for changed in self.changed:
            changed(name)

    @contextlib.asynccontextmanager
    async def borrow(
        self, host: HostName, timeout: float, *, in_use: bool = True
    ) -> AsyncIterator[Link]:
        """The link to one host, once it is up. TPUError if that takes over *timeout* seconds.

        in_use: see `Link.acquire`.
        """
        link = self._links.get(host)
        link.acquire(in_use=in_use)
        try:
            await link.wait_up(timeout=timeout)
            yield link
        finally:
            link.release(in_use=in_use)

    async def request(
        self, name: NodeName, request: ProtocolRequest[Answer], timeout: float = ANSWER_SECONDS
    ) -> Answer:
        """The answer of host 0's daemon; see :meth:`request_host`."""
        return await self.request_host(HostName(name, 0), request, timeout)

    async def request_host(
        self,
        host: HostName,
        request: ProtocolRequest[Answer],
        timeout: float = ANSWER_SECONDS,
        *,
        in_use: bool = True,
    ) -> Answer:
        """The answer of a host's agent. Raises TPUError, TIMEOUT after *timeout* seconds.

        in_use: see `Link.acquire`.
        """
        async with self.borrow(host, timeout, in_use=in_use) as link:
            try:
                async with asyncio.timeout(DEPLOYMENT_SECONDS):
                    agent = await link.agent()
            except TimeoutError:
                raise TPUError(
                    f"The daemon on {link.host} did not start in time.",
                    Reason.TIMEOUT,
                    "Will be retried.",
                ) from None
            return await agent.request(request, timeout)


class PolledHosts:
    """The hosts that are asked all the time for what they have to say (by `HostPoller`)."""

    def __init__(self, connections: HostConnections) -> None:
        self._connections = connections
        connections.changed.add(lambda _: self.wake())
        self.asked: set[HostName] = set()
        self.answering: set[HostName] = set()
        self.woken = asyncio.Event()

    def wake(self) -> None:
        """There may be another host to ask, or something else to ask for."""
        self.woken.set()

    def polls(self, host: HostName) -> bool:
        """Whether this host is asked."""
        return host in self.asked

    def reports(self, host: HostName) -> bool:
        """Whether this host answers, so that what is known of it is what it last reported."""
        return host in self.answering and self._connections.link(host).state is LinkState.UP


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
        #: Whether a coding agent has created a TPU; the ledger says it.
        self.is_of_agent: Callable[[NodeName], bool] = lambda _: False
        #: Where the kernels of a TPU are saved, and when; None: nothing was chosen.
        self.session_setting: Callable[[NodeName], SessionSetting | None] = lambda _: None
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
        for chips in self._kernelspecs.choices(name, environment.name):
            self._write(name, record, chips, stopped)
        if record.has_pod_kernel:
            environment.pod_kernelspec, environment.pod_display_name = self._write(
                name, record, (), stopped, hosts=record.hosts
            )
        self._registered[name, environment.name] = stopped
        self._desired.save(name, record)

    def register_again(self, name: NodeName) -> None:
        """What kernels of a TPU are started with has changed: its kernelspecs follow."""
        for env, record in self._desired.environments(name).items():
            if record.environment.kernelspec:
                self.register(name, record, stopped=self._registered.get((name, env), False))

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
        place = KernelPlace(
            project=name.project,
            zone=name.zone,
            tpu=name.node,
            environment=record.environment.name,
            host_python=record.host_python,
            emulator=self._cloud.target.emulator,
            chips=",".join(map(str, chips)),
            hosts=hosts,
            slices=",".join(slices),
            of_agent=self.is_of_agent(name),
        )
        return self._kernelspecs.register(
            place,
            python_version=record.environment.python,
            title="PyTorch" if record.environment.has_torch else "",
            emulated=is_emulated(self._cloud, name),
            variables={
                **({} if hosts else single_host_variables(record.hosts)),
                **_session_variables(self.session_setting(name)),
            },
            stopped=stopped,
        )

    def chips(self, name: NodeName, environment: str) -> list[list[int]]:
        """The groups of chips that have kernelspecs of their own."""
        choices = self._kernelspecs.choices(name, environment)
        return [list(chips) for chips in choices]

    def split(
        self, name: NodeName, record: EnvironmentRecord, groups: Sequence[Sequence[int]]
    ) -> list[tuple[str, str]]:
        """Writes the kernelspecs with these *groups* of chips, and removes those with others;
        returns their names and display names.
        """
        requested = set(map(tuple, groups))
        environment = record.environment.name
        for chips in self._kernelspecs.choices(name, environment):
            if tuple(chips) not in requested:
                self._kernelspecs.unregister(name, environment, chips)
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
        self._kernelspecs.unregister(name, environment)
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
        self._kernelspecs.unregister(name)
        for env, record in self._desired.environments(name).items():
            record.environment.kernelspec = record.environment.display_name = ""
            record.environment.pod_kernelspec = record.environment.pod_display_name = ""
            self._registered.pop((name, env), None)


def _session_variables(setting: SessionSetting | None) -> dict[str, str]:
    """What kernels are told of it; see `agent.session.chosen`."""
    if setting is None:
        return {}
    fields = {
        "place": setting.kernel_place,
        "automatic": setting.automatic,
        "seconds": setting.seconds,
    }
    return {chosen.VARIABLE: json.dumps(fields)}
