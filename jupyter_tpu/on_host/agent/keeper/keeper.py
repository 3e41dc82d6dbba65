"""The keeper: the process next to one kernel that owns it and its journal.

It runs in the environment's Python, in a session of its own, and needs neither the link nor the
daemon nor a Jupyter server to continue. The kernel's messages go into the journal at once; the
client with the lease gets them from there, now or after the next reconnect. When the kernel has
ended and its last messages are acknowledged (or no client came for them for weeks), the keeper
removes everything and ends. If no client got them, a record of the kernel's end stays (see
`exit_cause`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import time
from typing import Any, Callable, Dict, List, Optional, Union

from ..protocol import messages, zmtp
from ..protocol.coalescing import Coalescer
from ..protocol.declarations import InvalidRequest, parse
from ..protocol.deduplication import DEDUPLICATED, Deduplicator
from ..protocol.events import (
    CONTROL,
    IOPUB,
    KEEPER,
    SHELL,
    STDIN,
    URGENT,
    Acknowledged,
    Gap,
    JournalEvent,
    Message,
    NoticeReceived,
)
from ..protocol.eviction import Evictor
from ..protocol.frames import MAX_MESSAGE
from ..protocol.journal import DroppedMessage, Journal, LargeMessage
from ..protocol.json_file import read_json
from ..protocol.keeper_requests import (
    KEEPER_REQUESTS,
    EndKernel,
    RenameNotebook,
    SignalKernel,
)
from ..protocol.paths import boot
from ..protocol.pump import JournalDisconnected
from ..protocol.segments import SegmentStore
from ..protocol.timeouts import cancel_all, exit_within, is_set_within
from .booking import Booking
from .channels import KernelChannels
from .checkpoint_request import CheckpointRequest
from .exit_cause import ASKED, EXPIRED, HostWatch, write_ending
from .journal_limit import JournalLimit
from .kernel_process import HOSTS, KernelProcess
from .kernel_startup import KernelStartup
from .owned_process import become_subreaper
from .requests import INTERRUPTIONS, Requests
from .server import KeeperServer
from .session_request import SessionRequest

#: Seconds from a kernel's end for which its last messages are kept for a client that is away. (The
#: daemon also limits how much is kept; see `Keepers.free_disk`.)
LINGER_SECONDS = 28 * 24 * 3600.0
#: The same if its client has shut it down; that client may end at once, as `jupyter console` does.
ASKED_LINGER = 10.0
#: Seconds in which this process ends once nothing is left to do.
END_SECONDS = 20.0
#: Messages whose content the keeper does not need.
LARGE_OUTPUT = (b'"display_data"', b'"update_display_data"', b'"execute_result"', b'"stream"',
                b'"comm_open"', b'"comm_msg"')  # fmt: skip


class _LargeOutput:
    """Takes a large message of the kernel piece by piece; see `zmtp.PartWriter`."""

    def __init__(
        self,
        message: Union[LargeMessage, DroppedMessage],
        wake: Callable[[], None],
        ended: Callable[[], None],
    ) -> None:
        self._message = message
        self._wake = wake
        self._ended = ended

    def write(self, piece: zmtp.Bytes) -> None:
        self._message.write(piece)
        self._wake()

    def finish(self) -> None:
        self._message.finish()
        self._ended()
        self._wake()

    def abort(self) -> None:
        self._message.abort()
        self._ended()
        self._wake()


class Keeper:
    """Owns one kernel.

    Parameters
    ----------
    spec: from the daemon; see ``Daemon._start_kernel``.
    process: the kernel, just started.
    booking: its chips, given back when it has ended.
    """

    def __init__(self, spec: Dict[str, Any], process: KernelProcess, booking: Booking) -> None:
        self.spec = spec
        self.process = process
        self._booking = booking
        self.folder: str = spec["folder"]
        self._path = os.path.join(self.folder, "keeper.sock")
        self.last_activity = self.started = messages.now()
        self._boot = boot()
        self._signer = messages.MessageSigner(spec["key"], "keeper")
        self._journal = Journal(
            SegmentStore(self.folder), coalesce=Coalescer(self._signer).coalesce
        )
        evictor = Evictor(self._signer) if spec.get("when_full") == "drop" else None
        self._limit = JournalLimit(self._journal, process, spec.get("journal_limit") or 0, evictor)
        self._server = KeeperServer(self, self._journal, spec["secret"])
        self._startup = KernelStartup(self._signer)
        self._channels: Optional[KernelChannels] = None
        self._requests = Requests(spec["key"])
        self._checkpoint = CheckpointRequest(spec["key"])
        self._session = SessionRequest(spec["key"])
        self._host = HostWatch()
        self._announced = ""  # what Google is about to do with this host
        self._cause = ""  # why the kernel ended
        self._died_at: Optional[float] = None  # on the monotonic clock …
        self._died_on = ""  # … and as a date
        self._end = EXPIRED  # why this process ends, if no one has received the last messages
        self._deduplicator = Deduplicator()
        self._arriving = 0  # large messages
        self._final = 0  # the number of the very last message
        self._delivered = False  # up to there
        self._ending = False  # its end was requested
        self._shut_down = False  # by its client
        self._died = asyncio.Event()  # the kernel
        self._gone = asyncio.Event()  # nothing is left to do
        self._tasks: "set[asyncio.Task[None]]" = set()

    # ---- the process's life

    async def run(self, ready: Any) -> None:
        """Runs until the kernel and everything else has ended; calls *ready* when it listens."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGCHLD, self._child_ended)
        loop.add_signal_handler(signal.SIGTERM, self._begin_ending)
        loop.add_reader(self.process.output, self._read_output)
        become_subreaper()
        server = await asyncio.start_unix_server(self._server.connected, self._path)
        self._channels = KernelChannels(
            self.process.connection, self._from_kernel, self._take_large
        )
        self._spawn(self._startup.ask(self._channels.send, lambda: self.process.code is None))
        self._spawn(self._watch())
        ready()
        self._child_ended()  # it may have ended already
        await self._gone.wait()
        exit_within(END_SECONDS)
        self.process.signal(signal.SIGKILL)
        self.process.terminate_descendants()
        self._channels.close()
        self._journal.store.close()
        if not self._delivered:
            write_ending(self.folder, self._ending_record())
        shutil.rmtree(self.folder, ignore_errors=True)
        # The folder is gone, so a client whose connection ends knows that everything has ended.
        server.close()
        await cancel_all(self._tasks)
        await self._server.close()

    def _spawn(self, coroutine: Any) -> "asyncio.Task[None]":
        task: "asyncio.Task[None]" = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _watch(self) -> None:
        """Ends a kernel that can't be reached, and this process when it has waited long enough."""
        while True:
            await asyncio.sleep(1.0)
            away = self._server.seconds_without_client()
            if self._died_at is None:
                self._host.check()
            elif min(away, time.monotonic() - self._died_at) > (
                ASKED_LINGER if self._shut_down else LINGER_SECONDS
            ):
                self._gone.set()
            elif not self._server.has_client and not os.path.exists(self._path):
                self._begin_ending(now=True)  # its folder was removed

    # ---- the kernel's side

    def _from_kernel(self, channel: int, parts: List[bytes]) -> None:
        try:
            delimiter = messages.find_delimiter(parts)
        except ValueError:
            return
        header, parent = parts[delimiter + messages.HEADER], parts[delimiter + messages.PARENT]
        if self._startup.is_answer(parent):
            self._answered(channel, parts)
            return
        if self._checkpoint.is_answer(parent):
            self._tell_running(self._checkpoint.note(parts))
            return
        if channel == IOPUB and self._session.is_answer(header):
            self._session.note(parts)
            return
        self._requests.note_message(channel, parts, delimiter)
        idle = b'"status"' in header and b'"idle"' in parts[delimiter + messages.CONTENT]
        if channel == IOPUB:
            if b'"iopub_welcome"' in header:
                return  # it is for the keeper, which subscribed
            self.last_activity = messages.now()
        elif channel == STDIN and b'"input_request"' in header:
            self._deduplicator.note_input_request(parts)
        self._journal.send(channel, parts, priority=self._limit.priority(channel, parts))
        self._check_limit()
        if channel != IOPUB or idle:
            self._server.wake()
        else:
            self._server.wake_soon()  # a reply, or idle, follows

    def _take_large(self, channel: int, parts: List[bytes], size: int) -> "Optional[_LargeOutput]":
        """Large output goes into the journal, and to the client, while the kernel still sends it.
        A message above the size limit becomes a gap there, whatever it is.

        parts: before the last one, of *size* bytes. None: it is handled as other messages are.
        """
        parts = [*parts, b""]
        try:
            at = messages.find_delimiter(parts)
        except ValueError:
            return None
        header, parent = parts[at + messages.HEADER], parts[at + messages.PARENT]
        own = self._startup.is_answer(parent) or self._checkpoint.is_answer(parent)
        output = channel == IOPUB and any(kind in header for kind in LARGE_OUTPUT)
        if own or not (output or size > MAX_MESSAGE):
            return None
        if not output:
            self._requests.note_message(channel, parts, at)
        self.last_activity = messages.now()
        priority = self._limit.priority(channel, parts)
        message = self._journal.begin(channel, parts[:-1], size, priority=priority)
        self._arriving += 1
        writer = _LargeOutput(message, self._server.wake, self._large_ended)
        try:
            self._check_limit()
        except BaseException:
            writer.abort()  # else the messages after it would wait for it
            raise
        return writer

    def _large_ended(self) -> None:
        self._arriving -= 1
        self._check_limit()

    def _answered(self, channel: int, parts: List[bytes]) -> None:
        """An answer to the keeper's own request."""
        if self._startup.note_answer(channel, parts):
            self._requests.activity.state = "idle"
            assert self._startup.info is not None
            self._send_event({"event": "ready"}, self._startup.info, urgent=False)
            for waiting, message in self._startup.take_held():
                self._to_kernel(waiting, message)

    def _to_kernel(self, channel: int, parts: List[bytes]) -> None:
        assert self._channels is not None
        if self.process.code is None and not self._startup.hold(channel, parts):
            self._channels.send(channel, parts)

    def _read_output(self) -> None:
        if not self.process.read_output():
            asyncio.get_running_loop().remove_reader(self.process.output)

    def _child_ended(self) -> None:
        if not self.process.reap() or self._channels is None:
            return
        assert self.process.code is not None
        self._died_at, self._died_on = time.monotonic(), messages.now()
        self._cause = self._host.describe(self.process.code)
        self._died.set()
        self._send_event({"event": "exited", "code": self.process.code}, urgent=True)
        self._channels.drain()
        self.process.terminate_descendants()
        self._booking.release()
        self.process.read_output()
        if not self._ending and not self._shut_down:
            for channel, parts in self._requests.answer_all(self._cause, self.process.tail):
                self._journal.send(channel, parts)
        ended = {
            "event": "ended",
            "code": self.process.code,
            "cause": self._cause,
            "output": self.process.tail,
            "asked": self._ending,
        }
        self._final = self._send_event(ended, urgent=False)

    def _check_limit(self) -> None:
        event = self._limit.check(sending=self._arriving > 0)
        if event is not None:
            self._send_event(event, urgent=True)

    # ---- the client's side

    def _send_event(self, event: Dict[str, Any], *more: bytes, urgent: bool) -> int:
        number = self._journal.send(KEEPER, [json.dumps(event).encode(), *more], urgent=urgent)
        self._server.wake()
        return number

    @property
    def state(self) -> str:
        """ "starting", "idle", "busy", "dead", or another state that the kernel reports."""
        return self._requests.activity.state if self.process.code is None else "dead"

    def status(self) -> Dict[str, Any]:
        """The kernel's entry in the result of ``kernels``."""
        return {
            "id": self.spec["id"],
            "launch": self.spec["launch"],
            "environment": self.spec["environment"],
            "notebook": self.spec["notebook"],
            "booked": self.spec.get("chips"),
            "hosts": self._hosts(),
            "checkpoint": self._checkpoint.outcome,
            "session": self._session.outcome,
            "saved": self._session.saved,
            "cell": self._requests.cell,
            "state": self.state,
            "pid": self.process.pid,
            "keeper": os.getpid(),
            "started": self.started,
            "last_activity": self.last_activity,
            "attached": self._server.has_client,
            "holder": self._server.holder,
            "waiting": self._journal.waiting,
            "paused": self.process.paused,
            "code": self.process.code,
            "cause": self._cause,
            "died": self._died_on,
            "boot": self._boot,
            "once": DEDUPLICATED,  # repeated messages of these types are dropped
        }

    def _hosts(self) -> Any:
        """What each host of a pod kernel does; None for another kernel, or before it is known."""
        if "pod" not in self.spec:
            return None
        if self.process.code is not None:
            return []
        return (read_json(os.path.join(self.folder, HOSTS)) or {}).get("hosts")

    def handle_query(self, query: Dict[str, Any]) -> Dict[str, Any]:
        """Handles a daemon's query, which may also end the kernel. Returns its status."""
        if query["ask"] == "end":
            self._end = str(query.get("why") or ASKED)
            self._begin_ending(now=bool(query.get("now")))
        elif query["ask"] == "announce":
            self._announce(str(query["kind"]))
        elif query["ask"] == "session" and self.process.code is None:
            self._to_kernel(CONTROL, self._session.message(query["request"]))
        return self.status()

    def _announce(self, kind: str) -> None:
        """Google, or the guard, is about to stop this host; "": it is not. The running cell shows
        it, and the user's checkpoint function runs; both once.
        """
        if kind != self._announced and self.process.code is None:
            self._tell_running(INTERRUPTIONS.get(kind, kind))
            self._to_kernel(CONTROL, self._checkpoint.message(announced=kind != ""))
        self._announced = kind

    def _tell_running(self, text: str) -> None:
        for channel, parts in self._requests.tell_running(text) if text else ():
            self._journal.send(channel, parts)
        self._server.wake()

    def hello_fields(self) -> Dict[str, Any]:
        """What the hello tells a client that has just got the lease."""
        fields: Dict[str, Any] = {"status": self.status()}
        if self._startup.info is not None:
            fields["info"] = self._startup.info.decode()
        return fields

    async def wait_ended(self) -> None:
        """Returns when nothing is left to do."""
        await self._gone.wait()

    def handle_event(self, event: JournalEvent) -> None:
        """Handles messages and acknowledgements of the client."""
        if isinstance(event, Message):
            if event.channel == KEEPER:
                self._request(event.parts)
            elif event.channel in (SHELL, CONTROL, STDIN) and self._deduplicator.is_new(
                event.parts
            ):
                self._from_client(event.channel, event.parts)
            self._journal.acknowledge(event)
        elif isinstance(event, Gap):
            self._journal.acknowledge(event)
        elif isinstance(event, Acknowledged):
            if self.process.paused:
                self._check_limit()
            if event.lane != URGENT and self._final and event.last >= self._final:
                self._delivered = True
                self._gone.set()
        elif isinstance(event, NoticeReceived) and event.fields.get("leave"):
            self._server.release_lease()

    def _from_client(self, channel: int, parts: List[bytes]) -> None:
        with contextlib.suppress(ValueError):
            header = parts[messages.find_delimiter(parts) + messages.HEADER]
            self._shut_down |= channel == CONTROL and b'"shutdown_request"' in header
            if channel == SHELL:
                self._requests.note_request(parts)
        self._to_kernel(channel, parts)

    def _request(self, parts: List[bytes]) -> None:
        """Handles a client's request to the keeper itself, in the urgent lane."""
        try:
            fields = json.loads(parts[0])
            request = parse(KEEPER_REQUESTS, fields.pop("do"), fields)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError):
            raise JournalDisconnected("an invalid request to the keeper") from None
        except InvalidRequest as error:
            self._send_event({"event": "refused", "why": str(error)}, urgent=True)
            return
        if isinstance(request, SignalKernel):
            self.process.signal(request.signal)
        elif isinstance(request, EndKernel):
            self._end = ASKED
            self._begin_ending(now=request.now)
        elif isinstance(request, RenameNotebook):
            self.spec["notebook"] = request.notebook

    # ---- the end

    def _begin_ending(self, now: bool = False) -> None:
        """Ends the kernel: *now*, or after asking it to shut down."""
        self._ending = True
        self._spawn(self._shut_kernel_down(now))

    def _ending_record(self) -> Dict[str, Any]:
        """What stays of the kernel for a client that comes later."""
        return {
            "id": self.spec["id"],
            "launch": self.spec["launch"],
            "end": self._end,
            "code": self.process.code,
            "cause": self._cause,
            "died": self._died_on,
            "waiting": self._journal.waiting,
        }

    async def _shut_kernel_down(self, now: bool) -> None:
        process = self.process
        if not now and process.code is None and self._channels is not None:
            process.signal(signal.SIGINT)
            self._channels.send(
                CONTROL, self._signer.message("shutdown_request", {"restart": False})
            )
            if not await is_set_within(self._died, 2.0):
                process.signal(signal.SIGTERM)
                await is_set_within(self._died, 1.0)
        process.signal(signal.SIGKILL)
        await is_set_within(self._died, 2.0)
        if self._server.has_client:
            # An attached client then gets the end instead of a broken connection.
            await is_set_within(self._gone, 1.0)
        self._gone.set()
