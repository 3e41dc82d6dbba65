"""Desired state in SQLite: which TPUs are connected, their environments, and operations.

Everything belongs to one cloud *identity* ("google", or an emulator's id), so that an emulator
never touches what is known of Google. Calls are short (well under a millisecond, WAL, no sync
per commit) and run on the core thread.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

import msgspec

from ...cloud import NodeName
from ...errors import Reason, TPUError
from .records import EnvironmentRecord, OperationRecord, RunRecord, TunnelRecord

log = logging.getLogger(__name__)

_VERSION = 3
_SCHEMA = """
CREATE TABLE connected (
    identity TEXT, project TEXT, zone TEXT, tpu TEXT, node_id TEXT,
    PRIMARY KEY (identity, project, zone, tpu)
) WITHOUT ROWID;
CREATE TABLE environments (
    identity TEXT, project TEXT, zone TEXT, tpu TEXT, name TEXT, record BLOB,
    PRIMARY KEY (identity, project, zone, tpu, name)
) WITHOUT ROWID;
CREATE TABLE operations (
    id TEXT PRIMARY KEY, identity TEXT, state TEXT, ended TEXT, record BLOB
) WITHOUT ROWID;
"""
#: What later versions added, by version.
_ADDED = {
    2: """
CREATE TABLE tunnels (id TEXT PRIMARY KEY, identity TEXT, owner TEXT, record BLOB) WITHOUT ROWID;
""",
    3: """
CREATE TABLE runs (
    identity TEXT, project TEXT, zone TEXT, tpu TEXT, record BLOB,
    PRIMARY KEY (identity, project, zone, tpu)
) WITHOUT ROWID;
""",
}
#: How long ended operations are kept, and how many at most.
KEEP_FOR = timedelta(days=3)
KEEP_AT_MOST = 50
_OF_TPU = "identity = ? AND project = ? AND zone = ? AND tpu = ?"


_R = TypeVar("_R", EnvironmentRecord, OperationRecord, RunRecord, TunnelRecord)


def _read(record: bytes, kind: type[_R]) -> _R | None:
    """None for a row that this version can't read, so that the other rows can still be used."""
    try:
        return msgspec.json.decode(record, type=kind)
    except msgspec.DecodeError as error:
        log.warning("Ignored an invalid %s: %s", kind.__name__, error)
        return None


class Store:
    """The file at *path*, created with mode 0600 if it is missing.

    Raises TPUError (INTERNAL) if it can't be used, with what to do.
    """

    def __init__(self, path: Path, identity: str) -> None:
        self._identity = identity
        self._data_version = 0
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            self._db = sqlite3.connect(path, timeout=5, isolation_level=None)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = NORMAL")
            self._migrate()
            self.changed_elsewhere()
        except (sqlite3.Error, OSError) as error:
            raise TPUError(
                f"Can't use {path}, which has the state of your TPUs: {error}.",
                Reason.INTERNAL,
                "Move the file away. TPUs are found again, and connecting uses what is already "
                "on the hosts.",
            ) from error

    def close(self) -> None:
        self._db.close()

    def changed_elsewhere(self) -> bool:
        """Whether another process has written since this was last asked."""
        (version,) = self._db.execute("PRAGMA data_version").fetchone()
        changed, self._data_version = version != self._data_version, version
        return changed

    # ---- connected TPUs ----

    def connected(self) -> dict[NodeName, str]:
        """The TPUs that should be connected, with the ids of the nodes that are meant."""
        rows = self._db.execute(
            "SELECT project, zone, tpu, node_id FROM connected WHERE identity = ?",
            (self._identity,),
        )
        return {NodeName(project, zone, tpu): node for project, zone, tpu, node in rows}

    def set_connected(self, name: NodeName, node_id: str) -> None:
        self._db.execute(
            "INSERT OR REPLACE INTO connected VALUES (?, ?, ?, ?, ?)",
            (self._identity, name.project, name.zone, name.node, node_id),
        )

    def drop_connected(self, name: NodeName) -> None:
        self._db.execute(f"DELETE FROM connected WHERE {_OF_TPU}", self._key(name))

    # ---- environments ----

    def environments(self) -> dict[NodeName, dict[str, EnvironmentRecord]]:
        """All of them, by TPU and name."""
        found: dict[NodeName, dict[str, EnvironmentRecord]] = {}
        for project, zone, tpu, name, record in self._db.execute(
            "SELECT project, zone, tpu, name, record FROM environments WHERE identity = ?",
            (self._identity,),
        ):
            of_tpu = found.setdefault(NodeName(project, zone, tpu), {})
            read = _read(record, EnvironmentRecord)
            if read is not None:
                of_tpu[name] = read
        return found

    def save_environment(self, name: NodeName, record: EnvironmentRecord) -> None:
        self._db.execute(
            "INSERT OR REPLACE INTO environments VALUES (?, ?, ?, ?, ?, ?)",
            (*self._key(name), record.environment.name, msgspec.json.encode(record)),
        )

    def drop_environment(self, name: NodeName, environment: str) -> None:
        self._db.execute(
            f"DELETE FROM environments WHERE {_OF_TPU} AND name = ?",
            (*self._key(name), environment),
        )

    def forget(self, name: NodeName) -> None:
        """Drops all that is known of a TPU, in one step."""
        with self._transaction():
            self._db.execute(f"DELETE FROM environments WHERE {_OF_TPU}", self._key(name))
            self._db.execute(f"DELETE FROM connected WHERE {_OF_TPU}", self._key(name))

    # ---- run times ----

    def runs(self) -> dict[NodeName, RunRecord]:
        """How long each node was READY."""
        rows = self._db.execute(
            "SELECT project, zone, tpu, record FROM runs WHERE identity = ?", (self._identity,)
        )
        return {
            NodeName(project, zone, tpu): read
            for project, zone, tpu, record in rows
            if (read := _read(record, RunRecord)) is not None
        }

    def save_run(self, name: NodeName, record: RunRecord | None) -> None:
        """None: the node is gone."""
        if record is None:
            self._db.execute(f"DELETE FROM runs WHERE {_OF_TPU}", self._key(name))
        else:
            self._db.execute(
                "INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?)",
                (*self._key(name), msgspec.json.encode(record)),
            )

    # ---- operations ----

    def operations(self) -> list[OperationRecord]:
        """Running and lately ended ones, newest first."""
        rows = self._db.execute(
            "SELECT record FROM operations WHERE identity = ?", (self._identity,)
        )
        found = [_read(record, OperationRecord) for (record,) in rows]
        return sorted(
            filter(None, found), key=lambda record: record.operation.created, reverse=True
        )

    def save_operation(self, record: OperationRecord) -> None:
        operation = record.operation
        self._db.execute(
            "INSERT OR REPLACE INTO operations VALUES (?, ?, ?, ?, ?)",
            (
                operation.id,
                self._identity,
                operation.state,
                operation.ended,
                msgspec.json.encode(record),
            ),
        )

    def take_over_operation(self, record: OperationRecord, owner: str) -> bool:
        """Saves *record*, which has a new owner; False if it is no longer *owner*'s."""
        done = self._db.execute(
            "UPDATE operations SET record = ? WHERE id = ? AND state = 'running' "
            "AND json_extract(CAST(record AS TEXT), '$.owner') = ?",
            (msgspec.json.encode(record), record.operation.id, owner),
        )
        return done.rowcount == 1

    def prune(self) -> None:
        """Drops operations that ended long ago."""
        before = (datetime.now(UTC) - KEEP_FOR).isoformat()
        with self._transaction():
            self._db.execute(
                "DELETE FROM operations WHERE state != 'running' AND ended < ?", (before,)
            )
            self._db.execute(
                "DELETE FROM operations WHERE state != 'running' AND id NOT IN "
                "(SELECT id FROM operations ORDER BY ended DESC LIMIT ?)",
                (KEEP_AT_MOST,),
            )

    # ---- tunnels ----

    def tunnels(self) -> list[TunnelRecord]:
        """Those that should be there, the oldest first."""
        rows = self._db.execute(
            "SELECT owner, record FROM tunnels WHERE identity = ?", (self._identity,)
        )
        found = [
            msgspec.structs.replace(read, owner=owner)
            for owner, record in rows
            if (read := _read(record, TunnelRecord)) is not None
        ]
        return sorted(found, key=lambda record: (record.created, record.id))

    def save_tunnel(self, record: TunnelRecord) -> None:
        self._db.execute(
            "INSERT OR REPLACE INTO tunnels VALUES (?, ?, ?, ?)",
            (record.id, self._identity, record.owner, msgspec.json.encode(record)),
        )

    def claim_tunnel(self, record: TunnelRecord, owner: str) -> bool:
        """Takes over a tunnel from the process that had it; False if another was first."""
        done = self._db.execute(
            "UPDATE tunnels SET owner = ? WHERE id = ? AND owner = ?",
            (owner, record.id, record.owner),
        )
        return done.rowcount == 1

    def drop_tunnel(self, id: str) -> None:
        self._db.execute("DELETE FROM tunnels WHERE id = ?", (id,))

    # ---- inside ----

    def _key(self, name: NodeName) -> tuple[str, str, str, str]:
        return (self._identity, name.project, name.zone, name.node)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def _migrate(self) -> None:
        with self._transaction():  # two processes may come here at once
            (version,) = self._db.execute("PRAGMA user_version").fetchone()
            if version > _VERSION:
                raise sqlite3.DatabaseError("it was written by a newer jupyter-tpu")
            scripts = [_SCHEMA] if version == 0 else []
            scripts += [added for since, added in _ADDED.items() if since > version]
            for statement in ";".join(scripts).split(";"):
                self._db.execute(statement)
            if version != _VERSION:
                self._db.execute(f"PRAGMA user_version = {_VERSION}")
