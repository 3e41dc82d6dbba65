"""What is wrong with a request is said in one sentence that names the field."""

from types import SimpleNamespace
from typing import Any

import pytest
from refusals import raises

from jupyter_tpu import catalog
from jupyter_tpu.cloud import Node, NodeName, NodeState
from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.fleet.core import checks
from jupyter_tpu.fleet.core.host_numbers import host_number
from jupyter_tpu.fleet.core.known_operations import OperationProgress
from jupyter_tpu.fleet.environments.environment import create_environment, steps
from jupyter_tpu.fleet.lifecycle import choices
from jupyter_tpu.fleet.models import ConnectTPU, CreateTPU, DeleteTPU, Operation
from jupyter_tpu.fleet.models.core import parse_request, validated

ZONES = catalog.zones()


def refusal(model: type, body: bytes) -> TPUError:
    with raises(Reason.INVALID) as error:
        parse_request(model, body)
    assert error.value.message.count(".") >= 1
    return error.value


def refused(model: type, body: bytes) -> str:
    return refusal(model, body).message


@pytest.mark.parametrize("name", ["My-TPU", "-a", "a-", "ä", "a" * 41, "", "a_b", "1a", "a\n"])
def test_a_name_that_google_would_refuse_is_refused_with_the_rule(name):
    with pytest.raises(TPUError, match=r"The name is not allowed: it must be 1–40 lower-case"):
        validated(CreateTPU(name=name, type="v5litepod-8"))


@pytest.mark.parametrize("key", ["owner", "once", "operation", "end", "flex-start", "later"])
def test_a_label_by_which_this_program_knows_a_tpu_is_taken_from_nobody(key):
    checks.check_labels({"team": "vision", "owner": "ana"})
    with pytest.raises(TPUError, match=f"The label jupyter-tpu-{key} is not allowed"):
        checks.check_labels({f"jupyter-tpu-{key}": "ana"})


@pytest.mark.parametrize("name", ["a", "a" * 40, "a-1"])
def test_a_name_at_the_limits_is_taken(name):
    assert validated(CreateTPU(name=name, type="v5litepod-8")).name == name


@pytest.mark.parametrize("name", ["", "Dev", "../x", "a b", "a" * 41, "a\n", "-a"])
def test_an_environments_name_that_is_no_folder_is_refused(name):
    with pytest.raises(TPUError, match="The environment is not allowed: it must be 1–40"):
        validated(ConnectTPU(environment=name))


def test_a_python_that_jax_can_not_run_on_is_refused_before_anything_is_made():
    checks.check_environment(ConnectTPU(python="3.12"))
    with pytest.raises(TPUError, match=r"JAX needs Python 3\.11 or newer, not 2\.7"):
        checks.check_environment(ConnectTPU(python="2.7"))


@pytest.mark.parametrize(
    "body",
    [b"\xff", b'{"name": "\xff"}', b'{"name": "\\ud800"}', b"{", b"NaN"],
    ids=["bytes", "a name of bytes", "half a character", "cut", "not a number"],
)
def test_a_body_that_is_no_json_is_refused(body):
    assert refused(CreateTPU, body) == "The body is not valid JSON."


@pytest.mark.parametrize("text", ["9" * 5000, "-1", "2", "0x0", "", "1_0", "\u0663", "1.0", " 1"])
def test_a_host_s_number_that_can_not_be_is_not_found(text):
    with raises(Reason.NOT_FOUND, "my-tpu") as caught:
        host_number(text, 2, "my-tpu")
    assert len(str(caught.value)) < 300
    assert host_number("1", 2, "my-tpu") == 1


def test_each_wrong_body_names_its_field():
    assert refused(CreateTPU, b'{"type": "v4-8"}') == "The field name is missing."
    assert refused(CreateTPU, b'{"nam": 1}') == "The field nam does not exist."
    assert "field type is wrong: expected `str`" in refused(CreateTPU, b'{"name":"a","type":1}')
    nested = b'{"name":"a","type":"v4-8","connect":{"environment":"../x"}}'
    assert "connect.environment is not allowed" in refused(CreateTPU, nested)
    assert refused(CreateTPU, b"{") == "The body is not valid JSON."
    assert "not a CreateTPU" in refused(CreateTPU, b"[]")
    assert "field packages[0] is wrong" in refused(ConnectTPU, b'{"packages":[1]}')


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b'{"type":"v4-8"}', "name"),
        (b'{"name":"a","type":"v4-8","guard":{"max_cost":-1}}', "max_cost"),
        (b'{"name":"a","type":"v4-8","connect":{"packages":["a",1]}}', "packages"),
        (b'{"name":"a","type":"v4-8","connect":{"then_run":"\\u0000"}}', "then_run"),
        (b'{"nam":1}', ""),
    ],
)
def test_a_program_gets_the_name_of_the_field_without_its_path(body, field):
    assert refusal(CreateTPU, body).field == field


def test_an_empty_body_means_the_defaults():
    assert parse_request(DeleteTPU, b"") == DeleteTPU(end_kernels=False)
    assert parse_request(ConnectTPU, b" \n").environment == "default"


def test_an_unknown_zone_is_answered_with_near_ones():
    with pytest.raises(TPUError, match=r"us-west4-b does not exist, or has no TPUs\. Did you mean"):
        choices.zone("us-west4-b", None, ZONES)


def test_the_default_zone_is_used_and_its_absence_explained():
    assert choices.zone(None, "us-west4-a", ZONES) == "us-west4-a"
    with pytest.raises(TPUError, match="gcloud config set compute/zone"):
        choices.zone(None, None, ZONES)


def test_an_unknown_type_is_answered_with_near_ones_and_what_the_zone_offers():
    offered = [kind.name for kind in catalog.types_in("us-west4-a")]
    with pytest.raises(TPUError, match="Did you mean v5litepod-8") as error:
        choices.accelerator("v5e-8", "us-west4-a", offered)
    assert "us-west4-a offers v5litepod-1" in error.value.hint


def test_a_type_that_is_elsewhere_names_the_zones_that_have_it():
    with pytest.raises(TPUError, match=r"v5p-8 is not offered in us-west4-a; .*us-east5-a"):
        choices.accelerator("v5p-8", "us-west4-a", ["v5litepod-8"])


def test_a_type_newer_than_the_catalog_may_be_created_where_google_offers_it():
    assert choices.accelerator("v9x-8", "us-west4-a", ["v9x-8"]) is None
    with pytest.raises(TPUError, match="Choose a version"):
        choices.version(None, None, [])
    assert choices.version("v2-alpha-tpuv9", None, ["v2-alpha-tpuv9"]) == "v2-alpha-tpuv9"


def test_the_version_defaults_to_the_types_own():
    kind = catalog.accelerator_type("v5litepod-8")
    assert choices.version(None, kind, []) == "v2-alpha-tpuv5-lite"
    with pytest.raises(TPUError, match=r"version v2-alpha-tpuv5-light does not exist\. Did"):
        choices.version("v2-alpha-tpuv5-light", kind, [])


@pytest.mark.parametrize("package", ["--index-url=http://x", " -r x", "", "a\nb", "a\0"])
def test_a_package_can_not_smuggle_an_option(package):
    with pytest.raises(TPUError, match="is not a package"):
        checks.check_requirements([package])


def test_labels_that_google_refuses_are_refused_here():
    checks.check_labels({"team": "a-1"})
    with pytest.raises(TPUError, match="label Team=x is not allowed"):
        checks.check_labels({"Team": "x"})


async def test_a_fallback_to_the_cpu_says_how_to_check_all_hosts(monkeypatch):
    async def fall_back(*_: Any) -> Any:
        raise TPUError("JAX does not use the TPU.", Reason.CPU_FALLBACK, "The log has details.")

    monkeypatch.setattr("jupyter_tpu.environment.create", fall_back)
    node = Node(
        name=NodeName("p", "z", "my-tpu"), id="1", type="v5litepod-4", state=NodeState.READY
    )
    progress = OperationProgress(Operation(id="1", kind="connect"), lambda: None)
    progress.plan(steps(ConnectTPU()))
    no_links: Any = SimpleNamespace(acquire=lambda name, hosts: [])
    with pytest.raises(TPUError) as error:
        await create_environment(node, ConnectTPU(), no_links, progress, emulated=False)
    assert error.value.hint == (
        "The log has details. To check all hosts: jupyter tpu doctor my-tpu"
    )
