"""Requests to Compute Engine for the hosts of a TPU, as instances or as a template of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ... import catalog
from ...errors import InvalidInput
from ..models import (
    DISK_GB,
    END_LABEL,
    LONGEST_WAIT,
    DataDisk,
    Node,
    NodeName,
    NodeOptions,
    NodeSpec,
    Tier,
)

Body = dict[str, Any]

#: Tier → provisioning model.
MODELS: dict[Tier, str] = {
    "on-demand": "STANDARD",
    "spot": "SPOT",
    "flex-start": "FLEX_START",
    "reserved": "RESERVATION_BOUND",
}
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_RESERVATION = "compute.googleapis.com/reservation-name"
_DISK = "hyperdisk-balanced"


def region_of(zone: str) -> str:
    """ "us-central1", of us-central1-c and of us-central1-ai1a."""
    return zone.rpartition("-")[0]


def accelerator_of(type: str) -> catalog.AcceleratorType:
    """The type; raises INVALID for one that Compute Engine does not have."""
    try:
        accelerator_type = catalog.accelerator_type(catalog.official_name(type))
    except catalog.UnknownType as error:
        raise InvalidInput(str(error), "Choose a type of Compute Engine.", field="type") from None
    if accelerator_type.machine is None:
        raise InvalidInput(
            f"Compute Engine has no {type}.",
            "Use the Cloud TPU API for it: --api tpu",
            field="type",
        )
    return accelerator_type


def type_of(machine_type: str, topology: str = "") -> str:
    """The catalog's name of what has such hosts; Google's own where it has none."""
    try:
        return catalog.type_of_machine(machine_type, topology).name
    except catalog.UnknownType:
        return f"{machine_type} {topology}".rstrip()


def instance_body(name: NodeName, spec: NodeSpec) -> Body:
    """compute.Instance, for a TPU of one host."""
    zone = f"zones/{name.zone}"
    body = _properties(name, spec, f"{zone}/diskTypes/")
    body |= {
        "name": name.node,
        "machineType": f"{zone}/machineTypes/{body['machineType']}",
    }
    if spec.tier == "flex-start":
        wait = max(0, min(int(spec.wait_for), int(LONGEST_WAIT)))
        body["params"] = {"requestValidForDuration": {"seconds": str(wait)}}
    return body


def template_properties(name: NodeName, spec: NodeSpec) -> Body:
    """compute.InstanceProperties, for each host of a slice."""
    return _properties(name, spec, "")


def _properties(name: NodeName, spec: NodeSpec, disk_types: str) -> Body:
    shape = accelerator_of(spec.type).machine
    assert shape is not None
    options = spec.options
    image = spec.version or shape.image
    if "/" not in image:
        image = f"projects/{catalog.IMAGE_PROJECT}/global/images/family/{image}"
    boot = {
        "boot": True,
        "autoDelete": True,
        "initializeParams": {
            "sourceImage": image,
            "diskSizeGb": str(spec.disk_gb),
            "diskType": f"{disk_types}{_DISK}",
        },
    }
    more = [
        {"source": disk.source, "mode": disk.mode.upper().replace("-", "_")}
        for disk in options.data_disks
    ]
    # Guests publish their host keys only where that is switched on.
    metadata = {"enable-guest-attributes": "TRUE", **spec.metadata}
    body: Body = {
        "machineType": shape.machine_type,
        "disks": [boot, *more],
        "networkInterfaces": [_interface(name, spec)],
        "scheduling": _scheduling(spec),
        "serviceAccounts": [
            {"email": options.service_account or "default", "scopes": options.scopes or [_SCOPE]}
        ],
        "labels": _labels(spec),
        "metadata": {"items": [{"key": key, "value": text} for key, text in metadata.items()]},
    }
    if options.description:
        body["description"] = options.description
    if options.tags:
        body["tags"] = {"items": options.tags}
    if options.secure_boot:
        body["shieldedInstanceConfig"] = {"enableSecureBoot": True}
    if affinity := _affinity(spec):
        body["reservationAffinity"] = affinity
    return body


def request_of(node: Node, host: Mapping[str, Any]) -> NodeSpec:
    """`_properties`, read backwards. host: an instance, or a template of some."""
    interface: Body = next(iter(host.get("networkInterfaces", ())), {})
    account: Body = next(iter(host.get("serviceAccounts", ())), {})
    disks = host.get("disks", ())
    boot: Body = next((disk for disk in disks if disk.get("boot")), {})
    size = boot.get("diskSizeGb") or boot.get("initializeParams", {}).get("diskSizeGb")
    reservations = host.get("reservationAffinity", {}).get("values", ())
    return NodeSpec(
        type=node.type,
        version=node.version,
        tier=node.tier,
        api="compute",
        network=_path(interface.get("network", "")),
        subnetwork=_path(interface.get("subnetwork", "")),
        labels=node.labels,
        metadata=node.metadata,
        disk_gb=int(size) if size else DISK_GB,
        reservation=str(next(iter(reservations), "")),
        run_for=node.run_for or 0.0,
        options=NodeOptions(
            internal_ips=bool(interface) and not interface.get("accessConfigs"),
            service_account=account.get("email", ""),
            scopes=account.get("scopes", []),
            data_disks=[
                DataDisk(
                    source=_path(disk["source"]),
                    mode="read-only" if disk.get("mode") == "READ_ONLY" else "read-write",
                )
                for disk in disks
                if disk.get("source") and not disk.get("boot")
            ],
            tags=host.get("tags", {}).get("items", []),
            description=node.details.get("description", ""),
            secure_boot=bool(host.get("shieldedInstanceConfig", {}).get("enableSecureBoot")),
        ),
    )


def _path(url: str) -> str:
    """projects/P/…, of a URL or such a path."""
    return url[url.find("/projects/") + 1 :] if "/projects/" in url else url


def _labels(spec: NodeSpec) -> dict[str, str]:
    """With the mark that its end is a guard's, which may be changed later."""
    own_end = spec.run_for and spec.tier != "flex-start"
    return {**spec.labels, END_LABEL: "guard"} if own_end else spec.labels


def _interface(name: NodeName, spec: NodeSpec) -> Body:
    interface: Body = {"nicType": "GVNIC"}
    if spec.network or not spec.subnetwork:
        interface["network"] = _full(spec.network or "default", "global/networks/")
    if spec.subnetwork:
        place = f"regions/{region_of(name.zone)}/subnetworks/"
        interface["subnetwork"] = _full(spec.subnetwork, place)
    if not spec.options.internal_ips:
        interface["accessConfigs"] = [{"name": "External NAT", "type": "ONE_TO_ONE_NAT"}]
    return interface


def _full(name: str, place: str) -> str:
    return name if "/" in name else place + name


def _scheduling(spec: NodeSpec) -> Body:
    scheduling: Body = {
        "provisioningModel": MODELS[spec.tier],
        "onHostMaintenance": "TERMINATE",  # TPUs can't move to another machine
    }
    if spec.tier == "spot":
        scheduling |= {"automaticRestart": False, "instanceTerminationAction": "STOP"}
    if spec.tier == "reserved":
        scheduling["instanceTerminationAction"] = "DELETE"
    if spec.run_for:
        scheduling["maxRunDuration"] = {"seconds": str(int(spec.run_for))}
        scheduling["instanceTerminationAction"] = "DELETE"
    elif spec.tier == "flex-start":
        raise InvalidInput(
            "A flex-start TPU needs a run time.",
            "Set it, for example --run-for 4h. Google deletes the TPU after that time.",
            field="run_for",
        )
    return scheduling


def _affinity(spec: NodeSpec) -> Body | None:
    if spec.tier == "flex-start":
        return {"consumeReservationType": "NO_RESERVATION"}
    if spec.tier != "reserved":
        return None
    if not spec.reservation:
        raise InvalidInput(
            "Compute Engine needs the name of the reservation.",
            "Give it: its name, or projects/PROJECT/reservations/NAME.",
            field="reservation",
        )
    return {
        "consumeReservationType": "SPECIFIC_RESERVATION",
        "key": _RESERVATION,
        "values": [spec.reservation],
    }
