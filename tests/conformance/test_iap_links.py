"""Our SSH through the real gcloud and the emulator's Identity-Aware Proxy."""

import asyncio
import shutil

import pytest
from gcloud_cli import Gcloud
from msgspec import structs
from waiting import eventually

from jupyter_tpu.cloud import (
    Cloud,
    GoogleCloud,
    NodeName,
    NodeOptions,
    NodeSpec,
    NodeState,
    Target,
)
from jupyter_tpu.cloud.tpu.nodes import parse_node_path
from jupyter_tpu.links import HostName
from jupyter_tpu.links.lookup import Lookup, iap_command
from jupyter_tpu.ssh import KnownHosts, connect

#: Seconds; gcloud itself takes one or two to start.
LIMIT = 120.0
#: An address for documentation: nothing answers there (RFC 5737).
NOWHERE = "192.0.2.1"

pytestmark = pytest.mark.skipif(
    shutil.which("gcloud") is None,
    reason="SKIPPED FOR WANT OF gcloud: install the Google Cloud CLI to check conformance",
)


async def create_vm(cloud: Cloud) -> NodeName:
    """A TPU of Compute Engine without an external address."""
    name = NodeName("emulated", "us-east5-a", "without-address")
    options = NodeOptions(internal_ips=True)
    spec = NodeSpec(type="v6e-4", version="", api="compute", options=options)
    await cloud.begin_create(name, spec)

    async def ready() -> bool:
        return (await cloud.get_node(name)).state is NodeState.READY

    await eventually(ready, 60)
    return name


@pytest.mark.long
@pytest.mark.parametrize("api", ["tpu", "compute"])
async def test_a_host_without_external_address_is_reached_through_gclouds_tunnel(
    emulator, create_tpu, tmp_path, monkeypatch, api
):
    iap = emulator.request("POST", "/emulator/v1/iap", {})
    gcloud = Gcloud(emulator, tmp_path, "us-central1-a")
    gcloud.environment["CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE"] = iap["certificate"]
    for variable, value in gcloud.environment.items():
        monkeypatch.setenv(variable, value)
    cloud = GoogleCloud(Target(emulator=str(emulator.state_file)))
    if api == "compute":
        node = await create_vm(cloud)
    else:
        node = parse_node_path(create_tpu(networkConfig={"enableExternalIps": False})["name"])
    lookup = Lookup(cloud, KnownHosts(tmp_path / "known"))
    host = await lookup.find(HostName(node, 0))
    (endpoint,) = (await cloud.get_node(node)).endpoints
    assert not endpoint.external
    (published,) = await cloud.guest_attributes(node)
    # Google's own hosts of Compute Engine do not publish their names.
    names = ({}, endpoint.instance) if api == "compute" else (published,)
    command = iap_command(node, *names)
    assert command, "this machine is at Google, or the host has no name"

    through = structs.replace(
        host.address,
        address=NOWHERE,  # so that it is not reached directly
        port=22,
        proxy_command=(*command, f"--iap-tunnel-url-override={iap['url']}"),
    )
    connection = await connect(through, limit=LIMIT)
    try:
        sent = b"through the tunnel\n" * 20_000
        answer = await asyncio.wait_for(connection.run(["cat"], input=sent), LIMIT)
        assert answer.stdout.encode() == sent
        answer = await asyncio.wait_for(connection.run(["hostname"]), LIMIT)
        assert answer.stdout.strip() == published["vm", "hostname"]
    finally:
        await connection.close()
        await lookup.close()
        if api == "compute":
            await cloud.begin_delete(node)
        await cloud.close()
