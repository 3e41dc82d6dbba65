"""Google's numbers of the hosts of a slice of Compute Engine, in a file.

Compute Engine lists them by name, and Google numbers them in another order, which only the hosts
say (in their metadata: agent-worker-number). Whoever asks them writes it here, so that host 0 is
Google's worker 0 for every process of this computer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from msgspec import structs

from ..local_files import write_atomically
from ..paths import data_dir
from .models import Node

T = TypeVar("T")

#: As many hosts are kept, the last ones.
_MOST_HOSTS = 20_000


class HostNumbers:
    """The file; read again when it has changed. Two processes that write at the same moment may
    lose a number, which is then asked for again.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._read: tuple[int, dict[str, int]] = (0, {})

    @property
    def path(self) -> Path:
        return self._path if self._path is not None else data_dir() / "host_numbers.json"

    def all(self) -> Mapping[str, int]:
        """By the id of the VM."""
        try:
            changed = self.path.stat().st_mtime_ns
            if changed != self._read[0]:
                loads = json.loads(self.path.read_text(encoding="utf-8"))
                numbers = {str(id): int(number) for id, number in loads.items()}
                self._read = changed, numbers
        except (OSError, ValueError, AttributeError, TypeError):
            return {}
        return self._read[1]

    def put(self, numbers: Mapping[str, int]) -> None:
        """Raises OSError."""
        merged = {**self.all(), **numbers}
        kept = dict([*merged.items()][-_MOST_HOSTS:])
        write_atomically(self.path, json.dumps(kept))


def is_numbered(node: Node) -> bool:
    """Whether the places of its hosts are Google's numbers of them."""
    if node.api != "compute" or len(node.endpoints) < 2:
        return True
    return all(endpoint.number is not None for endpoint in node.endpoints)


def numbered(node: Node, known: Mapping[str, int]) -> Node:
    """*node*, with its hosts in the order of their numbers, as far as these are known. Of one host
    alone that is not known, it is the number that is left.
    """
    if is_numbered(node):
        return node
    count = len(node.endpoints)
    places: dict[int, int] = {}  # number → place in the list
    for place, endpoint in enumerate(node.endpoints):
        number = known.get(endpoint.id)
        if number is not None and 0 <= number < count and number not in places:
            places[number] = place
    left = [number for number in range(count) if number not in places]
    others = [place for place in range(count) if place not in places.values()]
    order = places | dict(zip(left, others, strict=True))
    certain = set(places) | (set(left) if len(left) == 1 else set())
    return structs.replace(
        node,
        endpoints=tuple(
            structs.replace(
                node.endpoints[order[number]], number=number if number in certain else None
            )
            for number in range(count)
        ),
    )


def in_order_of(node: Node, listed: Node, values: Sequence[T]) -> list[T]:
    """*values* of the hosts of *listed*, for those of *node*, which are the same in another order.

    What has no value is left out with all that follow.
    """
    by_id = {endpoint.id: value for endpoint, value in zip(listed.endpoints, values, strict=False)}
    order: list[T] = []
    for endpoint in node.endpoints:
        if endpoint.id not in by_id:
            break
        order.append(by_id[endpoint.id])
    return order
