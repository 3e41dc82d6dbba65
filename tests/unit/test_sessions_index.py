"""The index of sessions: what kernels and hosts say, what ends with a TPU, and what expires."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest_asyncio

from jupyter_tpu.cloud import NodeName
from jupyter_tpu.fleet.core.store import Store
from jupyter_tpu.fleet.models import Kernel, SessionSetting
from jupyter_tpu.fleet.sessions.index import DAY_SECONDS, SessionIndex
from jupyter_tpu.subscribers import Subscribers

NAME = NodeName("p", "z", "my-tpu")
PLACE = "gs://my-bucket/sessions"
KERNEL = Kernel(
    id="k1", tpu="my-tpu", zone="z", environment="default", state="idle", notebook="train.ipynb"
)


class World:
    """A store, and the nodes that there are."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.nodes = {NAME: SimpleNamespace(id="node-1")}
        self.gone: list[Any] = []
        self.changed: list[str] = []
        self.again: list[NodeName] = []
        self.reloaded = Subscribers[Any]()

    def index(self) -> SessionIndex:
        core: Any = SimpleNamespace(
            store=self.store,
            observed=SimpleNamespace(node=self.nodes.get),
            shared=SimpleNamespace(reloaded=self.reloaded),
            tpus=SimpleNamespace(register=lambda _: None),
            connected=SimpleNamespace(
                ends_with_tpu=self.gone.append, register_again=self.again.append
            ),
            changes=SimpleNamespace(
                register=lambda *_: None,
                mark_changed=lambda _, id: self.changed.append(id),
                mark_tpu_changed=lambda _: None,
            ),
        )
        return SessionIndex(core)


@pytest_asyncio.fixture
async def world(tmp_path: Path):
    store = await Store.open(tmp_path / "fleet.sqlite", "google")
    yield World(store)
    await store.close()


def saved(name: str = "train", place: str = PLACE, at: float = 1000.0) -> Any:
    return {
        "name": name, "place": place, "variables": 3, "missing": [["loader", "a generator"]],
        "missing_count": 1, "size": 100, "saved": at, "tpu": "my-tpu", "zone": "z",
    }  # fmt: skip


def listed(name: str = "train", at: float = 1000.0, **more: Any) -> Any:
    return {"name": name, "saved": at, "variables": 3, "tpu": "my-tpu", "size": 100, **more}


async def test_a_session_in_a_bucket_is_known_after_its_tpu_is_gone_and_one_on_its_disk_is_not(
    world,
):
    index = world.index()
    index.note_saved(NAME, KERNEL, saved())
    index.note_saved(NAME, KERNEL, saved("on-disk", ""))
    assert [session.name for session in index.on_disk("node-1")] == ["on-disk"]
    for end in world.gone:
        end(NAME)
    await world.store.flush()
    snapshot = await world.store.refresh()
    assert snapshot is None or [r.session.name for r in snapshot.sessions] == ["train"]
    assert [session.name for session in index.all()] == ["train"]


async def test_a_place_that_is_no_bucket_is_not_believed(world):
    index = world.index()
    assert index.note_saved(NAME, KERNEL, saved(place="gs://../../etc")) is None
    assert index.note_saved(NAME, KERNEL, saved(place="/etc")) is None
    assert index.all() == []


async def test_only_what_was_chosen_to_expire_does_and_never_what_is_not_this_users(world):
    index = world.index()
    index.note_saved(NAME, KERNEL, saved("by-hand"))
    assert index.expired(1e12) == []
    index.choose(NAME, SessionSetting(place=PLACE, keep_days=2))
    [record] = index.expired(1000.0 + 2 * DAY_SECONDS + 1)
    assert record.session.name == "by-hand"
    assert index.expired(1000.0 + 2 * DAY_SECONDS - 1) == []
    # Another person's, one of a newer version, and one that another TPU has saved.
    why = "The session theirs in gs://my-bucket/sessions is signed with another key"
    reports = [
        listed("by-hand", at=1e9),
        {"name": "theirs", "problem": why},
        listed("elsewhere", tpu="other-tpu"),
    ]
    index.note_listed(NAME, "node-1", 0, PLACE, reports)
    problems = {session.name: session.problem for session in index.all()}
    assert problems.keys() == {"by-hand", "theirs", "elsewhere"}
    assert [problem.message for problem in problems.values() if problem is not None] == [why]
    expired = [record.session for record in index.expired(1e9 + DAY_SECONDS)]
    assert [session.name for session in expired if session.problem is None] == []


async def test_what_a_host_does_not_list_any_more_is_gone(world):
    index = world.index()
    index.note_saved(NAME, KERNEL, saved())
    index.note_saved(NAME, KERNEL, saved("on-disk", ""))
    index.note_listed(NAME, "node-1", 0, PLACE, [])
    assert [session.name for session in index.all()] == ["on-disk"]


async def test_the_interrupted_cell_stays_until_the_session_is_saved_again(world):
    index = world.index()
    index.note_saved(NAME, KERNEL, saved())
    kernel = Kernel(**{f: getattr(KERNEL, f) for f in KERNEL.__struct_fields__} | {"cell": "c7"})
    index.note_interrupted(NAME, kernel, "The host has stopped.")
    index.note_listed(NAME, "node-1", 0, PLACE, [listed()])
    [session] = index.all()
    assert (session.interrupted.cell, session.interrupted.kernel) == ("c7", "k1")
    assert (session.notebook, session.kernel) == ("train.ipynb", "k1")
    index.note_saved(NAME, KERNEL, saved(at=2000.0))
    assert index.all()[0].interrupted is None


async def test_the_kernel_is_known_although_the_host_was_asked_before_the_kernel_said_it(world):
    index = world.index()
    index.note_listed(NAME, "node-1", 0, PLACE, [listed()])
    assert index.all()[0].kernel == ""
    index.note_saved(NAME, KERNEL, saved())
    [session] = index.all()
    assert (session.kernel, session.notebook) == ("k1", "train.ipynb")


async def test_another_server_takes_over_what_was_chosen_and_saved(world, tmp_path):
    index = world.index()
    store = await Store.open(tmp_path / "fleet.sqlite", "google")
    other = World(store)
    theirs = other.index()
    theirs.choose(NAME, SessionSetting(place=PLACE))
    theirs.note_saved(NAME, KERNEL, saved())
    await store.flush()
    snapshot = await world.store.refresh()
    for take_over in world.reloaded:
        take_over(snapshot)
    assert index.setting(NAME) == SessionSetting(place=PLACE)
    assert [session.name for session in index.all()] == ["train"]
    assert world.again == [NAME]  # kernelspecs follow
    await store.close()
