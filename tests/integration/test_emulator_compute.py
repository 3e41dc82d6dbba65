"""Compute Engine on the emulator, by Google's own client."""

import json
import subprocess
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import google_compute
import pytest
from cloud_operations import OneToken
from emulator_error import EmulatorError
from google.api_core import exceptions
from waiting import until

from jupyter_tpu.emulator.api.compute_fields import FIELDS

P, ZONE, REGION = "emulated", "us-east5-a", "us-east5"
IMAGES, FAMILY = "ubuntu-os-accelerator-images", "ubuntu-accel-2204-amd64-tpu-v5e-v5p-v6e"


@pytest.fixture(scope="module")
def client(emulator: Any) -> Callable[[str], Any]:
    """``client("Instances")``: Google's client of that collection."""

    def make(name: str) -> Any:
        kind = getattr(google_compute, f"{name}Client")
        transport = kind.get_transport_class("rest")(
            host=emulator.state.rest.removeprefix("http://"),
            credentials=OneToken(Path(emulator.state.token_file).read_text()),
            url_scheme="http",
        )
        return kind(transport=transport)

    return make


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("key") / "id"
    made = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", path]
    subprocess.run(made, check=True)
    return path


def properties(key: Path, **scheduling: Any) -> dict[str, Any]:
    return {
        "machine_type": "ct6e-standard-4t",
        "disks": [
            {
                "boot": True,
                "auto_delete": True,
                "initialize_params": {
                    "source_image": f"projects/{IMAGES}/global/images/family/{FAMILY}",
                    "disk_size_gb": 200,
                    "disk_type": "hyperdisk-balanced",
                },
            }
        ],
        "network_interfaces": [
            {
                "network": "global/networks/default",
                "access_configs": [{"name": "External NAT", "type_": "ONE_TO_ONE_NAT"}],
            }
        ],
        "scheduling": {"on_host_maintenance": "TERMINATE", **scheduling},
        "metadata": {
            "items": [
                {"key": "ssh-keys", "value": f"ann:{key.with_suffix('.pub').read_text().strip()}"},
                {"key": "enable-guest-attributes", "value": "TRUE"},
            ]
        },
    }


def instance(name: str, key: Path, **scheduling: Any) -> dict[str, Any]:
    machine = f"zones/{ZONE}/machineTypes/ct6e-standard-4t"
    return {**properties(key, **scheduling), "name": name, "machine_type": machine}


def ssh(client: Callable[[str], Any], name: str, key: Path, folder: Path, command: str) -> str:
    """What *command* says on an instance, whose host key is pinned from its guest attributes."""
    instances, where = client("Instances"), {"project": P, "zone": ZONE, "instance": name}
    attributes = instances.get_guest_attributes({**where, "query_path": ""}).query_value.items
    items = {(item.namespace, item.key): item.value for item in attributes}
    known = folder / f"known-{name}"
    known.write_text(f"{name} ssh-ed25519 {items['hostkeys', 'ssh-ed25519']}\n")
    (interface,) = instances.get(**where).network_interfaces
    address = interface.access_configs[0].nat_i_p
    line = [
        *("ssh", "-i", key, "-p", items.get(("ssh", "port"), "22")),
        *("-o", f"HostKeyAlias={name}", "-o", f"UserKnownHostsFile={known}"),
        *("-o", "StrictHostKeyChecking=yes", "-o", "BatchMode=yes"),
        *(f"ann@{address}", command),
    ]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def ended(client: Callable[[str], Any], operation: Any) -> list[str]:
    """Waits for *operation*; the codes of its errors. (The client's own waiting asks Google.)"""
    _, place, *_ = operation.self_link.partition("/projects/")[2].split("/")
    kinds = {"zones": ("Zone", ZONE), "regions": ("Region", REGION), "global": ("Global", "")}
    kind, name = kinds[place]
    where = {kind.lower(): name} if name else {}
    request = {"project": P, "operation": operation.name, **where}
    done = client(f"{kind}Operations").wait(request)
    assert done.status == google_compute.Operation.Status.DONE
    return [error.code for error in done.error.errors]


def test_the_fields_that_are_known_are_those_of_googles_client():
    for name, fields in FIELDS.items():
        descriptor = getattr(google_compute, name).pb().DESCRIPTOR
        assert set(fields) == {field.json_name for field in descriptor.fields}, name
        for field in descriptor.fields:
            kind = fields[field.json_name].removesuffix("[]")
            if kind[0].isupper():
                assert field.message_type.name == kind


def test_an_instance_is_a_host_to_log_in_to(client, emulator, key, tmp_path):
    instances, id = client("Instances"), str(uuid.uuid4())
    request = {"project": P, "zone": ZONE, "instance_resource": instance("one", key)}
    begun = instances.insert({**request, "request_id": id})
    assert instances.insert({**request, "request_id": id}).name == begun.name
    with pytest.raises(exceptions.Conflict):
        instances.insert({**request, "request_id": str(uuid.uuid4())})
    assert ended(client, begun) == []
    where = {"project": P, "zone": ZONE, "instance": "one"}
    made = instances.get(**where)
    assert (made.status, made.scheduling.provisioning_model) == ("RUNNING", "STANDARD")
    said = ssh(
        client, "one", key, tmp_path, "hostname; cat /etc/hostname; echo $JAX_NUM_CPU_DEVICES"
    )
    assert said.split() == ["one", "one", "4"]
    attribute = 'curl -s -H "Metadata-Flavor: Google" $GCE_METADATA_HOST/computeMetadata/v1/'
    ask = f"{attribute}instance/attributes/"
    said = ssh(client, "one", key, tmp_path, f"{ask}accelerator-type; {ask}agent-worker-number")
    assert said == "v6e-40"
    # Google's images of Compute Engine have no Docker, and chips are files of vfio.
    look = "command -v docker containerd dockerd || echo none; ls /dev/vfio | sort | tr '\\n' ' '"
    assert ssh(client, "one", key, tmp_path, look) == "none\n0 1 2 3 vfio"

    labels = {"label_fingerprint": made.label_fingerprint, "labels": {"jupyter-tpu": "one"}}
    instances.set_labels({**where, "instances_set_labels_request_resource": labels})
    (zone,) = [
        zone
        for zone, scope in instances.aggregated_list(
            {"project": P, "filter": "labels.jupyter-tpu=one"}
        )
        if scope.instances
    ]
    assert zone == f"zones/{ZONE}"
    tpus = f"/v2/projects/{P}/locations/-/nodes"
    assert "one" not in json.dumps(emulator.request("GET", tpus))

    assert ended(client, instances.delete(**where)) == []
    with pytest.raises(exceptions.NotFound, match="instances/one' was not found"):
        instances.get(**where)
    assert not [
        host
        for host in emulator.request("GET", "/emulator/v1/hosts")["hosts"]
        if host["node"].endswith("/instances/one")
    ]


def test_what_google_does_not_know_is_refused(client, emulator, key):
    instances = client("Instances")
    with pytest.raises(EmulatorError, match="Cannot find field"):
        emulator.request(
            "POST",
            f"/compute/v1/projects/{P}/zones/{ZONE}/instances",
            {"name": "two", "scheduling": {"tpu": True}},
        )
    v5e = instance("two", key) | {"machine_type": "zones/us-west4-a/machineTypes/ct5lp-hightpu-4t"}
    with pytest.raises(exceptions.Forbidden, match="user agent is not allowed"):
        instances.insert(project=P, zone="us-west4-a", instance_resource=v5e)
    with pytest.raises(exceptions.NotFound, match="instances/two"):
        instances.get_guest_attributes(
            {"project": P, "zone": ZONE, "instance": "two", "query_path": "hostkeys/"}
        )


def workloads(client: Callable[[str], Any], key: Path, **scheduling: Any) -> dict[str, Any]:
    """A policy of two hosts and a template; gives a group as it is asked for."""
    policy = {
        "name": "pod-wp",
        "workload_policy": {
            "type_": "HIGH_THROUGHPUT",
            "accelerator_topology": "2x4",
            "accelerator_topology_mode": "AUTO_CONNECT",
        },
    }
    made = client("ResourcePolicies").insert(
        project=P, region=REGION, resource_policy_resource=policy
    )
    assert ended(client, made) == []
    template = {"name": "pod-tmpl", "properties": properties(key, **scheduling)}
    made = client("RegionInstanceTemplates").insert(
        project=P, region=REGION, instance_template_resource=template
    )
    assert ended(client, made) == []
    where = f"projects/{P}/regions/{REGION}"
    return {
        "name": "pod",
        "base_instance_name": "pod-w-###[1]",
        "instance_template": f"{where}/instanceTemplates/pod-tmpl",
        "target_size": 2,
        "target_size_policy": {"mode": "BULK"},
        "resource_policies": {"workload_policy": f"{where}/resourcePolicies/pod-wp"},
        "instance_lifecycle_policy": {"default_action_on_failure": "DO_NOTHING"},
        "all_instances_config": {"properties": {"labels": {"jupyter-tpu": "pod"}}},
    }


def test_hosts_that_are_reported_or_maintained_are_started_again(client, emulator, key):
    instances, where = client("Instances"), {"project": P, "zone": ZONE, "instance": "broken"}
    body = instance("broken", key)
    ended(client, instances.insert(project=P, zone=ZONE, instance_resource=body))
    machines = [instances.get(where).resource_status.physical_host_topology.host]

    def moved() -> bool:
        vm = instances.get(where)
        host = vm.resource_status.physical_host_topology.host
        if vm.status != "RUNNING" or host in machines:
            return False
        machines.append(host)
        return True

    def report(**body: Any) -> Any:
        resource = "instances_report_host_as_faulty_request_resource"
        return instances.report_host_as_faulty({**where, resource: body})

    reason = {"behavior": "CHIP_ERROR", "description": "HBM errors"}
    with pytest.raises(exceptions.BadRequest):
        report(fault_reasons=[reason])
    with pytest.raises(exceptions.BadRequest, match="behavior"):
        report(disruption_schedule="IMMEDIATE", fault_reasons=[{"behavior": "OTHER"}])
    assert ended(client, report(disruption_schedule="IMMEDIATE", fault_reasons=[reason])) == []
    until(moved, 60)
    with pytest.raises(exceptions.BadRequest, match="no maintenance"):
        instances.perform_maintenance(where)
    emulator.inject_fault("announce-maintenance", node="broken")
    assert instances.get(where).resource_status.upcoming_maintenance.can_reschedule
    assert ended(client, instances.perform_maintenance(where)) == []
    until(moved, 60)
    assert not instances.get(where).resource_status.upcoming_maintenance.type_
    assert ended(client, instances.simulate_maintenance_event(where)) == []
    until(moved, 60)
    bulk = {"count": 2, "name_pattern": "b-#"}
    with pytest.raises(exceptions.BadRequest, match="BULK"):
        instances.bulk_insert(project=P, zone=ZONE, bulk_insert_instance_resource_resource=bulk)
    ended(client, instances.delete(where))


def test_zones_are_listed_and_advice_is_refused(client):
    zones = client("Zones")
    assert zones.get(project=P, zone="us-central1-ai1a").region.endswith("regions/us-central1")
    assert ZONE in {zone.name for zone in zones.list(project=P)}
    with pytest.raises(exceptions.NotFound):
        zones.get(project=P, zone="moon1-a")
    advice, where = client("Advice"), {"project": P, "region": REGION}
    with pytest.raises(exceptions.Forbidden):
        advice.capacity({**where, "capacity_advice_request_resource": {"size": 1}})
    with pytest.raises(exceptions.BadRequest):
        advice.calendar_mode({**where, "calendar_mode_advice_request_resource": {}})


@pytest.mark.long
def test_a_group_makes_a_host_again_that_is_to_be_recreated(client, key):
    groups, instances = client("InstanceGroupManagers"), client("Instances")
    here = {"project": P, "zone": ZONE, "instance_group_manager": "pod"}
    group = workloads(client, key)
    groups.insert({"project": P, "zone": ZONE, "instance_group_manager_resource": group})

    def active() -> bool:
        status = groups.get(here).status
        (topology,) = status.applied_accelerator_topologies or [None]
        return bool(topology and topology.state == "ACTIVE" and status.is_stable)

    until(active, 60)
    before = instances.get(project=P, zone=ZONE, instance="pod-w-001").id
    ask = "instance_group_managers_recreate_instances_request_resource"
    with pytest.raises(exceptions.BadRequest, match="not all in the group"):
        groups.recreate_instances({**here, ask: {"instances": [f"zones/{ZONE}/instances/none"]}})
    url = f"zones/{ZONE}/instances/pod-w-001"
    ended(client, groups.recreate_instances({**here, ask: {"instances": [url]}}))

    def again() -> bool:
        vms = [
            instance
            for instance in instances.list(project=P, zone=ZONE)
            if instance.name == "pod-w-001"
        ]
        return [vm.id for vm in vms] not in ([], [before]) and active()

    until(again, 60)
    ended(client, groups.delete(here))
    for kind, name in (("RegionInstanceTemplates", "tmpl"), ("ResourcePolicies", "wp")):
        field = "instance_template" if name == "tmpl" else "resource_policy"
        ended(client, client(kind).delete({"project": P, "region": REGION, field: f"pod-{name}"}))
