"""``jupyter tpu app``: web applications of hosts in the browser."""

from __future__ import annotations

import argparse
import threading
from typing import TYPE_CHECKING

from ..commands.session import Session, open_session
from ..commands.tables import size, state, table
from ..errors import Reason, TPUError
from .console import note, print_json
from .tpus import stream_of
from .waiting import finish

if TYPE_CHECKING:
    from ..fleet.models import App, Operation


def app(chosen: argparse.Namespace) -> None:
    """Opens, lists or closes, by the words given."""
    name, word = chosen.name, chosen.port
    if name == "close" and word:
        return _close(word, chosen)
    if name in (None, "list") and word is None:
        return _list(chosen)
    if word is None:
        raise TPUError(
            f"Which port of {name}?", Reason.INVALID, f"For instance: jupyter tpu app {name} 6006"
        )
    return _open(name, word, chosen)


def _open(name: str, word: str, chosen: argparse.Namespace) -> None:
    from ..fleet.models import OpenApp

    try:
        port = int(word)
    except ValueError:
        raise TPUError(
            f"{word!r} is not a port.", Reason.INVALID, "Ports are 1 to 65535."
        ) from None
    wanted = OpenApp(port=port, host=chosen.worker, path=chosen.path, anywhere=chosen.anywhere)
    if wanted.anywhere:
        note(
            "This page may connect and send forms to anywhere, to programs on your own machine, "
            "too: only for pages you trust."
        )
    with open_session() as session:
        opened = session.call(session.fleet.open_app(name, wanted))
        show(session, opened, chosen)


def tensorboard(chosen: argparse.Namespace) -> None:
    """Opens TensorBoard for a folder of a host."""
    from ..fleet.models import OpenTensorBoard

    wanted = OpenTensorBoard(logdir=chosen.logdir, host=chosen.worker)
    with open_session() as session:
        _finish(session, session.call(session.fleet.open_tensorboard(chosen.name, wanted)), chosen)


def profile(chosen: argparse.Namespace) -> None:
    """Traces a kernel, the only one if none is named, and opens the trace."""
    from ..fleet.models import ProfileKernel

    wanted = ProfileKernel(seconds=chosen.seconds, logdir=chosen.logdir or "")
    with open_session() as session:
        kernel = chosen.kernel or _only_kernel(session, chosen.name)
        _finish(session, session.call(session.fleet.profile(chosen.name, kernel, wanted)), chosen)


def _only_kernel(session: Session, name: str) -> str:
    kernels = [k for k in session.call(session.fleet.kernels(name)) if k.state != "dead"]
    if len(kernels) == 1:
        return kernels[0].id
    if not kernels:
        raise TPUError(
            f"No kernel runs on {name}.", Reason.NOT_FOUND, "Start a notebook there first."
        )
    named = ", ".join(f"{k.id} ({k.notebook or k.environment})" for k in kernels)
    raise TPUError(f"Which kernel? There are {named}.", Reason.INVALID, "Name one by its id.")


def _finish(session: Session, operation: Operation, chosen: argparse.Namespace) -> None:
    ended = finish(session, operation, stream_of(chosen))
    for opened in session.call(session.fleet.apps()):
        if opened.id == ended.app:
            show(session, opened, chosen)


def show(session: Session, opened: App, chosen: argparse.Namespace) -> None:
    """Opens it in the browser. Without a server it lasts as long as this command."""
    if chosen.json:
        print_json(opened)
    visit = session.call(session.fleet.visit_app(opened.id))
    if not chosen.json:
        print(f"{_what(opened)}: {visit.url}", flush=True)
    if chosen.browser:
        if not _browse(visit.url):
            note("No browser could be started here: open the address yourself.")
    elif not chosen.json:
        note("The address is good once, within 30 seconds; the command gives another one.")
    if session.server is None:
        if not chosen.json:
            print("Ctrl-C closes it.", flush=True)
        threading.Event().wait()  # until Ctrl-C


def _browse(url: str) -> bool:
    """Starts the browser by way of a file: what stands in its command line, others can read."""
    import html
    import os
    import webbrowser

    from ..paths import data_dir

    path = data_dir() / "open-app.html"
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(
            '<!doctype html><meta name="referrer" content="no-referrer">'
            f'<meta http-equiv="refresh" content="0;url={html.escape(url)}">'
        )
    return webbrowser.open(path.as_uri())


def _list(chosen: argparse.Namespace) -> None:
    with open_session() as session:
        found = session.call(session.fleet.apps())
    if chosen.json:
        print_json(found)
    elif not found:
        print("No apps are open. Open one: jupyter tpu app NAME PORT")
    else:
        rows = [
            (
                each.id,
                each.name,
                each.tpu + (f" host {each.host}" if each.host else ""),
                str(each.port),
                each.logdir or each.path,
                state(each.state),
                size(each.sent),
                size(each.received),
            )
            for each in found
        ]
        heads = ("ID", "NAME", "TPU", "PORT", "SHOWS", "STATE", "SENT", "RECEIVED")
        print(table(heads, rows))
        for each in found:
            if each.problem is not None:
                print(f"{each.id}: {each.problem.message} {each.problem.hint}".rstrip())


def _close(word: str, chosen: argparse.Namespace) -> None:
    with open_session() as session:
        there = session.call(session.fleet.apps())
        found = [each for each in there if word in (each.id, str(each.port))]
        if not found:
            raise TPUError(
                f"There is no app {word}.",
                Reason.NOT_FOUND,
                "Give its id or its port; `jupyter tpu app list` shows them.",
            )
        for each in found:
            session.call(session.fleet.close_app(each.id))
            if not chosen.json:
                print(f"Closed: {_what(each)}")


def _what(each: App) -> str:
    host = f" host {each.host}" if each.host else ""
    return f"{each.name} of {each.tpu}{host}"
