"""What ``jupyter tpu tunnel`` and ``%tpu tunnel`` share: to list tunnels, and to close them."""

from __future__ import annotations

from .grammar import argument, command, examples
from .parameters import tpu_argument
from .printing import json_option, list_options, print_json, print_list
from .session import open_session
from .tables import describe_tunnel, tunnel_table
from .tunnels import close_tunnels


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
