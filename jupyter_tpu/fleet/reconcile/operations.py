"""Operations of all processes, as their users see them; and continuing those that were left.

Local operations need no TPU, and neither a project nor credentials. What has ended can be asked for
after a restart, too; what ran when its process ended is shown as interrupted.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from ...cloud import NodeName
from ...errors import Reason, TPUError
from ..core.changes import ChangeFeed
from ..core.core import Core
from ..core.database import KEEP_AT_MOST
from ..core.known_operations import Work
from ..core.operation_records import OperationRecord, OperationRequest
from ..core.operation_runner import OperationRunner
from ..core.state_folder import ProcessLease
from ..core.store import Store
from ..models import Change, Operation, StopTrying
from ..models.money import billing_words
from ..models.operation_kinds import KINDS
from ..money.grants import Grants


class OperationService:
    """An :class:`~jupyter_tpu.fleet.api.OperationsAPI`."""

    def __init__(self, core: Core, grants: Grants) -> None:
        self._cloud = core.cloud
        self._runner = core.runner
        self._observed = core.observed
        self._reload = core.shared.reload
        self._grants = grants

    async def list(self) -> Sequence[Operation]:
        await self._reload()
        return self._runner.known.all()

    async def get(self, id: str) -> Operation:
        await self._reload()
        return self._runner.known.get(id)

    async def wait(self, id: str) -> Operation:
        """Waits until an operation has ended; for callers in this process."""
        return await self._runner.wait(id)

    async def cancel(self, id: str) -> Operation:
        await self._reload()
        return await self._runner.cancel(id)

    async def stop_trying(self, id: str, options: StopTrying | None = None) -> Operation:
        await self._reload()
        operation = self._runner.known.get(id)
        confirmed = options is not None and options.keep_tpu
        if operation.undeleted == "retrying" and not confirmed:
            raise TPUError(self._stays(operation), Reason.STILL_BILLED, "Confirm that it stays.")
        return await self._runner.stop_trying(id)

    def _stays(self, operation: Operation) -> str:
        """What it means to end the attempts to delete a TPU."""
        name = NodeName(self._cloud.project, operation.zone, operation.tpu)
        node = self._observed.node(name)
        billed = billing_words(node, self._grants.cost(node)) if node else ""
        return f"{operation.tpu} will not be deleted.{billed and f' {billed}.'}"


log = logging.getLogger(__name__)

#: How often changes by other processes, and their ends, are checked for; seconds.
CHECK_SECONDS = 1.0


class Takeover:
    """reload: reads what other processes have written.

    supervise: False for a process that does one thing only. It continues deletions and stops, since
    they save money, and leaves everything else to a server.
    """

    def __init__(
        self, runner: OperationRunner, reload: Callable[[], Awaitable[None]], *, supervise: bool
    ) -> None:
        self._runner = runner
        self._reload = reload
        self._supervise = supervise

    async def run(self) -> None:
        """Checks until it is cancelled."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            await self.check()

    async def check(self) -> None:
        """Takes over what has no process now."""
        await self._reload()
        for record in self._runner.abandoned():
            try:
                await self._check(record)
            except TPUError as error:  # it can't be saved now
                log.warning("An operation can't be continued now: %s", error)
            except Exception:  # the others are continued all the same
                log.exception("Operation %s can't be continued", record.operation.id)

    async def _check(self, record: OperationRecord) -> None:
        claim, continued_by = record.claim, KINDS[record.operation.kind].continued_by
        deletes = claim is not None and claim.want == "absent"
        if self._supervise or deletes or continued_by == "any":
            mine = await self._runner.take_over(record)
            if mine is not None:
                self._runner.resume_left(mine)
        elif claim is None and not continued_by:
            self._runner.mark_interrupted(record, save=False)


_NO_TPU = NodeName("", "", "")


class LocalOperations:
    """What runs here, published and cancelled as the fleet's operations are. On the core loop.

    ids are unique among all operations, the fleet's too.

    Made by :meth:`open`.
    """

    def __init__(self, store: _LocalStore | _MemoryStore, keep: int) -> None:
        self._changes = ChangeFeed()
        self._store = store
        self._runner = OperationRunner(self._store, self._store, keep=keep)
        self._runner.changed.add(
            lambda changed: self._changes.mark_changed("operation", changed.id)
        )
        self._changes.register("operation", self._runner.known.find)

    @classmethod
    async def open(cls, path: Path | None = None, *, keep: int = KEEP_AT_MOST) -> LocalOperations:
        """path: where they are written down, to be found by the next process; None: nowhere. keep:
        how many of the ended ones can still be asked for.
        """
        operations = cls(await _open_store(path), keep)
        await operations._recover()
        return operations

    def subscribe(self, callback: Callable[[Change], None]) -> Callable[[], None]:
        """As the fleet's; also called when one is forgotten (``gone``)."""
        return self._changes.subscribe(callback)

    async def start(self, kind: Any, work: Work, message: str = "") -> Operation:
        """Runs *work*; what it finds it puts into the operation's ``result``."""
        record = self._runner.new_record(kind, _NO_TPU)
        record.operation.message = message
        return await self._runner.start(record, work)

    async def has(self, id: str) -> bool:
        if self._runner.known.find(id) is None:
            await self._recover()
        return self._runner.known.find(id) is not None

    async def list(self) -> Sequence[Operation]:
        """Running and lately ended ones, newest first."""
        await self._recover()
        return self._runner.known.all()

    async def get(self, id: str) -> Operation:
        """Raises NOT_FOUND."""
        return self._runner.known.get(id)

    async def cancel(self, id: str) -> Operation:
        """Asks it to end, and waits for that for a moment; raises NOT_FOUND."""
        return await self._runner.cancel(id)

    async def stop_trying(self, id: str, options: StopTrying | None = None) -> Operation:
        """Raises CONFLICT: there is no TPU that should be deleted."""
        return await self._runner.stop_trying(id)

    async def wait(self, id: str) -> Operation:
        """Waits until it has ended; for callers in this process."""
        return await self._runner.wait(id)

    async def close(self) -> None:
        """Ends all of them; the next process shows them as interrupted."""
        await self._runner.close()
        self._changes.close()
        await self._store.close()

    async def _recover(self) -> None:
        """Takes over what processes that have ended left."""
        self._runner.load(await self._store.of_ended_processes(), {})
        for record in self._runner.abandoned():
            try:
                mine = await self._runner.take_over(record)
            except TPUError:  # it can't be saved now
                self._runner.mark_interrupted(record, save=False)
            else:
                if mine is not None:
                    self._runner.mark_interrupted(mine)


async def _open_store(path: Path | None) -> _LocalStore | _MemoryStore:
    if path is None:
        return _MemoryStore()
    try:
        store = await Store.open(path, "local")
        try:
            return _LocalStore(store, ProcessLease(path.with_name(path.name + ".owners")))
        except BaseException:
            await store.close()
            raise
    except TPUError as error:
        log.warning("Operations can't be saved. They are lost when the server ends: %s", error)
        return _MemoryStore()


class _LocalStore:
    """A file of this user's processes, and this process among them."""

    def __init__(self, store: Store, lease: ProcessLease) -> None:
        self._lease = lease
        self.id = lease.id
        self.alive = lease.alive
        self._store = store
        self.save_operation = store.save_operation
        self.drop_operation = store.drop_operation
        self.save_request = store.save_request
        self.drop_request = store.drop_request
        self.flush = store.flush
        self._taken_over: set[str] = set()  # operations of ended processes that this one has now

    async def of_ended_processes(self) -> list[OperationRecord]:
        """What they left: living processes know their own better."""
        with contextlib.suppress(TPUError):  # what is known is the answer
            await self._store.refresh()
        return [
            operation
            for operation in self._store.snapshot.operations
            if operation.operation.id not in self._taken_over and not self.alive(operation.owner)
        ]

    async def take_over_operation(
        self, record: OperationRecord, owner: str
    ) -> OperationRecord | None:
        mine = await self._store.take_over_operation(record, owner)
        if mine is not None:
            self._taken_over.add(mine.operation.id)
        return mine

    async def close(self) -> None:
        await self._store.close()
        self._lease.close()


class _MemoryStore:
    """No file: they are gone with this process."""

    id = "this process"

    async def of_ended_processes(self) -> list[OperationRecord]:
        return []

    def save_operation(self, record: OperationRecord) -> None:
        pass

    def drop_operation(self, id: str) -> None:
        pass

    def save_request(self, id: str, request: OperationRequest) -> None:
        pass

    def drop_request(self, id: str) -> None:
        pass

    async def flush(self) -> None:
        pass

    async def take_over_operation(self, record: OperationRecord, owner: str) -> None:
        return None

    def alive(self, owner: str) -> bool:
        return owner == self.id

    async def close(self) -> None:
        pass
