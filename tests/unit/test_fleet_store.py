"""Desired state survives, belongs to one cloud, and is readable by its owner only."""

from __future__ import annotations

import os
import sqlite3
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from jupyter_tpu.cloud.models import NodeName
from jupyter_tpu.errors import TPUError
from jupyter_tpu.fleet.models import ConnectTPU, Environment, Operation
from jupyter_tpu.fleet.operations.runner import OperationRunner
from jupyter_tpu.fleet.reconcile.takeover import Takeover
from jupyter_tpu.fleet.store.database import KEEP_AT_MOST, Store
from jupyter_tpu.fleet.store.process_lease import ProcessLease
from jupyter_tpu.fleet.store.records import EnvironmentRecord, NodeClaim, OperationRecord

NAME = NodeName("p", "us-west4-a", "my-tpu")


def record(name: str = "default") -> EnvironmentRecord:
    return EnvironmentRecord(
        node_id="7",
        wanted=ConnectTPU(environment=name, packages=["flax"]),
        environment=Environment(name=name, tpu="my-tpu", zone="us-west4-a", state="ready"),
    )


def operation(id: str, kind: str = "connect", **fields: object) -> Operation:
    now = datetime.now(UTC).isoformat()
    return Operation(id=id, kind=kind, tpu="my-tpu", zone="us-west4-a", created=now, **fields)


def test_what_was_written_is_read_by_the_next_process(tmp_path: Path) -> None:
    first = Store(tmp_path / "fleet.sqlite", "google")
    first.set_connected(NAME, "7")
    first.save_environment(NAME, record())
    first.close()
    second = Store(tmp_path / "fleet.sqlite", "google")
    assert second.connected() == {NAME: "7"}
    assert second.environments() == {NAME: {"default": record()}}


def test_an_emulator_sees_nothing_of_googles_tpus(tmp_path: Path) -> None:
    google = Store(tmp_path / "fleet.sqlite", "google")
    google.set_connected(NAME, "7")
    emulator = Store(tmp_path / "fleet.sqlite", "emulator:1")
    assert emulator.connected() == {}
    emulator.forget(NAME)
    assert google.connected() == {NAME: "7"}


def test_the_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    store = Store(tmp_path / "fleet.sqlite", "google")
    store.set_connected(NAME, "7")
    for path in tmp_path.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_forgetting_a_tpu_drops_all_of_it_and_nothing_else(tmp_path: Path) -> None:
    store = Store(tmp_path / "fleet.sqlite", "google")
    other = NodeName("p", "us-west4-a", "other")
    for name in (NAME, other):
        store.set_connected(name, "7")
        store.save_environment(name, record())
    store.forget(NAME)
    assert list(store.connected()) == list(store.environments()) == [other]


def test_writes_of_another_process_are_noticed(tmp_path: Path) -> None:
    store, other = (Store(tmp_path / "fleet.sqlite", "google") for _ in range(2))
    store.set_connected(NAME, "7")
    assert not store.changed_elsewhere()
    other.drop_connected(NAME)
    assert store.changed_elsewhere()
    assert not store.changed_elsewhere()


def test_only_lately_ended_operations_are_kept(tmp_path: Path) -> None:
    store = Store(tmp_path / "fleet.sqlite", "google")
    now = datetime.now(UTC)
    for number in range(KEEP_AT_MOST + 5):
        ended = (now - timedelta(minutes=number)).isoformat()
        done = operation(f"new-{number}", state="done", ended=ended)
        store.save_operation(OperationRecord(operation=done, project="p", owner="x"))
    long_ago = (now - timedelta(days=9)).isoformat()
    old = operation("old", state="failed", ended=long_ago)
    store.save_operation(OperationRecord(operation=old, project="p", owner="x"))
    running = operation("running")
    store.save_operation(OperationRecord(operation=running, project="p", owner="x"))
    store.prune()
    kept = {record.operation.id for record in store.operations()}
    assert {"running", "new-0"} <= kept
    assert "old" not in kept
    assert len(kept) == KEEP_AT_MOST + 1


def test_a_row_that_can_not_be_read_is_left_out_and_takes_nothing_along(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = Store(tmp_path / "fleet.sqlite", "google")
    for name in ("default", "other"):
        store.save_environment(NAME, record(name))
    for id in ("1", "2"):
        store.save_operation(OperationRecord(operation=operation(id), project="p", owner="o"))
    with sqlite3.connect(tmp_path / "fleet.sqlite") as file:
        file.execute("UPDATE environments SET record = '{}' WHERE name = 'other'")
        file.execute("UPDATE operations SET record = 'x' WHERE id = '1'")
        file.execute("INSERT INTO tunnels VALUES ('3', 'google', 'o', '{}')")
    assert list(store.environments()[NAME]) == ["default"]
    assert [read.operation.id for read in store.operations()] == ["2"]
    assert store.tunnels() == []
    assert len(caplog.messages) == 3


def test_a_damaged_file_is_explained(tmp_path: Path) -> None:
    (tmp_path / "fleet.sqlite").write_bytes(b"this is no database, but it is long enough" * 30)
    with pytest.raises(TPUError, match="Move the file away"):
        Store(tmp_path / "fleet.sqlite", "google")


def test_a_file_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "fleet.sqlite"
    Store(path, "google").close()
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 99")
    with pytest.raises(TPUError, match="newer jupyter-tpu"):
        Store(path, "google")


def test_a_living_process_is_told_from_a_dead_one(tmp_path: Path) -> None:
    mine, other = ProcessLease(tmp_path / "owners"), ProcessLease(tmp_path / "owners")
    assert mine.alive(mine.id)
    assert mine.alive(other.id)
    other.close()
    assert not mine.alive(other.id)
    assert not mine.alive("never-was")


class Resumed:
    """In place of the services that resume operations: remembers what they were given."""

    def __init__(self) -> None:
        self.ids: list[str] = []

    def resume(self, record: OperationRecord) -> None:
        self.ids.append(record.operation.id)


def take_over(
    store: Store, lease: ProcessLease, *, supervise: bool
) -> tuple[OperationRunner, list]:
    runner = OperationRunner(store, lease, changed=lambda *_: None, ended=lambda _: None)
    runner.load()
    resumed = Resumed()
    Takeover(runner, resumed, resumed, runner.load, supervise=supervise).check()  # type: ignore[arg-type]
    connects = [record.operation.id for record in runner.resumable.values()]
    return runner, sorted(resumed.ids + connects)


def test_what_killed_processes_left_is_cleared_away_and_living_ones_are_not(
    tmp_path: Path,
) -> None:
    living, recent, old = ProcessLease(tmp_path), tmp_path / "b.lock", tmp_path / "c.lock"
    recent.touch()
    old.touch()
    for path in (old, tmp_path / f"{living.id}.lock"):
        os.utime(path, (0, 0))
    other = ProcessLease(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted(
        [recent, tmp_path / f"{living.id}.lock", tmp_path / f"{other.id}.lock"]
    )
    other.close()
    living.close()


def left(
    id: str, kind: str, owner: str = "dead", *, want: str = "", created: str = ""
) -> OperationRecord:
    """An operation that runs, of a process."""
    claim = NodeClaim(want=want, since=0.0) if want else None
    made = operation(id, kind)
    made.created = created or made.created
    return OperationRecord(operation=made, project="p", owner=owner, claim=claim)


LONG_AGO = "2026-01-01T00:00:00.000Z"


def test_operations_of_a_dead_process_are_resumed_or_said_to_be_interrupted(
    tmp_path: Path,
) -> None:
    store = Store(tmp_path / "fleet.sqlite", "google")
    alive = ProcessLease(tmp_path / "owners")
    for record in (
        left("connect", "connect"),
        left("create", "create", want="present"),
        left("cancelled", "create", want="absent"),
        left("delete", "delete", want="absent", created=LONG_AGO),
        left("stop", "stop"),
        left("old stop", "stop", created=LONG_AGO),
        left("profile", "profile"),
        left("living", "create", alive.id, want="present"),
    ):
        store.save_operation(record)
    runner, resumed = take_over(store, ProcessLease(tmp_path / "owners"), supervise=True)
    assert resumed == ["cancelled", "connect", "create", "delete", "stop"]
    stopped = runner.get("old stop")
    assert stopped.state == "failed"
    assert stopped.problem is not None
    assert stopped.problem.reason == "INTERRUPTED"
    assert stopped.problem.hint == "If the TPU stays READY, stop it again."
    assert runner.get("profile").state == "failed"
    assert runner.get("living").state == "running"
    # They have a living owner now: nobody else takes them over.
    _, resumed = take_over(store, ProcessLease(tmp_path / "owners"), supervise=True)
    assert resumed == []


def test_of_two_processes_one_takes_an_operation_over(tmp_path: Path) -> None:
    store = Store(tmp_path / "fleet.sqlite", "google")
    store.save_operation(left("a", "create", want="present"))
    runners = []
    for _ in range(2):
        lease = ProcessLease(tmp_path / "owners")
        runners.append(OperationRunner(store, lease, changed=lambda *_: None, ended=lambda _: None))
        runners[-1].load()
    [mine], [theirs] = (runner.abandoned() for runner in runners)
    assert runners[0].take_over(mine)
    assert not runners[1].take_over(theirs)
    assert theirs.owner == "dead"


def test_a_command_beside_no_server_continues_deletions_only(tmp_path: Path) -> None:
    store = Store(tmp_path / "fleet.sqlite", "google")
    for record in (
        left("connect", "connect"),
        left("create", "create", want="present"),
        left("cancelled", "create", want="absent"),
    ):
        store.save_operation(record)
    runner, resumed = take_over(store, ProcessLease(tmp_path / "owners"), supervise=False)
    assert resumed == ["cancelled"]
    problem = runner.get("connect").problem
    assert problem is not None
    assert problem.hint == "Connect again. It continues where it stopped."
    assert runner.get("create").state == "running"
    _, resumed = take_over(store, ProcessLease(tmp_path / "owners"), supervise=True)
    assert resumed == ["connect", "create"]
