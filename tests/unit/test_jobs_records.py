"""Jobs that several processes follow: no one overwrites what another has noted."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from jupyter_tpu.fleet.core.records import JobRecord
from jupyter_tpu.fleet.core.store import Store
from jupyter_tpu.fleet.jobs.job_records import JobRecords, begin_attempt, view
from jupyter_tpu.fleet.models import StartJob


class Process:
    """One of several that have the file open."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.jobs = JobRecords(store, lambda _id: None)

    async def reload(self) -> JobRecord | None:
        """The job, as another process may have left it."""
        await self.jobs.flush()
        snapshot = await self.store.refresh()
        if snapshot is not None:
            self.jobs.reload(snapshot.jobs)
        return self.jobs.get("j")


def job(**request: object) -> JobRecord:
    record = JobRecord(
        id="j",
        project="p",
        zone="us-west4-a",
        tpu="my-tpu",
        created="2026-01-01T00:00:00Z",
        hosts=[0, 1],
        request=StartJob(command=["true"], variables={"TOKEN": "s3cret"}, **request),
    )
    begin_attempt(record)
    return record


@pytest_asyncio.fixture
async def two(tmp_path: Path) -> AsyncIterator[tuple[Process, Process]]:
    """Two processes that know a job; neither sees what the other writes before it reloads."""
    first = Process(await Store.open(tmp_path / "fleet.sqlite", "google"))
    first.jobs.add(job())
    await first.jobs.flush()
    second = Process(await Store.open(tmp_path / "fleet.sqlite", "google"))
    yield first, second
    for process in (first, second):
        await process.store.close()


async def test_a_stop_and_two_reports_of_three_moments_are_all_kept(two):
    first, second = two

    def stop(record: JobRecord) -> None:
        record.stopped = True

    first.jobs.change("j", stop)
    await first.jobs.flush()
    second.jobs.update("j", 1, 0, state="running", started="then")
    await second.jobs.flush()
    first.jobs.update("j", 1, 1, state="ended", exit_code=0, started="then")
    for process in (first, second):
        record = await process.reload()
        states = [(host.state, host.exit_code) for host in record.attempts[-1].hosts]
        assert (record.stopped, states) == (True, [("running", None), ("ended", 0)])


async def test_an_end_that_one_has_heard_of_is_not_undone_by_an_older_report(two):
    first, second = two
    first.jobs.update("j", 1, 0, state="ended", exit_code=3, started="then")
    await first.jobs.flush()
    assert second.jobs.update("j", 1, 0, state="unknown", cause="The link is down.")
    record = await second.reload()
    ended = record.attempts[-1].hosts[0]
    assert (ended.state, ended.exit_code, ended.cause) == ("ended", 3, "")
    assert not second.jobs.update("j", 1, 0, state="running")


async def test_a_restart_that_both_begin_is_one_attempt(two):
    for process in two:
        process.jobs.begin_attempt("j", after=1)
        await process.jobs.flush()
    two[0].jobs.update("j", 1, 0, state="lost")  # of the attempt before
    record = await two[0].reload()
    assert [attempt.number for attempt in record.attempts] == [1, 2]
    assert {host.state for host in record.attempts[-1].hosts} == {"starting"}


async def test_a_job_that_one_removes_does_not_come_back_with_the_others_report(two):
    first, second = two
    first.jobs.drop("j")
    await first.jobs.flush()
    second.jobs.update("j", 1, 0, state="running", started="then")
    assert await second.reload() is None


async def test_variables_are_kept_until_no_host_can_need_them_and_are_never_shown(two):
    jobs = two[0].jobs
    record = jobs.get("j")
    jobs.update("j", 1, 0, state="running", started="then")
    # Nobody knows whether host 1 has it: it may have to be started there.
    jobs.update("j", 1, 1, state="unknown", cause="my-tpu is restarting.")
    assert record.request.variables == {"TOKEN": "s3cret"}
    jobs.update("j", 1, 1, state="running", started="then")
    assert record.request.variables == {"TOKEN": ""}
    assert view(record).variables == ["TOKEN"]
