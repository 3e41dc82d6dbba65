"""What outlives this server of one kernel: its record, its journal's copy, who has read how far.

The relay writes here, on the core thread; the websockets read, on the server's loop. Requests are
remembered from their start until a while after somebody has read their end: a page that is opened
afresh gets all of a running cell's output, and a request that comes twice runs once.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from threading import RLock
from typing import Any

from ...agent.protocol import messages
from ...agent.protocol.events import IOPUB, SHELL, Message
from ...errors import TPUError
from .execute_request import ExecuteRequest
from .journal_file import MESSAGE, REQUEST, JournalFile, JournalRecord, Reader
from .kernel_folder import KernelFolder, KernelRecord, SessionRow
from .outbox import Outbox

#: Bytes that nobody has read after which the rest stays with the host …
UNREAD = 32 << 20
#: … and bytes that were read which are kept for a page that is opened afresh.
RETAINED = 32 << 20
#: Clients whose place is remembered, the latest.
CLIENTS = 32
#: Seconds for which a request is remembered after its end was read: until then the notebook that
#: shows it may not have been saved, which JupyterLab does every two minutes.
REMEMBERED = 300.0
#: A new kernel under the id: its host counts messages from 1 again.
LAUNCH = 3


class PersistedKernel:
    """A kernel of this server; implements ``kernels.persistence.KernelPersistence``.

    Parameters
    ----------
    folder: its folder, locked by this process.
    record: what is, or will be, in it.
    adopting: an earlier process left it there.
    on_state: called on the core thread with what the keeper says when the link is there.
    on_lost: called on the core thread when the kernel is no more and nobody here wished it.
    on_gone: called when nothing is kept any more.
    """

    def __init__(
        self,
        folder: KernelFolder,
        record: KernelRecord,
        *,
        adopting: bool,
        on_state: Callable[[str, str], None],
        on_lost: Callable[[KernelRecord, TPUError], None],
        on_gone: Callable[[str], None],
    ) -> None:
        self.record = record
        self.adopting = adopting
        self.running: dict[str, bytes] = {}
        self.requests: dict[str, ExecuteRequest] = {}
        self.signer = messages.MessageSigner(record.key, "kernel")
        self.last_activity = record.last_activity
        self.state = ""  # the kernel's, as its keeper said when the link was there first
        self._folder = folder
        self._on_state = on_state
        self._on_lost = on_lost
        self._on_gone = on_gone
        self._lock = RLock()
        self._last = 0  # the host's number of the newest message
        self._listeners: list[Callable[[], None]] = []
        self._on_room: Callable[[], None] | None = None
        self._connected: dict[str, int] = {}
        self._gone = False
        self._cursors = self._read_cursors()
        self.journal = JournalFile(folder.path, self._restore if adopting else None)
        if adopting:
            self._forget_read_requests()
        self._outbox = Outbox(folder.path)
        if not adopting:
            folder.write(record)

    # ---- what provisioner and relay ask

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

    def begin_launch(self, key: str) -> None:
        with self._lock:
            self._last = 0
            self.running.clear()
            self.requests.clear()
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
            number = self.journal.append(MESSAGE, message.channel, message.last, message.parts)
            self._track(message.channel, message.parts, number)
            if number % 256 == 0:
                self._trim()
            listeners = list(self._listeners)
        for listener in listeners:
            listener()
        return True

    def backlog_full(self, on_room: Callable[[], None]) -> bool:
        with self._lock:
            if not self._cursors or self.journal.bytes_from(self._read_position() + 1) <= UNREAD:
                return False
            self._on_room = on_room
            return True

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
        once = isinstance(status.get("once"), list)  # an earlier keeper's True is for cells alone
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
                self._outbox.clear()  # they would come twice
                return []
            requests = self.requests.values()
            asked = [(r.first, SHELL, r.message) for r in requests if r.message is not None]
            # Those of the outbox are ahead of the record that came next.
            said = sorted([*self._outbox.pending(), *asked], key=lambda one: one[0])
            return [(channel, message) for _, channel, message in said]

    def mark_sent(self, number: int, header: bytes) -> None:
        with self._lock:
            self._outbox.mark_sent(number, header)

    def mark_acknowledged(self, last: int) -> None:
        with self._lock:
            if not self._gone:  # else they are the next process's
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
            os.close(self._cursors_file)
            self._folder.release()
        self._on_gone(self.record.id)

    def discard(self) -> None:
        with self._lock:
            if self._gone:
                return
            self._gone = True
            self.journal.close(remove=True)
            os.close(self._cursors_file)
            self._folder.remove()
        self._on_gone(self.record.id)

    # ---- what the server's sessions ask

    def set_session(self, row: SessionRow) -> None:
        """A document got this kernel, or its path changed."""
        with self._lock:
            if not self._gone:
                others = [s for s in self.record.sessions if s.id != row.id]
                self.record.sessions = [*others, row]
                self._folder.write(self.record)

    def drop_session(self, session_id: str) -> None:
        with self._lock:
            left = [s for s in self.record.sessions if s.id != session_id]
            if not self._gone and len(left) < len(self.record.sessions):
                self.record.sessions = left
                self._folder.write(self.record)

    # ---- what the websockets ask

    def connect(self, client: str, seen: int | None, listener: Callable[[], None]) -> Reader:
        """A client's reader, behind what it has *seen*, or else what it is known to have.

        A client that was never here begins with what comes next.
        """
        with self._lock:
            newest = self.journal.next - 1
            known = self._cursors.get(client, newest) if seen is None else seen
            known = min(known, newest)
            self._cursors.pop(client, None)
            self._cursors[client] = known
            for old in list(self._cursors)[:-CLIENTS]:
                if old not in self._connected:
                    del self._cursors[old]
            self._connected[client] = self._connected.get(client, 0) + 1
            self._listeners.append(listener)
            self._write_cursors()
            return self.journal.reader(known + 1)

    def disconnect(self, client: str, listener: Callable[[], None]) -> None:
        with self._lock:
            self._listeners.remove(listener)
            self._connected[client] -= 1
            if not self._connected[client]:
                del self._connected[client]

    def acknowledge(self, client: str, number: int) -> None:
        """The client has everything up to *number*."""
        with self._lock:
            if self._gone or number <= self._cursors.get(client, 0):
                return
            self._cursors[client] = min(number, self.journal.next - 1)
            self._write_cursors()
            self._forget_read_requests()
            on_room = self._on_room
            if on_room is not None and not self.backlog_full(on_room):
                self._on_room = None
                on_room()

    def requests_to_show(self, client: str) -> list[ExecuteRequest]:
        """The latest request of each cell that *client* has not shown."""
        with self._lock:
            self._forget_read_requests()
            latest = {request.cell: request for request in self.requests.values() if request.cell}
            return [r for r in latest.values() if client not in r.readers]

    def record_request(self, message: list[bytes]) -> ExecuteRequest | None:
        """Writes a new execute request down; returns it if it is known already.

        *message* is as it goes to the kernel: whatever becomes of this process, it gets there once.
        """
        request = ExecuteRequest(message)
        with self._lock:
            known = self.requests.get(request.id)
            if known is not None or self._gone:
                return known
            request.first = self.journal.append(REQUEST, SHELL, 0, message)
            if request.id:
                self.requests[request.id] = request
            return None

    def record_client_message(self, channel: int, message: list[bytes]) -> None:
        """Has what else a client says outlive this process until the host has it."""
        with self._lock:
            if not self._gone:
                self._outbox.put(self.journal.next, channel, message)

    # ---- inside

    def _restore(self, entry: JournalRecord) -> None:
        if entry.kind == MESSAGE:
            if entry.number >= self.record.launched:
                self._last = max(self._last, entry.last)
            self._track(entry.channel, entry.parts, entry.number)
        elif entry.kind == REQUEST:
            self._restore_request(entry)
        elif entry.kind == LAUNCH:
            self._last = 0
            self.running.clear()
            self.requests.clear()

    def _restore_request(self, entry: JournalRecord) -> None:
        try:
            request = ExecuteRequest(entry.parts)
        except ValueError:
            return  # an earlier version's, of which the rest is not known
        request.first = entry.number
        if request.id:
            self.requests[request.id] = request

    def _track(self, channel: int, parts: list[bytes], number: int) -> None:
        """Learns from a message what runs and what has ended."""
        try:
            at = messages.find_delimiter(parts)
            header, parent = parts[at + messages.HEADER], parts[at + messages.PARENT]
            if channel == IOPUB and b'"status"' in header:
                said = json.loads(header)
                state = json.loads(parts[at + messages.CONTENT]).get("execution_state")
                asked = json.loads(parent).get("msg_id")
                # JupyterLab drops what it still has to handle when a message comes from another
                # session of the kernel's: what is said in its place has to come from the same.
                self.signer.session = str(said.get("session"))
                self.last_activity = str(said.get("date") or self.last_activity)
                if asked in self.requests:
                    self.requests[asked].message = None
                if state == "busy" and asked:
                    self.running[asked] = parent
                elif state == "idle":
                    self.running.pop(asked, None)
                    self._mark_end(asked, number, idle=True)
            elif channel == SHELL and b'"execute_reply"' in header:
                asked = json.loads(parent).get("msg_id")
                self._mark_end(asked, number, idle=False)
                if asked in self.requests:
                    content = json.loads(parts[at + messages.CONTENT])
                    self.requests[asked].count = content.get("execution_count")
        except (ValueError, TypeError, AttributeError):
            pass  # no Jupyter message: it is handed on as it is

    def _mark_end(self, request_id: str | None, number: int, *, idle: bool) -> None:
        request = self.requests.get(request_id or "")
        if request is not None:
            request.idle = request.idle or idle
            request.replied = request.replied or not idle
            request.end = number

    def _forget_read_requests(self) -> None:
        now = time.monotonic()
        for request in list(self.requests.values()):
            if request.read_at is None:
                read = max((self._cursors.get(reader, 0) for reader in request.readers), default=0)
                if request.ended and read >= request.end:
                    request.read_at = now
            elif now - request.read_at > REMEMBERED:
                del self.requests[request.id]

    def _read_position(self) -> int:
        """Up to where clients have read: all who are here, or else the one that read most."""
        places = [self._cursors[c] for c in self._connected if c in self._cursors]
        if places:
            return min(places)
        return max(self._cursors.values(), default=self.journal.next - 1)

    def _trim(self) -> None:
        read = self._read_position()
        needed = min((request.first for request in self.requests.values()), default=read + 1)
        self.journal.release(min(needed, read + 1))
        retained = self.journal.bytes_from(self.journal.oldest) - self.journal.bytes_from(read + 1)
        while retained > RETAINED and (gone := self.journal.release_oldest(read + 1)):
            retained -= gone

    def _read_cursors(self) -> dict[str, int]:
        path = self._folder.path / "cursors.json"
        self._cursors_file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            # What follows, if anything, is of an older, longer state.
            found, _ = json.JSONDecoder().raw_decode(os.read(self._cursors_file, 1 << 16).decode())
            return {str(client): int(number) for client, number in found.items()}
        except (ValueError, AttributeError, TypeError):
            return {}

    def _write_cursors(self) -> None:
        if not self._gone:
            os.pwrite(self._cursors_file, json.dumps(self._cursors).encode(), 0)
