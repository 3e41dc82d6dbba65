"""The quick way to a host's address, which `ssh my-tpu` takes, against the thorough one."""

import asyncio
import os
import subprocess
import sys

import msgspec
import pytest

from jupyter_tpu.cloud import CloudTPU, NodeName, Target
from jupyter_tpu.cloud.tpu.nodes import node_path, parse_node_path
from jupyter_tpu.links import HostName
from jupyter_tpu.links.fast_lookup import fast_lookup
from jupyter_tpu.links.lookup import Lookup
from jupyter_tpu.ssh import HostAddress, KnownHosts, ensure_key

pytestmark = pytest.mark.usefixtures("own_data")


def thorough(target: Target, host: HostName) -> HostAddress:
    async def find() -> HostAddress:
        cloud = CloudTPU(target)
        lookup = Lookup(cloud)
        try:
            return (await lookup.find(host)).address
        finally:
            await lookup.close()
            await cloud.close()

    return asyncio.run(find())


def test_what_was_found_thoroughly_once_is_found_quickly_again(emulator, create_tpu, tmp_path):
    name = parse_node_path(create_tpu(type="v5litepod-16")["name"])
    target = Target(emulator=str(emulator.state_file))
    ensure_key()
    assert fast_lookup(target, HostName(name, 2)) is None  # our key is not on the node
    first = thorough(target, HostName(name, 2))
    again = fast_lookup(target, HostName(name, 2))
    assert again == msgspec.structs.replace(first, loopbacks=again.loopbacks)
    assert fast_lookup(target, HostName(name, 0)) is not None  # of the same node: pinned too
    assert fast_lookup(target, HostName(name, 4)) is None
    assert fast_lookup(target, HostName(NodeName(name.project, name.zone, "none"), 0)) is None
    KnownHosts().forget(first.alias)
    assert fast_lookup(target, HostName(name, 2)) is None

    thorough(target, HostName(name, 2))
    emulator.wait(emulator.request("POST", f"/v2/{node_path(name)}:stop", {}))
    assert fast_lookup(target, HostName(name, 2)) is None
    assert fast_lookup(Target(emulator=str(tmp_path / "none.json")), HostName(name, 2)) is None


def test_each_host_is_found_by_its_first_interface_where_it_has_several(emulator, create_tpu):
    storage = {"name": "storage", "autoCreateSubnetworks": True}
    emulator.request("POST", "/compute/v1/projects/emulated/global/networks", storage)
    networks = [{"network": name, "enableExternalIps": True} for name in ("default", "storage")]
    node = create_tpu(type="v5litepod-16", networkConfigs=networks)
    assert len(node["networkEndpoints"]) == 4 * 2
    name = parse_node_path(node["name"])
    target = Target(emulator=str(emulator.state_file))
    ensure_key()
    thorough(target, HostName(name, 0))
    addresses = {host["worker"]: host["external"] for host in emulator.hosts(name.node)}
    for worker in range(4):
        fast = fast_lookup(target, HostName(name, worker))
        assert fast.address == thorough(target, HostName(name, worker)).address
        assert fast.address == addresses[worker]
    assert fast_lookup(target, HostName(name, 4)) is None


def test_the_way_of_a_second_ssh_loads_no_heavy_library(emulator, create_tpu, tmp_path):
    name = parse_node_path(create_tpu()["name"])
    keys = tmp_path / "keys"
    command = [
        *("-m", "jupyter_tpu.cli.proxy", name.node, f"--emulator={emulator.state_file}"),
        *(f"--project={name.project}", f"--zone={name.zone}", f"--known-hosts={keys}"),
    ]
    environment = {**os.environ, "HOME": str(tmp_path)}

    def run(*options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *options, *command],
            env=environment,
            input="SSH-2.0-nobody\r\n",
            capture_output=True,
            encoding="latin-1",  # the key exchange is no text
            timeout=60,
        )

    first = run()
    assert first.stdout.startswith("SSH-2.0-OpenSSH"), first.stderr
    second = run("-X", "importtime")
    assert second.stdout.startswith("SSH-2.0-OpenSSH"), second.stderr
    loaded = {
        line.rpartition("|")[2].strip().partition(".")[0] for line in second.stderr.split("\n")
    }
    assert "jupyter_tpu" in loaded
    assert loaded.isdisjoint({"google", "grpc", "asyncssh", "cryptography", "aiohttp", "tornado"})
    assert keys.read_text().startswith("keys ssh-ed25519 ")
