"""What the next server needs of one kernel: its record, its journal, and the clients' positions.

The relay writes here, on the core thread. The websockets read, on the server's loop. One lock
keeps all of it consistent.
"""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import RLock
from typing import Any

from ...errors import TPUError
from ...on_host.agent.protocol import messages
from ...on_host.agent.protocol.deduplication import answered_request
from ...on_host.agent.protocol.events import SHELL, STDIN, Message
from .client_positions import ClientPositions
from .fillers import WRITTEN_SECONDS, Fillers
from .journal_file import MESSAGE, REQUEST, JournalFile, JournalReader, StoredRecord
from .kernel_folder import KernelFolder, KernelRecord, SessionRow
from .outbox import Outbox
from .remembered_requests import ExecuteRequest, RememberedRequests

#: Unread bytes above which further output stays on the host.
MAX_UNREAD = 32 << 20
#: Seconds between reports that there is output.
REPORT_OUTPUT = 5.0
#: Bytes that clients have read and that are kept for new pages.
MAX_RETAINED = 32 << 20
#: Kinds of the journal's records: a new kernel, whose host numbers messages from 1 again; an
#: answered input_request; a request that another client fills in from now on; one whose output its
#: client has got to its end, and when.
LAUNCH, ANSWERED, FILLER, FILLED = 3, 4, 5, 6


class PersistedKernel:
    """A stored kernel of this server. Implements ``kernels.persistence.KernelPersistence``.

    Parameters
    ----------
    folder: its folder, locked by this process.
    record: its content.
    adopting: whether an earlier process left it.
    on_state: called on the core thread with the keeper's report when the link is up.
    on_output: called on the core thread when the kernel is heard of, at most every few seconds.
    on_lost: called on the core thread when the kernel ended though no one here asked for it.
    on_gone: called when it is released or discarded.
    """

    def __init__(
        self,
        folder: KernelFolder,
        record: KernelRecord,
        *,
        adopting: bool,
        on_state: Callable[[str, str], None],
        on_output: Callable[[], None],
        on_lost: Callable[[KernelRecord, TPUError], None],
        on_gone: Callable[[str], None],
    ) -> None:
        self.record = record
        self.adopting = adopting
        self.requests = RememberedRequests()
        self.signer = messages.MessageSigner(record.key, "kernel")
        self.last_activity = record.last_activity
        self.state = ""  # the kernel's, as its keeper first reported it
        self.server = uuid.uuid4().hex  # this process, for pages
        self._folder = folder
        self._on_state = on_state
        self._on_output = on_output
        self._reported_output = -math.inf  # when, on the monotonic clock
        self._on_lost = on_lost
        self._on_gone = on_gone
        self._lock = RLock()
        self._last = 0  # the host's number of the newest message
        self._listeners: list[Callable[[], None]] = []
        self._on_drained: Callable[[], None] | None = None
        self._connected: dict[str, int] = {}
        self._gone = False
        self.fillers = Fillers(self._record_filler)
        self._positions = ClientPositions(
            folder.path / "cursors.json", new=not adopting or not folder.has_journal()
        )
        self.journal = JournalFile(folder.path, self._restore if adopting else None)
        if adopting:
            self._forget_read()
            self._require_writing()
        self._outbox = Outbox(folder.path)
        if not adopting:
            folder.write(record)

    # ---- for the provisioner and the relay (see KernelPersistence)

    @property
    def key(self) -> str:
        return self.record.key

    @property
    def secret(self) -> str:
        return self.record.secret

    @property
    def steal(self) -> bool:
        return self.record.steal

    @property
    def boot(self) -> str:
        return self.record.boot

    @property
    def info(self) -> bytes | None:
        return self.record.info.encode() if self.record.info is not None else None

    @property
    def running(self) -> Mapping[str, bytes]:
        return self.requests.activity.running

    @property
    def session(self) -> str:
        return self.signer.session

    def begin_launch(self, key: str) -> None:
        with self._lock:
            self._last = 0
            self.requests.start_kernel()
            self._outbox.clear()
            self.signer = messages.MessageSigner(key, "kernel")
            self.record.launched = self.journal.append(LAUNCH, 0, 0, [])
            self.record.key, self.record.info = key, None
            self._folder.write(self.record)

    def end_adoption(self) -> None:
        self.adopting = False

    def record_message(self, message: Message) -> bool:
        with self._lock:
            if self._gone or message.last <= self._last:
                return False
            self._last = message.last
            listeners = self._append(message.channel, message.parts)
        for listener in listeners:
            listener()
        if time.monotonic() > self._reported_output + REPORT_OUTPUT:
            self._reported_output = time.monotonic()
            self._on_output()
        return True

    def record_answer(self, channel: int, parts: list[bytes]) -> None:
        with self._lock:
            listeners = [] if self._gone else self._append(channel, parts)
        for listener in listeners:
            listener()

    def backlog_full(self, on_drained: Callable[[], None]) -> bool:
        with self._lock:
            if (
                not (self._positions.acknowledged or self._positions.lost)
                or self.journal.bytes_from(self._read_position() + 1) <= MAX_UNREAD
            ):
                return False
            self._on_drained = on_drained
            return True

    def has_unread(self) -> bool:
        with self._lock:
            newest = self.journal.next - 1
            read = self._positions.acknowledged
            return not self._connected or any(read.get(c, 0) < newest for c in self._connected)

    def set_info(self, info: bytes) -> None:
        with self._lock:
            text = info.decode(errors="replace")
            if not self._gone and self.record.info != text:
                self.record.info = text
                self._folder.write(self.record)
            if self.state in ("", "starting") and not self.running:
                self.state = "idle"
                self._on_state("idle", "")

    def set_status(self, status: Mapping[str, Any]) -> None:
        state, activity = str(status.get("state", "")), str(status.get("last_activity", ""))
        self.state = state
        once = isinstance(status.get("once"), list)  # an earlier version's True is for cells only
        lease = str(status.get("boot") or ""), once, False
        with self._lock:
            record = self.record
            if lease != (record.boot, record.taken_once, record.steal) and not self._gone:
                record.boot, record.taken_once, record.steal = lease
                self._folder.write(record)
        self._on_state(state, activity)

    def unacknowledged(self) -> list[tuple[int, list[bytes]]]:
        with self._lock:
            if not self.record.taken_once:
                self._outbox.clear()  # the kernel would get them twice
                return []
            executes = [(r.first, SHELL, r.message) for r in self.requests if r.message is not None]
            # Those of the outbox come before the journal record with the same number.
            pending = sorted([*self._outbox.pending(), *executes], key=lambda entry: entry[0])
            return [(channel, message) for _, channel, message in pending]

    def mark_sent(self, number: int, header: bytes) -> None:
        with self._lock:
            self._outbox.mark_sent(number, header)

    def mark_acknowledged(self, last: int) -> None:
        with self._lock:
            if not self._gone:  # else they belong to the next process
                self._outbox.mark_acknowledged(last)

    def report_lost(self, problem: TPUError) -> None:
        self._on_lost(self.record, problem)

    def release(self) -> None:
        with self._lock:
            if self._gone:
                return
            self._gone = True
            self.record.last_activity = self.last_activity
            self._folder.write(self.record)
            self.journal.close()
            self._positions.close()
            self._folder.release()
        self._on_gone(self.record.id)

    def discard(self) -> None:
        with self._lock:
            if self._gone:
                return
            self._gone = True
            self.journal.close(remove=True)
            self._positions.close()
            self._folder.remove()
        self._on_gone(self.record.id)

    # ---- for the server's sessions

    def set_session(self, row: SessionRow) -> bool:
        """A document uses this kernel, or its path changed: whether it was another one before."""
        with self._lock:
            moved = any(s.id == row.id and s.path != row.path for s in self.record.sessions)
            if not self._gone:
                others = [s for s in self.record.sessions if s.id != row.id]
                self.record.sessions = [*others, row]
                self._folder.write(self.record)
            return moved

    def drop_session(self, session_id: str) -> None:
        with self._lock:
            left = [s for s in self.record.sessions if s.id != session_id]
            if not self._gone and len(left) < len(self.record.sessions):
                self.record.sessions = left
                self._folder.write(self.record)

    # ---- for the websockets

    def connect(
        self, client: str, seen: int | None, listener: Callable[[], None], *, new: bool = False
    ) -> JournalReader:
        """A client's reader, after what it has *seen*, or else after its stored position.

        An unknown client starts with the next message; or with the oldest, if the positions were
        lost, unless it is known to be *new*.
        """
        with self._lock:
            newest = self.journal.next - 1
            if seen is None:
                unknown = newest if new or not self._positions.lost else self.journal.oldest - 1
                seen = self._positions.acknowledged.get(client, unknown)
            known = min(seen, newest)
            self._positions.connect(client, known, self._connected)
            self._connected[client] = self._connected.get(client, 0) + 1
            self.fillers.connected(client)
            self._listeners.append(listener)
            return self.journal.reader(known + 1)

    @property
    def positions_lost(self) -> bool:
        """Whether it is not known who has read what."""
        return self._positions.lost

    def disconnect(self, client: str, listener: Callable[[], None], *, closed: bool) -> None:
        """closed: the client itself closed its connection."""
        with self._lock:
            self._listeners.remove(listener)
            self._connected[client] -= 1
            if not self._connected[client]:
                del self._connected[client]
            self.fillers.disconnected(client, closed=closed)

    def acknowledge(self, client: str, number: int) -> None:
        """The client has everything up to *number*."""
        with self._lock:
            if self._gone or number <= self._positions.acknowledged.get(client, 0):
                return
            self._positions.acknowledge(client, min(number, self.journal.next - 1))
            for request in self._forget_read():
                self._record_filled(request)
            on_drained = self._on_drained
            if on_drained is not None and not self.backlog_full(on_drained):
                self._on_drained = None
                on_drained()

    def lost_requests(self, client: str) -> list[str]:
        """Requests whose output *client* filled in, and another client does now."""
        with self._lock:
            return [r.id for r in self.requests if client in r.former_fillers]

    def is_open(self, message: list[bytes]) -> bool:
        """Whether an input_request of the kernel still waits for an answer."""
        with self._lock:
            return self.requests.is_open(message)

    def requests_to_show(self, client: str) -> list[ExecuteRequest]:
        """The latest request of each cell whose output *client* does not show."""
        with self._lock:
            self._forget_read()
            return [r for r in self.requests.latest() if client not in r.readers]

    def unwritten_requests(self, client: str, *, new: bool = False) -> list[ExecuteRequest]:
        """The latest request of each cell whose output a shared document may have lost that
        *client* showed when an earlier server ended. A *new* page may have run a cell at most.
        """
        with self._lock:
            latest = [r for r in self.requests.latest() if r.filled_at is None]
            return [r for r in latest if not new or client in r.readers]

    def set_repeated(self, request: ExecuteRequest) -> None:
        """Its filler has been sent all of its output again."""
        with self._lock:
            request.repeated_at = time.monotonic()
            self._record_filled(request)

    def record_request(self, message: list[bytes], *, fills: bool = True) -> ExecuteRequest | None:
        """Stores a new execute request. Returns the request if it is known already.

        *message* is as it is sent to the kernel. It arrives there once, even if this process ends.
        fills: its client writes the output into the document, if that is shared.
        """
        request = ExecuteRequest(message)
        with self._lock:
            known = self.requests.get(request.id)
            if known is not None or self._gone:
                return known
            request.claimed = fills
            self.requests.add(request, self.journal.append(REQUEST, SHELL, 0, message))
            if not fills:
                self._record_filler(request, "")
            return None

    def record_client_message(self, channel: int, message: list[bytes]) -> None:
        """Stores another client message until the host has it; clients are told of an answer."""
        with self._lock:
            if self._gone:
                return
            self._outbox.put(self.journal.next, channel, message)
            answered = answered_request(message) if channel == STDIN else ""
            if not answered or not self.requests.set_answered(answered):
                return
            self.journal.append(ANSWERED, STDIN, 0, [answered.encode()])
            listeners = list(self._listeners)
        for listener in listeners:
            listener()

    # ---- private

    def _append(self, channel: int, parts: list[bytes]) -> list[Callable[[], None]]:
        """Adds to the journal. Returns those to be told, without the lock."""
        number = self.journal.append(MESSAGE, channel, self._last, parts)
        self._track(channel, parts, number)
        if number % 256 == 0:
            self._trim()
        return list(self._listeners)

    def _restore(self, entry: StoredRecord) -> None:
        if entry.kind == MESSAGE:
            if entry.number >= self.record.launched:
                self._last = max(self._last, entry.last)
            if entry.mentions(b'"status"') or entry.mentions(b'"execute_reply"'):
                self._track(entry.channel, entry.parts, entry.number)
        elif entry.kind == REQUEST:
            self._restore_request(entry)
        elif entry.kind == LAUNCH:
            self._last = 0
            self.requests.start_kernel()
        elif entry.kind == ANSWERED:
            self.requests.set_answered(entry.parts[0].decode())
        elif entry.kind == FILLER:
            request_id, client = (part.decode() for part in entry.parts)
            request = self.requests.get(request_id)
            if request is not None:
                request.set_filler(client)
        elif entry.kind == FILLED:
            request_id, date = (part.decode() for part in entry.parts)
            request = self.requests.get(request_id)
            if request is not None:
                request.written_date, request.rewritten = float(date), False

    def _require_writing(self) -> None:
        """What may not have been saved in a shared document has to be written again."""
        saved = self.record.saved_date() or 0.0
        for request in filter(lambda request: request.cell, self.requests):
            if request.written_date is None or request.written_date + WRITTEN_SECONDS > saved:
                self._record_filler(request, request.filler)

    def _forget_read(self) -> list[ExecuteRequest]:
        return self.requests.forget_read(self._positions.acknowledged, self.record.saved_date)

    def _record_filled(self, request: ExecuteRequest) -> None:
        if request.filled_at is not None and not self._gone:
            request.written_date = time.time()
            parts = [request.id.encode(), repr(request.written_date).encode()]
            self.journal.append(FILLED, 0, 0, parts)

    def _record_filler(self, request: ExecuteRequest, client: str) -> None:
        with self._lock:
            request.set_filler(client)
            if not self._gone:
                self.journal.append(FILLER, 0, 0, [request.id.encode(), client.encode()])

    def _restore_request(self, entry: StoredRecord) -> None:
        with suppress(ValueError):  # not a Jupyter message
            self.requests.add(ExecuteRequest(entry.parts), entry.number)

    def _track(self, channel: int, parts: list[bytes], number: int) -> None:
        status = self.requests.observe(channel, parts, number)
        if status is not None:
            # JupyterLab drops pending messages when the kernel's session changes, so our own
            # messages need the kernel's session.
            self.signer.session = status.session or self.signer.session
            self.last_activity = status.date or self.last_activity

    def _read_position(self) -> int:
        """Up to where all connected clients have read, or else the client that read most."""
        positions = self._positions.acknowledged
        places = [positions[c] for c in self._connected if c in positions]
        if places:
            return min(places)
        nobody = self.journal.oldest - 1 if self._positions.lost else self.journal.next - 1
        return max(positions.values(), default=nobody)

    def _trim(self) -> None:
        read = self._read_position()
        needed = min((request.first for request in self.requests), default=read + 1)
        self.journal.release(min(needed, read + 1))
        retained = self.journal.bytes_from(self.journal.oldest) - self.journal.bytes_from(read + 1)
        while retained > MAX_RETAINED and (gone := self.journal.release_oldest(read + 1)):
            retained -= gone
