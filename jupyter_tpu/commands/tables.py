"""Tables of aligned columns (rich), with colours on a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TextIO

from ..errors import duration
from ..wording import printable
from .costs import PRICES, running_for, so_far
from .terminal import clean_console, own_escapes
from .times import local_time

if TYPE_CHECKING:
    from rich.text import Text

    from ..fleet.models import TPU, FleetStatus, Problem, TPUList, Tunnel

_STYLES = {
    "green": ["READY", "connected", "ready", "up", "open", "running"],
    "yellow": [
        "CREATING",
        "STARTING",
        "STOPPING",
        "connecting",
        "reconnecting",
        "making",
        "waiting",
        "stopping",
        "unknown",
    ],
    "red": ["PREEMPTED", "TERMINATED", "failed", "needs-attention", "taken", "lost"],
}
_STYLE_OF = {state: style for style, states in _STYLES.items() for state in states}
#: The states of a tunnel that users read in other words.
TUNNEL_STATES = {
    "elsewhere": "open in another process",
    "needs-attention": "needs attention",
    "taken": "local port in use",
    "waiting": "waiting for the connection",
}
#: Characters in a line: more than any has. The terminal wraps lines, as it does kubectl's: the
#: output is the same everywhere, and a name is never cut in two.
_WIDTH = 10_000


def is_terminal(stream: TextIO) -> bool:
    """Whether a person watches *stream*, on something that can move the cursor."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def render(what: Any) -> str:
    """Something of rich's as text for stdout."""
    console = clean_console(sys.stdout, width=_WIDTH, force_jupyter=False, highlight=False)
    with console.capture() as captured:
        console.print(what)
    lines = captured.get().removesuffix("\n").split("\n")
    return own_escapes("\n".join(line.rstrip() for line in lines))


def table(heads: Sequence[str], rows: Sequence[Sequence[str | Text]]) -> str:
    """Aligned columns; a column without content is left out."""
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False, padding=(0, 1), header_style="")
    kept = [i for i in range(len(heads)) if any(row[i] for row in rows)]
    for i in kept:
        grid.add_column(Text.assemble((heads[i], "bold")))
    for row in rows:
        cells = [row[i] for i in kept]
        grid.add_row(*(Text(_one_line(cell)) if isinstance(cell, str) else cell for cell in cells))
    return render(grid)


def _one_line(text: str) -> str:
    return printable(text).replace("\n", "\\u000a")


def state_text(state: str, words: str | None = None) -> Text:
    """A state, or *words* for it, in its colour."""
    from rich.text import Text

    return Text.assemble((words or state, _STYLE_OF.get(state, "dim")))


def tpu_table(found: TPUList) -> str:
    """The project's TPUs, and below them the problems of each."""
    if not found.tpus:
        return "No TPUs yet. Create one: jupyter tpu create my-tpu --type TYPE --zone ZONE"
    heads = (
        "NAME", "ZONE", "TYPE", "MEANING", "STATE", "RUNNING", "ENDS", "PER HOUR", "COST SO FAR",
        "CONNECTION", "KERNELS", "",
    )  # fmt: skip
    lines = [table(heads, [_row(tpu) for tpu in found.tpus])]
    names = [tpu.name for tpu in found.tpus]
    for tpu in found.tpus:
        name = tpu.name if names.count(tpu.name) == 1 else f"{tpu.zone}~{tpu.name}"
        if tpu.problem:
            lines.append(f"{name}: {problem_text(tpu.problem)}")
        elif tpu.guard_stop:
            lines.append(f"{name}: {tpu.advice}")
    if any(not (tpu.emulated or tpu.attached) for tpu in found.tpus):
        lines.append(f"Costs are estimates by list prices; `describe` has their dates: {PRICES}")
    return "\n".join(lines)


def _row(tpu: TPU) -> tuple[str | Text, ...]:
    return (
        tpu.name,
        tpu.zone,
        tpu.type,
        tpu.meaning,
        state_text(tpu.state),
        running_for(tpu.cost),
        _ends(tpu),
        _per_hour(tpu),
        so_far(tpu),
        state_text(tpu.connection.value),
        str(tpu.kernels) if tpu.kernels else "",
        "emulated" if tpu.emulated else "",
    )


def _ends(tpu: TPU) -> str:
    return local_time(tpu.run_ends) if tpu.run_ends else ""


def _per_hour(tpu: TPU) -> str:
    if tpu.emulated or tpu.attached:
        return ""
    from ..catalog import usd

    price = tpu.cost.usd_per_hour
    return "not known" if price is None else usd(price)


def type_text(tpu: TPU) -> str:
    """ "v5litepod-8 = 8 chips · 1 host · 128 GB HBM (emulated)"."""
    return type_and_meaning(tpu) + (" (emulated)" if tpu.emulated else "")


def type_and_meaning(tpu: TPU) -> str:
    """ "v5litepod-8 = 8 chips · 1 host · 128 GB HBM", "2 SSH hosts without a TPU"."""
    if tpu.attached and not tpu.chips:
        return tpu.meaning or tpu.type
    return f"{tpu.type} = {tpu.meaning}" if tpu.meaning else tpu.type


def tunnel_table(tunnels: Sequence[Tunnel]) -> str:
    """Tunnels, and below them the problems of each."""
    if not tunnels:
        return "No tunnels. Open one: jupyter tpu tunnel open NAME PORT"
    rows = [
        (
            each.id,
            _local(each),
            host_text(each.tpu, each.host),
            str(each.port),
            state_text(each.state, TUNNEL_STATES.get(each.state)),
            str(each.connections) if each.connections else "",
            size(each.sent),
            size(each.received),
        )
        for each in tunnels
    ]
    heads = ("ID", "LOCAL", "TPU", "PORT", "STATE", "CONNECTIONS", "SENT", "RECEIVED")
    problems = [f"{each.id}: {problem_text(each.problem)}" for each in tunnels if each.problem]
    return "\n".join([table(heads, rows), *problems])


def describe_tunnel(tunnel: Tunnel) -> str:
    """ "localhost:6006 forwards to port 6006 of my-tpu"."""
    where = host_text(tunnel.tpu, tunnel.host)
    return f"{_local(tunnel)} forwards to port {tunnel.port} of {where}"


def opened_tunnel(tunnel: Tunnel) -> str:
    """The same, and why its local port is another than expected."""
    return ". ".join(filter(None, (describe_tunnel(tunnel), tunnel.local_port_reason)))


def _local(tunnel: Tunnel) -> str:
    address = tunnel.address
    if address in ("127.0.0.1", "::1"):
        address = "localhost"
    return f"{f'[{address}]' if ':' in address else address}:{tunnel.local_port}"


def host_text(tpu: str, host: int) -> str:
    """A host; host 0 is just its TPU."""
    return f"{tpu} host {host}" if host else tpu


def problem_text(problem: Problem | None) -> str:
    """Why something does not work yet that is retried automatically; "" for None."""
    if problem is None:
        return ""
    again = f"Trying again in {duration(problem.retry_after)}." if problem.retry_after else ""
    return " ".join(filter(None, (problem.message, problem.hint, again)))


def status_problems(status: FleetStatus) -> list[str]:
    """What does not work in the loops that keep TPUs as they should be; the TPUs' own problems
    are shown with them.
    """
    found = [problem_text(status.storage)] if status.storage else []
    return found + [
        f"A background task ({loop.name}) fails: {loop.last_error}. It is restarted automatically."
        for loop in status.loops
        if loop.failing
    ]


def size(count: int) -> str:
    """*count* bytes with a unit; "" for none."""
    from rich.filesize import decimal

    return decimal(count) if count else ""
