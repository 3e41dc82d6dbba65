"""Machines that are reached by SSH alone, in addition to the TPUs of a cloud.

`AttachedMachines` keeps them in a file of their own, because every process needs them, one without
a fleet too. `CloudWithAttached` is a cloud with them in it: as TPUs that are READY as long as they
are attached, in a zone of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import Struct

from ..catalog import API
from ..errors import InvalidInput, Reason, TPUError
from ..paths import data_dir
from .known_apis import opened
from .models import (
    Endpoint,
    Fault,
    GuestAttributes,
    Maintenance,
    Node,
    NodeList,
    NodeName,
    NodeSpec,
    NodeState,
    OperationStatus,
    QueuedList,
    QueuedSpec,
    QueuedTPUs,
    Reservation,
    ReservationSpec,
)
from .protocol import Cloud

#: The zone, and the project, of attached machines. Google has none of that name.
ATTACHED = "attached"


class AttachedHost(Struct, frozen=True, kw_only=True):
    """One machine, as it was when it was attached."""

    alias: str  # what is given to the user's `ssh`: an entry of its configuration, or [USER@]HOST
    user: str  # whose login accepts our key
    address: str  # when it was attached; `ssh` knows the current one
    internal: str = ""  # its address for other hosts; "" if that is not known
    chips: tuple[str, ...] = ()  # the generation of each; "" of one that is not known
    number: int | None = None  # Google's worker number, where the machine says it

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(
            internal=self.internal,
            external=self.address,
            ssh=f"{self.user}@{self.alias.rpartition('@')[2]}",
        )


class AttachedMachine(Struct, frozen=True, kw_only=True):
    """One machine, or several that are the hosts of one TPU."""

    name: str
    id: str  # another one of the same name has another
    hosts: tuple[AttachedHost, ...]  # by their numbers
    created: str  # when it was attached, RFC 3339

    @classmethod
    def parse(cls, text: str) -> AttachedMachine:
        """From its JSON."""
        fields = msgspec.json.decode(text)
        if "hosts" not in fields:  # written when each was one machine
            fields["hosts"] = [dict(fields)]
        return msgspec.convert(fields, cls)

    @property
    def aliases(self) -> list[str]:
        return [host.alias for host in self.hosts]

    @property
    def node(self) -> Node:
        """How it is shown and used."""
        chips = [chip for host in self.hosts for chip in host.chips]
        generations = " ".join(sorted(set(filter(None, chips))))
        return Node(
            name=attached_name(self.name),
            id=self.id,
            type=generations or "TPU" if chips else "no TPU",
            state=NodeState.READY,
            endpoints=tuple(host.endpoint for host in self.hosts),
            chips=len(chips),
            created=self.created,
            details={"ssh": self.aliases},
        )


def attached_name(name: str) -> NodeName:
    return NodeName(ATTACHED, ATTACHED, name)


def is_attached(name: NodeName) -> bool:
    return name.zone == ATTACHED


def is_emulated(cloud: Cloud, name: NodeName) -> bool:
    """Whether it is emulated: a TPU of an emulator, and not a machine attached next to it."""
    return cloud.emulated and not is_attached(name)


def without_chips(cloud: Cloud, node: Node) -> bool:
    """Whether JAX has only the CPU on the hosts of *node*."""
    return cloud.emulated if node.chips is None else node.chips == 0


class AttachedMachines:
    """The file with them. All methods block for a moment.

    They raise UNAVAILABLE if it can't be read or written.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path

    @property
    def path(self) -> Path:
        return self._path if self._path is not None else data_dir() / "attached.sqlite"

    def all(self) -> list[AttachedMachine]:
        """All of them, by name."""
        if not self.path.exists():
            return []
        with self._opened() as database:
            rows = database.execute("SELECT machine FROM attached ORDER BY name").fetchall()
        return [AttachedMachine.parse(text) for (text,) in rows]

    def find(self, name: str) -> AttachedMachine | None:
        return next(
            (attached_machine for attached_machine in self.all() if attached_machine.name == name),
            None,
        )

    def add(self, machine: AttachedMachine, pin: Callable[[], None]) -> AttachedMachine:
        """The one that has this name: *machine*, or what another process has just attached.

        pin: writes the host keys of *machine*; others do not see it before, and wait meanwhile.
        """
        row = machine.name, msgspec.json.encode(machine).decode()
        with self._opened() as database:
            added = database.execute("INSERT OR IGNORE INTO attached VALUES (?, ?)", row).rowcount
            if added:
                pin()
                return machine
            query = "SELECT machine FROM attached WHERE name = ?"
            return AttachedMachine.parse(database.execute(query, row[:1]).fetchone()[0])

    def remove(self, name: str) -> None:
        """Forgets it, if it is there."""
        if self.path.exists():
            with self._opened() as database:
                database.execute("DELETE FROM attached WHERE name = ?", (name,))

    def _opened(self) -> contextlib.AbstractContextManager[sqlite3.Connection]:
        return opened(
            self.path,
            "attached (name TEXT PRIMARY KEY, machine TEXT NOT NULL)",
            lambda error: f"The list of attached machines, {self.path}, can't be used: {error}.",
        )


class CloudWithAttached:
    """A cloud, and the attached machines; a :class:`Cloud` itself."""

    def __init__(self, cloud: Cloud, machines: AttachedMachines | None = None) -> None:
        self._cloud = cloud
        self.target = cloud.target
        self.machines = machines or AttachedMachines()

    @property
    def emulated(self) -> bool:
        return self._cloud.emulated

    @property
    def identity(self) -> str:
        return self._cloud.identity

    @property
    def project(self) -> str:
        return self._cloud.project

    @property
    def zone(self) -> str | None:
        return self._cloud.zone

    def in_project(self, project: str) -> Cloud:
        """Without the attached machines, which are in no project."""
        return self._cloud.in_project(project)

    @property
    def apis(self) -> tuple[API, ...]:
        return self._cloud.apis

    def of_api(self, api: API) -> Cloud:
        """Without the attached machines, which Google does not know."""
        return self._cloud.of_api(api)

    # ---- TPUs ----

    async def list_nodes(self, zone: str = "-") -> NodeList:
        """Where the cloud does not answer: the attached machines, with the reason, if there are
        some.
        """
        machines = await asyncio.to_thread(self.machines.all) if zone in ("-", ATTACHED) else []
        mine = tuple(machine.node for machine in machines)
        if zone == ATTACHED:
            return NodeList(nodes=mine)
        try:
            listed = await self._cloud.list_nodes(zone)
        except TPUError as error:
            if not mine:
                raise
            return NodeList(nodes=mine, problem=error)
        return msgspec.structs.replace(listed, nodes=(*listed.nodes, *mine))

    async def get_node(self, name: NodeName) -> Node:
        if not is_attached(name):
            return await self._cloud.get_node(name)
        machine = await asyncio.to_thread(self.machines.find, name.node)
        if machine is None:
            raise TPUError(f"The machine {name.node} is not attached.", Reason.NOT_FOUND)
        return machine.node

    async def maintenance(self) -> dict[str, Maintenance]:
        return await self._cloud.maintenance()

    async def begin_create(self, name: NodeName, spec: NodeSpec) -> str:
        if is_attached(name):
            raise InvalidInput(
                f"No TPU can be created in the zone {ATTACHED}.",
                "To add a machine that you reach by SSH, run `jupyter tpu attach`.",
            )
        return await self._cloud.begin_create(name, spec)

    async def begin_delete(self, name: NodeName) -> str:
        check_ours(name, "deleted")
        return await self._cloud.begin_delete(name)

    async def begin_start(self, name: NodeName) -> str:
        check_ours(name, "started")
        return await self._cloud.begin_start(name)

    async def begin_stop(self, name: NodeName) -> str:
        check_ours(name, "stopped")
        return await self._cloud.begin_stop(name)

    async def set_label(self, node: Node, key: str, value: str) -> None:
        check_ours(node.name, "labelled")
        await self._cloud.set_label(node, key, value)

    async def remove_metadata(self, node: Node, key: str) -> None:
        check_ours(node.name, "changed")
        await self._cloud.remove_metadata(node, key)

    async def begin_report_fault(self, node: Node, host: int, fault: Fault, about: str) -> str:
        check_ours(node.name, "reported")
        return await self._cloud.begin_report_fault(node, host, fault, about)

    async def set_end(self, node: Node, ends: float | None) -> Node:
        check_ours(node.name, "changed")
        return await self._cloud.set_end(node, ends)

    async def operation(self, operation: str) -> OperationStatus:
        return await self._cloud.operation(operation)

    # ---- requests that wait for capacity ----

    async def list_queued(self, zone: str = "-") -> QueuedList:
        return await self._cloud.list_queued(zone)

    async def get_queued(self, name: NodeName) -> QueuedTPUs:
        return await self._cloud.get_queued(name)

    async def begin_queue(self, name: NodeName, spec: QueuedSpec) -> str:
        return await self._cloud.begin_queue(name, spec)

    async def begin_delete_queued(self, name: NodeName, *, force: bool) -> str:
        return await self._cloud.begin_delete_queued(name, force=force)

    async def begin_reset_queued(self, name: NodeName) -> str:
        return await self._cloud.begin_reset_queued(name)

    # ---- its hosts ----

    async def add_ssh_key(self, name: NodeName, user: str, public_key: str) -> bool:
        """Attaching has put our key on an attached machine."""
        return not is_attached(name) and await self._cloud.add_ssh_key(name, user, public_key)

    async def guest_attributes(self, name: NodeName) -> list[GuestAttributes]:
        return [] if is_attached(name) else await self._cloud.guest_attributes(name)

    # ---- what can be created ----

    async def locations(self) -> tuple[str, ...]:
        return await self._cloud.locations()

    async def accelerator_types(self, zone: str) -> tuple[str, ...]:
        return await self._cloud.accelerator_types(zone)

    async def runtime_versions(self, zone: str) -> tuple[str, ...]:
        return await self._cloud.runtime_versions(zone)

    async def reservations(self) -> tuple[Reservation, ...]:
        return await self._cloud.reservations()

    async def reserve(self, spec: ReservationSpec) -> Reservation:
        return await self._cloud.reserve(spec)

    async def sweep(self) -> list[str]:
        return await self._cloud.sweep()

    async def close(self) -> None:
        await self._cloud.close()


def check_ours(name: NodeName, act: str) -> None:
    """Raises CONFLICT for an attached machine. act: what can't be done with it: "stopped"."""
    if is_attached(name):
        raise TPUError(
            f"{name.node} is an attached machine, so it can't be {act} here.",
            Reason.CONFLICT,
            f"To forget it, run `jupyter tpu detach {name.node}`.",
        )
