"""Whose a TPU is, as labels and SSH keys say it; and addresses of TPU Nodes."""

import pytest

from jupyter_tpu.errors import InvalidInput
from jupyter_tpu.fleet.money.owners import OWNER, TPUOwner, User, as_label, own_name, owner_of
from jupyter_tpu.fleet.setup.preflight import tpu_node_settings
from jupyter_tpu.retired import is_tpu_node_address, refuse_tpu_node_address

ME = User("ana", "AAAAmine", "tpu")
MY_KEY = "tpu:ssh-ed25519 AAAAmine tpu"
OTHER_KEY = "tpu:ssh-ed25519 AAAAother tpu"  # of somebody with the same name on another computer


@pytest.mark.parametrize(
    ("labels", "keys", "owner"),
    [
        ({OWNER: "ana"}, OTHER_KEY, TPUOwner("ana", "label", is_me=True)),
        ({OWNER: "bob", "owner": "ana"}, MY_KEY, TPUOwner("bob", "label", is_other=True)),
        ({"created-by": "bob", "team": "ana"}, "", TPUOwner("bob", "label", is_other=True)),
        ({"owner": "tpu"}, "", TPUOwner("tpu", "label", is_me=True)),
        ({OWNER: "tpu"}, MY_KEY, TPUOwner("tpu", "label", is_other=True)),
        ({OWNER: ""}, MY_KEY, TPUOwner("tpu", "ssh-keys", is_me=True)),
        ({}, f"{MY_KEY}\ntpu:ssh-rsa AAAA tpu", TPUOwner("tpu", "ssh-keys", is_me=True)),
        ({}, OTHER_KEY, TPUOwner("tpu", "ssh-keys")),
        ({}, "bob:ssh-rsa AAAA bob", TPUOwner("bob", "ssh-keys", is_other=True)),
        ({}, f"{MY_KEY}\nbob:ssh-rsa AAAA bob", TPUOwner()),
        ({}, "", TPUOwner()),
    ],
)
def test_the_owner_is_who_a_label_names_or_whose_key_alone_may_log_in(labels, keys, owner):
    assert owner_of(labels, {"ssh-keys": keys}, ME) == owner
    no_key = owner_of({}, {"ssh-keys": keys}, User("ana"))
    assert not no_key.is_me, "without a key of mine, no key is mine"


def test_my_name_is_one_that_a_label_can_have():
    assert own_name({"JUPYTER_TPU_OWNER": "Ana", "JUPYTERHUB_USER": "b"}) == "ana"
    assert own_name({"JUPYTERHUB_USER": "b", "CLOUDSDK_CORE_ACCOUNT": "c@d.org"}) == "b"
    assert own_name({"CLOUDSDK_CORE_ACCOUNT": "c.d@e.org"}) == "c-d_e-org"
    assert as_label("Ünï " + "x" * 80) == "-n--" + "x" * 59


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("grpc://10.0.0.2:8470", True),
        (" grpc://10.0.0.2:8470,grpc://10.0.0.3:8470", True),
        ("10.0.0.2:8470", True),
        ("us-west4-a/my-tpu", False),
        ("us-west4-a~my-tpu", False),
        ("grpc", False),
        ("my-tpu:8888", False),
    ],
)
def test_the_address_of_a_tpu_node_is_recognized(text, is_one):
    assert is_tpu_node_address(text) is is_one
    if is_one:
        with pytest.raises(InvalidInput, match="Google has retired that architecture"):
            refuse_tpu_node_address(text)


def test_settings_of_old_notebooks_are_found():
    settings = tpu_node_settings(
        {
            "TPU_NAME": "my-tpu",
            "COLAB_TPU_ADDR": "10.0.0.2:8470",
            "XRT_TPU_CONFIG": "tpu_worker;0;10.0.0.2:8470",
        }
    )
    assert [setting.hint.split(".")[0] for setting in settings] == [
        "Unset COLAB_TPU_ADDR",
        "Unset XRT_TPU_CONFIG",
    ]
