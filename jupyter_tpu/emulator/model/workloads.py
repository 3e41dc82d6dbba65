"""Workload policies and instance templates of Compute Engine: what a group is made of.

They are kept as JSON, in Compute Engine's own field names, by their paths.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence, Set
from typing import Any

from . import api_errors
from .instance_requests import check_name, check_properties
from .machine_types import MachineType, machine_type
from .model import Model
from .networks import regions
from .operations import rfc3339

Body = dict[str, Any]

_LETTERS = str.maketrans("0123456789", "bcdfghjklm")
_PATTERN = re.compile(r"(?P<base>.*?)(?P<hashes>#+)(?:\[(?P<first>\d+)\])?")


class EmulatedWorkloads:
    """The policies and templates of *model*. A place is "global" or "regions/R"."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def list(self, collection: str, project: str, place: str | None = None) -> list[Body]:
        """The resources of *place*, or of all places."""
        start = f"projects/{project}/" + (f"{place}/" if place else "")
        bodies = self._of(collection)
        return [bodies[path] for path in sorted(bodies) if path.startswith(start)]

    def get(self, collection: str, project: str, place: str, name: str) -> Body:
        path = f"projects/{project}/{place}/{collection}/{name}"
        try:
            return self._of(collection)[path]
        except KeyError:
            raise api_errors.resource_not_found(path) from None

    def insert(self, collection: str, project: str, place: str, body: Body) -> Body:
        path = f"projects/{project}/{place}/{collection}/{check_name(body)}"
        self._permission(collection, "create", path)
        if place != "global" and place.partition("/")[2] not in regions():
            raise api_errors.resource_not_found(f"projects/{project}/{place}")
        if collection == "resourcePolicies":
            _check_policy(body)
        else:
            _check_template(body)
        if path in self._of(collection):
            raise api_errors.resource_exists(path)
        made = {**body, "id": self._model.new_id(), "creationTimestamp": rfc3339(self._model.now())}
        if collection == "resourcePolicies":
            made["status"] = "READY"
        self._of(collection)[path] = made
        return made

    def delete(self, collection: str, project: str, place: str, name: str) -> None:
        path = f"projects/{project}/{place}/{collection}/{name}"
        self.get(collection, project, place, name)
        self._permission(collection, "delete", path)
        for group in self._model.groups.values():
            if path in (group.template, group.policy):
                raise api_errors.resource_in_use(path, group.path)
        del self._of(collection)[path]

    def find(self, collection: str, project: str, url: str) -> tuple[str, Body]:
        """The path and body that a full or partial URL means."""
        match = re.search(rf"(?:projects/([^/]+)/)?((?:global|regions/[^/]+)/{collection}/.+)", url)
        if match is None:
            raise api_errors.compute_invalid(
                f"Invalid value for field 'resource': '{url}'. The URL is malformed."
            )
        path = f"projects/{match[1] or project}/{match[2]}"
        if path not in self._of(collection):
            raise api_errors.resource_not_found(path)
        return path, self._of(collection)[path]

    def _of(self, collection: str) -> dict[str, Body]:
        policies = collection == "resourcePolicies"
        return self._model.policies if policies else self._model.templates

    def _permission(self, collection: str, verb: str, path: str) -> None:
        if self._model.faults.consume("permission", ""):
            raise api_errors.permission(f"compute.{collection}.{verb}", path)


def machine_type_of(template: Body) -> MachineType:
    machine = machine_type(template["properties"]["machineType"])
    assert machine is not None
    return machine


def instance_body(name: str, properties: Body, config: Body) -> Body:
    """The instance of a template's *properties*; *config*: of its group, for all instances."""
    items = {
        item["key"]: item.get("value", "")
        for item in (properties.get("metadata") or {}).get("items") or []
    } | (config.get("metadata") or {})
    return {
        **properties,
        "name": name,
        "labels": {**(properties.get("labels") or {}), **(config.get("labels") or {})},
        "metadata": {"items": [{"key": key, "value": value} for key, value in items.items()]},
    }


def new_names(base: str, used: Set[str], count: int, new_id: Callable[[], str]) -> list[str]:
    """So many names of instances: by the pattern *base*, such as ``my-####[1]``, or by chance."""
    names: list[str] = []
    pattern = _PATTERN.fullmatch(base)
    number = int((pattern and pattern["first"]) or 0)
    while len(names) < count:
        if pattern:
            name = f"{pattern['base']}{number:0{len(pattern['hashes'])}d}"
            number += 1
        else:
            name = f"{base}-{new_id()[-4:].translate(_LETTERS)}"
        if name not in (*used, *names):
            names.append(name)
    return sorted(names)


def topology_of(policy: Body | None) -> str:
    return str(((policy or {}).get("workloadPolicy") or {}).get("acceleratorTopology", ""))


def _check_policy(body: Body) -> None:
    policy = body.get("workloadPolicy")
    if policy is None:  # the other kinds are none of TPUs' business
        raise api_errors.required_field("resource.workloadPolicy")
    _one_of(policy, "type", ("HIGH_THROUGHPUT", "HIGH_AVAILABILITY"))
    if policy.get("acceleratorTopologyMode"):
        _one_of(policy, "acceleratorTopologyMode", ("AUTO_CONNECT", "PROVISION_ONLY"))
    topology = policy.get("acceleratorTopology")
    if topology and not re.fullmatch(r"\d+(x\d+){1,2}", topology):
        raise api_errors.invalid_value(
            "resource.workloadPolicy.acceleratorTopology", topology, r"\d+(x\d+){1,2}"
        )


def _check_template(body: Body) -> None:
    properties = body.get("properties")
    if properties is None:
        raise api_errors.required_field("resource.properties")
    machine = str(properties.get("machineType", ""))
    if "/" in machine or machine_type(machine) is None:
        raise api_errors.compute_invalid(
            f"Invalid value for field 'resource.properties.machineType': '{machine}'. "
            "Instance templates must provide existing machine type."
        )
    check_properties(properties)


def _one_of(body: Body, field: str, values: Sequence[str]) -> None:
    if body.get(field) not in values:
        pattern = "|".join(values)
        raise api_errors.invalid_value(f"resource.workloadPolicy.{field}", body.get(field), pattern)
