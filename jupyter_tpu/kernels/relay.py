"""The relay: to clients on this machine it looks like a local kernel; the real one is on a host.

It runs on the core loop, so it works while its owner's loop is stopped (jupyter_client's blocking
API) and puts no load on the server's loop. It owns the ports, which stay open over restarts, and
one :class:`~.attachment.Attachment` per launch of the kernel.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping
from signal import SIGINT
from typing import Any

from ..errors import TPUError
from ..links import core_thread
from ..on_host.agent.protocol import messages
from ..on_host.agent.protocol.events import (
    CONTROL,
    IOPUB,
    KEEPER,
    NORMAL,
    Acknowledged,
    Gap,
    JournalEvent,
    Message,
    Opened,
)
from ..on_host.agent.protocol.keeper_requests import EndKernel, RenameNotebook, SignalKernel
from ..on_host.agent.protocol.requests import KernelStart
from ..ssh.host_values import InvalidAnswer
from ..wording import printable
from . import exit_cleanup
from .attachment import Attachment, keeper_event, kernel_info
from .end_errors import (
    LeaseLost,
    ProtocolMismatch,
    ended_elsewhere_error,
    exit_error,
    is_reply_of_dead,
)
from .host_kernel import HostKernel, KernelHost, prepare_pod
from .kernel_info import KernelInfoResponder, asks_for_info
from .persistence import KernelPersistence
from .ports import KernelPorts
from .project import KernelProject

log = logging.getLogger(__name__)

#: Bytes of client messages that may wait for the host. Above this shell and stdin are not read.
MAX_WAITING = 64 << 20
#: Seconds for clients to read the last messages of a kernel that crashed, maybe after they have
#: connected again, before the kernel is reported dead.
LAST_MESSAGES = 15.0
#: Seconds between checks whether they have.
READ_CHECK = 0.1


class KernelRelay:
    """One kernel id: its ports here and its kernel on the host, over all restarts.

    Parameters
    ----------
    host: the link to the host.
    kernel_id: its id, here and on the host.
    persistence: stores the kernel's messages for the next process; None: nothing is stored.
    owned: the kernel is ended if this process is killed; else it stays for other clients.
    notebook_folder: where a local kernel would start; None: its project is not copied.
    sync: what is copied of it, as `project_sync` takes it.
    answers_when_dead: the cells of a kernel that dies get a reply, too, and not only their error.
        A notebook runner would count it as an error of the cell, which it may ignore, and end well.
    """

    def __init__(
        self,
        host: KernelHost,
        kernel_id: str,
        persistence: KernelPersistence | None = None,
        *,
        owned: bool = False,
        notebook_folder: str | None = None,
        sync: str = "",
        answers_when_dead: bool = True,
    ) -> None:
        self.kernel_id = kernel_id
        #: What `poll` returns: None while the kernel is, or may be, alive; else its exit code.
        self.code: int | None = None
        #: It was ended on purpose by another program, or its host is gone. So it must not be
        #: restarted automatically, as a kernel that crashed is.
        self.final = False
        #: Why the kernel died, or why its host is unreachable.
        self.problem: TPUError | None = None
        self.secret = persistence.secret if persistence is not None else os.urandom(24).hex()
        self._persistence = persistence
        self._unconsumed: Message | Gap | None = None  # the newest that waits for a reader
        self._host = host
        self._host_kernel = HostKernel(host, kernel_id, self.secret, owned=owned)
        self._attachment: Attachment | None = None
        self._answers_when_dead = answers_when_dead
        self._exited = False  # the kernel's process
        self._key = ""  # signs messages
        # A server's tabs read from its journal, and must not wait for another client.
        self._ports = KernelPorts(
            self._from_client, lambda: self._responder.send_welcome(), lossless=persistence is None
        )
        self._responder = KernelInfoResponder(kernel_id, self._ports.send)
        self._project: KernelProject | None = None
        if notebook_folder is not None:
            self._project = KernelProject(
                host,
                notebook_folder,
                sync,
                self._forward,
                self._responder.send_line,
                self._end_cell,
            )
        self._reporting: asyncio.Task[None] | None = None
        #: It was asked to end, so its end is reported without waiting for more output.
        self.stopping = False

    # ---- its life

    async def launch(
        self, connection: Mapping[str, Any], request: Mapping[str, Any], timeout: float = 60.0
    ) -> KernelStart:
        """Starts a kernel on the host. Returns when its keeper has started it.

        Parameters
        ----------
        connection: the connection file's content. Its ports are bound if they are not yet.
        request: ``python``, ``environment``, ``cwd``, ``env``, ``notebook``: see the daemon's
            ``start_kernel``. With ``pod``, on all hosts of the TPU.
        timeout: seconds to wait for the host.

        Raises TPUError: the link's problem, TIMEOUT, ENVIRONMENT if the host lacks the environment,
        EXISTS, CONFLICT if a port is in use. Then nothing stays open here.
        """
        self._host_kernel.acquire()
        if self._persistence is None:
            exit_cleanup.register(self)
        self.code, self.problem, self.final = None, None, False
        self.stopping = self._exited = False
        self._key = _text(connection.get("key", ""))
        self._responder.reset(self._key)
        if self._persistence is not None:
            self._persistence.begin_launch(self._key)
        self._unconsumed = None
        try:
            await self._bind(connection)
            request = {**request, "key": self._key}
            if "pod" in request:
                slices = request["pod"].get("slices") or []
                request["pod"] = await prepare_pod(self._host, slices)
            if self._project is not None and (folder := await self._project.open()):
                request["mirror"] = folder
            started = await self._host_kernel.start(request, timeout)
        except BaseException:
            await self._free()
            raise
        self._attach()
        return started

    async def adopt(self, connection: Mapping[str, Any]) -> None:
        """Adopts a running kernel that an earlier process left.

        Does not wait for the network: whether the kernel still runs is known when its host is
        reached. Raises CONFLICT if a port is in use.
        """
        known = self._persistence
        assert known is not None
        self._host_kernel.acquire()
        self._key = _text(connection.get("key", ""))
        self._responder.reset(self._key, known.info, known.running, known.session)
        try:
            await self._bind(connection)
            if self._project is not None:
                await self._project.open()
        except BaseException:
            await self._free()
            raise
        self._attach(boot=known.boot, steal=known.steal)
        for channel, parts in known.unacknowledged():
            self._pass_on(channel, parts, parts[messages.find_delimiter(parts) + messages.HEADER])

    def _attach(self, **known: Any) -> None:
        self._attachment = Attachment(
            self._host, self.kernel_id, self.secret, self._on_event, self._on_gone, **known
        )
        self._pause_or_resume_reading()

    async def _free(self) -> None:
        """Frees the ports and the link."""
        exit_cleanup.unregister(self)
        if self._project is not None:
            await self._project.close()
        await self._ports.close()
        self._host_kernel.release()

    async def _bind(self, connection: Mapping[str, Any]) -> None:
        await self._ports.bind(connection)
        self._ports.set_heartbeat(beating=True)
        self._pause_or_resume_reading()

    def signal(self, number: int) -> None:
        """Sends a signal to the kernel and its child processes, ahead of all waiting messages.

        An interrupt ends the cells, too, that wait here for the project.
        """
        if number == SIGINT and self._interrupt_held() and self._responder.info is None:
            return  # It is still starting: SIGINT would kill it.
        if self._attachment is not None and self.code is None:
            self._attachment.request(SignalKernel(signal=int(number)))

    def rename(self, notebook: str) -> None:
        """Tells the host the new path of the kernel's notebook, which it names to others."""
        if self._attachment is not None and self.code is None:
            self._attachment.request(RenameNotebook(notebook=notebook))

    async def wait_ended(self) -> int:
        """Waits until the kernel has ended. Returns its exit code."""
        if self._attachment is not None and self.code is None:
            await self._attachment.wait_closed()
            if self._reporting is not None:
                await asyncio.wait([self._reporting])
        return self.code if self.code is not None else 1

    def kill(self) -> None:
        """Ends the kernel and its child processes at once."""
        self.stopping = True
        if self._attachment is not None and self.code is None:
            self._attachment.request(EndKernel(now=True))

    async def cleanup(self, *, restart: bool = False, keep_running: bool = False) -> None:
        """Ends the kernel on its host. *restart*: the ports stay open for the next kernel.

        keep_running: do not end a kernel that continues on its host for other clients.
        Takes at most 10 seconds. On an unreachable host it is ended later.
        """
        self._stop_reporting()
        if self._project is not None:
            self._project.abort_held()
        attachment = self._attachment
        if attachment is not None:
            if attachment.final:
                # The keeper closes the connection when all its processes have ended.
                await attachment.wait_closed(timeout=2.0)
            elif not isinstance(
                self.problem, (LeaseLost, ProtocolMismatch) if keep_running else LeaseLost
            ):
                await self._host_kernel.shutdown()
            await attachment.close()
            self._attachment = None
            self._pause_or_resume_reading()
        self._host_kernel.unregister()
        if self.code is None:
            self.code = 0
        self._ports.drop_buffered()
        if not restart:
            await self._free()

    async def detach(self) -> None:
        """Detaches from the kernel, which continues with its output, and frees the ports."""
        self._stop_reporting()
        exit_cleanup.unregister(self)
        attachment, self._attachment = self._attachment, None
        if attachment is not None:
            await attachment.close(release=True)
        await self._free()

    # ---- from the kernel

    def _on_event(self, event: JournalEvent) -> None:
        assert self._attachment is not None
        if isinstance(event, Message):
            if event.channel == KEEPER:
                self._on_keeper_event(event.parts)
            elif self._persistence is None or self._persistence.record_message(event):
                if event.channel == IOPUB:
                    self._responder.observe(event.parts)
                    if self._project is not None:
                        self._project.explain(event.parts)
                if self._answers_when_dead or not (self._exited and is_reply_of_dead(event)):
                    self._ports.send(event.channel, event.parts)
            self._consumed(event)
        elif isinstance(event, Gap):
            self._report_gap(event)
            self._consumed(event)
        elif isinstance(event, Opened):
            info = event.fields.get("info")
            if info:
                self._set_info(kernel_info(info.encode()))
            if self._persistence is not None:
                self._persistence.set_status(event.fields.get("status") or {})
        elif isinstance(event, Acknowledged):
            if self._persistence is not None and event.lane == NORMAL:
                self._persistence.mark_acknowledged(event.last)
            self._pause_or_resume_reading()

    def _report_gap(self, gap: Gap) -> None:
        """Adds lines to the output in place of what the host dropped."""
        for line in self._responder.gap_messages(gap):
            if self._persistence is None or self._persistence.record_message(line):
                self._ports.send(line.channel, line.parts)

    def _consumed(self, message: Message | Gap) -> None:
        """Lets the host delete the message, unless too much is unread here."""
        assert self._attachment is not None
        if message.lane == NORMAL and self._is_full():
            self._unconsumed = message
            return
        if message.lane == NORMAL:
            self._unconsumed = None
        self._attachment.acknowledge(message)

    def _is_full(self) -> bool:
        """Whether too much is unread. `_consume_pending` is called when it is not any more."""
        if self._persistence is not None:
            return self._persistence.backlog_full(self._on_backlog_read)
        return self._ports.is_full(self._consume_pending)

    def _on_backlog_read(self) -> None:
        """Called on any thread."""
        core_thread().loop.call_soon_threadsafe(self._consume_pending)

    def _consume_pending(self) -> None:
        if self._unconsumed is not None and self._attachment is not None:
            self._consumed(self._unconsumed)

    def _on_keeper_event(self, parts: list[bytes]) -> None:
        try:
            event = keeper_event(parts)
            if event["event"] == "ready":
                self._set_info(kernel_info(parts[-1]))
        except InvalidAnswer as error:  # its attachment finds out whether the kernel is there
            log.warning("Kernel %s: %s", self.kernel_id, error)
            return
        what, code = event["event"], event.get("code")
        if what == "exited":
            self._exited = True
            if self.stopping:
                self._set_exit_code(code)
        elif what == "ended":
            assert self._attachment is not None
            self._attachment.final = True
            if not self.stopping:
                self._explain_exit(event)
            if not self.stopping and not self.final and self._persistence is not None:
                self._reporting = asyncio.get_running_loop().create_task(
                    self._report_exit(code, self._persistence)
                )
            else:
                self._set_exit_code(code)
        elif what == "refused":
            log.warning("Kernel %s: %s", self.kernel_id, printable(event.get("why", "")))
        elif what == "paused":
            self._responder.send_line(f"[the kernel is paused: {event.get('why')}]\n")

    async def _report_exit(self, code: int | None, persistence: KernelPersistence) -> None:
        """Reports a crash when the clients have read the kernel's last messages.

        Jupyter then starts a new kernel, and JupyterLab drops what comes late of the old one.
        """
        for _ in range(int(LAST_MESSAGES / READ_CHECK)):
            if not persistence.has_unread():
                break
            await asyncio.sleep(READ_CHECK)
        self._set_exit_code(code)

    def _stop_reporting(self) -> None:
        if self._reporting is not None:
            self._reporting.cancel()
            self._reporting = None

    def _set_exit_code(self, code: int | None) -> None:
        self.code = code if code is not None else 1
        if self._project is not None:
            self._project.abort_held()
        self._pause_or_resume_reading()
        self._ports.set_heartbeat(beating=False)

    def _explain_exit(self, event: Mapping[str, Any]) -> None:
        if event.get("asked"):
            log.info("Kernel %s was ended by another program", self.kernel_id)
            self._report_lost(ended_elsewhere_error())
            return
        self.problem = exit_error(event, was_ready=self._responder.info is not None)
        last = str(event.get("output", "")).strip().splitlines()[-20:]
        log.warning("Kernel %s ended:\n%s", self.kernel_id, printable("\n".join(last)))

    def _on_gone(self, problem: TPUError) -> None:
        """The kernel or its host no longer exists, or another client has the kernel."""
        if not self.stopping and self.code is None:
            log.info("Kernel %s: %s", self.kernel_id, problem.message)
            self._report_lost(problem)
        self._set_exit_code(1)

    def _report_lost(self, problem: TPUError) -> None:
        """The kernel is gone though no client here asked for it, and must not be restarted."""
        self.problem = problem
        self.final = True
        if self._responder.busy:
            self._responder.send_line(f"[{problem}]\n")
        if self._persistence is not None:
            self._persistence.report_lost(problem)

    # ---- from clients

    def _interrupt_held(self) -> bool:
        return self._project is not None and self._project.interrupt(self._responder.busy)

    def _end_cell(self, parts: list[bytes], reply: Mapping[str, Any]) -> None:
        """Answers the request of a cell that the kernel does not get."""
        for channel, message in self._responder.end_of_cell(parts, reply):
            if self._persistence is not None:
                self._persistence.record_answer(channel, message)
            self._ports.send(channel, message)

    def _from_client(self, channel: int, parts: list[bytes]) -> None:
        try:
            header = parts[messages.find_delimiter(parts) + messages.HEADER]
        except ValueError:
            log.debug("Ignored an invalid message to kernel %s", self.kernel_id)
            return
        if asks_for_info(header):
            self._responder.request_info(channel, parts)
        elif self._attachment is not None:
            if b'"shutdown_request"' in header:
                self.stopping = True
            elif channel == CONTROL and b'"interrupt_request"' in header:
                self._interrupt_held()
            self._pass_on(channel, parts, header)
            self._pause_or_resume_reading()

    def _pass_on(self, channel: int, parts: list[bytes], header: bytes) -> None:
        if self._project is not None:
            self._project.send(channel, parts, header)
        else:
            self._forward(channel, parts, header)

    def _forward(self, channel: int, parts: list[bytes], header: bytes) -> None:
        assert self._attachment is not None
        # Control overtakes: an interrupt or a shutdown must not wait for a large upload.
        number = self._attachment.send(channel, parts, urgent=channel == CONTROL)
        if self._persistence is not None and channel != CONTROL:
            self._persistence.mark_sent(number, header)

    def _pause_or_resume_reading(self) -> None:
        """Requests wait in the ports while too many wait for the host, and during a restart."""
        crashed = self.code is not None and not self.final
        if self._attachment is None or crashed or self._attachment.waiting > MAX_WAITING:
            self._ports.pause()
        else:
            self._ports.resume()

    def _set_info(self, info: bytes) -> None:
        """The kernel is ready, and *info* is the content of its kernel_info_reply."""
        if self._persistence is not None:
            self._persistence.set_info(info)
        self._responder.set_info(info)


def _text(key: str | bytes) -> str:
    return key.decode() if isinstance(key, bytes) else key
