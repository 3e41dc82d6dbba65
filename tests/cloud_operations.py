"""Waiting for what `Cloud` began: the product follows the node itself, most tests only its end."""

from __future__ import annotations

from collections.abc import Awaitable

from waiting import eventually

from jupyter_tpu.cloud import Cloud, Node, NodeName, NodeSpec


async def completed(cloud: Cloud, begun: Awaitable[str]) -> None:
    """Waits for the operation that one of the ``begin_…`` methods began; raises its error."""
    name = await begun

    async def ended():
        status = await cloud.operation(name)
        return status if status.done else None

    status = await eventually(ended)
    if status.error is not None:
        raise status.error


async def create_node(cloud: Cloud, name: NodeName, spec: NodeSpec) -> Node:
    """The node, created and ready."""
    await completed(cloud, cloud.begin_create(name, spec))
    return await cloud.get_node(name)
