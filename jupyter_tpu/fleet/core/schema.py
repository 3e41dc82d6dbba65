"""The tables of the SQLite file with the desired state, by the versions that added them."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from ...errors import Reason, TPUError

#: 10: operations have the fields of their kind only (see `read_operation`).
_VERSION = 12
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
    4: """
CREATE TABLE requests (operation TEXT PRIMARY KEY, request TEXT) WITHOUT ROWID;
""",
    5: """
CREATE TABLE jobs (id TEXT PRIMARY KEY, identity TEXT, record BLOB) WITHOUT ROWID;
""",
    6: """
CREATE TABLE grants (
    identity TEXT, name TEXT, record BLOB, PRIMARY KEY (identity, name)
) WITHOUT ROWID;
CREATE TABLE prices (identity TEXT PRIMARY KEY, record BLOB) WITHOUT ROWID;
""",
    7: """
CREATE TABLE guards (
    identity TEXT, project TEXT, zone TEXT, tpu TEXT, record BLOB,
    PRIMARY KEY (identity, project, zone, tpu)
) WITHOUT ROWID;
""",
    8: """
CREATE TABLE budgets (
    identity TEXT, id TEXT, record BLOB, PRIMARY KEY (identity, id)
) WITHOUT ROWID;
CREATE TABLE spending (
    identity TEXT, id TEXT, record BLOB, PRIMARY KEY (identity, id)
) WITHOUT ROWID;
CREATE TABLE plans (
    identity TEXT, id TEXT, record BLOB, PRIMARY KEY (identity, id)
) WITHOUT ROWID;
""",
    9: """
CREATE TABLE agent_tpus (
    identity TEXT, id TEXT, record BLOB, PRIMARY KEY (identity, id)
) WITHOUT ROWID;
""",
    11: """
CREATE TABLE sessions (
    identity TEXT, id TEXT, record BLOB, PRIMARY KEY (identity, id)
) WITHOUT ROWID;
CREATE TABLE session_settings (
    identity TEXT, project TEXT, zone TEXT, tpu TEXT, record BLOB,
    PRIMARY KEY (identity, project, zone, tpu)
) WITHOUT ROWID;
""",
    12: """
CREATE TABLE homes (
    identity TEXT, id TEXT, record BLOB, PRIMARY KEY (identity, id)
) WITHOUT ROWID;
""",
}


def migrate(db: sqlite3.Connection, path: Path) -> None:
    """Makes the tables of this version. Raises INTERNAL for a file of a newer one."""
    if _version(db) == _VERSION:
        return  # without a lock
    with transaction(db, "IMMEDIATE"):  # two processes may come here at once
        version = _version(db)
        if version > _VERSION:
            raise TPUError(
                f"{path} was written by a newer jupyter-tpu.",
                Reason.INTERNAL,
                "Update jupyter-tpu, or set JUPYTER_TPU_DATA_DIR to another folder.",
            )
        scripts = [_SCHEMA] if version == 0 else []
        scripts += [added for since, added in _ADDED.items() if since > version]
        for statement in ";".join(scripts).split(";"):
            db.execute(statement)
        db.execute(f"PRAGMA user_version = {_VERSION}")


@contextlib.contextmanager
def transaction(db: sqlite3.Connection, kind: str) -> Iterator[None]:
    db.execute(f"BEGIN {kind}")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:  # SQLite has ended it after some errors, a full disk among them
            with contextlib.suppress(sqlite3.Error):
                db.execute("ROLLBACK")
        raise


def _version(db: sqlite3.Connection) -> int:
    (version,) = db.execute("PRAGMA user_version").fetchone()
    return int(version)
