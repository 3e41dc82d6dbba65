"""``jupyter tpu top`` and ``%tpu top``: memory and load of chips, refreshed all the time."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import click

from ..errors import TPUError
from ..terminal.grammar import command, examples
from ..terminal.parameters import hosts_option, tpu_argument
from ..terminal.printing import json_option, print_json
from ..terminal.session import open_session
from ..terminal.streams import clean_console, own_escapes
from ..terminal.tables import is_terminal, problem_text
from ..terminal.watching import PASSING

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ..fleet.models import ChipLoad, HostLoad, LoadSample, TPULoad
    from ..terminal.session import FleetSession


@command(
    "top",
    epilog=examples(
        "jupyter tpu top", "jupyter tpu top my-tpu --worker 0", "jupyter tpu top my-tpu --json"
    ),
)
@tpu_argument(required=False)
@hosts_option
@click.option(
    "--every",
    type=click.FloatRange(1, 3600),
    default=2.0,
    metavar="SECONDS",
    help="Time between two updates.",
)
@click.option("--once", is_flag=True, help="Print it once, and exit.")
@json_option
def top(name: str | None, hosts: str, every: float, once: bool, as_json: bool) -> None:
    """Show memory and load of the chips of a TPU, or of all connected TPUs.

    Runs until Ctrl-C. If the output is not a terminal, and with --json, it looks once. The figures
    are libtpu's: HBM in use, the part of the time in which the cores were busy, and programs that
    wait. There are none while no process uses the chips. BEFORE has the last duty cycles, KERNEL
    the notebook of a kernel with chips of its own.
    """
    with open_session() as session:
        loads = Loads(session, name, hosts, latest=as_json)
        if as_json:
            print_json(loads.look())
        elif once or not is_terminal(sys.stdout):
            print(load_text(loads.look()))
        else:
            with contextlib.suppress(KeyboardInterrupt):
                watch(loads, every)


def watch(loads: Loads, every: float) -> None:
    """Shows it until Ctrl-C. What may be better a moment later is shown, and tried again."""
    from rich.live import Live
    from rich.text import Text

    console = clean_console(sys.stdout)
    with Live(Text("Waiting for the first figures."), console=console, screen=True) as live:
        while True:
            try:
                shown = load_view(loads.look(), console.height, console.width)
                live.update(shown, refresh=True)
            except TPUError as error:
                if error.reason not in PASSING:
                    raise
                live.update(Text(f"{error}\nTrying again.", "yellow"), refresh=True)
            time.sleep(every)


#: Seconds after which a sample is called old. While no one looks there is one a minute.
OLD_SAMPLE_SECONDS = 90.0


#: Samples of a host that are remembered.
_KEPT_SAMPLES = 60


#: Characters of a bar, and samples that are drawn as a small plot; and on a narrow terminal.
_SIZES, _NARROW = (12, 24), (6, 10)


_WIDE_COLUMNS = 96


_STEPS = "▁▂▃▄▅▆▇█"


_EMULATED = "emulated: processor time and arrays of JAX on this computer"


_HEADS = ("HOST", "CHIP", "HBM", "", "DUTY CYCLE", "", "QUEUE", "BEFORE", "KERNEL")


class Loads:
    """The TPU with this name, or all that are connected; what was before is remembered.

    latest: only the latest sample of each host, not those before.
    """

    def __init__(
        self, session: FleetSession, name: str | None, hosts: str, *, latest: bool = False
    ) -> None:
        self._session = session
        self._name = name
        self._hosts = hosts
        self._start = None if latest else 0
        self._loads: dict[str, TPULoad] = {}

    def look(self) -> Sequence[TPULoad]:
        """All TPUs now, each with its last samples."""
        refs = [self._name] if self._name is not None else self._connected()
        return [self._look_at(ref) for ref in refs]

    def _connected(self) -> Sequence[str]:
        call, fleet = self._session.call, self._session.fleet
        return [f"{tpu_load.zone}~{tpu_load.tpu}" for tpu_load in call(fleet.metrics.list())]

    def _look_at(self, ref: str) -> TPULoad:
        from ..fleet.models import LoadQuery

        before = self._loads.get(ref)
        query = LoadQuery(start=before.next if before else self._start, hosts=self._hosts)
        load = self._session.call(self._session.fleet.metrics.get(ref, query))
        known = {host.host: host.samples for host in before.hosts} if before is not None else {}
        for host in load.hosts:
            host.samples = [*known.get(host.host, ()), *host.samples][-_KEPT_SAMPLES:]
        self._loads[ref] = load
        return load


def load_text(loads: Sequence[TPULoad]) -> str:
    """What `load_view` shows, as text for stdout."""
    return render(load_view(loads))


def render(what: RenderableType) -> str:
    """Something of rich's as text for stdout."""
    console = clean_console(sys.stdout, width=10_000, force_jupyter=False, highlight=False)
    with console.capture() as captured:
        console.print(what)
    lines = captured.get().removesuffix("\n").split("\n")
    return own_escapes("\n".join(line.rstrip() for line in lines))


def load_view(
    loads: Sequence[TPULoad], lines: int = 10_000, width: int = _WIDE_COLUMNS
) -> RenderableType:
    """All TPUs, one below the other, in about so many *lines*: the hosts' samples are drawn."""
    from rich.console import Group

    if not loads:
        return "No TPU is connected. Connect one: jupyter tpu connect NAME"
    chips = sum(max(1, len(_chips(host))) for load in loads for host in load.hosts)
    by_host = chips + 3 * len(loads) > lines
    return Group(*(part for load in loads for part in _tpu(load, by_host, width < _WIDE_COLUMNS)))


def _tpu(load: TPULoad, by_host: bool, narrow: bool) -> list[Any]:
    from rich.text import Text

    title = Text.assemble((load.tpu, "bold"), f"  {load.type}  {load.zone}")
    if load.emulated:
        title.append(f"  ({_EMULATED})", "dim")
    rows = [row for host in load.hosts for row in _rows(host, by_host, narrow)]
    notes = [Text(note, "yellow") for note in _notes(load)]
    return [title, *([_grid(rows)] if rows else []), *notes, ""]


def _rows(host: HostLoad, by_host: bool, narrow: bool) -> Iterator[Sequence[Any]]:
    """A row for each chip of a host, or one for all."""
    chips = _chips(host)
    bar, line = _NARROW if narrow else _SIZES
    queue = host.samples[-1].queue if chips else None
    owners = {} if by_host else _owners(host)
    for number, chip in enumerate([_together(chips)] if by_host and chips else chips):
        name = f"all {len(chips)}" if by_host else str(number)
        history = [_value(sample, None if by_host else number) for sample in host.samples[-line:]]
        waiting = "" if queue is None or number else str(queue)
        figures = *_memory(chip, bar), *_duty(chip, bar), waiting, _plot(history)
        yield str(host.host), name, *figures, owners.get(number, "")


def _owners(host: HostLoad) -> dict[int, str]:
    """Whose each chip is that a kernel has for itself."""
    return {
        chip: PurePosixPath(booking.notebook).name or booking.kernel[:8]
        for booking in host.bookings
        for chip in booking.chips
    }


def _grid(rows: Sequence[Sequence[Any]]) -> RenderableType:
    """The rows, without columns that are empty."""
    from rich.table import Table

    grid = Table(box=None, pad_edge=False, padding=(0, 1), header_style="bold")
    kept = [i for i in range(len(_HEADS)) if any(row[i] for row in rows)]
    for i in kept:
        grid.add_column(_HEADS[i], no_wrap=True, justify="right" if i in (0, 1, 6) else "left")
    for row in rows:
        grid.add_row(*(row[i] for i in kept))
    return grid


def _chips(host: HostLoad) -> Sequence[ChipLoad]:
    return host.samples[-1].chips if host.samples else ()


def _together(chips: Sequence[ChipLoad]) -> ChipLoad:
    """All chips of a host as one: the sum of their memory, and the mean of their duty cycles."""
    from ..fleet.models import ChipLoad

    duty = [chip.duty_cycle for chip in chips if chip.duty_cycle is not None]
    return ChipLoad(
        memory_used=_sum([chip.memory_used for chip in chips]),
        memory_total=_sum([chip.memory_total for chip in chips]),
        duty_cycle=sum(duty) / len(duty) if duty else None,
    )


def _sum(values: Sequence[int | None]) -> int | None:
    """None where one is not known."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _value(sample: LoadSample, chip: int | None) -> float | None:
    """The duty cycle of a chip, or the mean of all."""
    if chip is None:
        return _together(sample.chips).duty_cycle
    return sample.chips[chip].duty_cycle if chip < len(sample.chips) else None


def _memory(chip: ChipLoad, width: int) -> tuple[Any, str]:
    if chip.memory_used is None or not chip.memory_total:
        return "", "" if chip.memory_used is None else _gib(chip.memory_used)
    part = 100 * chip.memory_used / chip.memory_total
    text = f"{_gib(chip.memory_used)} / {_gib(chip.memory_total)} GiB  {part:3.0f} %"
    return _bar(part, width), text


def _duty(chip: ChipLoad, width: int) -> tuple[Any, str]:
    duty = chip.duty_cycle
    return ("", "") if duty is None else (_bar(duty, width), f"{duty:3.0f} %")


def _bar(percent: float, width: int) -> Any:
    from rich.bar import Bar

    color = "red" if percent >= 95 else "yellow" if percent >= 80 else "green"
    return Bar(100, 0, percent, width=width, color=color, bgcolor="bright_black")


def _plot(values: Sequence[float | None]) -> str:
    """The last values as a small plot; a gap is a blank."""
    if len(values) < 2:
        return ""
    top = len(_STEPS) - 1
    return "".join(
        " " if value is None else _STEPS[min(top, int(value / 100 * len(_STEPS)))]
        for value in values
    )


def _gib(count: int) -> str:
    return f"{count / 2**30:.1f}"


def _notes(load: TPULoad) -> list[str]:
    """What is not in the table; hosts for which it is the same are named together."""
    from .doctor import numbered

    hosts: dict[str, list[int]] = {}
    for host in load.hosts:
        for text in _notes_of(host):
            hosts.setdefault(text, []).append(host.host)
    many = len(load.hosts) > 1
    return [
        f"{_capital(numbered(numbers))}: {text}" if many else text
        for text, numbers in hosts.items()
    ]


def _notes_of(host: HostLoad) -> list[str]:
    notes = [problem_text(host.problem)] if host.problem is not None else []
    age = time.time() - host.samples[-1].time if host.samples else 0.0
    if not host.samples and not notes:
        notes.append("No figures yet.")
    elif age > OLD_SAMPLE_SECONDS:
        notes.append(f"These figures are {age / 60:.0f} minutes old.")
    notes += [host.message] if host.message else []
    return notes + [f"libtpu reports an error: {error}" for error in host.errors]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
