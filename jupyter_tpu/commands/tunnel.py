"""``jupyter tpu tunnel`` and ``%tpu tunnel``: local ports forwarded to ports of hosts."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from ..errors import InvalidInput, Reason, TPUError
from ..terminal.field_options import options_of
from ..terminal.grammar import Group, argument, command, examples
from ..terminal.parameters import ports_argument, tpu_argument
from ..terminal.printing import json_option, list_options, note, print_json, print_list
from ..terminal.session import FleetSession, open_session
from ..terminal.tables import TUNNEL_STATES, describe_tunnel, opened_tunnel, tunnel_table

if TYPE_CHECKING:
    from ..fleet.models import Change, OpenTunnel, Tunnel
    from ..terminal.session import FleetSession


@click.group("tunnel", cls=Group, short_form="open", aliases={"remove": "close", "stop": "close"})
def tunnel() -> None:
    """Forward local ports to ports of a host.

    A running Jupyter server keeps the tunnels, and opens them again when it is restarted. Without
    a server they last as long as the command.

    `jupyter tpu tunnel NAME PORT` is short for `jupyter tpu tunnel open NAME PORT`.
    """


@tunnel.command(
    "open",
    epilog=examples(
        "jupyter tpu tunnel open my-tpu 6006            localhost:6006 to the TPU's port 6006",
        "jupyter tpu tunnel open my-tpu 6006 --local-port 7007",
        "jupyter tpu tunnel open my-tpu 6006:7007 8888  localhost:7007 to port 6006, and 8888",
    ),
)
@tpu_argument()
@ports_argument
@options_of("OpenTunnel", "local_port", "host", "address")
@json_option
def open_tunnel(
    name: str,
    ports: list[tuple[int, int | None]],
    fields: dict[str, Any],
    as_json: bool,
) -> None:
    """Forward local ports to ports of a host.

    `6006` means localhost:6006. If that is in use, another port is chosen, and the output says why.
    """
    open_tunnels = requests(ports, **fields)
    with open_session() as session:
        if session.server is None:
            return _keep_open(session, name, open_tunnels, as_json)
        opened = [
            session.call(session.fleet.tunnels.open(name, open_tunnel))
            for open_tunnel in open_tunnels
        ]
    if as_json:
        return print_json(opened)
    for entry in opened:
        print(opened_tunnel(entry))
        if entry.state != "open":
            note(f"State: {_state(entry)}. `jupyter tpu tunnel list` shows changes.")
    return None


def _keep_open(
    session: FleetSession, name: str, requested: list[OpenTunnel], as_json: bool
) -> None:
    """Without a server: opens the tunnels, and shows their changes until Ctrl-C."""
    from ..fleet import Fleet

    fleet = session.fleet
    assert isinstance(fleet, Fleet)
    states: dict[str, str] = {}
    lock = threading.Lock()  # changes come from the core's thread

    def changed(change: Change) -> None:
        tunnel = change.tunnel
        if tunnel is None or tunnel.id not in states:
            return
        with lock:
            if states[tunnel.id] != _state(tunnel):
                states[tunnel.id] = _state(tunnel)
                note(f"port {tunnel.local_port}: {_state(tunnel)}")

    fleet.subscribe(changed)
    opened = [
        session.call(fleet.tunnels.open(name, open_tunnel, keep=False)) for open_tunnel in requested
    ]
    if as_json:
        print_json(opened)
    for entry in opened:
        if not as_json:
            print(opened_tunnel(entry), flush=True)
        states[entry.id] = _state(entry)
    if not as_json:
        print(f"Press Ctrl-C to close {'it' if len(opened) == 1 else 'them'}.", flush=True)
    threading.Event().wait()  # until Ctrl-C


def _state(entry: Tunnel) -> str:
    words = TUNNEL_STATES.get(entry.state, entry.state)
    return f"{words}: {entry.problem.message}" if entry.problem is not None else words


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


def close_tunnels(session: FleetSession, ids: Sequence[str]) -> Iterator[Tunnel]:
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


tunnel.add_command(list_tunnels)
tunnel.add_command(close)
