"""Cloud Storage from a TPU's hosts: their clients, as they are, with a host's variables alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from bucket_calls import Refused, StorageHTTP

from jupyter_tpu.cloud import CloudTPU, NodeName, Target
from jupyter_tpu.links import HostName, Links, core_thread

PROGRAMS = Path(__file__).with_name("storage_programs.py")
#: Prefixes of the variables by which programs on a host find Google.
POINTING = ("CLOUDSDK_", "GCE_", "GCSFS_", "STORAGE_", "TENSORSTORE_")


def variables_of(emulator: Any, name: str) -> dict[str, str]:
    """Variables with which programs of this machine find what those of a TPU's host 0 find."""

    async def read() -> str:
        links = Links(CloudTPU(Target(emulator=str(emulator.state_file))))
        node = NodeName(emulator.state.project, "us-central1-a", name)
        try:
            return (await links.get(HostName(node, 0)).run(["env"])).stdout
        finally:
            await links.close()

    lines = core_thread().wait(read()).splitlines()
    found = dict(line.split("=", 1) for line in lines if line.startswith(POINTING))
    return {**os.environ, **found, "JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "8"}


@pytest.fixture(scope="module")
def variables(emulator: Any) -> Iterator[dict[str, str]]:
    """The variables of a host."""
    with emulator.tpu("storage") as node:
        yield variables_of(emulator, node["name"].rpartition("/")[2])


def run(variables: dict[str, str], home: Path, *command: str | Path) -> str:
    """What a command prints that has to succeed."""
    environment = {**variables, "HOME": str(home), "CLOUDSDK_CONFIG": str(home / "gcloud")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def bucket(emulator: Any) -> str:
    """The name of a new bucket."""
    name = f"hosts-{uuid.uuid4().hex[:8]}"
    emulator.request("POST", "/storage/v1/b?project=emulated", {"name": name})
    return name


def test_what_one_client_writes_on_a_host_the_others_read(
    variables: dict[str, str], tmp_path: Path
) -> None:
    name = f"hosts-{uuid.uuid4().hex[:8]}"
    run(variables, tmp_path, sys.executable, PROGRAMS, "clients", name)
    if shutil.which("gcloud") is not None:
        said = run(variables, tmp_path, "gcloud", "storage", "cat", f"gs://{name}/by/gcsfs")
        assert said == "2"


def test_tensorstore_writes_and_reads_zarr3_and_ocdbt(
    variables: dict[str, str], tmp_path: Path, bucket: str
) -> None:
    run(variables, tmp_path, sys.executable, PROGRAMS, "arrays", bucket)


def test_tensorstore_waits_out_429_and_503_and_a_line_that_is_cut(
    emulator: Any,
    faults: Callable[..., Any],
    variables: dict[str, str],
    tmp_path: Path,
    bucket: str,
) -> None:
    faults("error", method="objects.insert", code="RESOURCE_EXHAUSTED", count=1)
    faults("cut-transfer", method="objects.insert", bytes=20_000_000, count=1)
    faults("error", method="objects.get", count=1)
    faults("cut-transfer", method="objects.get", bytes=20_000_000, count=1)
    run(variables, tmp_path, sys.executable, PROGRAMS, "large", bucket)
    assert emulator.request("GET", "/emulator/v1/faults")["faults"] == []


def test_three_programs_write_one_database_and_lose_nothing(
    variables: dict[str, str], tmp_path: Path, bucket: str
) -> None:
    """OCDBT replaces its manifest on the condition that nobody else has."""
    writers = ["one", "two", "three"]
    with ThreadPoolExecutor() as threads:
        command = (sys.executable, PROGRAMS, "database", bucket)
        list(threads.map(lambda writer: run(variables, tmp_path, *command, writer), writers))
    read = (
        "import sys, tensorstore as ts\n"
        "base = {'driver': 'ocdbt', 'base': f'gs://{sys.argv[1]}/database/'}\n"
        "print(*sorted(key.decode() for key in ts.KvStore.open(base).result().list().result()))"
    )
    keys = run(variables, tmp_path, sys.executable, "-c", read, bucket).split()
    assert keys == sorted(f"{writer}-{number}" for writer in writers for number in range(10))


def test_orbax_restores_arrays_of_8_devices_onto_4(
    variables: dict[str, str], tmp_path: Path, bucket: str
) -> None:
    run(variables, tmp_path, sys.executable, PROGRAMS, "checkpoint", bucket)


def test_a_host_has_the_buckets_of_its_project_and_as_much_as_its_scopes_allow(
    emulator: Any, variables: dict[str, str], bucket: str
) -> None:
    host = StorageHTTP(variables["STORAGE_EMULATOR_HOST"], "")
    host.upload(bucket, "x", b"content")
    assert host.read(bucket, "x") == b"content"
    other = f"other-{uuid.uuid4().hex[:8]}"
    emulator.request("POST", "/storage/v1/b?project=another", {"name": other})
    for call in (
        lambda: host.upload(other, "x", b""),
        lambda: host.call("GET", "/storage/v1/b", project="another"),
        lambda: host.call("POST", f"/storage/v1/b/{bucket}/o/x/copyTo/b/{other}/o/x"),
    ):
        with pytest.raises(Refused, match=r"does not have storage\.\S+ access") as refused:
            call()
        assert refused.value.status == 403
    listed = host.call("GET", "/storage/v1/b").json["items"]
    assert bucket in [each["name"] for each in listed]
    assert other not in [each["name"] for each in listed]
    for root, token in (
        (variables["STORAGE_EMULATOR_HOST"][:-1], ""),
        (emulator.state.rest, ""),
        (emulator.state.rest, "ya29.host-1.00"),
    ):
        with pytest.raises(Refused, match=r"^40[13] "):
            StorageHTTP(root, token).read(bucket, "x")
    scope = "https://www.googleapis.com/auth/devstorage.read_only"
    account = {"serviceAccount": {"scope": [scope]}}
    name = f"reader-{uuid.uuid4().hex[:6]}"
    node = emulator.create(name, "v5litepod-1", "us-central1-a", **account)
    reader = variables_of(emulator, name)
    host = StorageHTTP(reader["STORAGE_EMULATOR_HOST"], "")
    assert host.read(bucket, "x") == b"content"
    with pytest.raises(Refused, match=r"Provided scope\(s\) are not authorized"):
        host.upload(bucket, "x", b"")
    emulator.wait(emulator.request("DELETE", f"/v2/{node['name']}"))
