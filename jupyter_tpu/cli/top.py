"""``jupyter tpu top``: memory and load of chips, again and again."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ..commands.grammar import command, examples, hosts_option, tpu_argument
from ..commands.load import load_text, load_view
from ..commands.session import Session, open_session
from ..commands.tables import is_terminal
from ..errors import Reason, TPUError
from .console import json_option, print_json

if TYPE_CHECKING:
    from ..fleet.models import TPULoad

#: Samples of a host that are remembered for its small plot.
KEPT = 60
#: What does not end the view: it may be better a moment later.
_PASSING = (Reason.UNREACHABLE, Reason.TIMEOUT, Reason.CONFLICT, Reason.UNAVAILABLE)


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
    help="Time between two looks.",
)
@click.option("--once", is_flag=True, help="Look once, print it, and exit.")
@json_option
def top(name: str | None, hosts: str, every: float, once: bool, as_json: bool) -> None:
    """Show memory and load of the chips of a TPU, or of all connected TPUs.

    Runs until Ctrl-C. If the output is not a terminal, and with --json, it looks once. The figures
    are libtpu's: HBM in use, the part of the time in which the cores were busy, and programs that
    wait. There are none while no process uses the chips. BEFORE has the last duty cycles.
    """
    with open_session() as session:
        view = View(session, name, hosts, latest=as_json)
        if as_json:
            print_json(view.look())
        elif once or not is_terminal(sys.stdout):
            print(load_text(view.look()))
        else:
            with contextlib.suppress(KeyboardInterrupt):
                watch(view, every)


class View:
    """What is shown: the TPU with this name, or all that are connected.

    latest: only the latest sample of each host, not those before.
    """

    def __init__(self, session: Session, name: str | None, hosts: str, *, latest: bool) -> None:
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
        return [f"{each.zone}~{each.tpu}" for each in call(fleet.metrics.list())]

    def _look_at(self, ref: str) -> TPULoad:
        from ..fleet.models import LoadQuery

        before = self._loads.get(ref)
        query = LoadQuery(start=before.next if before else self._start, hosts=self._hosts)
        load = self._session.call(self._session.fleet.metrics.get(ref, query))
        known = {host.host: host.samples for host in before.hosts} if before is not None else {}
        for host in load.hosts:
            host.samples = [*known.get(host.host, ()), *host.samples][-KEPT:]
        self._loads[ref] = load
        return load


def watch(view: View, every: float) -> None:
    """Shows it until Ctrl-C. What may be better a moment later is shown, and tried again."""
    from rich.console import Console, Group
    from rich.live import Live
    from rich.text import Text

    console = Console()
    with Live(Text("Waiting for the first figures."), console=console, screen=True) as live:
        while True:
            try:
                shown = load_view(view.look(), console.height, console.width)
                live.update(shown, refresh=True)
            except TPUError as error:
                if error.reason not in _PASSING:
                    raise
                note = Text(f"{error}\nTrying again.", "yellow")
                live.update(Group(note), refresh=True)
            time.sleep(every)
