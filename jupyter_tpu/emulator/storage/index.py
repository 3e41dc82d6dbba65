"""The index of what there is, in SQLite: it decides what exists, in one transaction a change."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from .records import BucketRecord, ObjectRecord, UploadRecord

S = TypeVar("S", bound=Struct)

_SCHEMA = """
CREATE TABLE IF NOT EXISTS buckets (name TEXT PRIMARY KEY, project TEXT, record BLOB) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS objects (
    bucket TEXT, name TEXT, generation INTEGER, live INTEGER, record BLOB,
    PRIMARY KEY (bucket, name, generation)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS uploads (id TEXT PRIMARY KEY, started REAL, record BLOB) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS clock (id INTEGER PRIMARY KEY, generation INTEGER);
INSERT OR IGNORE INTO clock VALUES (0, 0);
"""


class Index:
    """Names are in the order of their UTF-8, which is that of Cloud Storage's lists."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.executescript(_SCHEMA)

    def close(self) -> None:
        self._db.close()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """What is done in it is done, or, after an exception, nothing of it."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def next_generation(self) -> int:
        """Greater than all before; microseconds since 1970 where the clock allows it."""
        now = time.time_ns() // 1000
        query = "UPDATE clock SET generation = max(?, generation + 1) RETURNING generation"
        (row,) = self._db.execute(query, (now,)).fetchall()
        return int(row[0])

    def _all(self, kind: type[S], query: str, *values: object) -> list[S]:
        rows = self._db.execute(query, values).fetchall()
        return [msgspec.json.decode(row[0], type=kind) for row in rows]

    def _one(self, kind: type[S], query: str, *values: object) -> S | None:
        return next(iter(self._all(kind, query, *values)), None)

    # ---- buckets --------------------------------------------------------------------------------

    def bucket(self, name: str) -> BucketRecord | None:
        return self._one(BucketRecord, "SELECT record FROM buckets WHERE name = ?", name)

    def buckets(self, project: str, prefix: str, after: str, limit: int) -> list[BucketRecord]:
        query = """SELECT record FROM buckets WHERE project = ? AND substr(name, 1, ?) = ?
            AND name > ? ORDER BY name LIMIT ?"""
        return self._all(BucketRecord, query, project, len(prefix), prefix, after, limit)

    def put_bucket(self, bucket: BucketRecord) -> None:
        values = (bucket.name, bucket.project, msgspec.json.encode(bucket))
        self._db.execute("INSERT OR REPLACE INTO buckets VALUES (?, ?, ?)", values)

    def delete_bucket(self, name: str) -> None:
        self._db.execute("DELETE FROM buckets WHERE name = ?", (name,))

    def is_empty(self, bucket: str) -> bool:
        query = "SELECT 1 FROM objects WHERE bucket = ? LIMIT 1"
        return self._db.execute(query, (bucket,)).fetchone() is None

    # ---- objects --------------------------------------------------------------------------------

    def object(self, bucket: str, name: str, generation: int | None = None) -> ObjectRecord | None:
        """The live one if *generation* is None."""
        which = "live AND ?3 IS NULL" if generation is None else "generation = ?3"
        query = f"SELECT record FROM objects WHERE bucket = ?1 AND name = ?2 AND {which}"
        return self._one(ObjectRecord, query, bucket, name, generation)

    def put_object(self, object: ObjectRecord) -> None:
        live = not object.deleted
        values = (object.bucket, object.name, object.generation, live, msgspec.json.encode(object))
        self._db.execute("INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?)", values)

    def delete_object(self, object: ObjectRecord) -> None:
        query = "DELETE FROM objects WHERE bucket = ? AND name = ? AND generation = ?"
        self._db.execute(query, (object.bucket, object.name, object.generation))

    def objects(
        self, bucket: str, after: tuple[str, int], before: str | None, *, versions: bool
    ) -> Iterator[ObjectRecord]:
        """Those whose name and generation come after *after*, and their name before *before*, in
        order. What the caller does not ask for is not read.
        """
        query = f"""SELECT record FROM objects WHERE bucket = ?1 AND (name, generation) > (?2, ?3)
            AND (?4 IS NULL OR name < ?4) {"" if versions else "AND live"}
            ORDER BY name, generation"""
        for row in self._db.execute(query, (bucket, *after, before)):
            yield msgspec.json.decode(row[0], type=ObjectRecord)

    def generations(self) -> list[int]:
        return [row[0] for row in self._db.execute("SELECT generation FROM objects")]

    # ---- uploads --------------------------------------------------------------------------------

    def upload(self, id: str) -> UploadRecord | None:
        return self._one(UploadRecord, "SELECT record FROM uploads WHERE id = ?", id)

    def uploads(self, started_before: float = float("inf")) -> list[UploadRecord]:
        query = "SELECT record FROM uploads WHERE started < ?"
        return self._all(UploadRecord, query, started_before)

    def put_upload(self, upload: UploadRecord) -> None:
        values = (upload.id, upload.started, msgspec.json.encode(upload))
        self._db.execute("INSERT OR REPLACE INTO uploads VALUES (?, ?, ?)", values)

    def delete_upload(self, id: str) -> None:
        self._db.execute("DELETE FROM uploads WHERE id = ?", (id,))
