"""Sessions are deleted when they were not saved for as long as was chosen, and only then."""

from types import SimpleNamespace
from typing import Any

from jupyter_tpu.cloud import NodeName
from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.fleet.core.records import SessionRecord
from jupyter_tpu.fleet.models import Session
from jupyter_tpu.fleet.sessions.retention import SessionRetention

GONE, OTHER = NodeName("p", "z", "gone"), NodeName("p", "z", "other")
PLACE = "gs://my-bucket/sessions"


class World:
    """An index with one session that has expired, and hosts that can be reached."""

    def __init__(self, place: str, *, problem: TPUError | None = None) -> None:
        session = Session(id="s1", name="train", tpu="gone", zone="z", place=place)
        self.record = SessionRecord(
            project="p", zone="z", tpu="gone", session=session, node_id="n1", keep_days=1
        )
        self.problem = problem
        self.refreshed: list[tuple[NodeName, str]] = []
        self.forgotten: list[tuple[NodeName, str]] = []
        self.deleted_here: list[str] = []
        self.expired = [self.record]

    def retention(self, *reachable: NodeName) -> SessionRetention:
        async def refresh(name: NodeName, places: set[str]) -> list[TPUError]:
            self.refreshed += [(name, place) for place in places]
            return [self.problem] if self.problem is not None else []

        async def forget(name: NodeName, session: Session) -> bool:
            self.forgotten.append((name, session.name))
            return True

        hosts: Any = SimpleNamespace(
            can_reach=lambda name: name in reachable, refresh=refresh, forget=forget
        )
        index: Any = SimpleNamespace(
            expired=lambda now: self.expired,
            find=lambda id: self.record.session,
            drop=lambda id: None,
        )
        core: Any = SimpleNamespace(
            observed=SimpleNamespace(node=lambda name: None),
            desired=SimpleNamespace(connected={OTHER: "n2"}),
        )
        computer: Any = SimpleNamespace(delete=self._delete_here)
        return SessionRetention(core, index, hosts, computer)

    async def _delete_here(self, session: Session) -> None:
        self.deleted_here.append(session.name)


async def test_what_a_tpu_that_is_gone_has_left_in_a_bucket_is_deleted_by_another_one():
    world = World(PLACE)
    await world.retention(OTHER).delete_expired(1e9)
    assert world.refreshed == [(OTHER, PLACE)]
    assert world.forgotten == [(OTHER, "train")]


async def test_what_is_on_this_computer_is_deleted_without_a_host():
    world = World("computer")
    await world.retention().delete_expired(1e9)
    assert (world.deleted_here, world.refreshed) == (["train"], [])


async def test_nothing_is_deleted_where_no_host_can_say_what_is_there():
    world = World(PLACE)
    await world.retention().delete_expired(1e9)
    assert world.forgotten == []
    world = World(PLACE, problem=TPUError("403", Reason.PERMISSION))
    await world.retention(OTHER).delete_expired(1e9)
    assert world.forgotten == []


async def test_what_was_saved_again_meanwhile_stays():
    world = World(PLACE)
    retention = world.retention(OTHER)
    answers = [[world.record], []]
    retention._index.expired = lambda now: answers.pop(0)
    await retention.delete_expired(1e9)
    assert world.refreshed
    assert world.forgotten == []


async def test_a_session_on_the_disk_of_another_node_is_nobodys_to_delete():
    world = World("")
    await world.retention(OTHER, GONE).delete_expired(1e9)
    assert world.forgotten == []
