"""For calls of Google's APIs: the end of what `Cloud` began, which most tests only follow in
that way; a login that is one token; and a clock that is wrong.
"""

from __future__ import annotations

from collections.abc import Awaitable
from datetime import datetime, timedelta, tzinfo
from typing import Any

from google.auth.credentials import Credentials
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


class Tomorrow(datetime):
    """A clock that is a day ahead."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:
        return datetime.now(tz) + timedelta(days=1)


class OneToken(Credentials):
    """Credentials that are one token, which does not change."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self.token = token

    def refresh(self, request: Any) -> None:
        """Asked for after a 401; there is no other token."""
