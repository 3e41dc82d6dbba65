"""Operations that need no TPU: of this process alone, in its memory, and gone with it.

They ask nobody which cloud there is, so that neither a project nor credentials matter to them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..cloud.models import NodeName
from .changes import Changes
from .models import Change, Operation
from .operations import Operations, Work
from .store import OperationRecord

#: Ended ones that can still be asked for.
KEEP_ENDED = 100
_NO_TPU = NodeName("", "", "")


class LocalOperations:
    """What runs here, told and cancelled as the fleet's operations are. On the core thread's loop.

    ids are unique among all operations, the fleet's too.
    """

    def __init__(self) -> None:
        self._changes = Changes(self._describe)
        self._operations = Operations(
            _Nowhere(),
            _ThisProcess(),
            changed=lambda id, _: self._changes.touch("operation", id),
            ended=lambda _: self._forget(),
            keep=KEEP_ENDED,
        )
        self._known: set[str] = set()

    def subscribe(self, callback: Callable[[Change], None]) -> Callable[[], None]:
        """As the fleet's; also told when one is forgotten (``gone``)."""
        return self._changes.subscribe(callback)

    def start(self, kind: Any, work: Work, message: str = "") -> Operation:
        """Runs *work*; what it finds it puts into the operation's ``result``."""
        record = self._operations.new(kind, _NO_TPU)
        record.operation.message = message
        self._known.add(record.operation.id)
        return self._operations.start(record, work)

    def has(self, id: str) -> bool:
        return id in self._known

    def all(self) -> list[Operation]:
        """Running and lately ended ones, newest first."""
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
        """Ends all of them."""
        await self._operations.close()
        self._changes.close()

    def _forget(self) -> None:
        kept = {operation.id for operation in self._operations.all()}
        for id in self._known - kept:
            self._changes.touch("operation", id)
        self._known = kept

    def _describe(self, what: str, id: str) -> Change:
        if not self.has(id):
            return Change(what="operation", id=id, gone=True)
        return Change(what="operation", id=id, operation=self._operations.get(id))


class _Nowhere:
    """No file: what these operations do can't be gone on with by another process."""

    def operations(self) -> list[OperationRecord]:
        return []

    def save_operation(self, record: OperationRecord) -> None:
        pass

    def prune(self) -> None:
        pass


class _ThisProcess:
    id = "this process"

    def alive(self, owner: str) -> bool:
        return owner == self.id
