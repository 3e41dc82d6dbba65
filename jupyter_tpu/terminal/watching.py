"""`--watch`: what a command shows, again after each change, until Ctrl-C."""

from __future__ import annotations

import contextlib
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..errors import Reason, TPUError
from .printing import note
from .streams import as_shown, own_escapes
from .tables import is_terminal

if TYPE_CHECKING:
    from .session import FleetSession

F = TypeVar("F", bound=Callable[..., Any])

#: What does not end it: it may be better a moment later.
PASSING = (Reason.UNREACHABLE, Reason.TIMEOUT, Reason.CONFLICT, Reason.UNAVAILABLE)
#: Seconds between two looks if no event comes: beside a server, which asks Google itself; alone,
#: where each look asks Google; and at least, however many events come.
BESIDE_SERVER_SECONDS, ALONE_SECONDS, LEAST_SECONDS = 2.0, 10.0, 0.3


def watch_option(function: F) -> F:
    """--watch, as the parameter *watch*."""
    return click.option(
        "--watch", "-w", is_flag=True, help="Show it again after each change, until Ctrl-C."
    )(function)


def watch(session: FleetSession, look: Callable[[], str], is_over: Callable[[], bool]) -> None:
    """Shows what *look* returns, again and again, until Ctrl-C or *is_over*: a terminal has only
    the newest, elsewhere each is printed if it is new.
    """
    changed = threading.Event()
    pause = ALONE_SECONDS if session.server is None else BESIDE_SERVER_SECONDS
    show = _on_terminal if is_terminal(sys.stdout) else _one_after_the_other
    with show() as write, _events(session, changed), contextlib.suppress(KeyboardInterrupt):
        while True:
            changed.clear()
            size = shutil.get_terminal_size()
            try:
                write(look())
            except TPUError as error:
                if error.reason not in PASSING:
                    raise
                note(f"{error} Trying again.")
            if is_over():
                return
            time.sleep(LEAST_SECONDS)
            end = time.monotonic() + pause
            # A table has other columns in a terminal of another size.
            while shutil.get_terminal_size() == size and time.monotonic() < end:
                if changed.wait(LEAST_SECONDS):
                    break


@contextlib.contextmanager
def _events(session: FleetSession, changed: threading.Event) -> Iterator[None]:
    """Sets *changed* when something in the fleet changes."""

    async def subscribe() -> Callable[[], None]:
        return session.fleet.subscribe(lambda _: changed.set())

    async def end() -> None:
        unsubscribe()

    unsubscribe = session.call(subscribe())
    try:
        yield
    finally:
        session.call(end())


@contextlib.contextmanager
def _one_after_the_other() -> Iterator[Callable[[str], None]]:
    last = ""

    def write(text: str) -> None:
        nonlocal last
        if text != last:
            last = text
            print(text, flush=True)

    yield write


@contextlib.contextmanager
def _on_terminal() -> Iterator[Callable[[str], None]]:
    """On the terminal's other screen, without wrapped lines; in the end the last one stays. A line
    that is too long ends with an ellipsis, as do too many lines.
    """
    last = ""

    def write(text: str) -> None:
        nonlocal last
        last = text
        columns, rows = shutil.get_terminal_size()
        end = own_escapes(f"\x1b[{columns}G…")  # in the last column
        lines = [line + end if len(as_shown(line)) > columns else line for line in text.split("\n")]
        if len(lines) >= rows:
            lines[rows - 2 :] = ["…"]
        print(own_escapes("\x1b[H\x1b[J") + "\n".join(lines), flush=True)

    print(own_escapes("\x1b[?1049h\x1b[?7l"), end="", flush=True)
    try:
        yield write
    finally:
        print(own_escapes("\x1b[?7h\x1b[?1049l"), end="", flush=True)
        if last:
            print(last, flush=True)
