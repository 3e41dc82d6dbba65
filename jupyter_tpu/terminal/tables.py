"""Tables of aligned columns (rich), with colours on a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from ..errors import duration
from ..wording import printable
from .language import in_language
from .streams import own_escapes, verbatim

if TYPE_CHECKING:
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
#: Between the columns of a table.
_GAP = "  "
#: A column that is cut keeps at least so many columns of the terminal.
_LEAST_CUT = 16
_STYLE_OF = {state: style for style, states in _STYLES.items() for state in states}
#: The states of a tunnel that users read in other words.
TUNNEL_STATES = {
    "elsewhere": "open in another process",
    "needs-attention": "needs attention",
    "taken": "local port in use",
    "waiting": "waiting for the connection",
}


def is_terminal(stream: TextIO) -> bool:
    """Whether a person watches *stream*, on something that can move the cursor."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


class Styled:
    """A line of text whose parts may have styles: a colour, "bold" or "dim"."""

    def __init__(self, text: str, style: str = "") -> None:
        self._parts = [(text, style)]

    def append(self, more: str | Styled, style: str = "") -> Styled:
        self._parts += more._parts if isinstance(more, Styled) else [(more, style)]
        return self

    def __bool__(self) -> bool:
        return any(text for text, _ in self._parts)

    @property
    def width(self) -> int:
        """In columns of a terminal."""
        return sum(_width(one_line(text)) for text, _ in self._parts)

    def cut(self, width: int) -> Styled:
        """Itself, or its text without colours, ended by "…" after *width* columns."""
        if self.width <= width:
            return self
        from rich.cells import set_cell_size

        text = "".join(one_line(text) for text, _ in self._parts)
        return Styled(set_cell_size(text, width - 1).rstrip() + "…")

    def render(self) -> str:
        """For stdout: with colours if that is a terminal whose owner wants them."""
        colours = is_terminal(sys.stdout) and not os.environ.get("NO_COLOR")
        return "".join(
            _with_style(one_line(text), style) if colours and style and text else one_line(text)
            for text, style in self._parts
        )


def _with_style(text: str, style: str) -> str:
    from click import style as escapes

    if style in ("bold", "dim"):
        return own_escapes(escapes(text, bold=style == "bold" or None, dim=style == "dim" or None))
    return own_escapes(escapes(text, fg=style))


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def table(
    heads: Sequence[str],
    rows: Sequence[Sequence[str | Styled]],
    spare: Sequence[str] = (),
    *,
    cut_last: bool = False,
) -> str:
    """Aligned columns; a column without content is left out. A long line is not cut: the terminal
    wraps it, as it does kubectl's. So the output is the same everywhere, but for what a terminal
    that is too narrow changes:

    spare: the heads of columns that it leaves out, the least needed first.
    cut_last: it ends the texts of the last column with "…". `describe` has them whole.
    """
    columns = {
        i: [Styled(in_language(heads[i]), "bold"), *(_styled(row[i]) for row in rows)]
        for i in range(len(heads))
        if any(row[i] for row in rows)
    }
    widths = {i: max(cell.width for cell in column) for i, column in columns.items()}
    if is_terminal(sys.stdout):
        import shutil

        terminal_width = shutil.get_terminal_size().columns
        for head in spare:
            if sum(widths.values()) + len(_GAP) * (len(widths) - 1) > terminal_width:
                widths.pop(heads.index(head), None)
        if cut_last and (last := len(heads) - 1) in columns:
            left = terminal_width - sum(widths[i] + len(_GAP) for i in widths if i != last)
            columns[last] = [cell.cut(max(left, _LEAST_CUT)) for cell in columns[last]]
            widths[last] = max(cell.width for cell in columns[last])
    return verbatim(
        "\n".join(
            _GAP.join(
                cell.render() + " " * (width - cell.width)
                for cell, width in zip(line, widths.values(), strict=True)
            ).rstrip()
            for line in zip(*(columns[i] for i in widths), strict=True)
        )
    )


def _styled(cell: str | Styled) -> Styled:
    return cell if isinstance(cell, Styled) else Styled(cell)


def one_line(text: str) -> str:
    """For a cell: without line breaks and characters that a terminal obeys."""
    return printable(text).replace("\n", "\\u000a")


def state_text(state: str, words: str | None = None) -> Styled:
    """A state, or *words* for it, in its colour."""
    return Styled(in_language(words or state), _STYLE_OF.get(state, "dim"))


def tpu_table(listed: TPUList) -> str:
    """The project's TPUs, and below them the problems of each."""
    from .costs import PRICES

    if not listed.tpus:
        return "No TPUs yet. Create one: jupyter tpu create my-tpu --type TYPE --zone ZONE"
    heads = (
        "NAME", "ZONE", "TYPE", "MEANING", "STATE", "RUNNING", "ENDS", "PER HOUR", "COST SO FAR",
        "CONNECTION", "KERNELS", "",
    )  # fmt: skip
    spare = ("MEANING", "COST SO FAR", "RUNNING", "KERNELS")  # `describe` has them
    lines = [table(heads, [_row(tpu) for tpu in listed.tpus], spare)]
    names = [tpu.name for tpu in listed.tpus]
    for tpu in listed.tpus:
        name = tpu.name if names.count(tpu.name) == 1 else f"{tpu.zone}~{tpu.name}"
        if tpu.problem:
            text = problem_text(tpu.problem)
            lines.append(text if text.startswith(f"{name} ") else f"{name}: {text}")
        elif tpu.guard_stop:
            lines.append(f"{name}: {tpu.advice}")
    if any(not (tpu.emulated or tpu.attached) for tpu in listed.tpus):
        lines.append(f"Costs are estimates by list prices; `describe` has their dates: {PRICES}")
    return "\n".join(lines)


def _row(tpu: TPU) -> tuple[str | Styled, ...]:
    from .costs import running_for, so_far

    return (
        tpu.name,
        tpu.zone,
        tpu.type,
        in_language(tpu.meaning),
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
    from .times import local_time

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
            tunnel.id,
            _local(tunnel),
            host_text(tunnel.tpu, tunnel.host),
            str(tunnel.port),
            state_text(tunnel.state, TUNNEL_STATES.get(tunnel.state)),
            str(tunnel.connections) if tunnel.connections else "",
            size(tunnel.sent),
            size(tunnel.received),
        )
        for tunnel in tunnels
    ]
    heads = ("ID", "LOCAL", "TPU", "PORT", "STATE", "CONNECTIONS", "SENT", "RECEIVED")
    problems = [
        f"{tunnel.id}: {problem_text(tunnel.problem)}" for tunnel in tunnels if tunnel.problem
    ]
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
    problems = [problem_text(status.storage)] if status.storage else []
    return problems + [
        f"A background task ({loop.name}) fails: {loop.last_error}. It is restarted automatically."
        for loop in status.loops
        if loop.failing
    ]


def size(count: int) -> str:
    """*count* bytes with a unit; "" for none."""
    if count < 1000:
        return f"{count} bytes" if count > 1 else "1 byte" if count else ""
    amount, units = count / 1000, ["kB", "MB", "GB", "TB", "PB"]
    while amount >= 1000 and len(units) > 1:
        amount /= 1000
        del units[0]
    return f"{amount:,.1f} {units[0]}"
