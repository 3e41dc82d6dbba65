"""``jupyter tpu top``: memory and load of chips, refreshed all the time."""

from __future__ import annotations

import contextlib
import sys
import time

import click

from ..errors import TPUError
from ..terminal.console import json_option, print_json
from ..terminal.grammar import command, examples
from ..terminal.parameters import hosts_option, tpu_argument
from ..terminal.session import open_session
from ..terminal.streams import clean_console
from ..terminal.tables import is_terminal
from ..terminal.watching import PASSING
from .top_text import Loads, load_text, load_view


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
