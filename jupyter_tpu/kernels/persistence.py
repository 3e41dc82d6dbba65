"""The interface between a kernel's relay and a server whose kernels outlive it.

A server sets :data:`current`. A provisioner asks it for a :class:`KernelPersistence` before its
kernel starts. Without a server (nbclient, papermill, a console) nothing is stored, and a kernel
ends with the process that started it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from ..agent.protocol.events import Message
from ..errors import TPUError


class KernelPersistence(Protocol):
    """One kernel's part that stays on this machine's disk. Methods may be called on any thread."""

    @property
    def adopting(self) -> bool:
        """The kernel runs already: an earlier process left it."""

    @property
    def key(self) -> str:
        """Signs messages; it stays while the kernel runs."""

    @property
    def secret(self) -> str:
        """Of the lease."""

    @property
    def steal(self) -> bool:
        """The lease is taken from whoever has it: somebody wished that on purpose."""

    @property
    def boot(self) -> str:
        """Which boot of its host the kernel runs in; "" if that is not known."""

    @property
    def info(self) -> bytes | None:
        """The content of the kernel's kernel_info_reply, once it is known."""

    @property
    def running(self) -> Mapping[str, bytes]:
        """Requests that keep the kernel busy: their ids and headers."""

    def begin_launch(self, key: str) -> None:
        """A new kernel is about to start under the id: what was said before is forgotten."""

    def end_adoption(self) -> None:
        """The kernel was taken up: from now on a start is a start."""

    def record_message(self, message: Message) -> bool:
        """Writes down what the kernel said; False: it is known already, from an earlier process."""

    def backlog_full(self, on_room: Callable[[], None]) -> bool:
        """Whether too much is unread; *on_room* is called once, on any thread, when it is not."""

    def set_info(self, info: bytes) -> None:
        """The kernel is ready, and says this about itself."""

    def set_status(self, status: Mapping[str, Any]) -> None:
        """The link to the kernel is there, and this is what its keeper says about it."""

    def unacknowledged(self) -> list[tuple[int, list[bytes]]]:
        """What clients said of which it is not known that its host has it, in order, each with its
        channel: to be sent again, for the host takes each once.
        """

    def mark_sent(self, number: int, header: bytes) -> None:
        """A client's message, known by its *header*, is under way as *number* …"""

    def mark_acknowledged(self, last: int) -> None:
        """… and the host has all up to number *last*."""

    def report_lost(self, problem: TPUError) -> None:
        """The kernel is no more, and nobody here wished it; what is kept is discarded soon."""

    def release(self) -> None:
        """This process lets go of the kernel, for the next one to take up."""

    def discard(self) -> None:
        """The kernel was ended: nothing of it is to be found again."""


class KernelStore(Protocol):
    """A server that keeps its kernels."""

    def persist(self, provisioner: Any) -> KernelPersistence | None:
        """What is kept of a provisioner's kernel; None: it is not a kernel of this server."""

    def report_refused(self, provisioner: Any, problem: TPUError) -> None:
        """A kernel of this server was not started, and why."""


#: This process's server, if it keeps its kernels.
current: KernelStore | None = None
