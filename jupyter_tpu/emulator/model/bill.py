"""What the emulator's TPUs would have cost: by the time that each was READY, and list prices."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from ...catalog import SHIPPED, price_in
from .records import NodeRecord


class BillLine(Struct, kw_only=True):
    """One node. Times: seconds since the epoch."""

    node: str  # its path
    id: str
    labels: dict[str, str] = {}
    usd_per_hour: float | None
    since: float | None = None
    seconds: float = 0.0


class Bill:
    """The bill of the nodes since this emulator was started."""

    def __init__(self) -> None:
        self._lines: dict[str, BillLine] = {}

    def observe(self, nodes: Iterable[NodeRecord]) -> None:
        """Called after each change, with all nodes."""
        now = time.time()
        ready = {node.id: node for node in nodes if node.state == "READY"}
        for id, node in ready.items():
            if id not in self._lines:
                self._lines[id] = BillLine(
                    node=node.path,
                    id=id,
                    labels=dict(node.labels),
                    usd_per_hour=_price(node),
                )
            if self._lines[id].since is None:
                self._lines[id].since = now
        for id, line in self._lines.items():
            if id not in ready and line.since is not None:
                line.seconds += now - line.since
                line.since = None

    def lines(self) -> list[dict[str, Any]]:
        """Each node with the seconds that it was READY, and what that costs in USD."""
        now = time.time()
        lines = []
        for line in self._lines.values():
            seconds = line.seconds + (now - line.since if line.since is not None else 0.0)
            usd = None if line.usd_per_hour is None else seconds * line.usd_per_hour / 3600
            lines.append(
                {
                    "node": line.node,
                    "id": line.id,
                    "labels": line.labels,
                    "usdPerHour": line.usd_per_hour,
                    "seconds": seconds,
                    "usd": usd,
                }
            )
        return lines


def _price(node: NodeRecord) -> float | None:
    price = price_in(SHIPPED.of(node.accelerator), node.zone)
    if price is None:
        return None
    return {"on-demand": price.on_demand, "spot": price.spot, "flex-start": price.flex_start}.get(
        node.tier
    )
