"""Attached machines as they are stored and shown, and which of them can be one TPU."""

import functools
import json
import sqlite3

import pytest

from jupyter_tpu.cloud import (
    ATTACHED,
    AttachedHost,
    AttachedMachine,
    AttachedMachines,
    CloudTPU,
    CloudWithAttached,
    NodeName,
    NodeSpec,
    Target,
)
from jupyter_tpu.commands.attach import confirm_keys
from jupyter_tpu.errors import InvalidInput, TPUError
from jupyter_tpu.fleet.lifecycle.attached import require_one_slice
from jupyter_tpu.fleet.models import MachineHost
from jupyter_tpu.on_host.chips.machine import own_address

TIME = "2026-01-02T03:04:05Z"


def host(number: int, *chips: str) -> AttachedHost:
    address = f"10.0.0.{number}"
    return AttachedHost(
        alias=f"me@box-{number}", user="you", address=address, internal=address, chips=chips
    )


def test_a_machine_that_was_stored_before_there_were_several_is_still_there(tmp_path):
    machines = AttachedMachines(tmp_path / "attached.sqlite")
    pod = AttachedMachine(name="pod", id="a-2", hosts=(host(0), host(1)), created=TIME)
    machines.add(pod, pin=lambda: None)
    old = {
        "name": "old", "id": "a-1", "alias": "me@box-7", "user": "you", "address": "10.0.0.7",
        "internal": "10.0.0.7", "chips": ["v5e"], "created": TIME,
    }  # fmt: skip
    database = sqlite3.connect(machines.path)
    with database:
        database.execute("INSERT INTO attached VALUES (?, ?)", ("old", json.dumps(old)))
    database.close()
    single = AttachedMachine(name="old", id="a-1", hosts=(host(7, "v5e"),), created=TIME)
    assert machines.all() == [single, pod]


def test_what_another_process_has_just_attached_keeps_its_host_keys(tmp_path):
    path = tmp_path / "attached.sqlite"
    pods = [AttachedMachine(name="pod", id=id, hosts=(host(0),), created=TIME) for id in "abc"]
    pinned: list[str] = []

    def fail() -> None:
        raise OSError("No space left on device")

    with pytest.raises(TPUError, match="No space left on device"):
        AttachedMachines(path).add(pods[0], pin=fail)
    for pod in pods[1:]:
        added = AttachedMachines(path).add(pod, pin=functools.partial(pinned.append, pod.id))
        assert added == pods[1]
    assert (AttachedMachines(path).all(), pinned) == ([pods[1]], ["b"])


def test_several_machines_are_the_hosts_of_one_tpu_in_their_order():
    hosts = tuple(host(number, *["v5e"] * 4) for number in (3, 1))
    node = AttachedMachine(name="pod", id="a-1", hosts=hosts, created=TIME).node
    assert [endpoint.ssh for endpoint in node.endpoints] == ["you@box-3", "you@box-1"]
    assert [endpoint.internal for endpoint in node.endpoints] == ["10.0.0.3", "10.0.0.1"]
    assert (node.type, node.chips) == ("v5e", 8)


def test_only_machines_with_the_chips_of_one_slice_can_be_one_tpu():
    four, eight = ["v5e"] * 4, ["v5e"] * 8
    for fine in ([eight], [four, four], [[], [], []]):
        require_one_slice([host(number, *chips) for number, chips in enumerate(fine)])
    for wrong in ([eight, eight], [four, []], [four, ["v4"] * 4]):
        with pytest.raises(InvalidInput, match=r"me@box-0 has . v5e chips, me@box-1 has "):
            require_one_slice([host(number, *chips) for number, chips in enumerate(wrong)])


async def test_creating_a_tpu_among_attached_machines_is_a_wrong_argument(tmp_path):
    machines = AttachedMachines(tmp_path / "attached.sqlite")
    cloud = CloudWithAttached(CloudTPU(Target(project="p")), machines)
    spec = NodeSpec(type="v5litepod-8", version="v2-alpha-tpuv5-lite")
    with pytest.raises(InvalidInput, match="No TPU can be created in the zone"):
        await cloud.begin_create(NodeName("p", ATTACHED, "box"), spec)


def test_a_machine_is_known_to_others_by_the_address_at_which_it_was_reached(monkeypatch):
    monkeypatch.setenv("SSH_CONNECTION", "192.0.2.9 4321 10.0.0.7 22")
    assert own_address() == "10.0.0.7"
    monkeypatch.delenv("SSH_CONNECTION")
    elsewhere = own_address()
    for proxied in ("127.0.0.1 4321 127.0.0.1 22", "::1 4321 ::1 22"):
        monkeypatch.setenv("SSH_CONNECTION", proxied)
        assert own_address() == elsewhere != "127.0.0.1"


def test_unknown_host_keys_are_asked_for_in_one_question(monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    hosts = [
        MachineHost(
            ssh=f"box-{letter}", address="10.0.0.7", port=22, user="me",
            host_key=f"SHA256:{letter}", known=False,
        )
        for letter in "ab"
    ]  # fmt: skip
    for asked, trust in (hosts[:1], "SHA256:a"), (hosts, "SHA256:a --host-key SHA256:b"):
        with pytest.raises(TPUError, match="Not a terminal") as caught:
            confirm_keys(asked)
        said = str(caught.value)
        assert all(f"The host key of {host.ssh} (me@10.0.0.7 port 22)" in said for host in asked)
        assert said.endswith(f", then add: --host-key {trust}")
