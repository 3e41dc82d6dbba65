"""The emulator's objects on disk: what a bound, a restart and a kill leave."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from jupyter_tpu.emulator.model.api_errors import ApiError
from jupyter_tpu.emulator.storage import Buckets
from jupyter_tpu.emulator.storage.records import Conditions, ObjectRecord
from jupyter_tpu.emulator.storage.uploads import GRANULE_BYTES, Uploads


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "storage"


def opened(folder: Path, limit: int = 10 * 2**20) -> Buckets:
    return Buckets(folder, limit)


async def put(buckets: Buckets, name: str, content: bytes) -> ObjectRecord:
    with buckets.contents.incoming() as incoming:
        incoming.write(content)
        return await buckets.insert("b-1", name, {}, Conditions(), incoming, {})


def files(folder: Path) -> list[int]:
    """The sizes of all files of objects and uploads."""
    return sorted(
        file.stat().st_size
        for name in ("contents", "incoming")
        for file in (folder / name).iterdir()
    )


def test_objects_need_no_more_room_than_the_bound(folder: Path) -> None:
    async def story() -> None:
        buckets = opened(folder, limit=1000)
        buckets.create("p", "b-1", "", {})
        await put(buckets, "a", b"x" * 600)
        with pytest.raises(ApiError, match="The emulator keeps at most") as full:
            await put(buckets, "b", b"x" * 600)
        assert (full.value.status, full.value.reason) == (403, "quotaExceeded")
        with pytest.raises(ApiError, match="at most"):
            buckets.copy(buckets.find("b-1", "a"), "b-1", "c", None, Conditions())
        assert files(folder) == [600]
        await put(buckets, "a", b"y" * 300)  # both are there for a moment
        await put(buckets, "b", b"x" * 600)
        buckets.delete_object("b-1", "b", None, Conditions())
        buckets.close()
        await put(opened(folder, limit=1000), "b", b"x" * 700)
        assert files(folder) == [300, 700]

    asyncio.run(story())


def test_what_a_killed_emulator_has_left_is_gone_or_goes_on(folder: Path) -> None:
    async def story() -> None:
        buckets = opened(folder)
        buckets.create("p", "b-1", "", {"versioning": {"enabled": True}})
        first = await put(buckets, "a", b"first")
        await put(buckets, "a", b"second")
        uploads = Uploads(buckets)
        upload = uploads.begin("b-1", "u", {}, Conditions(), None, {})
        async with uploads.writing(upload.id) as (_, incoming):
            assert incoming is not None
            incoming.write(b"x" * (GRANULE_BYTES + 1))
        # Not ended in order: what was on its way, and what the index does not have yet.
        (folder / "incoming" / "1234").write_bytes(b"part")
        (folder / "contents" / "5678").write_bytes(b"all, but not in the index")

        buckets = opened(folder)
        assert files(folder) == [5, 6, GRANULE_BYTES]
        assert buckets.open(buckets.find("b-1", "a", first.generation)).read() == b"first"
        assert buckets.open(buckets.find("b-1", "a")).read() == b"second"
        uploads = Uploads(buckets)
        async with uploads.writing(upload.id) as (upload, incoming):
            assert incoming is not None
            assert incoming.size == GRANULE_BYTES
            incoming.write(b"y")
            upload.size = incoming.size
            made = await uploads.finish(upload, incoming)
        assert buckets.open(made).read() == b"x" * GRANULE_BYTES + b"y"
        assert made.generation > buckets.find("b-1", "a").generation

    asyncio.run(story())


def test_an_object_is_read_to_its_end_although_it_is_replaced(folder: Path) -> None:
    async def story() -> None:
        buckets = opened(folder)
        buckets.create("p", "b-1", "", {})
        with buckets.open(await put(buckets, "a", b"before")) as file:
            await put(buckets, "a", b"after")
            buckets.delete_object("b-1", "a", None, Conditions())
            assert file.read() == b"before"
        assert files(folder) == []

    asyncio.run(story())


def test_a_newer_request_of_an_upload_takes_over_from_one_that_hangs(folder: Path) -> None:
    async def story() -> None:
        buckets = opened(folder)
        buckets.create("p", "b-1", "", {})
        uploads = Uploads(buckets)
        upload = uploads.begin("b-1", "u", {}, Conditions(), None, {})
        begun = asyncio.Event()

        async def hang() -> None:
            async with uploads.writing(upload.id) as (_, incoming):
                assert incoming is not None
                incoming.write(b"x" * (GRANULE_BYTES + 5))
                begun.set()
                await asyncio.Event().wait()

        hanging = asyncio.create_task(hang())
        await begun.wait()
        async with uploads.writing(upload.id) as (_, incoming):
            assert incoming is not None
            assert incoming.size == GRANULE_BYTES
        assert hanging.cancelled()
        uploads.cancel(upload)
        with pytest.raises(ApiError, match="does not exist"):
            uploads.get(upload.id)
        assert files(folder) == []

    asyncio.run(story())
