"""Networks, OS Login and announced maintenance in the emulator's model, without a transport."""

import random
from datetime import UTC, datetime

import msgspec
import pytest

from jupyter_tpu.emulator.model.api_errors import ApiError
from jupyter_tpu.emulator.model.model import Model
from jupyter_tpu.emulator.model.os_login import is_enabled
from jupyter_tpu.emulator.model.records import NodeRequest
from jupyter_tpu.emulator.model.snapshot import EmulatorSnapshot

P, ZONE = "emulated", "us-central1-a"
NODE = NodeRequest(type="v5litepod-8", version="v2-alpha-tpuv5-lite")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def make(snapshot: EmulatorSnapshot | None = None) -> Model:
    return Model(snapshot or EmulatorSnapshot(id="1"), chance=random.Random(7), now=lambda: NOW)


def says(error: pytest.ExceptionInfo[ApiError], text: str) -> bool:
    return text in error.value.message


def test_a_project_begins_with_googles_default_network_and_its_rules():
    networks = make().networks
    assert [network["name"] for network in networks.list(P, "networks")] == ["default"]
    rules = {network["name"]: network for network in networks.list(P, "firewalls")}
    assert set(rules) == {f"default-allow-{what}" for what in ("icmp", "internal", "rdp", "ssh")}
    assert rules["default-allow-ssh"]["allowed"] == [{"IPProtocol": "tcp", "ports": ["22"]}]
    assert networks.get(P, "subnetworks", "us-central1", "default")["ipCidrRange"]


def test_a_tpu_is_made_only_on_networks_that_exist_and_keeps_them_from_deletion():
    model = make()
    on_mine = msgspec.structs.replace(NODE, network="mine", subnetwork="mine")
    with pytest.raises(ApiError) as error:
        model.create_node(P, ZONE, "a", on_mine)
    assert says(error, f"'projects/{P}/global/networks/mine' was not found")
    model.networks.insert(P, "networks", "global", {"name": "mine", "autoCreateSubnetworks": True})
    model.create_node(P, ZONE, "a", on_mine)
    again = make(msgspec.convert(msgspec.to_builtins(model.snapshot()), EmulatorSnapshot)).networks
    for users, used_by in ((["nodes/a"], "nodes/a"), ([], "firewalls/ssh")):
        if not users:
            again.insert(P, "firewalls", "global", {"name": "ssh", "network": "mine"})
        with pytest.raises(ApiError) as error:
            again.delete(P, "networks", "global", "mine", iter(users))
        assert says(error, "is already being used by")
        assert says(error, used_by)
    again.delete(P, "firewalls", "global", "ssh", iter(()))
    again.delete(P, "networks", "global", "mine", iter(()))
    assert [subnetwork["name"] for subnetwork in again.list(P, "subnetworks", "us-central1")] == [
        "default"
    ]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"name": "x", "nope": 1}, 'Unknown name "nope": Cannot find field.'),
        ({"name": "X"}, "Invalid value for field 'resource.name': 'X'"),
        ({"name": "default"}, "The resource 'projects/emulated/global/networks/default' already"),
    ],
)
def test_a_network_that_compute_engine_would_refuse_is_refused(body, text):
    with pytest.raises(ApiError) as error:
        make().networks.insert(P, "networks", "global", body)
    assert says(error, text)


def test_os_logins_keys_count_until_they_expire():
    os_login = make().os_login
    later = int(NOW.timestamp() * 1e6) + 1
    os_login.import_key("ann@example.com", "ssh-rsa AAAA", later)
    os_login.import_key("ann@example.com", "ssh-rsa BBBB", later - 2)
    assert os_login.authorized(NOW) == {"ann_example_com": ["ssh-rsa AAAA"]}
    (account,) = os_login.profile("ann@example.com", P)["posixAccounts"]
    assert account["username"] == "ann_example_com"
    assert is_enabled({}, {"enable-oslogin": "TRUE"})
    assert not is_enabled({"enable-oslogin": "false"}, {"enable-oslogin": "TRUE"})


def test_announced_maintenance_is_shown_until_it_is_over():
    model = make()
    model.complete(model.create_node(P, ZONE, "a", NODE))
    node = model.get_node(P, ZONE, "a")
    model.announce_maintenance(node, 3600)
    coming = node.upcoming_maintenance
    assert (coming.status, coming.start[:16]) == ("PENDING", "2026-01-01T01:00")
    operation = model.maintain_node(P, ZONE, "a")
    assert coming.status == "ONGOING"
    model.complete(operation)
    assert node.upcoming_maintenance is None
