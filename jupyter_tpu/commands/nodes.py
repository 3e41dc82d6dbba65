"""The TPUs as Google lists them now, for commands that need no fleet. On the core thread."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from ..errors import Reason, TPUError
from ..retired import refuse_tpu_node_address

if TYPE_CHECKING:
    from ..cloud import Cloud, Node, NodeList, Target


async def list_nodes(target: Target) -> tuple[Cloud, tuple[Node, ...]]:
    from ..links import default_links

    cloud = default_links(target).cloud
    listed = await cloud.list_nodes()
    if listed.problem is not None:
        raise listed.problem
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
        raise TPUError(f"The TPU {ref} does not exist.", Reason.NOT_FOUND)
    if len(nodes) > 1:
        zones = ", ".join(node.name.zone for node in nodes)
        raise TPUError(
            f"Several TPUs have the name {name}: in {zones}.",
            Reason.CONFLICT,
            f"Give the zone, too: {nodes[0].name.zone}~{name}.",
        )
    return nodes[0], cloud


async def _list_quickly(cloud: Cloud, zone: str, name: str) -> NodeList:
    """Without Google's client where that is possible: loading it takes longer than a short copy.

    TPUs of Compute Engine are in it if the Cloud TPU API has none of that *name*.
    """
    import asyncio

    from ..cloud import ATTACHED, NodeList
    from ..cloud.tpu.rest import RestReader

    attached = await cloud.list_nodes(ATTACHED)
    if zone == ATTACHED:
        return attached
    nodes = None
    with contextlib.suppress(TPUError):  # the other way says why
        nodes = await asyncio.to_thread(RestReader(cloud.target).nodes, cloud.project)
    if nodes is None:
        return await cloud.list_nodes()
    if "compute" in cloud.apis and all(node.name.node != name for node in nodes):
        with contextlib.suppress(TPUError):  # the project may not use it
            nodes += (await cloud.of_api("compute").list_nodes()).nodes
    return NodeList(nodes=(*nodes, *attached.nodes))
