"""Desired state survives, belongs to one cloud, and is readable by its owner only."""

import asyncio
import errno
import fcntl
import os
import sqlite3
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from refusals import raises
from waiting import eventually

from jupyter_tpu.cloud.models import NodeName
from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.fleet.core import database
from jupyter_tpu.fleet.core.database import KEEP_AT_MOST
from jupyter_tpu.fleet.core.operation_records import (
    Creation,
    Deletion,
    GuardSetting,
    HuntRecord,
    NodeClaim,
    OperationContent,
    OperationRecord,
    PlanTerms,
    QueuedOrigin,
    StateChange,
)
from jupyter_tpu.fleet.core.operation_runner import OperationRunner
from jupyter_tpu.fleet.core.records import EnvironmentRecord, TunnelRecord
from jupyter_tpu.fleet.core.state_folder import ProcessLease, network_file_system
from jupyter_tpu.fleet.core.store import Store
from jupyter_tpu.fleet.lifecycle.power import is_recent
from jupyter_tpu.fleet.models import (
    ConnectTPU,
    CreateTPU,
    Environment,
    Operation,
    QueueTPU,
    SetGuard,
    StartHunt,
)
from jupyter_tpu.fleet.reconcile.operations import Takeover

NAME = NodeName("p", "us-west4-a", "my-tpu")


def record(name: str = "default") -> EnvironmentRecord:
    return EnvironmentRecord(
        node_id="7",
        request=ConnectTPU(environment=name, packages=["flax"]),
        environment=Environment(name=name, tpu="my-tpu", zone="us-west4-a", state="ready"),
    )


def operation(id: str, kind: str = "connect", **fields: object) -> Operation:
    now = datetime.now(UTC).isoformat()
    return Operation(id=id, kind=kind, tpu="my-tpu", zone="us-west4-a", created=now, **fields)


Open = Callable[..., Awaitable[Store]]


@pytest_asyncio.fixture
async def open_store(tmp_path: Path) -> AsyncIterator[Open]:
    """Opens the same file again and again, as several processes do."""
    stores = []

    async def open_one(identity: str = "google") -> Store:
        stores.append(await Store.open(tmp_path / "fleet.sqlite", identity))
        return stores[-1]

    yield open_one
    for store in stores:
        await store.close()


async def test_what_was_written_is_read_by_the_next_process(open_store):
    first = await open_store()
    first.set_connected(NAME, "7")
    first.save_environment(NAME, record())
    await first.close()
    second = (await open_store()).snapshot
    assert second.connected == {NAME: "7"}
    assert second.environments == {NAME: {"default": record()}}


async def test_an_emulator_sees_nothing_of_googles_tpus(open_store):
    google = await open_store()
    google.set_connected(NAME, "7")
    await google.flush()
    emulator = await open_store("emulator:1")
    assert emulator.snapshot.connected == {}
    emulator.forget(NAME)
    await emulator.flush()
    assert (await open_store()).snapshot.connected == {NAME: "7"}


async def test_the_file_is_readable_by_its_owner_only(open_store, tmp_path):
    store = await open_store()
    store.set_connected(NAME, "7")
    await store.flush()
    for path in tmp_path.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


async def test_forgetting_a_tpu_drops_all_of_it_and_nothing_else(open_store):
    store = await open_store()
    other = NodeName("p", "us-west4-a", "other")
    for name in (NAME, other):
        store.set_connected(name, "7")
        store.save_environment(name, record())
    store.forget(NAME)
    store.save_environment(NAME, record("anew"))
    await store.flush()
    kept = (await open_store()).snapshot
    assert list(kept.connected) == [other]
    assert {name: list(records) for name, records in kept.environments.items()} == {
        NAME: ["anew"],
        other: ["default"],
    }


async def test_a_change_of_another_process_is_seen_once_and_never_skipped(open_store):
    store, other = await open_store(), await open_store()
    store.set_connected(NAME, "7")
    assert await store.refresh() is None, "its own changes are no news"
    other.drop_connected(NAME)
    await other.flush()
    store.save_environment(NAME, record())  # of both, none is lost
    news = await store.refresh()
    assert (news.connected, list(news.environments)) == ({}, [NAME])
    assert await store.refresh() is None


@pytest.mark.parametrize("network", ["", "nfs4"])
async def test_two_processes_that_write_at_once_see_all_of_each_other(
    open_store, monkeypatch, network
):
    """Each adds tunnels, and takes over what it sees, as servers do."""
    monkeypatch.setattr(database, "network_file_system", lambda _: network)
    seen: list[set[str]] = [set(), set()]

    async def process(number: int) -> None:
        store = await open_store()
        seen[number] = {tunnel.id for tunnel in store.snapshot.tunnels}
        for index in range(15):
            store.save_tunnel(tunnel(f"{number}-{index}"))
            seen[number].add(f"{number}-{index}")
            await asyncio.sleep(0.001)
            news = await store.refresh()
            if news is not None:
                seen[number] = {tunnel.id for tunnel in news.tunnels}
        async with asyncio.timeout(60):
            while len(seen[number]) < 30:
                if (news := await store.refresh()) is not None:
                    seen[number] = {tunnel.id for tunnel in news.tunnels}

    await asyncio.gather(process(0), process(1))
    assert seen[0] == seen[1]


def tunnel(id: str) -> TunnelRecord:
    return TunnelRecord(
        id=id,
        project="p",
        zone="z",
        tpu="t",
        node_id="7",
        host=0,
        port=1,
        local_port=1,
        address="",
        created="",
        owner="o",
    )


async def test_who_needs_something_on_disk_waits_for_another_ones_lock_and_the_loop_does_not(
    open_store, tmp_path
):
    store = await open_store()
    locked = sqlite3.connect(tmp_path / "fleet.sqlite", isolation_level=None)
    locked.execute("BEGIN IMMEDIATE")
    store.set_connected(NAME, "7")
    waiting = asyncio.create_task(store.flush())
    await eventually(lambda: store.problem is not None)
    assert store.problem.reason is Reason.UNAVAILABLE
    with pytest.raises(TPUError, match="has locked"):
        await store.flush(0.0)
    assert not waiting.done()
    locked.execute("COMMIT")
    async with asyncio.timeout(30):
        await waiting
    assert store.problem is None
    assert (await open_store()).snapshot.connected == {NAME: "7"}
    locked.close()


async def test_a_full_disk_is_reported_at_once_and_saved_when_there_is_room(open_store):
    store = await open_store()
    limit(store, 1)
    long = operation("long", log=["x" * 100_000])
    store.save_operation(OperationRecord(operation=long, project="p", owner="o"))
    with raises(Reason.DISK_FULL, "disk is full"):
        await store.flush()
    with pytest.raises(TPUError):
        await store.refresh()
    limit(store, 1 << 30)
    await eventually(lambda: store.problem is None)
    [saved] = (await open_store()).snapshot.operations
    assert saved.operation.id == "long"


def limit(store: Store, pages: int) -> None:
    """SQLite's own limit gives the same error as a full disk."""
    connection = store._database._connected
    connection.execute(f"PRAGMA max_page_count = {pages}")


async def test_a_change_that_can_never_be_saved_keeps_no_other_from_it(open_store, caplog):
    store = await open_store()
    writes: list[tuple[str, tuple[object, ...]]] = [
        ("INSERT INTO jobs VALUES (?, ?, ?)", ("j", "\ud800", b"")),
        ("INSERT INTO no_such_table VALUES (?)", ("x",)),
        ("INSERT INTO jobs VALUES (?)", ("too few",)),
    ]
    for number, write in enumerate(writes):
        store._put(("bad", number), write)
        store.save_environment(NAME, record(f"beside-{number}"))
        with pytest.raises(TPUError):  # who waits for it hears of it
            await store.flush()
        store.save_environment(NAME, record(f"later-{number}"))
        await store.flush()
    assert caplog.text.count("is given up") == len(writes)
    saved = (await open_store()).snapshot.environments[NAME]
    numbers = range(len(writes))
    assert set(saved) == {f"{when}-{n}" for when in ("beside", "later") for n in numbers}


async def test_only_lately_ended_operations_are_kept(open_store):
    store = await open_store()
    now = datetime.now(UTC)
    long_ago = (now - timedelta(days=9)).isoformat()
    running = operation("running")
    store.save_operation(OperationRecord(operation=running, project="p", owner="x"))
    old = operation("old", state="failed", ended=long_ago)
    store.save_operation(OperationRecord(operation=old, project="p", owner="x"))
    for number in range(KEEP_AT_MOST + 5):
        ended = (now - timedelta(minutes=number)).isoformat()
        done = operation(f"new-{number}", state="done", ended=ended)
        store.save_operation(OperationRecord(operation=done, project="p", owner="x"))
    await store.flush()
    kept = {record.operation.id for record in (await open_store()).snapshot.operations}
    assert {"running", "new-0"} <= kept
    assert "old" not in kept
    assert len(kept) == KEEP_AT_MOST + 1


async def test_a_row_that_can_not_be_read_is_left_out_and_takes_nothing_along(
    open_store, tmp_path, caplog
):
    store = await open_store()
    for name in ("default", "other"):
        store.save_environment(NAME, record(name))
    for id in ("1", "2"):
        store.save_operation(OperationRecord(operation=operation(id), project="p", owner="o"))
    await store.flush()
    with sqlite3.connect(tmp_path / "fleet.sqlite") as file:
        file.execute("UPDATE environments SET record = '{}' WHERE name = 'other'")
        file.execute("UPDATE operations SET record = 'x' WHERE id = '1'")
        file.execute("INSERT INTO tunnels VALUES ('3', 'google', 'o', '{}')")
    read = (await open_store()).snapshot
    assert list(read.environments[NAME]) == ["default"]
    assert [operation.operation.id for operation in read.operations] == ["2"]
    assert read.tunnels == []
    assert len(caplog.messages) == 3


CLAIM = {"want": "present", "since": 1.0, "label": "a-1", "node_id": "7"}
ASKED = {"name": "my-tpu", "type": "v4-8"}
#: What operations had of their own in version 9, and what that is now.
OF_VERSION_9: list[tuple[str, dict[str, Any], OperationContent | None]] = [
    (
        "create",
        {"create": ASKED, "claim": CLAIM, "terms": {"plan": "p", "who": "agent", "time": 60.0}},
        Creation(
            request=CreateTPU(name="my-tpu", type="v4-8"),
            claim=NodeClaim(want="present", since=1.0, label="a-1", node_id="7"),
            terms=PlanTerms(plan="p", who="agent", time=60.0),
        ),
    ),
    (
        "hunt",
        {
            "hunt": {"request": {"tpu": ASKED}, "candidates": [], "attempted": 3},
            "create": ASKED,
            "claim": CLAIM,
            "queue": {"tpu": ASKED, "valid_until": "2027-01-01"},
        },
        HuntRecord(
            request=StartHunt(tpu=CreateTPU(name="my-tpu", type="v4-8")),
            candidates=[],
            attempted=3,
            current=Creation(
                request=CreateTPU(name="my-tpu", type="v4-8"),
                claim=NodeClaim(want="present", since=1.0, label="a-1", node_id="7"),
                queue=QueueTPU(tpu=CreateTPU(name="my-tpu", type="v4-8"), valid_until="2027-01-01"),
            ),
        ),
    ),
    (
        "delete",
        {"claim": {**CLAIM, "want": "absent"}, "origin": {"name": "q"}, "for_hunt": True},
        Deletion(
            claim=NodeClaim(want="absent", since=1.0, label="a-1", node_id="7"),
            origin=QueuedOrigin(name="q"),
            for_hunt=True,
        ),
    ),
    ("stop", {"node_id": "7", "accepted": "o"}, StateChange(node_id="7", accepted="o")),
    (
        "guard",
        {"guard": {"idle": 60.0}, "node_id": "7"},
        GuardSetting(request=SetGuard(idle=60.0), node_id="7"),
    ),
    ("sync", {"node_id": "7"}, None),
]


@pytest.mark.parametrize(
    ("kind", "had", "content"), OF_VERSION_9, ids=[kind for kind, *_ in OF_VERSION_9]
)
async def test_what_an_operation_of_version_9_was_about_is_read(
    open_store, tmp_path, kind, had, content
):
    """In which each had the fields of all kinds."""
    await (await open_store()).close()
    fields = "create connect guard guard_reason claim hunt queue origin belongings sync terms"
    unused = dict.fromkeys(fields.split())
    row = {
        "operation": {"id": "a", "kind": kind, "tpu": "my-tpu", "zone": "us-west4-a"},
        **{"project": "p", "owner": "dead"},
        **{**unused, "for_hunt": False, "accepted": "", "node_id": "", "job": "", **had},
    }
    with sqlite3.connect(tmp_path / "fleet.sqlite") as file:
        file.execute("PRAGMA user_version = 9")
        for table in ("sessions", "session_settings", "homes"):
            file.execute(f"DROP TABLE {table}")
        values = ("a", "google", "running", "", msgspec.json.encode(row))
        file.execute("INSERT INTO operations VALUES (?, ?, ?, ?, ?)", values)
    store = await open_store()
    [read] = store.snapshot.operations
    assert read.content == content
    taken = await store.take_over_operation(read, "me")
    assert taken.content == content
    [saved] = (await open_store()).snapshot.operations
    assert (saved.content, saved.owner) == (content, "me")


async def test_a_damaged_file_is_explained(open_store, tmp_path):
    (tmp_path / "fleet.sqlite").write_bytes(b"this is no database, but it is long enough" * 30)
    with pytest.raises(TPUError, match="Move the file away"):
        await open_store()


async def test_a_file_of_a_newer_version_is_left_alone(open_store, tmp_path):
    await (await open_store()).close()
    with sqlite3.connect(tmp_path / "fleet.sqlite") as file:
        file.execute("PRAGMA user_version = 99")
    with pytest.raises(TPUError, match="newer jupyter-tpu"):
        await open_store()


@pytest.mark.parametrize(("network", "journal"), [("", "wal"), ("nfs4", "delete")])
async def test_a_home_on_nfs_has_a_rollback_journal(
    open_store, tmp_path, monkeypatch, network, journal
):
    await (await open_store()).close()  # with the write-ahead log, when the home was local
    monkeypatch.setattr(database, "network_file_system", lambda _: network)
    store = await open_store()
    store.set_connected(NAME, "7")
    await store.flush()
    with sqlite3.connect(tmp_path / "fleet.sqlite") as file:
        assert file.execute("PRAGMA journal_mode").fetchone() == (journal,)
    assert (await open_store()).snapshot.connected == {NAME: "7"}


MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
90 22 0:50 / /home rw,relatime shared:2 - nfs4 server:/home rw,vers=4.2
91 90 0:51 / /home/me/my\\040disk rw shared:3 - xfs /dev/sdb1 rw
92 22 0:52 / /mnt/bucket rw - fuse.gcsfuse bucket rw
"""


def test_the_file_system_of_a_folder_is_that_of_its_nearest_mount(tmp_path):
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS)
    for path, kind in {
        "/home/me/.local/share": "nfs4",
        "/home/me/my disk/jupyter": "",
        "/homework": "",
        "/mnt/bucket": "fuse.gcsfuse",
        "/var": "",
    }.items():
        assert network_file_system(Path(path), mounts) == kind
    assert network_file_system(tmp_path) == ""
    assert network_file_system(tmp_path, tmp_path / "missing") == ""


def test_a_folder_in_which_nothing_can_be_locked_says_what_to_set(tmp_path, monkeypatch):
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(TPUError, match="set JUPYTER_TPU_DATA_DIR"):
        ProcessLease(tmp_path / "owners")


def test_a_living_process_is_told_from_a_dead_one(tmp_path):
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


async def take_over(
    store: Store, lease: ProcessLease, *, supervise: bool
) -> tuple[OperationRunner, list]:
    runner = OperationRunner(store, lease)
    runner.load(store.snapshot.operations, {})
    resumed = Resumed()
    for kind in ("create", "delete"):
        runner.register_resume(kind, resumed.resume)
    runner.register_resume("start", resumed.resume, is_recent)
    runner.register_resume("stop", resumed.resume)
    runner.register_resume("connect", runner.keep_until_seen)
    takeover = Takeover(runner, nothing, supervise=supervise)
    await takeover.check()
    await store.flush()
    connects = [record.operation.id for record in runner.known.resumable.values()]
    return runner, sorted(resumed.ids + connects)


async def nothing() -> None:
    """There is nothing to reload."""


def test_what_killed_processes_left_is_cleared_away_and_living_ones_are_not(tmp_path):
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
    content: Creation | Deletion | StateChange | None = None
    if want:
        claim = NodeClaim(want=want, since=0.0)
        content = Deletion(claim=claim)
        if kind == "create":
            content = Creation(request=CreateTPU(name="my-tpu", type="v4-8"), claim=claim)
    made = operation(id, kind)
    made.created = created or made.created
    return OperationRecord(operation=made, project="p", owner=owner, content=content)


LONG_AGO = "2026-01-01T00:00:00.000Z"


async def test_operations_of_a_dead_process_are_resumed_or_reported_as_interrupted(
    open_store, tmp_path
):
    store = await open_store()
    alive = ProcessLease(tmp_path / "owners")
    for record in (
        left("connect", "connect"),
        left("create", "create", want="present"),
        left("cancelled", "create", want="absent"),
        left("delete", "delete", want="absent", created=LONG_AGO),
        left("stop", "stop"),
        left("old stop", "stop", created=LONG_AGO),
        left("start", "start"),
        left("old start", "start", created=LONG_AGO),
        left("profile", "profile"),
        left("living", "create", alive.id, want="present"),
    ):
        store.save_operation(record)
    await store.flush()
    first, second = await open_store(), await open_store()
    runner, resumed = await take_over(first, ProcessLease(tmp_path / "owners"), supervise=True)
    # A deletion and a stop end costs, however late; a start begins some.
    expected = ["cancelled", "connect", "create", "delete", "old stop", "start", "stop"]
    assert resumed == expected
    started = runner.known.get("old start")
    assert started.state == "failed"
    assert started.problem.reason == "INTERRUPTED"
    assert started.problem.hint == "If the TPU stays STOPPED, start it again."
    assert runner.known.get("profile").state == "failed"
    assert runner.known.get("living").state == "running"
    # They have a living owner now, which a process that has not read that yet learns, too.
    _, resumed = await take_over(second, ProcessLease(tmp_path / "owners"), supervise=True)
    assert resumed == []


async def test_of_two_processes_one_takes_an_operation_over(open_store, tmp_path):
    store = await open_store()
    store.save_operation(left("a", "create", want="present"))
    await store.flush()
    runners = []
    for _ in range(2):
        lease, opened = ProcessLease(tmp_path / "owners"), await open_store()
        runners.append(OperationRunner(opened, lease))
        runners[-1].load(opened.snapshot.operations, {})
    [mine], [theirs] = (runner.abandoned() for runner in runners)
    # What its process did last is not lost, though nobody has read it since.
    lately = msgspec.structs.replace(mine, content=StateChange(node_id="7"))
    store.save_operation(lately)
    await store.flush()
    taken = await runners[0].take_over(mine)
    assert (taken.of(StateChange).node_id, taken.owner) == ("7", runners[0]._lease.id)
    assert await runners[1].take_over(theirs) is None


async def test_a_command_beside_no_server_continues_what_ends_costs_only(open_store, tmp_path):
    store = await open_store()
    for record in (
        left("connect", "connect"),
        left("create", "create", want="present"),
        left("cancelled", "create", want="absent"),
        left("stop", "stop"),
        left("start", "start"),
    ):
        store.save_operation(record)
    await store.flush()
    lease = ProcessLease(tmp_path / "owners")
    runner, resumed = await take_over(await open_store(), lease, supervise=False)
    assert resumed == ["cancelled", "stop"]
    problem = runner.known.get("connect").problem
    assert problem.hint == "Connect again. It continues where it stopped."
    assert runner.known.get("create").state == "running"
    server = ProcessLease(tmp_path / "owners")
    _, resumed = await take_over(await open_store(), server, supervise=True)
    assert resumed == ["connect", "create", "start"]
