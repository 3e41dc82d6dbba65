"""The jobs that are known: what was asked for, and what their hosts last reported."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import structs

from ..models import HostJob, JobAttempt
from ..models.times import timestamp
from ..store.records import JobRecord
from ..store.store import Store

#: So many attempts of a job are kept.
ATTEMPTS = 20


class JobRecords:
    """The records of one fleet, kept in the store.

    changed(id) is called when something about a job may have changed.
    """

    def __init__(self, store: Store, changed: Callable[[str], None]) -> None:
        self._store = store
        self._changed = changed
        self._records = {record.id: record for record in store.snapshot.jobs}

    def all(self) -> list[JobRecord]:
        """The oldest first."""
        return sorted(self._records.values(), key=lambda record: (record.created, record.id))

    def get(self, id: str) -> JobRecord | None:
        return self._records.get(id)

    def host_job(self, id: str, host: int) -> HostJob | None:
        """What is known of the current attempt on one host."""
        record = self._records.get(id)
        hosts = record.attempts[-1].hosts if record is not None else []
        return next((each for each in hosts if each.host == host), None)

    def save(self, record: JobRecord) -> None:
        self._records[record.id] = record
        self._store.save_job(record)
        self._changed(record.id)

    def drop(self, record: JobRecord) -> None:
        self._records.pop(record.id, None)
        self._store.drop_job(record.id)
        self._changed(record.id)

    async def flush(self) -> None:
        """Returns when all changes are on disk; see `Store.flush`."""
        await self._store.flush()

    def update(self, record: JobRecord, each: HostJob, **fields: Any) -> bool:
        """Changes what is known of a job on a host; False if it was known."""
        if all(getattr(each, name) == value for name, value in fields.items()):
            return False
        for name, value in fields.items():
            setattr(each, name, value)
        starting = any(host.state == "starting" for host in record.attempts[-1].hosts)
        if not starting and not record.request.restart_with_tpu:
            # Not needed any more, and maybe secret.
            hidden = dict.fromkeys(record.request.variables, "")
            record.request = structs.replace(record.request, variables=hidden)
        self.save(record)
        return True

    def reload(self, records: Iterable[JobRecord]) -> None:
        """Takes over what other processes have written."""
        stored = {record.id: record for record in records}
        for id in self._records.keys() | stored.keys():
            if self._records.get(id) != stored.get(id):
                self._changed(id)
        self._records = stored


def begin_attempt(record: JobRecord) -> None:
    """The job is to be started (again) on all its hosts."""
    number = record.attempts[-1].number + 1 if record.attempts else 1
    hosts = [HostJob(host=host) for host in record.hosts]
    attempt = JobAttempt(number=number, created=timestamp("seconds"), hosts=hosts)
    record.attempts = [*record.attempts, attempt][-ATTEMPTS:]
    record.taken = False
