"""The SQLite file with the desired state: which TPUs are connected, their environments, tunnels,
jobs, and operations.

All of it may wait for a lock or a slow disk, so :class:`~.store.Store` calls it on a thread of its
own. Everything belongs to one cloud *identity* ("google", or an emulator's id), so that an emulator
never touches what is known of Google.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ...cloud import NodeName
from ...errors import Reason, TPUError
from ..models import Budget, Grant, Plan, PriceList, SessionSetting
from .operation_records import OperationRecord, read_operation
from .records import (
    CodingAgentTPURecord,
    EnvironmentRecord,
    GuardRecord,
    HomeRecord,
    JobRecord,
    ReadyTimeRecord,
    SessionRecord,
    Snapshot,
    SpendRecord,
    TunnelRecord,
)
from .schema import migrate, transaction
from .state_folder import network_file_system

log = logging.getLogger(__name__)

#: How long ended operations are kept, and how many at most.
KEEP_FOR = timedelta(days=3)
KEEP_AT_MOST = 50
#: How long SQLite itself waits for a lock; the caller tries again. Seconds.
_LOCK_SECONDS = 0.2
#: Less free space than this counts as a full disk; bytes.
_FULL_DISK_BYTES = 1 << 16

#: One statement of SQL and its parameters, or what does more in the same transaction and returns
#: how many rows it changed.
Statement = tuple[str, tuple[Any, ...]] | Callable[[sqlite3.Connection], int]
#: Raises TPUError for what can't be done beside these operations, with these grants.
OperationCheck = Callable[[Sequence[OperationRecord], Sequence[Grant]], None]
#: As `OperationCheck`, with the budgets, what was spent, and the operations.
SpendCheck = Callable[[Sequence[Budget], Sequence[SpendRecord], Sequence[OperationRecord]], None]
_R = TypeVar("_R", bound=msgspec.Struct)


def _read(record: bytes, kind: type[_R]) -> _R | None:
    """None for a row that this version can't read, so that the other rows can still be used."""
    decode: Callable[[bytes], Any] = msgspec.json.Decoder(kind).decode
    if kind is OperationRecord:
        decode = read_operation
    try:
        read: _R = decode(record)
        return read
    except msgspec.DecodeError as error:
        log.warning("Ignored an invalid %s: %s", kind.__name__, error)
        return None


class Database:
    """The file at *path*, created with mode 0600 if it is missing. For one thread.

    Methods raise sqlite3.Error and OSError, which :meth:`explain` explains. The file is opened
    again after an error that another try on the same connection would not mend.
    """

    def __init__(self, path: Path, identity: str) -> None:
        self.path = path
        self._identity = identity
        self._connected: sqlite3.Connection | None = None
        self._connections = 0
        self._known: tuple[int, int] | None = None  # the version that the caller knows

    def close(self) -> None:
        connection, self._connected = self._connected, None
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()

    def write(self, statements: Iterable[Statement]) -> int:
        """Carries them out in one transaction; returns how many rows the last one changed.

        When this returns, they are on disk.
        """
        with self._connection() as db, transaction(db, "IMMEDIATE"):
            count = 0
            for statement in statements:
                count = statement(db) if callable(statement) else db.execute(*statement).rowcount
        return count

    def add_operation(self, record: OperationRecord) -> bool:
        """Adds a running operation; False if another one of its kind runs for a TPU of its name,
        in whichever process and zone.
        """
        operation = record.operation
        with self._connection() as db, transaction(db, "IMMEDIATE"):
            rows = db.execute(
                "SELECT record FROM operations "
                "WHERE identity = ? AND state = 'running' AND id != ?",
                (self._identity, operation.id),
            )
            running = (
                operation_record.operation
                for (row,) in rows
                if (operation_record := _read(row, OperationRecord))
            )
            if any((one.kind, one.tpu) == (operation.kind, operation.tpu) for one in running):
                return False
            db.execute(*saving_operation(record, self._identity))
        return True

    def operation_check(self, id: str, check: OperationCheck) -> Statement:
        """Has *check* look at what is stored of all operations but this one, and at the grants, in
        the transaction of what follows. What it raises undoes that.
        """

        def look(db: sqlite3.Connection) -> int:
            others = [other for other in self._read_operations(db) if other.operation.id != id]
            check(others, self._read_all(db, "grants", Grant))
            return 0

        return look

    def take_over_operation(self, id: str, owner: str, new_owner: str) -> OperationRecord | None:
        """Makes a running operation of *owner* that of *new_owner*; returns it as it was left, or
        None if it is not *owner*'s any more.
        """
        with self._connection() as db, transaction(db, "IMMEDIATE"):
            row = db.execute(
                "SELECT record FROM operations WHERE id = ? AND state = 'running'", (id,)
            ).fetchone()
            record = _read(row[0], OperationRecord) if row is not None else None
            if record is None or record.owner != owner:
                return None
            record.owner = new_owner
            encoded = msgspec.json.encode(record)
            db.execute("UPDATE operations SET record = ? WHERE id = ?", (encoded, id))
        return record

    def read(self) -> Snapshot | None:
        """All that belongs to the identity; None if no other process has written since the version
        that :meth:`know` was told.
        """
        with self._connection() as db, transaction(db, "DEFERRED"):
            # Counts the commits of other connections, whoever made them, as seen by this one.
            (count,) = db.execute("PRAGMA data_version").fetchone()
            version = (self._connections, count)
            if version == self._known:
                return None
            return Snapshot(
                version=version,
                connected=self._read_connected(db),
                environments=self._read_environments(db),
                operations=self._read_operations(db),
                requests=dict(db.execute("SELECT operation, request FROM requests").fetchall()),
                tunnels=self._read_tunnels(db),
                jobs=self._read_all(db, "jobs", JobRecord),
                ready_times=self._read_of_tpus(db, "runs", ReadyTimeRecord),
                guards=self._read_of_tpus(db, "guards", GuardRecord),
                grants=self._read_all(db, "grants", Grant),
                prices=next(iter(self._read_all(db, "prices", PriceList)), None),
                budgets=self._read_all(db, "budgets", Budget),
                spending=self.read_spending(db),
                plans=self._read_all(db, "plans", Plan),
                agent_tpus=self._read_all(db, "agent_tpus", CodingAgentTPURecord),
                sessions=self._read_all(db, "sessions", SessionRecord),
                session_settings=self._read_of_tpus(db, "session_settings", SessionSetting),
                homes=self._read_all(db, "homes", HomeRecord),
            )

    def know(self, snapshot: Snapshot) -> None:
        """The caller has taken over *snapshot*."""
        self._known = snapshot.version

    def explain(self, error: Exception) -> TPUError:
        """What a failure means, and what to do."""
        if isinstance(error, TPUError):
            return error
        code = _code(error)
        if is_locked(error):
            return TPUError(
                f"Another program has locked {self.path}, which has the state of your TPUs.",
                Reason.UNAVAILABLE,
                "Try again. If it stays locked, end that program.",
            )
        if code == sqlite3.SQLITE_FULL or self._is_disk_full(error):
            return TPUError(
                f"The disk is full. The state of your TPUs can't be saved in {self.path}.",
                Reason.DISK_FULL,
                "Free disk space, and try again.",
            )
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR):
            return TPUError(
                f"Can't use {self.path}, which has the state of your TPUs: {error}.",
                Reason.INTERNAL,
                "Move the file away. TPUs are found again, and connecting uses what is already "
                "on the hosts.",
            )
        return TPUError(
            f"Can't use {self.path}, which has the state of your TPUs: {error}.",
            Reason.INTERNAL,
            "Check the folder's permissions and disk, or set JUPYTER_TPU_DATA_DIR to a folder on "
            "another disk.",
        )

    def _is_disk_full(self, error: Exception) -> bool:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        try:
            return shutil.disk_usage(self.path.parent).free < _FULL_DISK_BYTES
        except OSError:
            return False

    # ---- rows ----

    def _read_connected(self, db: sqlite3.Connection) -> dict[NodeName, str]:
        rows = db.execute(
            "SELECT project, zone, tpu, node_id FROM connected WHERE identity = ?",
            (self._identity,),
        )
        return {NodeName(project, zone, tpu): node for project, zone, tpu, node in rows}

    def _read_environments(
        self, db: sqlite3.Connection
    ) -> dict[NodeName, dict[str, EnvironmentRecord]]:
        environments: dict[NodeName, dict[str, EnvironmentRecord]] = {}
        for project, zone, tpu, name, record in db.execute(
            "SELECT project, zone, tpu, name, record FROM environments WHERE identity = ?",
            (self._identity,),
        ):
            of_tpu = environments.setdefault(NodeName(project, zone, tpu), {})
            read = _read(record, EnvironmentRecord)
            if read is not None:
                of_tpu[name] = read
        return environments

    def _read_operations(self, db: sqlite3.Connection) -> list[OperationRecord]:
        operations = self._read_all(db, "operations", OperationRecord)
        return sorted(operations, key=lambda record: record.operation.created, reverse=True)

    def _read_tunnels(self, db: sqlite3.Connection) -> list[TunnelRecord]:
        rows = db.execute("SELECT owner, record FROM tunnels WHERE identity = ?", (self._identity,))
        tunnel_records = [
            msgspec.structs.replace(read, owner=owner)
            for owner, record in rows
            if (read := _read(record, TunnelRecord)) is not None
        ]
        return sorted(tunnel_records, key=lambda record: (record.created, record.id))

    def _read_of_tpus(
        self, db: sqlite3.Connection, table: str, kind: type[_R]
    ) -> dict[NodeName, _R]:
        """One row for each TPU."""
        rows = db.execute(
            f"SELECT project, zone, tpu, record FROM {table} WHERE identity = ?", (self._identity,)
        )
        return {
            NodeName(project, zone, tpu): read
            for project, zone, tpu, record in rows
            if (read := _read(record, kind)) is not None
        }

    def _read_all(self, db: sqlite3.Connection, table: str, kind: type[_R]) -> list[_R]:
        rows = db.execute(f"SELECT record FROM {table} WHERE identity = ?", (self._identity,))
        return [*filter(None, (_read(record, kind) for (record,) in rows))]

    def read_spending(self, db: sqlite3.Connection) -> list[SpendRecord]:
        """The oldest first."""
        records = self._read_all(db, "spending", SpendRecord)
        return sorted(records, key=lambda record: (record.asked, record.id))

    def spending_change(self, record: SpendRecord, check: SpendCheck) -> list[Statement]:
        """Has *check* look at all budgets, the other lines of the ledger and the operations, in the
        transaction that saves *record* there. What it raises undoes that.
        """

        def look(db: sqlite3.Connection) -> int:
            lines = [line for line in self.read_spending(db) if line.id != record.id]
            operations = self._read_operations(db)
            check(self._read_all(db, "budgets", Budget), lines, operations)
            return 0

        return [look, self.saving("spending", record.id, record)]

    def saving(self, table: str, id: str, record: msgspec.Struct) -> Statement:
        sql = f"INSERT OR REPLACE INTO {table} VALUES (?, ?, ?)"
        return sql, (self._identity, id, msgspec.json.encode(record))

    def plan_change(self, id: str, change: Callable[[Plan], None]) -> Statement:
        """Applies *change* to a plan as it is stored; what it raises undoes the transaction."""

        def write(db: sqlite3.Connection) -> int:
            row = db.execute(
                "SELECT record FROM plans WHERE identity = ? AND id = ?", (self._identity, id)
            ).fetchone()
            plan = _read(row[0], Plan) if row is not None else None
            if plan is None:
                return 0
            change(plan)
            sql, values = self.saving("plans", id, plan)  # type: ignore[misc]
            return db.execute(sql, values).rowcount

        return write

    # ---- the connection ----

    @contextlib.contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        try:
            if self._connected is None:
                self._connected = self._connect()
                self._connections += 1
            yield self._connected
        except (sqlite3.Error, OSError) as error:
            if not is_locked(error) and _code(error) != sqlite3.SQLITE_FULL:
                self.close()
            raise

    def _connect(self) -> sqlite3.Connection:
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        db = sqlite3.connect(
            self.path, timeout=_LOCK_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            _set_journal(db, self.path)
            # An intent must be on disk before Google is called, even if the power fails then.
            db.execute("PRAGMA synchronous = FULL")
            migrate(db, self.path)
        except BaseException:
            db.close()
            raise
        return db


def is_locked(error: Exception) -> bool:
    """Whether another process has the file for the moment."""
    return _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def is_of_file(error: Exception) -> bool:
    """Whether the file can't be written now, rather than one change never."""
    if isinstance(error, sqlite3.DatabaseError):
        # A statement's own: what breaks a constraint, has a wrong type or number of values, or is
        # not SQL.
        own = sqlite3.IntegrityError, sqlite3.DataError, sqlite3.ProgrammingError
        return not isinstance(error, own) and _code(error) != sqlite3.SQLITE_ERROR
    return isinstance(error, OSError | TPUError)


def _code(error: Exception) -> int:
    """SQLite's primary result code; 0 of another error."""
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF


def saving_operation(record: OperationRecord, identity: str) -> tuple[str, tuple[Any, ...]]:
    operation = record.operation
    encoded = msgspec.json.encode(record)
    return (
        "INSERT OR REPLACE INTO operations VALUES (?, ?, ?, ?, ?)",
        (operation.id, identity, operation.state, operation.ended, encoded),
    )


def job_change(id: str, change: Callable[[JobRecord], None]) -> Statement:
    """Applies *change* to a job as it is stored."""

    def write(db: sqlite3.Connection) -> int:
        row = db.execute("SELECT record FROM jobs WHERE id = ?", (id,)).fetchone()
        record = _read(row[0], JobRecord) if row is not None else None
        if record is None:
            return 0
        change(record)
        sql = "UPDATE jobs SET record = ? WHERE id = ?"
        return db.execute(sql, (msgspec.json.encode(record), id)).rowcount

    return write


def pruning() -> list[Statement]:
    """Drops operations that ended long ago, and what was asked of ended ones."""
    before = (datetime.now(UTC) - KEEP_FOR).isoformat()
    return [
        ("DELETE FROM operations WHERE state != 'running' AND ended < ?", (before,)),
        (
            "DELETE FROM operations WHERE state != 'running' AND id NOT IN "
            "(SELECT id FROM operations ORDER BY ended DESC LIMIT ?)",
            (KEEP_AT_MOST,),
        ),
        (
            "DELETE FROM requests WHERE operation NOT IN "
            "(SELECT id FROM operations WHERE state = 'running')",
            (),
        ),
    ]


def _set_journal(db: sqlite3.Connection, path: Path) -> None:
    """With a write-ahead log readers do not wait for writers. It needs memory that processes share,
    which network file systems do not have; a file there has a rollback journal.
    """
    mode = "delete" if network_file_system(path) else "wal"
    (now,) = db.execute("PRAGMA journal_mode").fetchone()
    if now == mode:
        return
    try:
        db.execute(f"PRAGMA journal_mode = {mode}").fetchone()
    except sqlite3.OperationalError as error:
        # Another process has the file open. Both journals work; one file has one at a time.
        if not is_locked(error):
            raise
