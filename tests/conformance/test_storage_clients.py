"""Google's client, gcsfs and gcloud against the emulator's Cloud Storage, as they are.

TensorStore and Orbax are in test_storage_hosts.py: they find Cloud Storage by variables alone.
"""

from __future__ import annotations

import io
import os
import shutil
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gcsfs
import pytest
from gcloud_cli import Gcloud
from google.api_core import exceptions
from google.auth.credentials import Credentials
from google.cloud import storage

BIG = os.urandom(40 * 2**20)


class Fixed(Credentials):
    """Credentials that are one token for ever."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self.token = token

    def refresh(self, request: Any) -> None:
        """Asked for after a 401; there is no other token."""


@pytest.fixture(scope="module")
def credentials(emulator: Any) -> Fixed:
    return Fixed(Path(emulator.state.token_file).read_text().strip())


@pytest.fixture(scope="module")
def client(emulator: Any, credentials: Fixed) -> storage.Client:
    return storage.Client(
        project="emulated",
        credentials=credentials,
        client_options={"api_endpoint": emulator.state.rest},
    )


@pytest.fixture
def bucket(client: storage.Client) -> storage.Bucket:
    return client.create_bucket(f"clients-{uuid.uuid4().hex[:8]}", location="us-central1")


@pytest.fixture(scope="module")
def files(emulator: Any, credentials: Fixed) -> gcsfs.GCSFileSystem:
    # Not what `gcsfs.GCSFileSystem` is by default: that asks for a bucket's type by gRPC over TLS.
    from gcsfs.core import GCSFileSystem

    return GCSFileSystem(project="emulated", token=credentials, endpoint_url=emulator.state.rest)


def names(blobs: Any) -> list[str]:
    return [blob.name for blob in blobs]


def test_googles_client_knows_the_emulators_buckets_as_its_own(client: storage.Client) -> None:
    name = f"clients-{uuid.uuid4().hex[:8]}"
    bucket = client.create_bucket(name, location="europe-west4")
    assert (bucket.location, bucket.location_type) == ("EUROPE-WEST4", "region")
    with pytest.raises(exceptions.Conflict, match="you already own it"):
        client.create_bucket(name)
    bucket.labels = {"team": "x"}
    bucket.versioning_enabled = True
    bucket.patch()
    assert client.get_bucket(name).labels == {"team": "x"}
    assert name in names(client.list_buckets(prefix="clients-"))
    with pytest.raises(exceptions.BadRequest, match="location constraint is not valid"):
        client.create_bucket(f"{name}-2", location="the moon")

    blob = bucket.blob("a b/ü%?#.txt")
    blob.metadata = {"k": "v"}
    blob.upload_from_string(b"one", content_type="text/plain", if_generation_match=0)
    first = blob.generation
    with pytest.raises(exceptions.PreconditionFailed):
        blob.upload_from_string(b"never", if_generation_match=0)
    blob.upload_from_string(b"second", if_generation_match=first, checksum="md5")
    with pytest.raises(exceptions.NotModified):
        bucket.blob(blob.name).download_as_bytes(if_generation_not_match=blob.generation)
    assert bucket.blob(blob.name).download_as_bytes(start=1, end=3) == b"eco"
    assert bucket.blob(blob.name, generation=first).download_as_bytes() == b"one"
    assert [b.generation for b in bucket.list_blobs(versions=True)] == [first, blob.generation]
    blob.metadata = {"k": None, "l": "2"}
    blob.patch(if_metageneration_match=1)
    assert (blob.metageneration, blob.metadata) == (2, {"l": "2"})

    both = bucket.blob("both")
    both.compose([blob, bucket.blob(blob.name, generation=first)])
    assert (both.download_as_bytes(), both.component_count) == (b"secondone", 2)
    copy = bucket.copy_blob(blob, bucket, "dir/copy", if_source_generation_match=blob.generation)
    assert copy.metadata == {"l": "2"}
    assert bucket.blob("dir/again").rewrite(copy) == (None, 6, 6)
    assert bucket.move_blob(copy, "dir/moved").download_as_bytes() == b"second"
    pages = [names(page) for page in bucket.list_blobs(page_size=2).pages]
    assert pages == [["a b/ü%?#.txt", "both"], ["dir/again", "dir/moved"]]
    top = bucket.list_blobs(delimiter="/")
    assert (names(top), top.prefixes) == (["both"], {"a b/", "dir/"})
    assert names(bucket.list_blobs(start_offset="both", end_offset="dir/b")) == [
        "both",
        "dir/again",
    ]

    with client.batch():
        bucket.blob("both").delete()
        bucket.blob("dir/again").delete()
    assert both.exists()  # this generation of it, which a versioned bucket keeps
    with pytest.raises(exceptions.NotFound, match="No such object"):
        bucket.blob("both").reload()
    with pytest.raises(exceptions.Conflict, match="not empty"):
        bucket.delete()
    bucket.delete_blobs(list(bucket.list_blobs(versions=True)), preserve_generation=True)
    bucket.delete()
    with pytest.raises(exceptions.NotFound):
        client.get_bucket(name)


def test_content_that_is_not_what_its_checksum_says_is_refused(bucket: storage.Bucket) -> None:
    blob = bucket.blob("x")
    blob.md5_hash = "XUFAKrxLKna5cZ2REBfFkg=="
    with pytest.raises(exceptions.BadRequest, match=r"Provided MD5 hash .* doesn't match"):
        blob.upload_from_string(b"not hello")
    assert not bucket.blob("x").exists()
    blob.upload_from_string(b"hello")


@pytest.mark.parametrize("kind", ["google", "gcsfs"])
def test_40_mb_arrive_although_the_line_is_cut_in_both_directions(
    emulator: Any, faults: Callable[..., Any], bucket: storage.Bucket, files: Any, kind: str
) -> None:
    faults("cut-transfer", method="objects.insert", bytes=700_000, count=1)
    if kind == "google":
        blob = bucket.blob("big", chunk_size=8 * 2**20)
        blob.upload_from_file(io.BytesIO(BIG), if_generation_match=0)
        assert int(blob.size) == len(BIG)
    else:
        with files.open(f"{bucket.name}/big", "wb", block_size=8 * 2**20) as file:
            file.write(BIG)
    faults("cut-transfer", method="objects.get", bytes=5_000_000, count=1)
    if kind == "google":
        assert bucket.blob("big").download_as_bytes() == BIG
    else:
        assert files.cat(f"{bucket.name}/big") == BIG
    assert emulator.request("GET", "/emulator/v1/faults")["faults"] == []
    assert not [*(emulator.state_dir / "storage/incoming").iterdir()]


def test_an_upload_goes_on_after_the_emulator_was_killed(
    emulator: Any, bucket: storage.Bucket, files: Any
) -> None:
    blob = bucket.blob("big", chunk_size=2**20)
    resumed = threading.Event()

    class Source(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            if self.tell() >= 10 * 2**20 and not resumed.is_set():
                resumed.set()
                emulator.kill()
                emulator.start()
            return super().read(size)

    blob.upload_from_file(Source(BIG), size=len(BIG))
    assert resumed.is_set()
    assert bucket.blob("big").download_as_bytes() == BIG


def test_of_writers_with_the_same_precondition_exactly_one_wins(
    client: storage.Client, bucket: storage.Bucket
) -> None:
    """Ten rounds, in each of which eight threads replace the same generation."""
    generation = 0
    for _ in range(10):
        won: list[tuple[bytes, int]] = []
        lost: list[bytes] = []

        def write(content: bytes, at: int, barrier: threading.Barrier) -> None:
            blob = bucket.blob("contended")
            barrier.wait()
            try:
                blob.upload_from_string(content, if_generation_match=at, retry=None)
            except exceptions.PreconditionFailed:
                lost.append(content)  # noqa: B023 – all end in this round
            else:
                won.append((content, blob.generation))  # noqa: B023

        barrier = threading.Barrier(8)
        contents = [os.urandom(100_000) for _ in range(8)]
        threads = [
            threading.Thread(target=write, args=(content, generation, barrier))
            for content in contents
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        ((content, generation),) = won
        assert len(lost) == 7
        assert bucket.blob("contended").download_as_bytes() == content


def test_clients_wait_out_429_and_503_and_a_lost_answer(
    emulator: Any, faults: Callable[..., Any], bucket: storage.Bucket, files: Any
) -> None:
    faults("error", method="objects.insert", code="RESOURCE_EXHAUSTED", count=2)
    bucket.blob("x").upload_from_string(b"1", if_generation_match=0)
    faults("error", zone="us-central1", method="objects.get", count=1)
    faults("error", zone="us-west4", method="objects.get")  # another bucket's location
    assert files.cat(f"{bucket.name}/x") == b"1"
    left = emulator.request("GET", "/emulator/v1/faults")["faults"]
    assert [fault["zone"] for fault in left] == ["us-west4"]
    # It was written, and the client can't know by whom.
    faults("lost-answer", method="objects.insert", count=1)
    with pytest.raises(exceptions.PreconditionFailed):
        bucket.blob("y").upload_from_string(b"2", if_generation_match=0)
    assert bucket.blob("y").download_as_bytes() == b"2"
    faults("permission", count=1)
    with pytest.raises(exceptions.Forbidden, match=r"storage\.objects\.delete"):
        bucket.blob("y").delete()
    assert bucket.blob("y").exists()


def test_a_slow_line_is_slow(faults: Callable[..., Any], bucket: storage.Bucket) -> None:
    bucket.blob("x").upload_from_string(BIG[: 2**20])
    faults("slow-transfer", method="objects.get", bytes_per_second=4 * 2**20, count=1)
    begun = time.monotonic()
    assert bucket.blob("x").download_as_bytes() == BIG[: 2**20]
    assert time.monotonic() - begun >= 0.25


def test_gcsfs_works_with_files_and_folders(files: Any, bucket: storage.Bucket) -> None:
    root = bucket.name
    files.pipe({f"{root}/dir/a": b"ends so\r", f"{root}/dir/b": b"\r\n--==0==\r\n"})
    assert files.cat([f"{root}/dir/a", f"{root}/dir/b"]) == {
        f"{root}/dir/a": b"ends so\r",
        f"{root}/dir/b": b"\r\n--==0==\r\n",
    }
    assert files.ls(root) == [f"{root}/dir"]
    files.cp(f"{root}/dir/a", f"{root}/c")
    files.mv(f"{root}/c", f"{root}/d")
    files.merge(f"{root}/both", [f"{root}/d", f"{root}/d"])
    assert files.cat_ranges([f"{root}/both"] * 2, [0, 8], [4, 16]) == [b"ends", b"ends so\r"]
    files.setxattrs(f"{root}/both", foo="bar")
    assert files.getxattr(f"{root}/both", "foo") == "bar"
    with pytest.raises(FileExistsError):
        files.pipe_file(f"{root}/both", b"", mode="create")
    files.invalidate_cache()
    assert files.find(root) == [f"{root}/{name}" for name in ("both", "d", "dir/a", "dir/b")]
    files.rm(root, recursive=True)
    assert not files.exists(root)


@pytest.mark.long
@pytest.mark.skipif(
    shutil.which("gcloud") is None,
    reason="SKIPPED FOR WANT OF gcloud: install the Google Cloud CLI to check conformance",
)
def test_gcloud_copies_files_to_and_from_a_bucket(emulator: Any, tmp_path: Path) -> None:
    gcloud, root = Gcloud(emulator, tmp_path, "us-central1-a"), f"gs://g-{uuid.uuid4().hex[:8]}"
    (tmp_path / "small").write_bytes(b"hello\n")
    (tmp_path / "large").write_bytes(BIG[: 20 * 2**20])
    gcloud.run("storage", "buckets", "create", root, "--location=us-west4")
    gcloud.run("storage", "cp", *map(str, (tmp_path / "small", tmp_path / "large")), f"{root}/d/")
    assert gcloud.run("storage", "ls", f"{root}/d/").stdout.split() == [
        f"{root}/d/large",
        f"{root}/d/small",
    ]
    gcloud.run("storage", "cp", f"{root}/d/large", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == BIG[: 20 * 2**20]
    gcloud.run("storage", "rm", "-r", root)
    assert root not in gcloud.run("storage", "ls", fails=None).stdout  # none at all is an error
