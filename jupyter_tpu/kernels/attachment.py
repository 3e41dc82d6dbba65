"""The client's end of a kernel's journal, kept attached to its keeper over a link that may break.

While the link heals nothing is lost and nothing is decided: the keeper keeps what the kernel says,
the journal here keeps what its clients say. Only the host itself can report the kernel gone, and
only Google the host.
"""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import json
import logging
import os
import socket
from collections.abc import Callable
from typing import Any, Protocol

from ..agent.protocol.events import (
    KEEPER,
    Failed,
    Gap,
    JournalEvent,
    Message,
    NoticeReceived,
    Opened,
    Rejected,
)
from ..agent.protocol.journal import Journal
from ..agent.protocol.pump import JournalDisconnected, Pump
from ..errors import ConnectionLost, Reason, TPUError
from ..links import HostGone

log = logging.getLogger(__name__)

#: Seconds between attempts while the link itself is up: the first, and the longest.
RETRY = 0.05, 1.0
#: The longest while the link needs the user: each attempt asks Google where the host is.
RETRY_NEEDS_ATTENTION = 30.0
#: Reasons that pass by themselves, or when another client of the kernel lets go of it.
_TRANSIENT = (Reason.UNREACHABLE, Reason.UNAVAILABLE, Reason.TIMEOUT, Reason.CONFLICT,
            Reason.NOT_FOUND, Reason.INTERNAL, Reason.RATE_LIMITED)  # fmt: skip
#: Protocol errors in a row after which it is clear that trying again does not help.
MAX_PROTOCOL_ERRORS = 3


class Host(Protocol):
    """As much of a link as kernels need."""

    def acquire(self) -> None: ...
    def release(self) -> None: ...
    async def agent(self) -> Any: ...


class LeaseLost(TPUError):
    """Another client is the kernel's master now; the kernel goes on there."""

    def __init__(self, holder: str) -> None:
        super().__init__(
            f"The kernel was taken over by {holder}.",
            Reason.CONFLICT,
            "It goes on there; `jupyter tpu kernel take` brings it back.",
        )


class ProtocolMismatch(TPUError):
    """The two ends do not understand each other. The kernel goes on: who can may take it up."""

    def __init__(self, message: str, reason: Reason = Reason.INTERNAL) -> None:
        super().__init__(
            f"{message} The kernel goes on at its host.",
            reason,
            "`jupyter tpu kernel take` brings it back to a Jupyter server that understands it (try "
            "this one again, or the one that started it), `jupyter tpu kernel end` ends it.",
        )


class Attachment:
    """Holds the lease of one kernel and carries its journal; lives on the core loop.

    Parameters
    ----------
    host: the link to the kernel's host; it is held by whoever made this.
    kernel_id: which kernel.
    secret: of its lease; the same again after a reconnect or a restart of this process.
    on_event: called with each message, and with ``Opened`` when the keeper greets.
    on_gone: called once, when the host says that there is no such kernel any more, when there is
        no such host any more, or with `LeaseLost` or `ProtocolMismatch`.
    boot: which boot of its host the kernel runs in, if an earlier process knew it.
    steal: takes the lease from whoever has it, once: from who steals it back it is not stolen.
    """

    def __init__(
        self,
        host: Host,
        kernel_id: str,
        secret: str,
        on_event: Callable[[JournalEvent], None],
        on_gone: Callable[[TPUError], None],
        *,
        boot: str = "",
        steal: bool = False,
    ) -> None:
        self.kernel_id = kernel_id
        self.problem: TPUError | None = None  # why it is not attached just now
        self.attached = asyncio.Event()
        self.final = False  # the kernel's last words are here: the next end of stream is the end
        self._host = host
        self._secret = secret
        self._on_event = on_event
        self._on_gone = on_gone
        self._boot = boot
        self._steal = steal
        self._journal = Journal()
        self._pump: Pump | None = None
        self._failures = 0
        self._pause = RETRY[0]
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"kernel {kernel_id}")
        self._task.add_done_callback(self._finished)

    # ---- to the kernel

    @property
    def waiting(self) -> int:
        """Bytes for the kernel that its host has not acknowledged."""
        return self._journal.waiting

    def send(self, channel: int, parts: list[bytes], *, urgent: bool = False) -> int:
        """Hands a client's message on, now or when the link is back; returns its number."""
        number = self._journal.send(channel, parts, urgent=urgent)
        self._wake()
        return number

    def request(self, **request: Any) -> None:
        """Asks the keeper itself to do something: before everything else that waits."""
        self.send(KEEPER, [json.dumps(request).encode()], urgent=True)

    def acknowledge(self, message: Message | Gap) -> None:
        """The message was delivered: its host may forget it."""
        self._journal.acknowledge(message)
        self._wake()

    def _wake(self) -> None:
        if self._pump is not None:
            self._pump.wake()

    # ---- its life

    async def wait_closed(self, timeout: float | None = None) -> None:
        """Returns when there is nothing more to come, or after *timeout* seconds."""
        await asyncio.wait([self._task], timeout=timeout)

    def _finished(self, task: asyncio.Task[None]) -> None:
        # Whatever else happens is a fault of ours; nobody must wait for this kernel for ever.
        if not task.cancelled() and task.exception() is not None:
            log.error("Kernel %s was lost", self.kernel_id, exc_info=task.exception())
            self._on_gone(TPUError(f"The kernel was lost: {task.exception()!r}.", Reason.INTERNAL))

    async def close(self, release: bool = False) -> None:
        """Lets go of the kernel, which lives on; *leave*: the next client need not wait."""
        if release and self._pump is not None:
            self._journal.send_notice({"leave": True})
            self._pump.flush()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            try:
                await self._connect()
            except JournalDisconnected as error:
                log.debug("Kernel %s: %s", self.kernel_id, error)
                if self.final:
                    return
                self.problem = self.problem or ConnectionLost("the kernel", str(error))
            except LeaseLost as lost:
                self._on_gone(lost)
                return
            except TPUError as error:
                if await self._is_gone(error):
                    return
                self.problem = error
                if error.reason not in _TRANSIENT:
                    self._pause = max(self._pause, RETRY[1])
                    await asyncio.sleep(self._pause)
                    self._pause = min(2 * self._pause, RETRY_NEEDS_ATTENTION)
                    continue
            if self._failures >= MAX_PROTOCOL_ERRORS:
                self._on_gone(self.problem or _kernel_gone_error(self.kernel_id))
                return
            await asyncio.sleep(self._pause)
            self._pause = min(2 * self._pause, RETRY[1])

    async def _connect(self) -> None:
        """One connection, from finding the agent to the stream's end."""
        agent = await self._host.agent()
        reader, writer = await agent.open_keeper(self.kernel_id)
        lease = {"secret": self._secret, "holder": _holder(), "steal": self._steal}
        self._journal.connect({"lease": lease})
        self._pump = Pump(self._journal, reader, writer, self._event)
        try:
            await self._pump.run()
        finally:
            self._pump = None
            self.attached.clear()
            self._journal.disconnected()

    def _event(self, event: JournalEvent) -> None:
        if failed := _protocol_error(event):
            self._failures += 1
            self.problem = ProtocolMismatch(
                f"The connection to the kernel went wrong {self._failures} times: {failed}."
            )
        elif isinstance(event, Rejected) and event.fields.get("reason") == "PROTOCOL":
            self._failures = MAX_PROTOCOL_ERRORS
            raise ProtocolMismatch(
                "The kernel was started by another version of jupyter-tpu, and the two do not "
                f"understand each other ({event.fields.get('message')}).",
                Reason.CONFLICT,
            )
        elif isinstance(event, Rejected):
            if event.fields.get("reason") == Reason.CONFLICT.value:
                raise LeaseLost(str(event.fields.get("holder") or "another client"))
            message = str(
                event.fields.get("message") or "The connection to the kernel was refused."
            )
            raise TPUError(message, Reason.INTERNAL, "Restart the kernel.")
        elif isinstance(event, Opened):
            self.problem, self._pause, self._steal = None, RETRY[0], False
            self._boot = str((event.fields.get("status") or {}).get("boot") or self._boot)
            self.attached.set()
            self._on_event(event)
        else:
            if isinstance(event, Message):
                self._failures = 0
            if not isinstance(event, NoticeReceived):
                self._on_event(event)

    async def _is_gone(self, error: TPUError) -> bool:
        """Nothing listens where the keeper was: asks the host whether it knows the kernel."""
        if isinstance(error, HostGone):
            self._on_gone(
                TPUError(
                    f"The kernel has ended with its TPU: {error.message}",
                    Reason.NOT_FOUND,
                    error.hint,
                )
            )
            return True
        if error.reason is not Reason.NOT_FOUND:
            return False
        if self.final:
            return True
        with contextlib.suppress(TPUError):
            agent = await self._host.agent()
            known = (await agent.request("kernels"))["kernels"]
            if all(kernel["id"] != self.kernel_id for kernel in known):
                rebooted = self._boot and agent.hello.get("boot", self._boot) != self._boot
                self._on_gone(
                    _host_rebooted_error() if rebooted else _kernel_gone_error(self.kernel_id)
                )
                return True
        return False


def _protocol_error(event: JournalEvent) -> str:
    """What was wrong, where this end or the other says that the protocol was broken; else ""."""
    if isinstance(event, Failed):
        return event.problem
    if isinstance(event, NoticeReceived):
        return str(event.fields.get("failed") or "")
    if isinstance(event, Rejected) and event.fields.get("reason") == "FAILED":
        return str(event.fields.get("message"))
    return ""


def _kernel_gone_error(kernel_id: str) -> TPUError:
    return TPUError(
        "The kernel is no longer on its host, which was restarted, or somebody ended it there.",
        Reason.NOT_FOUND,
        "Restart the kernel; what it computed is lost.",
    )


def _host_rebooted_error() -> TPUError:
    return TPUError(
        "The kernel's host was restarted, and the kernel has ended with it.",
        Reason.NOT_FOUND,
        "Restart the kernel; what it computed is lost.",
    )


def _holder() -> str:
    """Who holds a lease, for others to read."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user without a name
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}, process {os.getpid()}"
