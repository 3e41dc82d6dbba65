"""A slice of several hosts: an instance template, a workload policy, and a group of instances.

Google knows no such thing, so each call here takes one step, and says with which of Google's
operations it continues. Who wants a slice calls `create` until `find` says that it is not
`unfinished`, and `delete` until there is none. So a process may be killed between any two steps,
and the next one continues from what is there: the steps are found again by their names, which
follow from the TPU's, and by the label of the operation that creates it. The ids of requests follow
from that label, too: a step that is sent twice is one for Google.

==========  =====================  ==============================  ============================
step        name                   says whose it is                undone
==========  =====================  ==============================  ============================
template    NAME-ZONE'S END        labels of its hosts             last
policy      the same               description                     when the group is gone
group       NAME                   labels of its hosts             first, with its instances
==========  =====================  ==============================  ============================

The template comes first and goes last, since it alone has labels and says all that the others
need. It keeps the name: of two who create a slice of one name, one gets no template. Only the
group costs money. A group can't be made without its template, so where that is gone, none appears
late. Instances are never deleted one by one: the group would make them again.
"""

from __future__ import annotations

import logging
import uuid
from datetime import datetime
from typing import Any

from ...errors import InvalidInput, Reason, TPUError
from ..models import OPERATION_LABEL, Node, NodeName, NodeSpec
from .calls import ComputeCalls, name_of, path_of, readable
from .machines import accelerator_of, region_of, template_properties
from .nodes import TIER, TYPE, group_labels, group_of, parse_group, parse_template

log = logging.getLogger(__name__)

Body = dict[str, Any]

_REQUESTS = uuid.UUID("5f0a7a52-6f0e-4ad6-9a3b-6c1d1b6f0f31")
#: What the description of our policies begins with; the label of the operation follows.
_MARK = "jupyter-tpu "
#: How long what has no group may still be on its way to one; seconds. Longer than any creation is
#: continued.
LEFTOVER_SECONDS = 3600.0
_LONGEST_NAME = 63
#: A request that Google has carried out so long ago is not one whose answer was lost; seconds.
_REPEATED_SECONDS = 60.0


class Slices:
    """The slices of the projects that *calls* are for."""

    def __init__(self, calls: ComputeCalls) -> None:
        self._calls = calls

    async def find(self, name: NodeName) -> Node | None:
        """The slice, also one of which only a part exists; None if it certainly does not."""
        if (group := await self.find_group(name)) is not None:
            try:
                members = await self.members(group, name.zone)
                group = await self._with_errors(group)
                template = await self._template_of(group, members)
            except TPUError as error:
                if error.reason is not Reason.NOT_FOUND:
                    raise
                # It is gone since a moment ago, but not all that belongs to it.
                raise TPUError(error.message, Reason.UNAVAILABLE, "Try again.") from error
            with readable("a group"):
                return parse_group(group, members, name.zone, template)
        template = await self._calls.find(_template(name))
        if template is None or not _label(template):
            return None  # what others have of that name is no TPU
        with readable("a template"):
            return parse_template(template, name)

    async def find_group(self, name: NodeName) -> Body | None:
        """The group of the zone; or of its region, if its instances are in the zone."""
        group = await self._calls.find(_group(name))
        if group is not None:
            return group
        region = f"projects/{name.project}/regions/{region_of(name.zone)}"
        group = await self._calls.find(f"{region}/instanceGroupManagers/{name.node}")
        if group is None:
            return None
        zones = group.get("distributionPolicy", {}).get("zones", ())
        listed = [str(zone.get("zone", "")).rpartition("/")[2] for zone in zones]
        return group if name.zone in listed or not listed else None

    async def members(self, group: Body, zone: str) -> list[Body]:
        """The instances of *group* that exist."""
        path = path_of(group)
        project, place = path.split("/", 2)[1:]
        base = str(group.get("baseInstanceName", group["name"])).partition("#")[0]
        calls = await self._calls.items(
            f"projects/{project}/zones/{zone}/instances", filter=f'name eq "{base}.*"'
        )
        return [call for call in calls if group_of(call) == place]

    async def _template_of(self, group: Body, members: list[Body]) -> Body | None:
        """Where the time of *group* is over: only the template still says what its hosts were."""
        url = str(group.get("instanceTemplate", ""))
        if members or int(group.get("targetSize", 0)) or not url:
            return None
        return await self._calls.find("projects/" + url.partition("/projects/")[2])

    async def _with_errors(self, group: Body) -> Body:
        """*group*, which may say why its instances are not made only where it lists them."""
        status = group.get("status", {})
        progress = status.get("bulkInstanceOperation", {}).get("lastProgressCheck", {})
        if status.get("isStable") or progress.get("error", {}).get("errors"):
            return group
        answer = await self._calls.write("POST", f"{path_of(group)}/listManagedInstances")
        for instance in answer.get("managedInstances", ()):
            errors = instance.get("lastAttempt", {}).get("errors", {}).get("errors", ())
            if errors:
                check = {**progress, "error": {"errors": errors}}
                bulk = {**status.get("bulkInstanceOperation", {}), "lastProgressCheck": check}
                return {**group, "status": {**status, "bulkInstanceOperation": bulk}}
        return group

    # ---- creation -------------------------------------------------------------------------------

    async def create(self, name: NodeName, spec: NodeSpec) -> str:
        """Takes the next step towards *spec*, and returns the name of Google's operation.

        Raises EXISTS where the name belongs to another TPU, or nothing is left to be made.
        """
        _check_name(name)
        label = spec.labels.get(OPERATION_LABEL, "")
        if not label:
            raise InvalidInput("A slice needs the label of its operation.")
        template, policy = _template(name), _policy(name)
        there = await self._calls.find(template)
        if there is not None and _label(there) != label:
            await self._clear_leftovers(name, there)
            there = None
        if there is None:
            return await self._insert(template, self.template_body(name, spec), label)
        there = await self._calls.find(policy)
        if there is None:
            return await self._insert(policy, self.policy_body(name, spec, label), label)
        if str(there.get("description", "")) != _MARK + label:
            raise _not_ours("workload policy", name)
        try:
            return await self._insert(_group(name), self.group_body(name, spec), label)
        except TPUError as error:
            if error.reason is Reason.EXISTS:
                group = await self._calls.find(_group(name))
                if group is not None and group_labels(group).get(OPERATION_LABEL) != label:
                    await self._remove_parts(name)  # they are of use to nobody
            raise

    async def _insert(self, path: str, body: Body, label: str) -> str:
        """*path* did not exist a moment ago."""
        collection = path.rpartition("/")[0]
        id = uuid.uuid5(_REQUESTS, f"{label} {path}")
        begun = await self._calls.write("POST", collection, body, id=str(id))
        with readable("an operation"):
            past = self._calls.now() - datetime.fromisoformat(begun["insertTime"])
        if begun["status"] == "DONE" and past.total_seconds() > _REPEATED_SECONDS:
            # It was made then, and somebody has deleted it since.
            begun = await self._calls.write("POST", collection, body, id=str(uuid.uuid4()))
        return name_of(begun)

    def template_body(self, name: NodeName, spec: NodeSpec) -> Body:
        properties = template_properties(name, spec)
        properties["labels"] = {**properties["labels"], TYPE: spec.type, TIER: spec.tier}
        return {
            "name": _part(name),
            "description": f"The hosts of {name.node}, made by jupyter-tpu",
            "properties": properties,
        }

    def policy_body(self, name: NodeName, spec: NodeSpec, label: str) -> Body:
        shape = accelerator_of(spec.type).machine
        assert shape is not None
        return {
            "name": _part(name),
            "description": _MARK + label,
            "workloadPolicy": {
                "type": "HIGH_THROUGHPUT",
                "acceleratorTopology": shape.topology,
                "acceleratorTopologyMode": "AUTO_CONNECT",
            },
        }

    def group_body(self, name: NodeName, spec: NodeSpec) -> Body:
        labels = {**spec.labels, TYPE: spec.type, TIER: spec.tier}
        body: Body = {
            "name": name.node,
            "baseInstanceName": f"{name.node}-w-###[1]",
            "instanceTemplate": _template(name),
            "targetSize": accelerator_of(spec.type).hosts,
            "targetSizePolicy": {"mode": "BULK"},
            "resourcePolicies": {"workloadPolicy": _policy(name)},
            "instanceLifecyclePolicy": {"defaultActionOnFailure": "DO_NOTHING"},
            "updatePolicy": {"type": "OPPORTUNISTIC"},
            "allInstancesConfig": {"properties": {"labels": labels}},
        }
        if spec.options.description:
            body["description"] = spec.options.description
        return body

    async def _clear_leftovers(self, name: NodeName, template: Body) -> None:
        """Makes room where a slice of this name was never finished, or its group was deleted
        without it; raises EXISTS where it may be in use.
        """
        if not _label(template):
            raise _not_ours("template", name)
        if (
            self._age(template) < LEFTOVER_SECONDS
            or await self._calls.find(_group(name)) is not None
        ):
            raise TPUError(
                f"A TPU called {name.node} is being created in {name.zone}.",
                Reason.EXISTS,
                "Choose another name.",
                field="name",
            )
        await self._remove_parts(name)

    # ---- deletion -------------------------------------------------------------------------------

    async def delete(self, name: NodeName) -> str:
        """Takes the next step of the deletion; the name of Google's operation.

        Raises NOT_FOUND if nothing of it is left, and CONFLICT while Google makes or deletes it.
        """
        if (group := await self.find_group(name)) is not None:
            return await self._delete(path_of(group))
        template = await self._calls.find(_template(name))
        if template is None or not _label(template):
            raise TPUError(f"There is no TPU called {name.node} in {name.zone}.", Reason.NOT_FOUND)
        policy = await self._calls.find(_policy(name))
        if policy is not None and policy.get("description") == _MARK + _label(template):
            try:
                return await self._delete(_policy(name))
            except TPUError as error:
                if error.reason not in (Reason.CONFLICT, Reason.NOT_FOUND):
                    raise
                # Another group uses it: it stays, and costs nothing.
                log.warning("The workload policy of %s stays: %s", name.node, error)
        return await self._delete(_template(name))

    async def _delete(self, path: str) -> str:
        return name_of(await self._calls.write("DELETE", path, id=str(uuid.uuid4())))

    async def _remove_parts(self, name: NodeName) -> None:
        """Removes what is ours besides the group, as far as Google lets it go."""
        policy = await self._calls.find(_policy(name))
        for path in ([_policy(name)] if policy and _is_ours(policy) else []) + [_template(name)]:
            try:
                await self._calls.change("DELETE", path, id=str(uuid.uuid4()))
            except TPUError as error:
                if error.reason is not Reason.NOT_FOUND:
                    log.warning("%s stays: %s", path, error)

    async def sweep(self, project: str) -> list[str]:
        """Deletes the templates and policies of *project* that a slice of ours has left, and that
        no group uses; their names. What may still become a slice stays.
        """
        templates, silent = await self._calls.aggregated(project, "instanceTemplates")
        policies, _ = await self._calls.aggregated(project, "resourcePolicies")
        groups, mute = await self._calls.aggregated(project, "instanceGroupManagers")
        if silent or mute:
            return []  # a group may use them
        used = {
            url.partition("/projects/")[2]
            for group in groups
            for url in (
                str(group.get("instanceTemplate", "")),
                str(group.get("resourcePolicies", {}).get("workloadPolicy", "")),
            )
        }
        swept = []
        for policy in [*filter(_is_ours, policies), *filter(_label, templates)]:
            path = path_of(policy)
            if path.removeprefix("projects/") in used or self._age(policy) < LEFTOVER_SECONDS:
                continue
            try:
                await self._calls.change("DELETE", path, id=str(uuid.uuid4()))
            except TPUError as error:
                log.warning("%s stays: %s", path, error)
            else:
                swept.append(str(policy["name"]))
        return swept

    def _age(self, resource: Body) -> float:
        """Seconds, by Google's clock."""
        made = datetime.fromisoformat(resource["creationTimestamp"])
        return (self._calls.now() - made).total_seconds()

    # ---- changes --------------------------------------------------------------------------------

    async def set_all(self, group: Body, field: str, values: dict[str, str]) -> None:
        """Sets labels or metadata for the hosts that the group makes from now on, and its own."""
        config = {"allInstancesConfig": {"properties": {field: values}}}
        await self._calls.change("PATCH", path_of(group), config, id=str(uuid.uuid4()))


def _part(name: NodeName) -> str:
    """The name of its template and policy, which are in a region that may have the name in several
    zones.
    """
    return f"{name.node}-{name.zone.rpartition('-')[2]}"


def _region(name: NodeName) -> str:
    return f"projects/{name.project}/regions/{region_of(name.zone)}"


def _template(name: NodeName) -> str:
    return f"{_region(name)}/instanceTemplates/{_part(name)}"


def _policy(name: NodeName) -> str:
    return f"{_region(name)}/resourcePolicies/{_part(name)}"


def _group(name: NodeName) -> str:
    return f"projects/{name.project}/zones/{name.zone}/instanceGroupManagers/{name.node}"


def _label(template: Body) -> str:
    """The label of our operation; "" for a template of others."""
    labels = template.get("properties", {}).get("labels", {})
    return str(labels.get(OPERATION_LABEL, "")) if TYPE in labels else ""


def _is_ours(policy: Body) -> bool:
    return str(policy.get("description", "")).startswith(_MARK)


def _not_ours(what: str, name: NodeName) -> TPUError:
    return InvalidInput(
        f"A {what} called {_part(name)} exists in {region_of(name.zone)}, and does not belong to "
        f"{name.node}.",
        "Choose another name.",
        field="name",
    )


def _check_name(name: NodeName) -> None:
    longest = _LONGEST_NAME - max(len("-w-001"), len(_part(name)) - len(name.node))
    if len(name.node) > longest:
        raise InvalidInput(
            f"The name {name.node} is too long for a slice.",
            f"Choose one with at most {longest} characters.",
            field="name",
        )
