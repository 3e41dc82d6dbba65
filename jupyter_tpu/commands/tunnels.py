"""Tunnels, closed by what a person knows of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..errors import Reason, TPUError

if TYPE_CHECKING:
    from ..fleet.models import Tunnel
    from .session import Session


def close_tunnels(session: Session, ids: Sequence[str]) -> Iterator[Tunnel]:
    """Closes tunnels by ID or local port, one after the other; raises NOT_FOUND."""
    tunnels = session.call(session.fleet.all_tunnels())
    for id in ids:
        found = [each for each in tunnels if id in (each.id, str(each.local_port))]
        if not found:
            raise TPUError(
                f"There is no tunnel {id}.",
                Reason.NOT_FOUND,
                "Give its ID or local port; `jupyter tpu tunnel list` shows them.",
            )
        for each in found:
            session.call(session.fleet.close_tunnel(f"{each.zone}~{each.tpu}", each.id))
            yield each
