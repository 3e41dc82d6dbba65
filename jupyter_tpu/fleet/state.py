"""What is known of TPUs, in one place: seen at Google, wished for, made, held and running.

`Fleet` answers questions from it, operations change it; nobody else does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import structs

from ..cloud import Cloud, Node, NodeName
from ..environment import single_host_variables
from ..links import Links
from .discovery.observer import Observer
from .forwarding.apps import Apps
from .forwarding.tunnels import Tunnels
from .hosts import openssh
from .hosts.connections import HostConnections
from .hosts.kernels import KernelMonitor
from .hosts.warm_kernels import WarmKernelMonitor, WarmKernelSpec
from .kernelspecs import KernelSpecRegistry
from .knowledge.changes import ChangeFeed
from .knowledge.observed import Observed
from .models import TPU, Change, Environment, KeepWarm, Problem
from .operations.runner import NON_EXCLUSIVE_KINDS, OperationRunner
from .reconcile.decide import Desired
from .store.database import Store
from .store.process_lease import ProcessLease
from .store.records import EnvironmentRecord, OperationRecord
from .views import tpu_of


class State:
    """Wires the parts together; *act* is called when there may be something to do."""

    def __init__(
        self,
        links: Links,
        kernelspecs: KernelSpecRegistry,
        store: Store,
        owner: ProcessLease,
        act: Callable[[], None],
    ) -> None:
        self._act = act
        self.links = links
        self.cloud: Cloud = links.cloud
        self.kernelspecs = kernelspecs
        self.store = store
        self.changes = ChangeFeed(self._describe)
        self.connections = HostConnections(links, self.mark_changed)
        self.kernels = KernelMonitor(links, self.connections, self._kernels_changed)
        #: Whether environments have a warm kernel that nobody has decided on.
        self.warm_by_default = False
        self.warm = WarmKernelMonitor(links, self.connections, self._warm_wishes, self.mark_changed)
        self.operations = OperationRunner(
            store,
            owner,
            changed=self._operation_changed,
            ended=self._ended,
            forgotten=lambda id: self.changes.mark_changed("operation", id),
        )
        self.tunnels = Tunnels(
            links, store, owner, lambda id: self.changes.mark_changed("tunnel", id)
        )
        self.apps = Apps(links, lambda id: self.changes.mark_changed("app", id))
        self.observer = Observer(
            self.cloud,
            needed=lambda: bool(self.wished or self.interrupted or self.tunnels.names()),
            busy=self._busy,
            polled=self._polled,
        )
        #: TPUs that should be connected, with the node ids that are meant.
        self.wished: dict[NodeName, str] = store.connected()
        self.environments: dict[NodeName, dict[str, EnvironmentRecord]] = store.environments()
        #: Connect operations of dead processes, to go on with.
        self.interrupted: dict[NodeName, OperationRecord] = {}
        #: Kernelspecs that this process has made or checked.
        self.registered: set[tuple[NodeName, str]] = set()
        #: Whether this process keeps the links of connected TPUs up.
        self.supervised = False
        self._shown: set[NodeName] = set()

    def refresh(self) -> None:
        """Takes over what another process (a second server, a command) has written."""
        if not self.store.changed_elsewhere():
            return
        busy = self.operations.running_by_tpu()
        for mine, theirs in (
            (self.wished, self.store.connected()),
            (self.environments, self.store.environments()),
        ):
            here: dict[NodeName, Any] = mine
            for name in {*here, *theirs} - set(busy):
                if name in theirs:
                    here[name] = theirs[name]
                else:
                    del here[name]
        self.operations.reload()

    # ---- asking ----

    def names(self) -> set[NodeName]:
        """All TPUs that are shown: seen, wished for, or being created."""
        being_made = {
            name
            for name, records in self.operations.running_by_tpu().items()
            if any(record.operation.kind == "create" for record in records)
        }
        wanted = {*self.wished, *self.tunnels.names()}
        wished = {name for name in wanted if not self.observer.complete(name.zone)}
        return being_made | wished | set(self.observer.nodes)

    def tpu(self, name: NodeName) -> TPU:
        return tpu_of(
            name,
            self.observer.nodes.get(name),
            emulated=self.cloud.emulated,
            connected=name in self.wished,
            environments=[
                structs.replace(
                    record,
                    environment=structs.replace(
                        record.environment, warm=self.warm.status(name, env)
                    ),
                )
                for env, record in self.environments.get(name, {}).items()
            ],
            links=self.connections.links(name),
            operations=self.operations.running_on(name),
            kernels=sum(kernel.state != "dead" for kernel in self.kernels.known(name)),
            supervised=self.supervised,
        )

    def desired(self, name: NodeName) -> Desired:
        records = self.environments.get(name, {})
        ids = [record.node_id for record in records.values() if record.node_id]
        return Desired(
            node_id=self.wished.get(name) or (ids[0] if ids else self.tunnels.node_id(name)),
            connected=name in self.wished,
            unfinished=name in self.interrupted,
            unregistered=any(
                record.environment.state == "ready" and (name, env) not in self.registered
                for env, record in records.items()
            ),
        )

    def observed(self, name: NodeName) -> Observed | None:
        """None: Google's complete list does not have it."""
        node = self.observer.nodes.get(name)
        return Observed(node.state, node.id) if node else None

    # ---- changing ----

    def connect(self, name: NodeName, node: Node) -> None:
        """From now on it should be connected, after a restart too."""
        self.wished[name] = node.id
        self.store.set_connected(name, node.id)
        self.mark_changed(name)

    def disconnect(self, name: NodeName) -> None:
        """It should no longer be; environments on the hosts stay, what failed is forgotten."""
        self.wished.pop(name, None)
        self.store.drop_connected(name)
        self.unregister(name)
        for env, record in list(self.environments.get(name, {}).items()):
            if record.environment.state == "ready":
                self.save(name, record)
            else:
                del self.environments[name][env]
                self.store.drop_environment(name, env)
        self.connections.release(name)
        self.kernels.forget(name)
        self.kernels.forget_lost(name)
        self.apps.forget(name)
        self.mark_changed(name)

    def forget(self, name: NodeName) -> None:
        """The TPU is gone, and all that was on it."""
        self.unregister(name)
        self.wished.pop(name, None)
        self.environments.pop(name, None)
        self.store.forget(name)
        self.connections.release(name)
        self.kernels.forget(name)
        self.kernels.forget_lost(name)
        self.tunnels.forget(name)
        self.apps.forget(name)
        self.drop_interrupted(name)
        self.mark_changed(name)

    def drop_interrupted(self, name: NodeName) -> None:
        """What a dead process left is not gone on with: something else is wanted now."""
        left = self.interrupted.pop(name, None)
        if left is not None:
            self.operations.mark_interrupted(left)

    def save(self, name: NodeName, record: EnvironmentRecord) -> None:
        self.environments.setdefault(name, {})[record.environment.name] = record
        self.store.save_environment(name, record)
        self.mark_changed(name)

    def register(self, name: NodeName, record: EnvironmentRecord) -> None:
        """Makes (or mends) the kernelspec of a ready environment."""
        environment = record.environment
        environment.kernelspec, environment.display_name = self.kernelspecs.register(
            project=name.project,
            zone=name.zone,
            tpu=name.node,
            worker=0,
            environment=environment.name,
            python_version=environment.python,
            host_python=f"{environment.path}/bin/python",
            emulator=self.cloud.target.emulator,
            emulated=self.cloud.emulated,
            variables=single_host_variables(record.hosts),
        )
        self.registered.add((name, environment.name))
        self.save(name, record)

    def unregister(self, name: NodeName) -> None:
        self.kernelspecs.unregister(project=name.project, zone=name.zone, tpu=name.node)
        for env, record in self.environments.get(name, {}).items():
            record.environment.kernelspec = record.environment.display_name = ""
            self.registered.discard((name, env))

    def _warm_wishes(self, name: NodeName) -> dict[str, WarmKernelSpec]:
        """The environments that should have a warm kernel while the TPU is connected."""
        wishes = {}
        for env, record in self.environments.get(name, {}).items():
            said = record.warm or KeepWarm()
            wanted = self.warm_by_default if said.wanted is None else said.wanted
            if wanted and record.environment.state == "ready" and name in self.wished:
                wishes[env] = WarmKernelSpec(
                    python=f"{record.environment.path}/bin/python",
                    imports=said.imports,
                    env=single_host_variables(record.hosts),
                )
        return wishes

    # ---- telling ----

    def mark_changed(self, name: NodeName) -> None:
        self.changes.mark_changed("tpu", f"{name.project}/{name.zone}/{name.node}")

    def _operation_changed(self, id: str, name: NodeName) -> None:
        self.changes.mark_changed("operation", id)
        self.mark_changed(name)

    def _kernels_changed(self, name: NodeName, ids: set[str]) -> None:
        for id in ids:
            self.changes.mark_changed("kernel", id)
        self.mark_changed(name)

    def _busy(self) -> bool:
        """Whether an operation is about to change what Google says."""
        return any(
            record.operation.kind not in ("connect", "disconnect", *NON_EXCLUSIVE_KINDS)
            for records in self.operations.running_by_tpu().values()
            for record in records
        )

    def _polled(self) -> None:
        self.refresh()
        for node in self.observer.nodes.values():
            self.links.observe(node)
        for name in self.names() | self._shown:
            self.mark_changed(name)
        self._shown = self.names()
        if not self.observer.problem:
            openssh.refresh(self.cloud, self.observer.nodes.values())
        self._act()

    def _ended(self, name: NodeName) -> None:
        self.observer.request_refresh()
        self._act()

    def _describe(self, what: str, id: str) -> Change | None:
        if what == "operation":
            known = self.operations.get(id) if self.operations.has(id) else None
            return Change(what="operation", id=id, gone=known is None, operation=known)
        if what == "kernel":
            kernel = self.kernels.find(id)
            return Change(what="kernel", id=id, gone=kernel is None, kernel=kernel)
        if what == "tunnel":
            tunnel = self.tunnels.find(id)
            return Change(what="tunnel", id=id, gone=tunnel is None, tunnel=tunnel)
        if what == "app":
            app = self.apps.find(id)
            return Change(what="app", id=id, gone=app is None, app=app)
        name = NodeName(*id.split("/"))
        id = f"{name.zone}/{name.node}"
        if name not in self.names():
            return Change(what="tpu", id=id, gone=True)
        return Change(what="tpu", id=id, tpu=self.tpu(name))


def environment_now(
    wanted_name: str, name: NodeName, before: EnvironmentRecord | None, problem: Problem | None
) -> Environment:
    """An environment while it is made, or after that failed: what was there before stays."""
    if before is not None and before.environment.state == "ready":
        before.environment.problem = problem
        return before.environment
    return Environment(
        name=wanted_name,
        tpu=name.node,
        zone=name.zone,
        state="failed" if problem else "making",
        problem=problem,
    )
