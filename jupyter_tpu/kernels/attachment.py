"""The client's end of a kernel's journal. It stays attached to the keeper when the link breaks.

While the link reconnects nothing is lost: the keeper stores the kernel's messages, and the journal
here stores the clients' messages. Only the host can report that the kernel is gone, and only
Google that the host is gone.
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

import msgspec

from ..backoff import Backoff
from ..errors import ConnectionLost, Reason, TPUError
from ..links import HostGone
from ..on_host.agent.protocol.declarations import ProtocolRequest
from ..on_host.agent.protocol.events import (
    KEEPER,
    Failed,
    Gap,
    JournalEvent,
    Message,
    NoticeReceived,
    Opened,
    Rejected,
)
from ..on_host.agent.protocol.journal import Journal
from ..on_host.agent.protocol.pump import JournalDisconnected, Pump
from ..on_host.agent.protocol.records import KeeperEvent, KeeperHello, KeeperNotice, Rejection
from ..on_host.agent.protocol.requests import GetKernelFateRequest
from ..own_log import happened
from ..ssh.agent_answers import checked_record
from ..ssh.host_values import InvalidAnswer, decoded
from .end_errors import LeaseLost, ProtocolMismatch, gone_error, host_rebooted_error


def keeper_event(parts: list[bytes]) -> KeeperEvent:
    """The event in a message of the keeper. Raises InvalidAnswer."""
    event: KeeperEvent = checked_record(decoded(parts[0], "event"), KeeperEvent, "event")
    return event


def kernel_info(content: bytes) -> bytes:
    """The *content* of a kernel_info_reply, if it is a JSON object. Raises InvalidAnswer."""
    try:
        msgspec.json.decode(content, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidAnswer("kernel_info_reply", str(error)) from None
    return content


log = logging.getLogger(__name__)

#: Between attempts while the link is up.
PAUSES = Backoff(0.05, 1.0)
#: While the link needs the user's attention: each attempt asks Google for an address.
PAUSES_NEEDS_ATTENTION = Backoff(1.0, 30.0)
#: Reasons that pass on their own, or when another client releases the kernel.
_TRANSIENT = (Reason.UNREACHABLE, Reason.UNAVAILABLE, Reason.TIMEOUT, Reason.CONFLICT,
            Reason.NOT_FOUND, Reason.INTERNAL, Reason.RATE_LIMITED)  # fmt: skip
#: Protocol errors in a row after which retrying is pointless.
MAX_PROTOCOL_ERRORS = 3


class KernelLink(Protocol):
    """The part of a link that kernels need."""

    @property
    def problem(self) -> TPUError | None:
        """Why it is not up."""

    @property
    def host_id(self) -> str:
        """Text that identifies the host among those of all clouds."""

    def acquire(self) -> None: ...
    def release(self) -> None: ...
    async def agent(self) -> Any: ...


class Attachment:
    """Holds the lease of one kernel and carries its journal. Runs on the core loop.

    Parameters
    ----------
    host: the link to the kernel's host. The caller holds it.
    kernel_id: the kernel's id.
    secret: for its lease. It stays the same after a reconnect or a restart of this process.
    on_event: called with each message, and with ``Opened`` when the keeper answers.
    on_gone: called once: the host no longer has the kernel, the host is gone, `LeaseLost` or
        `ProtocolMismatch`.
    boot: the boot of its host that the kernel runs in, if an earlier process knew it.
    steal: takes the lease from another client, once. If that client takes it back, it stays there.
    """

    def __init__(
        self,
        host: KernelLink,
        kernel_id: str,
        secret: str,
        on_event: Callable[[JournalEvent], None],
        on_gone: Callable[[TPUError], None],
        *,
        boot: str = "",
        steal: bool = False,
    ) -> None:
        self.kernel_id = kernel_id
        self.problem: TPUError | None = None  # why it is not attached at the moment
        self.attached = asyncio.Event()
        self.final = False  # the kernel has ended and all its messages are here
        self._host = host
        self._secret = secret
        self._on_event = on_event
        self._on_gone = on_gone
        self._boot = boot
        self._steal = steal
        self._journal = Journal()
        self._pump: Pump | None = None
        self._failures = 0
        self._pause = PAUSES.first
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"kernel {kernel_id}")
        self._task.add_done_callback(self._finished)

    # ---- to the kernel

    @property
    def waiting(self) -> int:
        """Bytes for the kernel that its host has not acknowledged yet."""
        return self._journal.waiting

    def send(self, channel: int, parts: list[bytes], *, urgent: bool = False) -> int:
        """Sends a client's message, now or when the link is back. Returns its number."""
        number = self._journal.send(channel, parts, urgent=urgent)
        self._wake()
        return number

    def request(self, request: ProtocolRequest[None]) -> None:
        """Sends a request to the keeper itself, ahead of all waiting messages."""
        fields = {"do": request.op, **request.params}
        self.send(KEEPER, [json.dumps(fields).encode()], urgent=True)

    def acknowledge(self, message: Message | Gap) -> None:
        """The message was delivered, so its host may delete it."""
        self._journal.acknowledge(message)
        self._wake()

    def _wake(self) -> None:
        if self._pump is not None:
            self._pump.wake()

    # ---- its life

    async def wait_closed(self, timeout: float | None = None) -> None:
        """Returns when no more messages can come, or after *timeout* seconds."""
        await asyncio.wait([self._task], timeout=timeout)

    def _finished(self, task: asyncio.Task[None]) -> None:
        # Any other exception is a bug here. Nothing must wait for this kernel forever.
        if not task.cancelled() and task.exception() is not None:
            log.error("Kernel %s was lost", self.kernel_id, exc_info=task.exception())
            self._on_gone(TPUError(f"The kernel was lost: {task.exception()!r}.", Reason.INTERNAL))

    async def close(self, release: bool = False) -> None:
        """Detaches from the kernel, which continues. *release*: also gives up the lease at once."""
        if release and self._pump is not None:
            self._note("released")
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
                self._note(f"lost. {lost.message}")
                self._on_gone(lost)
                return
            except TPUError as error:
                if await self._is_gone(error):
                    return
                self.problem = error
                if error.reason not in _TRANSIENT:
                    self._pause = max(self._pause, PAUSES_NEEDS_ATTENTION.first)
                    await asyncio.sleep(self._pause)
                    self._pause = PAUSES_NEEDS_ATTENTION.next(self._pause)
                    continue
            if self._failures >= MAX_PROTOCOL_ERRORS:
                self._on_gone(self.problem or gone_error(None))
                return
            await asyncio.sleep(self._pause)
            self._pause = PAUSES.next(self._pause)

    def _note(self, state: str) -> None:
        """A transition, for the log."""
        tpu = "".join(self._host.host_id.split("/")[-2:-1])  # …/my-tpu/0
        happened(f"Lease of kernel {self.kernel_id}: {state}", tpu=tpu)

    async def _connect(self) -> None:
        """One connection, from finding the daemon to the end of the stream."""
        agent = await self._host.agent()
        reader, writer = await agent.open_keeper(self.kernel_id)
        lease = {"secret": self._secret, "holder": _holder(), "steal": self._steal}
        self._journal.connect({"lease": lease})
        self._pump = Pump(self._journal, reader, writer, self._event)
        try:
            await self._pump.run()
        finally:
            self._pump = None
            if self.attached.is_set():
                self._note("not renewed: the stream has ended")
            self.attached.clear()
            self._journal.disconnected()

    def _event(self, event: JournalEvent) -> None:
        event = _checked(event)
        if failed := _protocol_error(event):
            self._failures += 1
            self.problem = ProtocolMismatch(
                f"The connection to the kernel failed {self._failures} times: {failed}."
            )
        elif isinstance(event, Rejected) and event.fields.get("reason") == "PROTOCOL":
            self._failures = MAX_PROTOCOL_ERRORS
            raise ProtocolMismatch(
                "The kernel was started by an incompatible version of jupyter-tpu "
                f"({event.fields.get('message')}).",
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
            self.problem, self._pause, self._steal = None, PAUSES.first, False
            self._boot = str((event.fields.get("status") or {}).get("boot") or self._boot)
            self.attached.set()
            self._note("held")
            self._on_event(event)
        else:
            if isinstance(event, Message):
                self._failures = 0
            if not isinstance(event, NoticeReceived):
                self._on_event(event)

    async def _is_gone(self, error: TPUError) -> bool:
        """The keeper does not answer: asks the host whether it still has the kernel."""
        if isinstance(error, HostGone):
            self._on_gone(
                TPUError(
                    f"The kernel ended with its TPU: {error.message}",
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
            fate = await agent.request(GetKernelFateRequest(id=self.kernel_id))
            if not fate["known"]:
                rebooted = self._boot and agent.hello.get("boot", self._boot) != self._boot
                self._on_gone(host_rebooted_error() if rebooted else gone_error(fate["ending"]))
                return True
        return False


def _checked(event: JournalEvent) -> JournalEvent:
    """*event* with the fields that a keeper may send. Raises InvalidAnswer."""
    for kind, fields in (
        (Opened, KeeperHello),
        (Rejected, Rejection),
        (NoticeReceived, KeeperNotice),
    ):
        if isinstance(event, kind):
            return event._replace(fields=checked_record(event.fields, fields, fields.__name__))
    return event


def _protocol_error(event: JournalEvent) -> str:
    """The protocol error that this end or the other reports; "" if there is none."""
    if isinstance(event, Failed):
        return event.problem
    if isinstance(event, NoticeReceived):
        return str(event.fields.get("failed") or "")
    if isinstance(event, Rejected) and event.fields.get("reason") == "FAILED":
        return str(event.fields.get("message"))
    return ""


def _holder() -> str:
    """Describes this process as a lease holder, for other users."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user without a name
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}, process {os.getpid()}"
