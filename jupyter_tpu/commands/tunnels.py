"""Tunnels as they are typed: ports parsed, tunnels closed by id or local port."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..errors import Reason, TPUError
from .session import Session

if TYPE_CHECKING:
    from ..fleet.models import OpenTunnel, Tunnel


def parse_ports(word: str, *, worker: int = 0, address: str = "127.0.0.1") -> OpenTunnel:
    """ "6006" or "6006:7007" as a request; raises INVALID."""
    from ..fleet.models import OpenTunnel

    found = re.fullmatch(r"(-?\d{1,9})(?::(-?\d{1,9}))?", word)
    if found is None:
        raise TPUError(
            f"{word!r} is not PORT or PORT:LOCAL.",
            Reason.INVALID,
            "6006 leads to port 6006 of the host, 6006:7007 does from port 7007 of this machine.",
        )
    return OpenTunnel(
        port=int(found[1]),
        local_port=int(found[2]) if found[2] else None,
        host=worker,
        address=address,
    )


def close_tunnels(session: Session, words: list[str]) -> Iterator[Tunnel]:
    """Closes tunnels by their ids or local ports, one after the other; raises NOT_FOUND."""
    there = session.call(session.fleet.all_tunnels())
    for word in words:
        found = [each for each in there if word in (each.id, str(each.local_port))]
        if not found:
            raise TPUError(
                f"There is no tunnel {word}.",
                Reason.NOT_FOUND,
                "Give its id or its local port; `jupyter tpu tunnel list` shows them.",
            )
        for each in found:
            session.call(session.fleet.close_tunnel(f"{each.zone}~{each.tpu}", each.id))
            yield each
