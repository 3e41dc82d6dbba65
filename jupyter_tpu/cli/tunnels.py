"""``jupyter tpu tunnel``: ports of this machine that lead to ports of hosts."""

from __future__ import annotations

import argparse
import re
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..errors import Reason, TPUError
from .console import colour, note, print_json, table
from .session import Session, open_session

if TYPE_CHECKING:
    from ..fleet.models import Change, OpenTunnel, Tunnel

COLOURS = {"open": "green", "waiting": "yellow", "elsewhere": "dim"}


def tunnel(chosen: argparse.Namespace) -> None:
    """Opens, lists or removes, by the words given."""
    name, words = chosen.name, chosen.ports
    if name == "remove" and words:
        return _remove(words, chosen)
    if not words:
        return _list(None if name in (None, "list") else name, chosen)
    return _open(
        name,
        [wanted_of(word, worker=chosen.worker, address=chosen.address) for word in words],
        chosen,
    )


def wanted_of(word: str, *, worker: int = 0, address: str = "127.0.0.1") -> OpenTunnel:
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


def _open(name: str, wanted: list[OpenTunnel], chosen: argparse.Namespace) -> None:
    with open_session() as session:
        if session.server is None:
            return _hold(session, name, wanted, chosen)
        opened = [session.call(session.fleet.open_tunnel(name, each)) for each in wanted]
    if chosen.json:
        print_json(opened)
        return None
    for each in opened:
        print(where(each))
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
            print(where(each), flush=True)
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
        print(listing(found))


def listing(found: list[Tunnel]) -> str:
    """The tunnels as a table."""
    if not found:
        return "No tunnels. Open one: jupyter tpu tunnel NAME PORT"
    rows = [
        (
            each.id,
            _url(each),
            each.tpu + (f" host {each.host}" if each.host else ""),
            str(each.port),
            colour(each.state, COLOURS.get(each.state, "red")),
            str(each.connections) if each.connections else "",
            size(each.sent),
            size(each.received),
        )
        for each in found
    ]
    heads = ("ID", "HERE", "LEADS TO", "PORT", "STATE", "CONNECTIONS", "SENT", "RECEIVED")
    lines = [table(heads, rows)]
    for each in found:
        if each.problem is not None:
            lines.append(f"{each.id}: {each.problem.message} {each.problem.hint}".rstrip())
    return "\n".join(lines)


def _remove(words: list[str], chosen: argparse.Namespace) -> None:
    with open_session() as session:
        for each in removed(session, words):
            if not chosen.json:
                print(f"Closed: {where(each)}")


def removed(session: Session, words: list[str]) -> Iterator[Tunnel]:
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


def _url(each: Tunnel) -> str:
    if each.address in ("127.0.0.1", "::1"):
        return f"localhost:{each.local_port}"
    return f"{f'[{each.address}]' if ':' in each.address else each.address}:{each.local_port}"


def where(each: Tunnel) -> str:
    """What it leads to, as a sentence."""
    host = f" host {each.host}" if each.host else ""
    return f"{_url(each)} leads to port {each.port} of {each.tpu}{host}."


def _why(each: Tunnel) -> str:
    return f": {each.problem.message}" if each.problem is not None else ""


def size(count: int) -> str:
    """*count* bytes in words; "" for none."""
    if not count:
        return ""
    units = ("B", "kB", "MB", "GB", "TB")
    power = min((len(str(count)) - 1) // 3, 4)
    return f"{count / 1000**power:.{1 if power else 0}f} {units[power]}"
