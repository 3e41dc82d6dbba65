"""The options of a new TPU: what is refused, and what Google is asked for."""

from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict

from jupyter_tpu.cloud import DataDisk, NodeOptions, NodeSpec
from jupyter_tpu.cloud.tpu.nodes import node_message, parse_node
from jupyter_tpu.errors import InvalidInput
from jupyter_tpu.fleet.lifecycle import node_options
from jupyter_tpu.fleet.models import CreateTPU


def asked_for(spec: NodeSpec) -> dict[str, Any]:
    """The body of CreateNode."""
    message = node_message(spec)
    return MessageToDict(type(message).pb(message))


@pytest.mark.parametrize(
    "options",
    [
        {"tags": ["Upper"]},
        {"tags": ["a b"]},
        {"data_disks": [DataDisk(source="zones/z/disks/d")]},
        {"data_disks": [DataDisk(source="../d")]},
        {"scopes": ["https://example.com/auth/x"]},
        {"service_account": "me"},
        {"metadata": {"a b": "c"}},
        {"metadata": {"startup-script": "x"}, "startup_script": "y"},
        {"startup_script": "x" * (256 * 1024 + 1)},
        {"metadata": dict.fromkeys("abc", "x" * 200000)},
    ],
)
def test_what_google_would_refuse_is_refused_before(options):
    with pytest.raises(InvalidInput):
        node_options.check(NodeOptions(**options))


def test_every_option_reaches_google():
    options = NodeOptions(
        description="mine",
        internal_ips=True,
        service_account="me@p.iam.gserviceaccount.com",
        scopes=["storage-ro", "https://www.googleapis.com/auth/compute"],
        data_disks=[DataDisk(source="data"), DataDisk(source="weights", mode="read-only")],
        tags=["tpu"],
        secure_boot=True,
    )
    node_options.check(options)
    full = node_options.resolved(options, project="p", zone="z")
    body = asked_for(NodeSpec(type="v4-8", version="image", tier="reserved", options=full))
    assert body["acceleratorType"] == "v4-8"
    assert "enableExternalIps" not in body["networkConfig"]
    assert body["schedulingConfig"] == {"reserved": True}
    assert (body["description"], body["tags"]) == ("mine", ["tpu"])
    assert body["serviceAccount"] == {
        "email": "me@p.iam.gserviceaccount.com",
        "scope": [
            "https://www.googleapis.com/auth/devstorage.read_only",
            "https://www.googleapis.com/auth/compute",
        ],
    }
    assert body["dataDisks"] == [
        {"sourceDisk": "projects/p/zones/z/disks/data", "mode": "READ_WRITE"},
        {"sourceDisk": "projects/p/zones/z/disks/weights", "mode": "READ_ONLY"},
    ]
    assert body["shieldedInstanceConfig"] == {"enableSecureBoot": True}


@pytest.mark.parametrize("type", ["v4", "v4-32"])
def test_a_topology_says_which_type_is_meant_and_goes_to_google_as_it_is(type):
    request = CreateTPU(name="my-tpu", type=type, options=NodeOptions(topology="1x4x4"))
    request = node_options.named_type(request)
    assert request.type == "v4-32"
    body = asked_for(NodeSpec(type=request.type, version="image", options=request.options))
    assert body["acceleratorConfig"] == {"type": "V4", "topology": "1x4x4"}
    assert "acceleratorType" not in body


@pytest.mark.parametrize(
    ("type", "topology"), [("v4-8", "2x2x4"), ("v4", "3x3x3"), ("v4", "4x4"), ("v4", "4")]
)
def test_a_topology_that_its_type_does_not_have_is_refused(type, topology):
    with pytest.raises(InvalidInput, match=topology):
        node_options.named_type(
            CreateTPU(name="my-tpu", type=type, options=NodeOptions(topology=topology))
        )


@pytest.mark.parametrize(
    ("type", "topology", "kept"),
    [("v4-32", "1x4x4", "1x4x4"), ("v4-32", "2x2x4", ""), ("v99-8", "2x2", "")],
)
def test_a_topology_is_asked_for_again_where_the_type_alone_means_another_one(type, topology, kept):
    node = parse_node(
        {
            "name": "projects/p/locations/z/nodes/my-tpu",
            "acceleratorType": type,
            "acceleratorConfig": {"type": "V4", "topology": topology},
        }
    )
    assert node.request.options.topology == kept


def test_our_key_stands_beside_those_of_the_user():
    options = NodeOptions(metadata={"ssh-keys": "a:ssh-rsa A a\n"}, startup_script="echo 1\n")
    assert node_options.metadata(options, {"ssh-keys": "b:ssh-rsa B b"}) == {
        "ssh-keys": "a:ssh-rsa A a\nb:ssh-rsa B b",
        "startup-script": "echo 1\n",
    }


def test_what_our_models_do_not_have_of_a_node_is_kept_as_it_came():
    node = parse_node(
        {
            "name": "projects/p/locations/z/nodes/my-tpu",
            "acceleratorType": "v99-8",
            "tags": ["a"],
            "upcomingMaintenance": {"type": "SCHEDULED"},
        }
    )
    assert node.type == "v99-8"
    assert node.details == {"tags": ["a"], "upcomingMaintenance": {"type": "SCHEDULED"}}
