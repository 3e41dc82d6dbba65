"""What ``jupyter tpu tunnel`` and ``%tpu tunnel`` share: to open tunnels, list and close them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import InvalidInput, Reason, TPUError
from ..terminal.grammar import argument, command, examples
from ..terminal.parameters import tpu_argument
from ..terminal.printing import json_option, list_options, print_json, print_list
from ..terminal.session import open_session
from ..terminal.tables import describe_tunnel, tunnel_table

if TYPE_CHECKING:
    from ..fleet.models import OpenTunnel, Tunnel
    from ..terminal.session import Session


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


@command("list")
@tpu_argument(required=False)
@list_options
def list_tunnels(name: str | None) -> None:
    """List the tunnels of a TPU, or of all TPUs."""
    with open_session() as session:
        fleet = session.fleet
        tunnels = session.call(fleet.tunnels.all() if name is None else fleet.tunnels.list(name))
    print_list(tunnels, tunnel_table)


@command("close", epilog=examples("jupyter tpu tunnel close 7007"))
@argument("ids", nargs=-1, required=True, metavar="ID|LOCAL...", help="ID or local port.")
@json_option
def close(ids: tuple[str, ...], as_json: bool) -> None:
    """Close tunnels."""
    closed = []
    with open_session() as session:
        for tunnel in close_tunnels(session, ids):
            closed.append(tunnel)
            if not as_json:
                print(f"Closed: {describe_tunnel(tunnel)}")
    if as_json:
        print_json(closed)
