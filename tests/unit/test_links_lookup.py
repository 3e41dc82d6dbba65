"""What is read out of a node and its guest attributes."""

import pytest
from refusals import raises

from jupyter_tpu.cloud import Endpoint, Node, NodeName, NodeState, Target
from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.links import HostName, default_links
from jupyter_tpu.links.lookup import Lookup, host_keys, iap_command, ssh_port
from jupyter_tpu.ssh import KnownHosts

NAME = NodeName("p", "us-central2-b", "my-tpu")
KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
PUBLISHED = {
    ("hostkeys", "ssh-rsa"): "AAAArsa",
    ("hostkeys", "ssh-ed25519"): KEY,
    ("hostkeys", "ssh-dss"): "AAAAdss",
    ("vm", "hostname"): "t1v-n-1234abcd-w-0",
}


class OneNode:
    """A cloud in which there is one node."""

    def __init__(self, node: Node, attributes: list[dict], *, emulated: bool = False) -> None:
        self.node = node
        self.attributes = attributes
        self.emulated = emulated
        self.added: list[tuple] = []
        self.error: TPUError | None = None

    async def get_node(self, name: NodeName) -> Node:
        if self.error:
            raise self.error
        return self.node

    async def guest_attributes(self, name: NodeName) -> list[dict]:
        if self.error:
            raise self.error
        return self.attributes

    async def add_ssh_key(self, *key) -> bool:
        self.added.append(key)
        return True


@pytest.fixture(autouse=True)
def own_data(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_TPU_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))


def node(state: str = "READY", external: str = "203.0.113.7", **fields) -> Node:
    return Node(
        name=NAME,
        type="v4-8",
        state=NodeState(state),
        **{"id": "42", "endpoints": (Endpoint(internal="10.0.0.2", external=external),), **fields},
    )


def lookup(tmp_path, node: Node, *attributes: dict, emulated: bool = False):
    cloud = OneNode(node, list(attributes), emulated=emulated)
    return cloud, Lookup(cloud, KnownHosts(tmp_path / "known"))


def test_host_keys_are_read_with_and_without_their_kind_the_preferred_one_first():
    assert host_keys(PUBLISHED) == (f"ssh-ed25519 {KEY}", "ssh-rsa AAAArsa")
    spelled = {("hostkeys", "ssh-ed25519"): f"ssh-ed25519 {KEY} root@host\n"}
    assert host_keys(spelled) == (f"ssh-ed25519 {KEY}",)
    for published in ("", "ssh-ed25519", "@cert-authority", "AAAA\x1b[2J", "A" * 5000):
        assert host_keys({("hostkeys", "ssh-ed25519"): published}) == ()


def test_a_host_without_an_external_address_is_reached_through_gclouds_tunnel(tmp_path):
    assert iap_command(NAME, PUBLISHED) == ()  # no gcloud on this machine
    (tmp_path / "bin").mkdir()
    gcloud = tmp_path / "bin" / "gcloud"
    gcloud.write_text("#!/bin/sh\n")
    gcloud.chmod(0o755)
    command = iap_command(NAME, PUBLISHED)
    assert command[:5] == (str(gcloud), "compute", "start-iap-tunnel", "t1v-n-1234abcd-w-0", "22")
    assert {"--listen-on-stdin", "--project=p", "--zone=us-central2-b"} <= set(command)
    assert iap_command(NAME, {}) == ()  # the instance's name is not known
    for published in ("--flags-file=/home/me/evil", "a b", "a\nb", "-", "A", ""):
        assert iap_command(NAME, {("guestInventory", "hostname"): published}) == ()


async def test_a_vm_of_compute_engine_has_the_name_that_google_says(tmp_path):
    """Such a host publishes its keys only."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "gcloud").touch(0o755)
    vm = Endpoint(internal="10.0.0.2", instance="my-tpu-w-002")
    _, addresses = lookup(tmp_path, node(endpoints=(vm,)), {("hostkeys", "ssh-ed25519"): KEY})
    address = (await addresses.find(HostName(NAME, 0))).address
    assert address.proxy_command[2:4] == ("start-iap-tunnel", "my-tpu-w-002")


@pytest.mark.parametrize(
    ("published", "port"), [("2222", 2222), ("", 22), ("ssh", 22), ("0", 22), ("9" * 5000, 22)]
)
def test_a_port_that_can_not_be_is_not_taken(published, port):
    assert ssh_port({("ssh", "port"): published}) == port


async def test_the_external_address_is_preferred_and_the_port_is_the_published_one(tmp_path):
    cloud, addresses = lookup(
        tmp_path, node(), {**PUBLISHED, ("ssh", "port"): "2222"}, emulated=True
    )
    address = (await addresses.find(HostName(NAME, 0))).address
    assert (address.address, address.port, address.alias) == ("203.0.113.7", 2222, "tpu.42-0")
    assert address.host_keys[0] == f"ssh-ed25519 {KEY}"
    assert address.label == "my-tpu"
    assert len(cloud.added) == 1
    cloud.node = node(external="")
    addresses.forget(NAME)
    address = (await addresses.find(HostName(NAME, 0))).address
    assert (address.address, address.proxy_command) == ("10.0.0.2", ())


async def test_a_host_that_published_no_key_is_not_trusted_on_first_use(tmp_path):
    _, addresses = lookup(tmp_path, node(), {("vm", "hostname"): "x"})
    with raises(Reason.UNREACHABLE) as caught:
        await addresses.find(HostName(NAME, 0))
    assert "host key" in caught.value.message


async def test_the_next_tpu_of_a_name_is_not_pinned_to_the_key_of_the_one_before(tmp_path):
    cloud, addresses = lookup(tmp_path, node(), PUBLISHED, emulated=True)
    await addresses.find(HostName(NAME, 0))
    cloud.attributes = [{("hostkeys", "ssh-ed25519"): "AAAAother"}]
    cloud.node = node(id="43")
    addresses.forget(NAME)  # what the hosts before have published was read a moment ago
    after = (await addresses.find(HostName(NAME, 0))).address
    assert (after.alias, after.host_keys) == ("tpu.43-0", ("ssh-ed25519 AAAAother",))


async def test_a_pinned_key_stays_whatever_is_published_later(tmp_path):
    cloud, addresses = lookup(tmp_path, node(), PUBLISHED, emulated=True)
    first = (await addresses.find(HostName(NAME, 0))).address.host_keys
    cloud.attributes = [{("hostkeys", "ssh-ed25519"): "AAAAother"}]
    fresh = Lookup(cloud, KnownHosts(tmp_path / "known"))
    assert (await fresh.find(HostName(NAME, 0))).address.host_keys == first


@pytest.mark.parametrize(
    ("state", "endpoints", "reason"),
    [
        ("STOPPED", 1, Reason.CONFLICT),
        ("PREEMPTED", 1, Reason.CONFLICT),
        ("TERMINATED", 0, Reason.CONFLICT),
        ("STOPPING", 1, Reason.UNREACHABLE),
        ("CREATING", 0, Reason.UNREACHABLE),
        ("READY", 0, Reason.INVALID),
    ],
)
async def test_what_keeps_a_node_from_being_reached_is_told_apart(
    tmp_path, state, endpoints, reason
):
    there = node(state, endpoints=(Endpoint(internal="10.0.0.2"),) * endpoints)
    _, addresses = lookup(tmp_path, there, PUBLISHED)
    with raises(reason) as caught:
        await addresses.find(HostName(NAME, 0))
    assert "my-tpu" in caught.value.message


async def test_while_google_can_not_be_asked_the_last_answers_serve(tmp_path):
    cloud, addresses = lookup(tmp_path, node(), PUBLISHED, emulated=True)
    before = await addresses.find(HostName(NAME, 0))
    cloud.error = TPUError("away", Reason.UNAVAILABLE)
    other = Lookup(cloud, KnownHosts(tmp_path / "known"))
    addresses.forget(NAME)
    assert (await addresses.find(HostName(NAME, 0))).address == before.address
    with pytest.raises(TPUError, match="away"):
        await other.find(HostName(NAME, 0))
    cloud.error = TPUError("gone", Reason.NOT_FOUND)
    addresses.forget(NAME)
    with pytest.raises(TPUError, match="The TPU my-tpu does not exist"):
        await addresses.find(HostName(NAME, 0))


async def test_a_process_has_one_link_per_host_whatever_project_it_was_asked_with(tmp_path):
    one = default_links(Target(project="one"))
    two = default_links(Target(project="two"))
    emulated = default_links(Target(emulator=str(tmp_path / "state")))
    host = HostName(NAME, 0)
    assert default_links(Target(project="one")) is one
    assert (one.cloud.project, two.cloud.project) == ("one", "two")
    assert one.get(host) is two.get(host)
    assert emulated.get(host) is not one.get(host)
    await one.close()
    await emulated.close()


async def test_a_tpu_node_has_no_host_to_log_in_to_and_is_not_tried(tmp_path):
    _, addresses = lookup(tmp_path, node(retired=True), PUBLISHED)
    with pytest.raises(TPUError, match="my-tpu is a TPU Node") as caught:
        await addresses.find(HostName(NAME, 0))
    assert caught.value.reason is Reason.CONFLICT, "so the link does not try again"
