"""Which of Google's control planes has the TPU of a name: what was seen last, in a file.

It decides what a name means if both have a TPU of that name in one zone, which other people can
cause. It is in a file because another process may continue an operation: that process must not
mistake the other TPU of the same name for the one of the operation. A name that is not in the file
is Cloud TPU's.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from ..catalog import API
from ..errors import Reason, TPUError
from ..paths import data_dir
from .models import NodeName

_LOCK_SECONDS = 10.0  # seconds, until another process has written


class KnownAPIs:
    """The file. All methods block for a moment; they raise UNAVAILABLE if it can't be used."""

    def __init__(self, cloud: str, path: Path | None = None) -> None:
        self._cloud = cloud  # its identity
        self._path = path
        self._known: dict[NodeName, API] | None = None  # what this process has read and written

    @property
    def path(self) -> Path:
        return self._path if self._path is not None else data_dir() / "control_planes.sqlite"

    def get(self, name: NodeName, *, fresh: bool = False) -> API:
        """Where the TPU of that name is, or was. fresh: with what other processes wrote."""
        if fresh:
            self._known = None
        return self._all().get(name, "tpu")

    def any_in(self, project: str, api: API) -> bool:
        """Whether *api* ever had a TPU of the project."""
        return any(
            n.project == project and known_api == api for n, known_api in self._all().items()
        )

    def put(self, seen: Mapping[NodeName, API]) -> None:
        """Keeps where TPUs are from now on."""
        known = self._all()
        new = {name: api for name, api in seen.items() if known.get(name, "tpu") != api}
        if not new:
            return
        with self._opened() as database:
            database.executemany(
                "INSERT OR REPLACE INTO control_planes VALUES (?, ?, ?, ?, ?)",
                [(self._cloud, n.project, n.zone, n.node, api) for n, api in new.items()],
            )
        known |= new

    def _all(self) -> dict[NodeName, API]:
        if self._known is None:
            rows = []
            if self.path.exists():
                query = "SELECT project, zone, name, api FROM control_planes WHERE cloud = ?"
                with self._opened() as database:
                    rows = database.execute(query, (self._cloud,)).fetchall()
            self._known = {NodeName(*name): api for *name, api in rows if api in ("tpu", "compute")}
        return self._known

    def _opened(self) -> contextlib.AbstractContextManager[sqlite3.Connection]:
        table = (
            "control_planes (cloud TEXT, project TEXT, zone TEXT, name TEXT, api TEXT,"
            " PRIMARY KEY (cloud, project, zone, name))"
        )
        return opened(
            self.path,
            table,
            lambda error: f"The list of TPUs' control planes, {self.path}, can't be used: {error}.",
        )


@contextlib.contextmanager
def opened(
    path: Path, table: str, message: Callable[[Exception], str]
) -> Iterator[sqlite3.Connection]:
    """A transaction on a file of this user with one *table*, which is made where it is missing.

    Raises UNAVAILABLE with that *message* where the file can't be used.
    """
    try:
        with contextlib.closing(sqlite3.connect(path, timeout=_LOCK_SECONDS)) as database:
            path.chmod(0o600)
            with database:
                database.execute(f"CREATE TABLE IF NOT EXISTS {table}")
                yield database
    except (sqlite3.Error, OSError) as error:
        raise TPUError(
            message(error),
            Reason.UNAVAILABLE,
            "Check the disk and the permissions of the file.",
        ) from error
