"""Operations of one process, and what is cancelled for another one."""

import asyncio

from jupyter_tpu.cloud.models import NodeName
from jupyter_tpu.fleet.core.known_operations import OperationProgress
from jupyter_tpu.fleet.core.operation_runner import OperationRunner
from jupyter_tpu.fleet.core.state_folder import ProcessLease
from jupyter_tpu.fleet.core.store import Store

NAME = NodeName("p", "us-west4-a", "my-tpu")


async def endless(_progress: OperationProgress) -> None:
    await asyncio.Event().wait()


async def nothing(_progress: OperationProgress) -> None:
    """It is done at once."""


async def test_what_begins_when_a_change_of_packages_was_cancelled_is_cancelled_too(tmp_path):
    store = await Store.open(tmp_path / "fleet.sqlite", "emulator:x")
    begun: list[str] = []
    following: set[asyncio.Task[object]] = set()

    async def begin() -> None:
        operation = await runner.start(runner.new_record("environment", NAME), endless)
        begun.append(operation.id)

    def follow(_name: NodeName) -> None:
        if len(begun) < 3:  # the other hosts follow host 0
            following.add(asyncio.ensure_future(begin()))

    lease = ProcessLease(tmp_path / "owners")
    runner = OperationRunner(store, lease)
    runner.ended.add(follow)
    await begin()
    await runner.cancel_connects(NAME, 10.0)
    deletion = await runner.start_exclusive(runner.new_record("delete", NAME), nothing)
    await asyncio.wait([process.task for process in runner.known.running.values() if process.task])
    assert [runner.known.get(id).state for id in begun] == ["cancelled"] * len(begun)
    assert len(begun) > 1
    assert runner.known.get(deletion.id).state == "done"
    await runner.close()
    await store.close()
    lease.close()
