"""Desired state and operations on disk: one writer, which waits and retries.

The core loop carries kernels and tunnels, so it never waits for a lock or a disk: SQLite runs on a
thread of its own. What changes is put into a queue; the writer saves it in order, and tries again
for as long as it can't (a full disk, a lock). A caller that must not continue before something is
on disk awaits :meth:`Store.flush`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, Self, TypeVar

import msgspec

from ...backoff import Backoff
from ...cloud import NodeName
from ...errors import Reason, TPUError
from ..models import Budget, Grant, Plan, PriceList, SessionSetting
from .database import (
    Database,
    OperationCheck,
    SpendCheck,
    Statement,
    is_locked,
    is_of_file,
    job_change,
    pruning,
    saving_operation,
)
from .operation_records import OperationRecord, OperationRequest
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

log = logging.getLogger(__name__)

#: How long `flush` waits for a lock of another process; seconds.
LOCK_WAIT = 30.0
#: Before a write that failed is tried again, and before anything else that a lock kept from.
PAUSES = Backoff(0.05, 5.0)
PAUSES_LOCKED = Backoff(0.05, 1.0)
#: How many times a file is read again if it changes while it is read.
_MOST_READS = 20

_OF_TPU = "identity = ? AND project = ? AND zone = ? AND tpu = ?"
_T = TypeVar("_T")


class _Waiter(NamedTuple):
    target: int  # how many changes must be on disk
    deadline: float
    done: asyncio.Future[None]


class Store:
    """The file at a path, for one cloud identity. Made by :meth:`open`, on the core loop.

    snapshot: what the file had when it was last read.
    problem: why the latest changes are not on disk; None where they are, or will be at once.
    """

    snapshot: Snapshot

    def __init__(self, path: Path, identity: str) -> None:
        self.problem: TPUError | None = None
        self._identity = identity
        self._database = Database(path, identity)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="jupyter-tpu-store")
        self._pending: dict[Hashable, list[Statement]] = {}
        self._put_count = self._written_count = 0
        self._waiters: list[_Waiter] = []
        self._wake = asyncio.Event()
        self._writer: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, path: Path, identity: str) -> Self:
        """Creates the file with mode 0600 if it is missing. Raises TPUError if it can't be used,
        with what to do.
        """
        store = cls(path, identity)
        try:
            snapshot = await store._retry_locked(store._database.read)
            assert snapshot is not None  # nothing is known before
            store._know(snapshot)
        except BaseException:
            store._thread.submit(store._database.close)
            store._thread.shutdown(wait=False)
            raise
        store._writer = asyncio.create_task(store._write(), name="tpu-store")
        return store

    async def close(self) -> None:
        """Saves what is not saved yet, if that is possible soon."""
        writer, self._writer = self._writer, None
        if writer is None:
            return
        with contextlib.suppress(TPUError):
            await self.flush(PAUSES.longest)
        writer.cancel()
        await asyncio.wait([writer])
        closing = self._thread.submit(self._database.close)
        self._thread.shutdown(wait=False)
        await asyncio.wait([asyncio.wrap_future(closing)], timeout=PAUSES.longest)
        if self._pending:
            log.error("Changes of the state of your TPUs could not be saved: %s", self.problem)

    async def refresh(self) -> Snapshot | None:
        """What is stored, if another process has changed it since this was last asked; else None.

        What is returned has all changes of this process, too: take it over before awaiting anything
        else. Raises TPUError while it can't be read, or changes of this process can't be saved.
        """
        for _ in range(_MOST_READS):
            if self.problem is not None:
                raise self.problem  # it does not work now, so do not wait
            await self.flush(1.0)
            snapshot = await self._retry_locked(self._database.read, 1.0)
            if snapshot is None:
                return None
            if not self._pending:
                self._know(snapshot)
                return snapshot
        return None  # read again next time

    async def flush(self, patience: float = LOCK_WAIT) -> None:
        """Returns when all changes so far are on disk.

        Raises TPUError, of an error at once and of a lock after *patience* seconds: DISK_FULL,
        UNAVAILABLE or INTERNAL. They are saved all the same when that is possible again.
        """
        if self._written_count == self._put_count:
            return
        loop = asyncio.get_running_loop()
        waiter = _Waiter(self._put_count, loop.time() + patience, loop.create_future())
        self._waiters.append(waiter)
        try:
            # The limit is for a disk that does not answer at all.
            async with asyncio.timeout(patience + PAUSES.longest):
                await waiter.done
        except TimeoutError:
            raise TPUError(
                f"The disk of {self._database.path} does not answer.",
                Reason.TIMEOUT,
                "Check the disk, or set JUPYTER_TPU_DATA_DIR to a folder on another one.",
            ) from None
        finally:
            self._waiters = [other for other in self._waiters if other is not waiter]

    # ---- connected TPUs, environments and run times ----

    def set_connected(self, name: NodeName, node_id: str) -> None:
        """A TPU should be connected: the node with this id."""
        sql = "INSERT OR REPLACE INTO connected VALUES (?, ?, ?, ?, ?)"
        self._put(("connected", name), (sql, (*self._key(name), node_id)))

    def drop_connected(self, name: NodeName) -> None:
        sql = f"DELETE FROM connected WHERE {_OF_TPU}"
        self._put(("connected", name), (sql, self._key(name)))

    def save_environment(self, name: NodeName, record: EnvironmentRecord) -> None:
        environment = record.environment.name
        sql = "INSERT OR REPLACE INTO environments VALUES (?, ?, ?, ?, ?, ?)"
        row = (*self._key(name), environment, msgspec.json.encode(record))
        self._put(("environment", name, environment), (sql, row))

    def drop_environment(self, name: NodeName, environment: str) -> None:
        sql = f"DELETE FROM environments WHERE {_OF_TPU} AND name = ?"
        self._put(("environment", name, environment), (sql, (*self._key(name), environment)))

    def forget(self, name: NodeName) -> None:
        """Deletes all that is stored about a TPU."""
        self._put(
            ("forget", name),
            (f"DELETE FROM environments WHERE {_OF_TPU}", self._key(name)),
            (f"DELETE FROM connected WHERE {_OF_TPU}", self._key(name)),
        )

    def save_ready_time(self, name: NodeName, record: ReadyTimeRecord) -> None:
        sql = "INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?)"
        self._put(("run", name), (sql, (*self._key(name), msgspec.json.encode(record))))

    def drop_ready_time(self, name: NodeName) -> None:
        self._put(("run", name), (f"DELETE FROM runs WHERE {_OF_TPU}", self._key(name)))

    def save_guard(self, name: NodeName, record: GuardRecord) -> None:
        sql = "INSERT OR REPLACE INTO guards VALUES (?, ?, ?, ?, ?)"
        self._put(("guard", name), (sql, (*self._key(name), msgspec.json.encode(record))))

    def drop_guard(self, name: NodeName) -> None:
        self._put(("guard", name), (f"DELETE FROM guards WHERE {_OF_TPU}", self._key(name)))

    # ---- sessions ----

    def save_session(self, record: SessionRecord) -> None:
        key = ("session", record.session.id)
        self._put(key, self._database.saving("sessions", record.session.id, record))

    def drop_session(self, id: str) -> None:
        sql = "DELETE FROM sessions WHERE identity = ? AND id = ?"
        self._put(("session", id), (sql, (self._identity, id)))

    def save_session_setting(self, name: NodeName, setting: SessionSetting) -> None:
        sql = "INSERT OR REPLACE INTO session_settings VALUES (?, ?, ?, ?, ?)"
        row = (*self._key(name), msgspec.json.encode(setting))
        self._put(("session_setting", name), (sql, row))

    def drop_session_setting(self, name: NodeName) -> None:
        sql = f"DELETE FROM session_settings WHERE {_OF_TPU}"
        self._put(("session_setting", name), (sql, self._key(name)))

    # ---- home folders ----

    def save_home(self, record: HomeRecord) -> None:
        self._put(("home", record.id), self._database.saving("homes", record.id, record))

    def drop_home(self, id: str) -> None:
        sql = "DELETE FROM homes WHERE identity = ? AND id = ?"
        self._put(("home", id), (sql, (self._identity, id)))

    # ---- operations ----

    def save_operation(self, record: OperationRecord) -> None:
        operation = record.operation
        self._put(("operation", operation.id), saving_operation(record, self._identity))
        if operation.state != "running":
            self._put(("prune",), *pruning())

    def drop_operation(self, id: str) -> None:
        self._put(("operation", id), ("DELETE FROM operations WHERE id = ?", (id,)))

    def save_request(self, id: str, request: OperationRequest) -> None:
        """What the process that runs an operation is to do; it is dropped when that has ended."""
        sql = "INSERT OR REPLACE INTO requests VALUES (?, ?)"
        self._put(("request", id), (sql, (id, request)))

    def drop_request(self, id: str) -> None:
        self._put(("request", id), ("DELETE FROM requests WHERE operation = ?", (id,)))

    async def add_operation(self, record: OperationRecord) -> bool:
        """Saves a new running operation; False, and it is not saved, if another one of its kind
        runs for a TPU of its name. Of several processes that do it at once, one succeeds.
        """
        await self.flush()  # one that has just ended here does not count
        return await self._retry_locked(lambda: self._database.add_operation(record))

    async def save_operation_if(
        self,
        record: OperationRecord,
        check: OperationCheck,
        spending: tuple[SpendRecord, SpendCheck] | None = None,
    ) -> None:
        """Saves an operation unless *check* raises TPUError: of several processes that do it at
        once, each sees what the one before has saved. *check* is called on the store's thread.

        spending: what it adds to the ledger in the same transaction, and another such check.
        """
        await self.flush()  # what this process has asked for before counts
        statements = [self._database.operation_check(record.operation.id, check)]
        if spending is not None:
            statements += self._database.spending_change(*spending)
        statements.append(saving_operation(record, self._identity))
        await self._retry_locked(lambda: self._database.write(statements))

    async def take_over_operation(
        self, record: OperationRecord, owner: str
    ) -> OperationRecord | None:
        """Makes a running operation *owner*'s, if it is still that of the owner in *record*;
        returns it as that left it, None if another process was quicker.
        """
        id, before = record.operation.id, record.owner
        return await self._retry_locked(
            lambda: self._database.take_over_operation(id, before, owner)
        )

    # ---- tunnels ----

    def save_tunnel(self, record: TunnelRecord) -> None:
        sql = "INSERT OR REPLACE INTO tunnels VALUES (?, ?, ?, ?)"
        row = (record.id, self._identity, record.owner, msgspec.json.encode(record))
        self._put(("tunnel", record.id), (sql, row))

    def drop_tunnel(self, id: str) -> None:
        self._put(("tunnel", id), ("DELETE FROM tunnels WHERE id = ?", (id,)))

    async def claim_tunnel(self, record: TunnelRecord, owner: str) -> bool:
        """Takes over a tunnel from the process that had it; False if another was first."""
        sql = "UPDATE tunnels SET owner = ? WHERE id = ? AND owner = ?"
        swap = (sql, (owner, record.id, record.owner))
        return await self._retry_locked(lambda: self._database.write([swap])) == 1

    # ---- jobs ----

    def save_job(self, record: JobRecord) -> None:
        sql = "INSERT OR REPLACE INTO jobs VALUES (?, ?, ?)"
        row = (record.id, self._identity, msgspec.json.encode(record))
        self._put(("job", record.id), (sql, row))

    def change_job(self, id: str, change: Callable[[JobRecord], None]) -> None:
        """Changes a job as the file has it then, whoever has written that; does nothing if the job
        was removed. *change* is called on the store's thread, again after an error.
        """
        self._put(("job", id, self._put_count), job_change(id, change))

    def drop_job(self, id: str) -> None:
        self._put(("job", id), ("DELETE FROM jobs WHERE id = ?", (id,)))

    # ---- grants and prices ----

    def save_grant(self, grant: Grant) -> None:
        sql = "INSERT OR REPLACE INTO grants VALUES (?, ?, ?)"
        row = (self._identity, grant.name, msgspec.json.encode(grant))
        self._put(("grant", grant.name), (sql, row))

    def drop_grant(self, name: str) -> None:
        sql = "DELETE FROM grants WHERE identity = ? AND name = ?"
        self._put(("grant", name), (sql, (self._identity, name)))

    def save_prices(self, prices: PriceList) -> None:
        sql = "INSERT OR REPLACE INTO prices VALUES (?, ?)"
        self._put(("prices",), (sql, (self._identity, msgspec.json.encode(prices))))

    # ---- budgets, plans and what was spent ----

    def save_budget(self, budget: Budget) -> None:
        self._put(("budget", budget.who), self._database.saving("budgets", budget.who, budget))

    def drop_budget(self, who: str) -> None:
        sql = "DELETE FROM budgets WHERE identity = ? AND id = ?"
        self._put(("budget", who), (sql, (self._identity, who)))

    def save_spending(self, record: SpendRecord) -> None:
        key = ("spending", record.id)
        self._put(key, self._database.saving("spending", record.id, record))

    def save_plan(self, plan: Plan) -> None:
        self._put(("plan", plan.id), self._database.saving("plans", plan.id, plan))

    def drop_plan(self, id: str) -> None:
        sql = "DELETE FROM plans WHERE identity = ? AND id = ?"
        self._put(("plan", id), (sql, (self._identity, id)))

    def save_agent_tpu(self, record: CodingAgentTPURecord) -> None:
        id = _agent_tpu(record)
        self._put(("agent_tpu", id), self._database.saving("agent_tpus", id, record))

    def drop_agent_tpu(self, record: CodingAgentTPURecord) -> None:
        sql, id = "DELETE FROM agent_tpus WHERE identity = ? AND id = ?", _agent_tpu(record)
        self._put(("agent_tpu", id), (sql, (self._identity, id)))

    async def change_spending(self, record: SpendRecord, check: SpendCheck) -> None:
        """Saves a line of the ledger unless *check* raises, which runs on the store's thread."""
        await self.flush()
        statements = self._database.spending_change(record, check)
        await self._retry_locked(lambda: self._database.write(statements))

    async def change_plan(self, id: str, change: Callable[[Plan], None]) -> bool:
        """Applies *change* to a plan as it is stored, also by other processes; False if there is
        none. What *change* raises leaves it as it was. It is called on the store's thread.
        """
        await self.flush()
        statement = self._database.plan_change(id, change)
        return await self._retry_locked(lambda: self._database.write([statement])) == 1

    # ---- inside ----

    def _key(self, name: NodeName) -> tuple[str, str, str, str]:
        return (self._identity, name.project, name.zone, name.node)

    def _put(self, key: Hashable, *statements: Statement) -> None:
        """Replaces what waits to be written under the same key."""
        self._pending.pop(key, None)
        self._pending[key] = list(statements)  # last: a later change of another key stays later
        self._put_count += 1
        self._wake.set()

    def _know(self, snapshot: Snapshot) -> None:
        self._database.know(snapshot)
        self.snapshot = snapshot

    async def _write(self) -> None:
        """Saves what is put, until it is cancelled."""
        pause = PAUSES.first
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._pending:
                batch, count = dict(self._pending), self._put_count
                statements = [statement for write in batch.values() for statement in write]
                try:
                    await self._call(lambda rows=statements: self._database.write(rows))  # type: ignore[misc]
                except Exception as error:
                    self._failed(error)
                    if not await self._write_one_by_one(batch):
                        await asyncio.sleep(pause)
                        pause = PAUSES.next(pause)
                        continue
                pause = PAUSES.first
                self._forget(batch)
                self._saved(count)

    async def _write_one_by_one(self, batch: Mapping[Hashable, list[Statement]]) -> bool:
        """Saves what can be saved of a *batch* that failed as a whole, so that a change which can
        never be saved keeps no other from it: that one is given up, and logged.

        Returns False if the file can't be written now; then all that is not saved waits.
        """
        failed: dict[Hashable, Exception] = {}
        for key, write in batch.items():
            try:
                await self._call(lambda rows=write: self._database.write(rows))  # type: ignore[misc]
            except Exception as error:
                if is_of_file(error):
                    return False
                failed[key] = error
            else:
                self._forget({key: write})
        for key, why in failed.items():
            log.error("The change of %s can't be saved, and is given up.", key, exc_info=why)
        return True

    def _forget(self, batch: Mapping[Hashable, list[Statement]]) -> None:
        """Those need not be written any more, unless another change of the same has been put."""
        for key, write in batch.items():
            if self._pending.get(key) is write:
                del self._pending[key]

    def _saved(self, count: int) -> None:
        if self.problem is not None:
            log.warning("The state of your TPUs is saved again.")
            self.problem = None
        self._written_count = count
        for waiter in self._waiters:
            if waiter.target <= count and not waiter.done.done():
                waiter.done.set_result(None)

    def _failed(self, error: Exception) -> None:
        locked, now = is_locked(error), asyncio.get_running_loop().time()
        problem = self._explain(error)
        for waiter in self._waiters:
            if (not locked or now > waiter.deadline) and not waiter.done.done():
                waiter.done.set_exception(problem)
        if self.problem is None:
            log.warning("%s Will be retried.", problem)
        self.problem = problem

    async def _retry_locked(self, function: Callable[[], _T], patience: float = LOCK_WAIT) -> _T:
        """Calls *function* on the thread, again while the file is locked; raises TPUError."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + patience
        for pause in PAUSES_LOCKED:
            try:
                return await self._call(function)
            except (sqlite3.Error, OSError) as error:
                if not is_locked(error) or loop.time() > deadline:
                    raise self._explain(error) from error
            await asyncio.sleep(pause)
        raise AssertionError  # the pauses have no end

    def _explain(self, error: Exception) -> TPUError:
        return self._database.explain(error)

    async def _call(self, function: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function)


def _agent_tpu(record: CodingAgentTPURecord) -> str:
    return f"{record.project}/{record.zone}/{record.tpu}"
