"""Our SSH key in a project's metadata and in a Google account, and hosts that let it in."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from refusals import raises

from jupyter_tpu.cloud import CloudTPU, Target
from jupyter_tpu.cloud.google_apis import GoogleAPIs
from jupyter_tpu.cloud.tpu.nodes import parse_node_path
from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.fleet.models import AddSSHKey
from jupyter_tpu.fleet.setup.ssh_keys import SSHKeyService
from jupyter_tpu.links import HostName, Links, logins, lookup
from jupyter_tpu.links.fast_lookup import fast_lookup

ZONE = "us-west4-a"
USER = "you_example_com"
THEIRS = "bob:ssh-rsa AAAA bob@example.com"


@pytest.fixture
def project(request: pytest.FixtureRequest) -> str:
    """A project of this test alone."""
    return f"keys-{abs(hash(request.node.name)) % 10**6}"


@pytest_asyncio.fixture
async def links(
    emulator: Any, project: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Links]:
    monkeypatch.setenv("JUPYTER_TPU_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("JUPYTER_TPU_EMULATOR", str(emulator.state_file))
    monkeypatch.setenv("JUPYTER_TPU_SSH_USER", "")
    cloud = CloudTPU(Target(emulator=str(emulator.state_file), project=project))
    made = Links(cloud)
    yield made
    await made.close()
    await cloud.close()


@pytest.fixture
def key(links: Links) -> SSHKeyService:
    return SSHKeyService(links.cloud, links.login_changed)


def metadata(emulator: Any, project: str, **items: str) -> dict[str, str]:
    """The project's, to which *items* are added."""
    path = f"/compute/v1/projects/{project}"

    def read() -> dict[str, str]:
        metadata = emulator.request("GET", path)["commonInstanceMetadata"]
        return {item["key"]: item["value"] for item in metadata["items"]}

    if items:
        entries = [{"key": key, "value": value} for key, value in (read() | items).items()]
        emulator.request("POST", f"{path}/setCommonInstanceMetadata", {"items": entries})
    return read()


async def test_a_key_in_the_project_stands_beside_others_also_those_that_come_at_the_same_time(
    emulator, project, key, monkeypatch
):
    metadata(emulator, project, **{"ssh-keys": THEIRS, "team": "x"})
    asked = await key.add(AddSSHKey(days=7, dry_run=True))
    assert "to the metadata of the project" in asked.changes[0]
    assert asked.in_project is None
    assert metadata(emulator, project)["ssh-keys"] == THEIRS

    post = GoogleAPIs.post
    changed: list[str] = []

    async def meanwhile(self: GoogleAPIs, api: str, path: str, body: Any) -> Any:
        if not changed:  # between our reading and our writing
            changed.append(path)
            await asyncio.to_thread(metadata, emulator, project, other="1")
        return await post(self, api, path, body)

    monkeypatch.setattr(GoogleAPIs, "post", meanwhile)
    added = await key.add(AddSSHKey(days=7))
    assert added.in_project.user == added.user
    first = metadata(emulator, project)
    assert {"team": "x", "other": "1"}.items() <= first.items()
    await key.add(AddSSHKey(days=30))
    theirs, ours = metadata(emulator, project)["ssh-keys"].splitlines()
    assert theirs == THEIRS
    assert ours.startswith(f"{added.user}:ssh-ed25519 ")
    assert ours != first["ssh-keys"].splitlines()[1]  # another end
    monkeypatch.setenv("JUPYTER_TPU_SSH_USER", "root")
    with raises(Reason.INVALID, "Hosts have no user 'root'"):
        await key.add(AddSSHKey())

    removed = await key.remove()
    assert (removed.in_project, len(removed.changes)) == (None, 1)
    assert metadata(emulator, project) == {"ssh-keys": THEIRS, "team": "x", "other": "1"}
    assert (await key.remove()).changes == []
    metadata(emulator, project, **{"enable-oslogin": "TRUE"})
    with raises(Reason.CONFLICT, "ignore keys in its metadata"):
        await key.add(AddSSHKey(to="project"))


@pytest.mark.long
async def test_hosts_let_in_a_key_of_the_project_and_with_os_login_one_of_the_account(
    emulator, project, links, key, faults, monkeypatch
):
    monkeypatch.setattr(lookup, "_KEY_WAIT_NEW", 0.5)
    nodes = f"/v2/projects/{project}/locations/{ZONE}/nodes"
    body = {"acceleratorType": "v5litepod-1", "runtimeVersion": "v2-alpha-tpuv5-lite"}
    emulator.wait(emulator.request("POST", f"{nodes}?nodeId=mine", body))
    host = HostName(parse_node_path(f"{nodes}/mine".removeprefix("/v2/")), 0)
    link = links.get(host)

    async def whoami() -> str:
        return (await link.run(["whoami"])).stdout.strip()

    try:
        # Whoever may not change TPUs is let in by the project's key.
        faults(kind="error", method="UpdateNode", code="PERMISSION_DENIED", message="No.")
        with raises(Reason.PERMISSION):
            await whoami()
        added = await key.add(AddSSHKey())
        assert await whoami() == added.user
        assert "ssh-keys" not in emulator.request("GET", f"{nodes}/mine").get("metadata", {})

        # With OS Login that key does not count, and the account's lets in under Google's name.
        metadata(emulator, project, **{"enable-oslogin": "TRUE"})
        emulator.request("DELETE", "/emulator/v1/faults")
        await links.close()
        link = links.get(host)
        with pytest.raises(TPUError, match="rejected the key") as caught:
            await whoami()
        assert "jupyter tpu ssh-key add" in caught.value.hint
        asked = await key.add(AddSSHKey(dry_run=True))
        assert "to the Google account you@example.com until" in asked.changes[0]
        assert asked.in_account is None
        added = await key.add(AddSSHKey())
        assert added.in_account.user == USER
        assert await whoami() == USER
        address = fast_lookup(links.cloud.target, host)
        assert address.user == USER
        entry = [sys.executable, "-m", "jupyter_tpu.cli", "ssh", "mine", "--command", "whoami"]
        where = ["--project", project, "--zone", ZONE]
        typed = await asyncio.to_thread(
            subprocess.run, [*entry, *where], capture_output=True, text=True, timeout=60
        )
        assert typed.stdout.strip() == USER, typed.stderr

        removed = await key.remove()
        assert len(removed.changes) == 2  # the project's, too
        assert (removed.in_account, logins.stored(project)) == (None, None)
        await links.close()
        link = links.get(host)
        with pytest.raises(TPUError, match="rejected the key"):
            await whoami()
    finally:
        emulator.request("DELETE", "/emulator/v1/faults")
        emulator.wait(emulator.request("DELETE", f"{nodes}/mine"))
