"""The interface between a kernel's relay and a server whose kernels outlive it.

A server sets :data:`current`. A provisioner asks it for a :class:`KernelPersistence` before its
kernel starts. Without a server (nbclient, papermill, a console) nothing is stored, and a kernel
ends with the process that started it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import TPUError

if TYPE_CHECKING:
    from ..on_host.agent.protocol.events import Message


class KernelPersistence(Protocol):
    """What is stored of one kernel on this machine. Methods may be called on any thread."""

    @property
    def adopting(self) -> bool:
        """The kernel is already running: an earlier process left it."""

    @property
    def key(self) -> str:
        """Signs messages. It does not change while the kernel runs."""

    @property
    def secret(self) -> str:
        """For the lease."""

    @property
    def steal(self) -> bool:
        """Take the lease from another client, because the user asked for it."""

    @property
    def boot(self) -> str:
        """The boot of its host that the kernel runs in; "" if unknown."""

    @property
    def info(self) -> bytes | None:
        """The content of the kernel's kernel_info_reply, once it is known."""

    @property
    def running(self) -> Mapping[str, bytes]:
        """The requests that keep the kernel busy: ids and headers."""

    @property
    def session(self) -> str:
        """The kernel's, in the headers of its messages."""

    def begin_launch(self, key: str) -> None:
        """A new kernel is about to start under this id. Stored messages of the old one end here."""

    def end_adoption(self) -> None:
        """The running kernel was adopted. A later start launches a new one."""

    def record_message(self, message: Message) -> bool:
        """Stores a message of the kernel. False: an earlier process has stored it already."""

    def record_answer(self, channel: int, parts: list[bytes]) -> None:
        """Stores a message of the relay that answers a request in the kernel's name."""

    def backlog_full(self, on_drained: Callable[[], None]) -> bool:
        """Whether too much is unread. *on_drained* is called once, on any thread, when not."""

    def has_unread(self) -> bool:
        """Whether a client has not read everything, or no client is connected."""

    def set_info(self, info: bytes) -> None:
        """The kernel is ready, and *info* is the content of its kernel_info_reply."""

    def set_status(self, status: Mapping[str, Any]) -> None:
        """The link to the kernel is up, and *status* is what its keeper reports."""

    def unacknowledged(self) -> list[tuple[int, list[bytes]]]:
        """Client messages that the host may not have, in order, each with its channel.

        They are sent again; the host drops repeated messages.
        """

    def mark_sent(self, number: int, header: bytes) -> None:
        """A client's message, identified by its *header*, was sent as *number*."""

    def mark_acknowledged(self, last: int) -> None:
        """The host has all messages up to number *last*."""

    def report_lost(self, problem: TPUError) -> None:
        """The kernel ended, though no one here asked for it. `discard` follows."""

    def release(self) -> None:
        """This process detaches from the kernel, so that the next one can adopt it."""

    def discard(self) -> None:
        """The kernel was ended: deletes everything stored."""


class KernelStore(Protocol):
    """A server whose kernels outlive it."""

    def persist(self, provisioner: Any) -> KernelPersistence | None:
        """The storage of a provisioner's kernel; None: it is not a kernel of this server."""

    def report_refused(self) -> None:
        """A kernel of this server was not started."""


#: This process's server, if its kernels outlive it.
current: KernelStore | None = None
