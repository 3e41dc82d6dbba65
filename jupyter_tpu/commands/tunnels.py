"""Opens tunnels as a command line says, and closes them by ID or local port."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import InvalidInput, Reason, TPUError

if TYPE_CHECKING:
    from ..fleet.models import OpenTunnel, Tunnel
    from .session import Session


def requests(
    ports: Sequence[tuple[int, int | None]], local_port: int | None = None, **fields: Any
) -> list[OpenTunnel]:
    """What PORT[:LOCAL]... and --local-port mean, with other *fields*; raises INVALID."""
    from ..fleet.models import OpenTunnel

    if local_port is not None:
        if len(ports) > 1 or ports[0][1] is not None:
            raise InvalidInput(
                "--local-port is for one PORT without :LOCAL.",
                "For several ports write PORT:LOCAL for each, such as 6006:7007 8888:8889.",
            )
        ports = [(ports[0][0], local_port)]
    return [OpenTunnel(port=port, local_port=local, **fields) for port, local in ports]


def close_tunnels(session: Session, ids: Sequence[str]) -> Iterator[Tunnel]:
    """Closes tunnels by ID or local port, one after the other; raises NOT_FOUND."""
    tunnels = session.call(session.fleet.tunnels.all())
    for id in ids:
        matching = [tunnel for tunnel in tunnels if id in (tunnel.id, str(tunnel.local_port))]
        if not matching:
            raise TPUError(
                f"The tunnel {id} does not exist.",
                Reason.NOT_FOUND,
                "Give its ID or local port; `jupyter tpu tunnel list` shows them.",
            )
        for tunnel in matching:
            session.call(session.fleet.tunnels.close(f"{tunnel.zone}~{tunnel.tpu}", tunnel.id))
            yield tunnel
