"""The TPUs as Google lists them now, for commands that need no fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import Reason, TPUError
from ..retired import refuse_tpu_node_address
from .session import current_target

if TYPE_CHECKING:
    from ..cloud import Cloud, Node


async def list_nodes() -> tuple[Cloud, tuple[Node, ...]]:
    from ..links import default_links

    cloud = default_links(current_target()).cloud
    return cloud, (await cloud.list_nodes()).nodes


async def find_node(ref: str) -> tuple[Node, Cloud]:
    """The TPU that "name", "zone/name" or "zone~name" means. Raises NOT_FOUND, CONFLICT."""
    refuse_tpu_node_address(ref)
    zone, _, name = ref.replace("~", "/", 1).rpartition("/")
    import asyncio

    from ..cloud.tpu.rest import RestReader
    from ..links import default_links

    cloud = default_links(current_target()).cloud
    # Loading Google's client would take longer than a short copy.
    nodes = await asyncio.to_thread(RestReader(cloud.target).nodes, cloud.project)
    if nodes is None:
        nodes = list((await cloud.list_nodes()).nodes)
    found = [node for node in nodes if node.name.node == name and zone in ("", node.name.zone)]
    if not found:
        raise TPUError(f"There is no TPU called {ref}.", Reason.NOT_FOUND)
    if len(found) > 1:
        zones = ", ".join(node.name.zone for node in found)
        raise TPUError(
            f"There are several TPUs called {name}: in {zones}.",
            Reason.CONFLICT,
            f"Give the zone, too: {found[0].name.zone}~{name}.",
        )
    return found[0], cloud
