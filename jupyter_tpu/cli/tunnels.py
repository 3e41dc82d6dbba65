"""``jupyter tpu tunnel``: ports of this machine that lead to ports of hosts."""

from __future__ import annotations

import argparse
import threading
from typing import TYPE_CHECKING

from ..commands.session import Session, open_session
from ..commands.tables import describe_tunnel, tunnel_table
from ..commands.tunnels import close_tunnels, parse_ports
from .console import note, print_json

if TYPE_CHECKING:
    from ..fleet.models import Change, OpenTunnel, Tunnel


def tunnel(chosen: argparse.Namespace) -> None:
    """Opens, lists or removes, by the words given."""
    name, words = chosen.name, chosen.ports
    if name == "remove" and words:
        return _remove(words, chosen)
    if not words:
        return _list(None if name in (None, "list") else name, chosen)
    return _open(
        name,
        [parse_ports(word, worker=chosen.worker, address=chosen.address) for word in words],
        chosen,
    )


def _open(name: str, wanted: list[OpenTunnel], chosen: argparse.Namespace) -> None:
    with open_session() as session:
        if session.server is None:
            return _hold(session, name, wanted, chosen)
        opened = [session.call(session.fleet.open_tunnel(name, each)) for each in wanted]
    if chosen.json:
        print_json(opened)
        return None
    for each in opened:
        print(describe_tunnel(each))
        if each.state != "open":
            note(f"It is {each.state}{_why(each)}; `jupyter tpu tunnel list` shows it.")
    return None


def _hold(
    session: Session, name: str, wanted: list[OpenTunnel], chosen: argparse.Namespace
) -> None:
    """Without a server the tunnels last as long as this command."""
    from ..fleet import Fleet

    fleet = session.fleet
    assert isinstance(fleet, Fleet)
    states: dict[str, str] = {}
    said = threading.Lock()

    def tell(each: Tunnel) -> None:
        line = f"{each.state}{_why(each)}"
        with said:
            if states.get(each.id) != line:
                known, states[each.id] = each.id in states, line
                if known or each.state != "open":
                    note(f"port {each.local_port}: {line}")

    def changed(change: Change) -> None:
        if change.tunnel is not None and change.tunnel.id in states:
            tell(change.tunnel)

    fleet.subscribe(changed)
    opened = [session.call(fleet.open_tunnel(name, each, keep=False)) for each in wanted]
    if chosen.json:
        print_json(opened)
    for each in opened:
        if not chosen.json:
            print(describe_tunnel(each), flush=True)
        states[each.id] = each.state
    if not chosen.json:
        print("Ctrl-C closes it." if len(opened) == 1 else "Ctrl-C closes them.", flush=True)
    threading.Event().wait()  # until Ctrl-C


def _list(name: str | None, chosen: argparse.Namespace) -> None:
    with open_session() as session:
        fleet = session.fleet
        found = session.call(fleet.tunnels(name) if name is not None else fleet.all_tunnels())
    if chosen.json:
        print_json(found)
    else:
        print(tunnel_table(found))


def _remove(words: list[str], chosen: argparse.Namespace) -> None:
    with open_session() as session:
        for each in close_tunnels(session, words):
            if not chosen.json:
                print(f"Closed: {describe_tunnel(each)}")


def _why(each: Tunnel) -> str:
    return f": {each.problem.message}" if each.problem is not None else ""
