"""The TPUs as Google lists them now, for commands that need no fleet. On the core thread."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from ..errors import Reason, TPUError
from ..retired import refuse_tpu_node_address
from .printing import note

if TYPE_CHECKING:
    from ..cloud import API, Cloud, Node, NodeList, Target


async def list_nodes(target: Target) -> tuple[Cloud, tuple[Node, ...]]:
    from ..links import default_links

    cloud = default_links(target).cloud
    listed = await cloud.list_nodes()
    if listed.problem is not None:
        raise listed.problem
    for why in _not_listed(listed):
        note(f"This list may be incomplete: {why}")
    return cloud, listed.nodes


async def find_node(ref: str, target: Target) -> tuple[Node, Cloud]:
    """The TPU that "name", "zone/name" or "zone~name" means. Raises NOT_FOUND, CONFLICT."""
    refuse_tpu_node_address(ref)
    zone, _, name = ref.replace("~", "/", 1).rpartition("/")
    from ..links import default_links

    cloud = default_links(target).cloud
    listed = await _list_quickly(cloud, zone, name)
    nodes = [n for n in listed.nodes if n.name.node == name and zone in ("", n.name.zone)]
    if not nodes and listed.problem is not None:
        raise listed.problem
    if not nodes:
        for why in _not_listed(listed):
            raise TPUError(
                f"The TPU {ref} was not found. {why.message}", why.reason, why.hint
            ) from why
        raise TPUError(f"The TPU {ref} does not exist.", Reason.NOT_FOUND)
    if len(nodes) > 1:
        zones = ", ".join(node.name.zone for node in nodes)
        raise TPUError(
            f"Several TPUs have the name {name}: in {zones}.",
            Reason.CONFLICT,
            f"Give the zone, too: {nodes[0].name.zone}~{name}.",
        )
    return nodes[0], cloud


def _not_listed(listed: NodeList) -> list[TPUError]:
    """Why TPUs may be missing in a list."""
    from ..catalog import API_NAMES

    errors = [
        TPUError(
            f"{API_NAMES[api]} did not list its TPUs: {why.message}",
            why.reason,
            why.hint,
            retry_after=why.retry_after,
        )
        for api, why in listed.not_listed.items()
    ]
    if zones := ", ".join(listed.unreachable):
        errors.append(TPUError(f"{zones} did not answer.", Reason.UNAVAILABLE, "Try again."))
    return errors


async def _list_quickly(cloud: Cloud, zone: str, name: str) -> NodeList:
    """Without Google's client where that is possible: loading it takes longer than a short copy.

    TPUs of Compute Engine are in it if the Cloud TPU API has none of that *name*.
    """
    import asyncio

    from ..cloud import ATTACHED, APIDisabled, NodeList
    from ..cloud.tpu.rest import RestReader

    attached = await cloud.list_nodes(ATTACHED)
    if zone == ATTACHED:
        return attached
    nodes = None
    with contextlib.suppress(TPUError):  # the other way says why
        nodes = await asyncio.to_thread(RestReader(cloud.target).nodes, cloud.project)
    if nodes is None:
        return await cloud.list_nodes()
    refused: dict[API, TPUError] = {}
    if "compute" in cloud.apis and all(node.name.node != name for node in nodes):
        try:
            nodes += (await cloud.of_api("compute").list_nodes()).nodes
        except APIDisabled:
            pass  # the project does not use it
        except TPUError as error:
            refused["compute"] = error
    return NodeList(nodes=(*nodes, *attached.nodes), refused=refused)
