"""`Cloud`: all that the fleet and the links ask of a place where TPUs are."""

from __future__ import annotations

from typing import Protocol

from ..catalog import API
from ..errors import InvalidInput
from .models import (
    Fault,
    GuestAttributes,
    Maintenance,
    Node,
    NodeList,
    NodeName,
    NodeSpec,
    OperationStatus,
    QueuedList,
    QueuedSpec,
    QueuedTPUs,
    Reservation,
    ReservationSpec,
)
from .target import Target


class Cloud(Protocol):
    """One place where TPUs are, such as Cloud TPU, for one event loop.

    All coroutines raise :class:`~jupyter_tpu.errors.TPUError` and nothing else: NOT_FOUND for a TPU
    that certainly does not exist, UNAVAILABLE or TIMEOUT where that is not known. What takes long
    is begun by one call, which returns the name of an operation, and asked for by another, so that
    any process can continue from that name.
    """

    target: Target

    # ---- identity ----

    @property
    def emulated(self) -> bool:
        """Whether its TPUs are emulated, and cost nothing."""

    @property
    def identity(self) -> str:
        """The cloud that stored state belongs to; the same for each of its projects."""

    @property
    def project(self) -> str:
        """The project of new TPUs and of lists; raises NO_PROJECT where none is set."""

    @property
    def zone(self) -> str | None:
        """The default zone, if one is set."""

    def in_project(self, project: str) -> Cloud:
        """The same place, of another project; its connections are its own."""

    @property
    def apis(self) -> tuple[API, ...]:
        """Which of Google's control planes it asks."""
        return ("tpu",)

    def of_api(self, api: API) -> Cloud:
        """The same place, by one of its :attr:`apis` only; its connections are the same."""
        return self

    # ---- TPUs ----

    async def list_nodes(self, zone: str = "-") -> NodeList:
        """The TPUs of *zone*, "-" for all zones, with the zones that did not answer."""

    async def get_node(self, name: NodeName) -> Node:
        """The TPU as it is now."""

    async def maintenance(self) -> dict[str, Maintenance]:
        """What the cloud announces or does of the project's TPUs, by `Node.id`."""

    async def begin_create(self, name: NodeName, spec: NodeSpec) -> str:
        """Asks for a TPU. A lack of capacity may show here or in the operation.

        If a TPU is several resources there, a call makes the next one. Repeat it with the same
        *spec* while the TPU is `Node.unfinished`: what was made before is not made twice.
        """

    async def begin_delete(self, name: NodeName) -> str:
        """Asks to delete whichever TPU has the name now. Repeat it while there is one."""

    async def begin_start(self, name: NodeName) -> str:
        """Asks to start a stopped TPU; as :meth:`begin_create`."""

    async def begin_stop(self, name: NodeName) -> str:
        """The disk stays."""

    async def set_label(self, node: Node, key: str, value: str) -> None:
        """Waits until it has the label; others stay. CONFLICT if its name is another TPU's now."""

    async def remove_metadata(self, node: Node, key: str) -> None:
        """Waits until it has no such metadata; as :meth:`set_label`."""

    async def begin_report_fault(self, node: Node, host: int, fault: Fault, about: str) -> str:
        """Tells the cloud that the machine under a *host* (a number) of *node* is broken; *about*:
        what was seen, in words. The host ends at once, and is started again on another machine.
        """
        raise InvalidInput("The Cloud TPU API does not take reports about hosts.")

    async def set_end(self, node: Node, ends: float | None) -> Node:
        """Lets the cloud itself delete *node* at *ends*, seconds since the epoch, whatever runs
        here; None: not any more. What it says of the TPU then: `Node.ends`.

        Ends that others have set, and that of a flex-start TPU, stay. INVALID where the cloud has
        no such thing.
        """
        raise InvalidInput("The Cloud TPU API has no end time for a TPU.")

    async def operation(self, operation: str) -> OperationStatus:
        """How far an operation is; NOT_FOUND for one that the cloud has forgotten."""

    # ---- requests that wait for capacity ----

    async def list_queued(self, zone: str = "-") -> QueuedList:
        """The queued resources of *zone*, "-" for all zones."""

    async def get_queued(self, name: NodeName) -> QueuedTPUs:
        """The queued resource as it is now."""

    async def begin_queue(self, name: NodeName, spec: QueuedSpec) -> str:
        """Asks for a queued resource."""

    async def begin_delete_queued(self, name: NodeName, *, force: bool) -> str:
        """Asks to delete it; with its TPUs where *force*, else CONFLICT if it has some."""

    async def begin_reset_queued(self, name: NodeName) -> str:
        """Asks to put a failed or suspended one back into the queue, without its TPUs."""

    # ---- its hosts ----

    async def add_ssh_key(self, name: NodeName, user: str, public_key: str) -> bool:
        """Lets *public_key* ("ssh-ed25519 AAAA…") log in as *user*; False if it could already."""

    async def guest_attributes(self, name: NodeName) -> list[GuestAttributes]:
        """What the hosts published about themselves, their host keys for example, in order."""

    # ---- what can be created ----

    async def locations(self) -> tuple[str, ...]:
        """The zones in which the project can have TPUs, sorted."""

    async def accelerator_types(self, zone: str) -> tuple[str, ...]:
        """The types offered in *zone*."""

    async def runtime_versions(self, zone: str) -> tuple[str, ...]:
        """The images (OS and drivers) offered in *zone*."""

    async def reservations(self) -> tuple[Reservation, ...]:
        """Those of the project for TPUs, and those to come."""
        return ()

    async def reserve(self, spec: ReservationSpec) -> Reservation:
        """Asks for capacity that is billed for its days, used or not. EXISTS for a name in use;
        asked again after a lost answer, it is the same request for the cloud.
        """
        raise InvalidInput("The Cloud TPU API has no calendar mode.")

    async def sweep(self) -> list[str]:
        """Deletes what TPUs that this program made have left in the project, and that costs
        nothing; its names.
        """
        return []

    async def close(self) -> None:
        """Ends its connections; a later call would open others."""
