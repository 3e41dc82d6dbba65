"""Tables and colours: plain text, or coloured on a terminal."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from ..fleet.models import TPU, TPUList, Tunnel

_COLOURS = {"red": 31, "green": 32, "yellow": 33, "blue": 34, "dim": 2, "bold": 1}
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")

_STATE_COLOURS = {
    "READY": "green",
    "connected": "green",
    "ready": "green",
    "up": "green",
    "CREATING": "yellow",
    "STARTING": "yellow",
    "STOPPING": "yellow",
    "connecting": "yellow",
    "reconnecting": "yellow",
    "making": "yellow",
    "PREEMPTED": "red",
    "TERMINATED": "red",
    "failed": "red",
    "needs-you": "red",
    # of tunnels and apps
    "open": "green",
    "waiting": "yellow",
    "elsewhere": "dim",
    "taken": "red",
}


def is_terminal(stream: TextIO) -> bool:
    """Whether a person watches *stream*, on something that can move the cursor."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def colour(text: str, name: str, stream: TextIO | None = None) -> str:
    """*text* in a colour, on a terminal without NO_COLOR (https://no-color.org)."""
    stream = stream or sys.stdout
    if not text or os.environ.get("NO_COLOR") or not is_terminal(stream):
        return text
    return f"\x1b[{_COLOURS[name]}m{text}\x1b[0m"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns aligned with two spaces between them; columns empty in all rows are left out."""
    kept = [i for i in range(len(heads)) if any(row[i] for row in rows)]
    lines = [[colour(heads[i], "bold") for i in kept]]
    lines += [[row[i] for i in kept] for row in rows]
    widths = [max(_width(line[i]) for line in lines) for i in range(len(kept))]
    return "\n".join(
        "  ".join(
            cell + " " * (width - _width(cell)) for cell, width in zip(line, widths, strict=True)
        ).rstrip()
        for line in lines
    )


def _width(cell: str) -> int:
    return len(_ESCAPES.sub("", cell))


def tpu_table(found: TPUList) -> str:
    """The list as a table."""
    if not found.tpus:
        return "No TPUs yet. Create one: jupyter tpu create my-tpu --type TYPE --zone ZONE"
    heads = ("NAME", "ZONE", "TYPE", "WHAT IT IS", "STATE", "CONNECTION", "KERNELS", "")
    lines = [table(heads, [_row(tpu) for tpu in found.tpus])]
    names = [tpu.name for tpu in found.tpus]
    for tpu in found.tpus:
        if tpu.problem:
            name = tpu.name if names.count(tpu.name) == 1 else f"{tpu.zone}~{tpu.name}"
            lines.append(f"{name}: {problem_sentence(tpu.problem)}")
    return "\n".join(lines)


def tunnel_table(found: list[Tunnel]) -> str:
    """The tunnels as a table."""
    if not found:
        return "No tunnels. Open one: jupyter tpu tunnel NAME PORT"
    rows = [
        (
            each.id,
            _url(each),
            each.tpu + (f" host {each.host}" if each.host else ""),
            str(each.port),
            state(each.state),
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


def _url(each: Tunnel) -> str:
    if each.address in ("127.0.0.1", "::1"):
        return f"localhost:{each.local_port}"
    return f"{f'[{each.address}]' if ':' in each.address else each.address}:{each.local_port}"


def describe_tunnel(each: Tunnel) -> str:
    """What it leads to, as a sentence."""
    host = f" host {each.host}" if each.host else ""
    return f"{_url(each)} leads to port {each.port} of {each.tpu}{host}."


def _row(tpu: TPU) -> tuple[str, ...]:
    return (
        tpu.name,
        tpu.zone,
        tpu.type,
        tpu.meaning,
        state(tpu.state),
        state(tpu.connection.value),
        str(tpu.kernels) if tpu.kernels else "",
        "emulated" if tpu.emulated else "",
    )


def state(word: str) -> str:
    return colour(word, _STATE_COLOURS.get(word, "dim"))


def problem_sentence(problem: object) -> str:
    message = getattr(problem, "message", "")
    return f"{message} {getattr(problem, 'hint', '')}".strip()


def size(count: int) -> str:
    """*count* bytes in words; "" for none."""
    if not count:
        return ""
    units = ("B", "kB", "MB", "GB", "TB")
    power = min((len(str(count)) - 1) // 3, 4)
    return f"{count / 1000**power:.{1 if power else 0}f} {units[power]}"
