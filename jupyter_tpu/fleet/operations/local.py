"""Operations that need no TPU: of this process, and what earlier ones of this user left.

They need neither a project nor credentials. What has ended can be asked for after a restart, too;
what ran when its process ended is shown as interrupted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...cloud import NodeName
from ...errors import TPUError
from ..knowledge.changes import ChangeFeed
from ..models import Change, Operation
from ..store.database import KEEP_AT_MOST, Store
from ..store.process_lease import ProcessLease
from ..store.records import OperationRecord
from .runner import OperationRunner, Work

log = logging.getLogger(__name__)

_NO_TPU = NodeName("", "", "")


class LocalOperations:
    """What runs here, published and cancelled as the fleet's operations are. On the core loop.

    ids are unique among all operations, the fleet's too.

    path: where they are written down, to be found by the next process; None: nowhere. keep: how
    many of the ended ones can still be asked for.
    """

    def __init__(self, path: Path | None = None, *, keep: int = KEEP_AT_MOST) -> None:
        self._changes = ChangeFeed()
        self._store = _open_store(path)
        self._runner = OperationRunner(
            self._store,
            self._store,
            changed=lambda id, _: self._changes.mark_changed("operation", id),
            ended=lambda _: None,
            keep=keep,
        )
        self._changes.register("operation", self._runner.find)
        self._recover()

    def subscribe(self, callback: Callable[[Change], None]) -> Callable[[], None]:
        """As the fleet's; also called when one is forgotten (``gone``)."""
        return self._changes.subscribe(callback)

    def start(self, kind: Any, work: Work, message: str = "") -> Operation:
        """Runs *work*; what it finds it puts into the operation's ``result``."""
        record = self._runner.new_record(kind, _NO_TPU)
        record.operation.message = message
        return self._runner.start(record, work)

    def has(self, id: str) -> bool:
        if self._runner.find(id) is None:
            self._recover()
        return self._runner.find(id) is not None

    def all(self) -> list[Operation]:
        """Running and lately ended ones, newest first."""
        self._recover()
        return self._runner.all()

    async def operation(self, id: str) -> Operation:
        """Raises NOT_FOUND."""
        return self._runner.get(id)

    async def cancel(self, id: str) -> Operation:
        """Asks it to end, and waits for that for a moment; raises NOT_FOUND."""
        return await self._runner.cancel(id)

    async def wait(self, id: str) -> Operation:
        """Waits until it has ended; for callers in this process."""
        return await self._runner.wait(id)

    async def close(self) -> None:
        """Ends all of them; the next process shows them as interrupted."""
        await self._runner.close()
        self._changes.close()
        self._store.close()

    def _recover(self) -> None:
        """Takes over what processes that have ended left."""
        if self._store.has_news():
            self._runner.load()
            for record in self._runner.abandoned():
                self._runner.mark_interrupted(record)


def _open_store(path: Path | None) -> _LocalStore | _MemoryStore:
    try:
        return _LocalStore(path) if path is not None else _MemoryStore()
    except (TPUError, OSError) as error:
        log.warning("Operations are forgotten when the server ends: %s", error)
        return _MemoryStore()


class _LocalStore:
    """A file of this user's processes, and this process among them."""

    def __init__(self, path: Path) -> None:
        self._store = Store(path, "local")
        try:
            self._lease = ProcessLease(path.with_name(path.name + ".owners"))
        except BaseException:
            self._store.close()
            raise
        self.id = self._lease.id
        self._living: set[str] | None = None  # whose records were skipped; None: not read yet

    def has_news(self) -> bool:
        """Whether there may be more in :meth:`operations` than when they were last asked for."""
        changed = self._store.changed_elsewhere()
        return changed or self._living is None or not all(map(self.alive, self._living))

    def operations(self) -> list[OperationRecord]:
        """Those of processes that have ended: the others know their own better."""
        records = self._store.operations()
        self._living = {owner for owner in {r.owner for r in records} if self.alive(owner)}
        return [record for record in records if record.owner not in self._living]

    def save_operation(self, record: OperationRecord) -> None:
        self._store.save_operation(record)

    def take_over_operation(self, record: OperationRecord, owner: str) -> bool:
        return self._store.take_over_operation(record, owner)

    def prune(self) -> None:
        self._store.prune()

    def alive(self, owner: str) -> bool:
        return self._lease.alive(owner)

    def close(self) -> None:
        self._store.close()
        self._lease.close()


class _MemoryStore:
    """No file: they are gone with this process."""

    id = "this process"

    def has_news(self) -> bool:
        return False

    def operations(self) -> list[OperationRecord]:
        return []

    def save_operation(self, record: OperationRecord) -> None:
        pass

    def take_over_operation(self, record: OperationRecord, owner: str) -> bool:
        return False

    def prune(self) -> None:
        pass

    def alive(self, owner: str) -> bool:
        return owner == self.id

    def close(self) -> None:
        pass
