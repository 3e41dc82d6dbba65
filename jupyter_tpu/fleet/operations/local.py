"""Operations that need no TPU: of this process, and what earlier ones of this user left.

They ask nobody which cloud there is, so that neither a project nor credentials matter to them.
What has ended can be asked for after a restart, too; what ran when its process ended says so.
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
    """What runs here, told and cancelled as the fleet's operations are. On the core thread's loop.

    ids are unique among all operations, the fleet's too.

    path: where they are written down, to be found by the next process; None: nowhere. keep: of the
    ended ones, so many can still be asked for.
    """

    def __init__(self, path: Path | None = None, *, keep: int = KEEP_AT_MOST) -> None:
        self._changes = ChangeFeed(self._describe)
        self._records = _opened(path)
        self._operations = OperationRunner(
            self._records,
            self._records,
            changed=lambda id, _: self._changes.mark_changed("operation", id),
            ended=lambda _: None,
            forgotten=lambda id: self._changes.mark_changed("operation", id),
            keep=keep,
        )
        self._recover()

    def subscribe(self, callback: Callable[[Change], None]) -> Callable[[], None]:
        """As the fleet's; also told when one is forgotten (``gone``)."""
        return self._changes.subscribe(callback)

    def start(self, kind: Any, work: Work, message: str = "") -> Operation:
        """Runs *work*; what it finds it puts into the operation's ``result``."""
        record = self._operations.new_record(kind, _NO_TPU)
        record.operation.message = message
        return self._operations.start(record, work)

    def has(self, id: str) -> bool:
        if not self._operations.has(id):
            self._recover()
        return self._operations.has(id)

    def all(self) -> list[Operation]:
        """Running and lately ended ones, newest first."""
        self._recover()
        return self._operations.all()

    async def operation(self, id: str) -> Operation:
        """Raises NOT_FOUND."""
        return self._operations.get(id)

    async def cancel(self, id: str) -> Operation:
        """Asks it to end, and waits for that for a moment; raises NOT_FOUND."""
        return await self._operations.cancel(id)

    async def wait(self, id: str) -> Operation:
        """Waits until it has ended; for callers in this process."""
        return await self._operations.wait(id)

    async def close(self) -> None:
        """Ends all of them: the next process says that they were interrupted."""
        await self._operations.close()
        self._changes.close()
        self._records.close()

    def _recover(self) -> None:
        """Takes over what processes that have ended left."""
        if self._records.has_news():
            self._operations.load(resume=True)

    def _describe(self, what: str, id: str) -> Change:
        known = self._operations.get(id) if self._operations.has(id) else None
        return Change(what="operation", id=id, gone=known is None, operation=known)


def _opened(path: Path | None) -> _LocalStore | _MemoryStore:
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
            self._owner = ProcessLease(path.with_name(path.name + ".owners"))
        except BaseException:
            self._store.close()
            raise
        self.id = self._owner.id
        self._living: set[str] | None = None  # whose records were passed over; None: not read yet

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

    def prune(self) -> None:
        self._store.prune()

    def alive(self, owner: str) -> bool:
        return self._owner.alive(owner)

    def close(self) -> None:
        self._store.close()
        self._owner.close()


class _MemoryStore:
    """No file: they are gone with this process."""

    id = "this process"

    def has_news(self) -> bool:
        return False

    def operations(self) -> list[OperationRecord]:
        return []

    def save_operation(self, record: OperationRecord) -> None:
        pass

    def prune(self) -> None:
        pass

    def alive(self, owner: str) -> bool:
        return owner == self.id

    def close(self) -> None:
        pass
