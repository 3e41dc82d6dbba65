"""What Compute Engine demands of an instance, or of the properties in a template.

Words that are not Google's, as far as known, are marked as ours.
"""

from __future__ import annotations

import re
from typing import Any

from . import api_errors
from .host_profile import missing_features
from .machine_types import IMAGE_FAMILIES, IMAGES, MachineType, machine_type
from .networks import EmulatedNetworks
from .records import NodeSettings

NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
LONGEST_WAIT = 7200  # seconds for capacity
LONGEST_FLEX_RUN = 7 * 24 * 3600  # seconds
_FEW_SCOPES = ["https://www.googleapis.com/auth/devstorage.read_only"]

Body = dict[str, Any]


def check_name(body: Body) -> str:
    name = body.get("name")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise api_errors.invalid_value("resource.name", name, NAME.pattern)
    return name


def check_machine_type(body: Body, zone: str) -> MachineType:
    """The type that *zone* lists; ApiError if there is none, or it is not for users."""
    text = body.get("machineType")
    if not text:
        raise api_errors.required_field("resource.machineType")
    machine = machine_type(text)
    at = re.search(r"zones/([^/]+)/machineTypes/", text)
    if machine is None or zone not in machine.zones or (at and at[1] != zone):
        raise api_errors.compute_invalid(
            f"Invalid value for field 'resource.machineType': '{text}'. Machine type with name "
            f"'{text.rpartition('/')[2]}' does not exist in zone '{zone}'."
        )
    if not machine.creatable:
        raise api_errors.refused_machine_type(machine.name)
    return machine


def check_properties(body: Body) -> None:
    """ApiError for what the service refuses of an instance of a TPU, in whatever zone."""
    scheduling = body.get("scheduling") or {}
    model = provisioning_model(body)
    if model not in ("STANDARD", "SPOT", "FLEX_START", "RESERVATION_BOUND"):
        raise _invalid("scheduling.provisioningModel", model, "It is not supported for TPUs.")
    if scheduling.get("onHostMaintenance") != "TERMINATE":
        text = "Instances with TPUs must have onHostMaintenance set to TERMINATE."  # ours
        raise _invalid("scheduling.onHostMaintenance", scheduling.get("onHostMaintenance"), text)
    longest = seconds_of(scheduling.get("maxRunDuration"))
    action = scheduling.get("instanceTerminationAction")
    if model == "FLEX_START" and (not longest or longest > LONGEST_FLEX_RUN or action != "DELETE"):
        text = (  # ours; the rule is Google's
            "FLEX_START needs a maxRunDuration of up to 7 days, and the instanceTerminationAction "
            "DELETE."
        )
        raise _invalid("scheduling", model, text)
    if model == "RESERVATION_BOUND" and (action != "DELETE" or not reservation(body)):
        text = "RESERVATION_BOUND needs a reservation and the action DELETE."  # ours
        raise _invalid("scheduling", model, text)
    if longest and scheduling.get("terminationTime"):
        text = "Only one of maxRunDuration and terminationTime can be set."  # ours; Google's rule
        raise _invalid("scheduling", model, text)
    if seconds_of((body.get("params") or {}).get("requestValidForDuration")) > LONGEST_WAIT:
        text = f"It is at most {LONGEST_WAIT} seconds."  # ours
        raise _invalid("params.requestValidForDuration", "", text)
    disk = next((disk for disk in body.get("disks") or [] if disk.get("boot")), None)
    if disk is None:
        raise _invalid("disks", "", "There must be a boot disk.")  # ours
    _check_image(str((disk.get("initializeParams") or {}).get("sourceImage") or ""))
    if not body.get("networkInterfaces"):
        raise _invalid("networkInterfaces", "", "At least one network interface is required.")
    missing_features(metadata_of(body))


def check_networks(networks: EmulatedNetworks, project: str, region: str, body: Body) -> None:
    for interface in body["networkInterfaces"]:
        network, subnetwork = interface.get("network") or "", interface.get("subnetwork") or ""
        if network or not subnetwork:
            networks.get(project, "networks", "global", _last(network) or "default")
        if subnetwork:
            networks.get(project, "subnetworks", region, _last(subnetwork))
            continue
        names = [known["name"] for known in networks.list(project, "subnetworks", region)]
        if (_last(network) or "default") not in names:
            raise api_errors.compute_invalid("No default subnetwork was found")


def settings_of(body: Body) -> Body:
    """The fields of `NodeSettings` that follow from *body*."""
    interface = body["networkInterfaces"][0]
    account: Body = next(iter(body.get("serviceAccounts") or []), {})
    email = account.get("email", "")
    node_settings = NodeSettings(
        description=body.get("description", ""),
        network=_last(interface.get("network") or "") or "default",
        subnetwork=_last(interface.get("subnetwork") or interface.get("network") or "")
        or "default",
        external_addresses=bool(interface.get("accessConfigs")),
        provisioning_model=provisioning_model(body),
        reserved=provisioning_model(body) == "RESERVATION_BOUND",
        reservation_name=reservation(body),
        service_account="" if email == "default" else email,
        scopes=list(account.get("scopes") or _FEW_SCOPES),
        labels=dict(body.get("labels") or {}),
        metadata=metadata_of(body),
        tags=list((body.get("tags") or {}).get("items") or []),
    )
    return {name: getattr(node_settings, name) for name in NodeSettings.__struct_fields__}


def provisioning_model(body: Body) -> str:
    scheduling = body.get("scheduling") or {}
    default = "SPOT" if scheduling.get("preemptible") else "STANDARD"
    return str(scheduling.get("provisioningModel") or default)


def image_family(body: Body) -> str:
    disks = body.get("disks") or [{}]
    return _last(str((disks[0].get("initializeParams") or {}).get("sourceImage", "")))


def reservation(body: Body) -> str:
    affinity = body.get("reservationAffinity") or {}
    return str(next(iter(affinity.get("values") or []), ""))


def metadata_of(body: Body) -> dict[str, str]:
    items = (body.get("metadata") or {}).get("items") or []
    return {item["key"]: item.get("value", "") for item in items if item.get("key")}


def seconds_of(duration: Any) -> float:
    """The seconds of a compute.Duration; 0 for none."""
    return float((duration or {}).get("seconds") or 0)


def _check_image(source: str) -> None:
    project = re.search(r"projects/([^/]+)/", source)
    if project is None or project[1] != IMAGES:
        return  # a user's own, of which nothing is known
    family = "/family/" in source or "/imageFamilyViews/" in source  # gcloud's
    known = IMAGE_FAMILIES if family else set(IMAGE_FAMILIES.values())
    if _last(source) not in known:
        path = source[source.index("projects/") :]
        raise api_errors.resource_not_found(path)


def _invalid(field: str, value: object, text: str) -> api_errors.ApiError:
    shown = "" if value is None else value
    return api_errors.compute_invalid(
        f"Invalid value for field 'resource.{field}': '{shown}'. {text}"
    )


def _last(name: str) -> str:
    return name.rpartition("/")[2]
