"""``jupyter tpu app``: web apps of hosts in the browser."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..errors import Reason, TPUError
from ..terminal.field_options import options_of
from ..terminal.grammar import Group, argument, examples
from ..terminal.parameters import tpu_argument
from ..terminal.printing import json_option, list_options, note, print_json, print_list
from ..terminal.session import FleetSession, fleet_call, open_session
from ..terminal.tables import host_text, problem_text, size, state_text, table

if TYPE_CHECKING:
    from ..fleet.models import App, Operation


F = TypeVar("F", bound=Callable[..., Any])


def browser_option(function: F) -> F:
    return click.option(
        "--no-browser",
        is_flag=True,
        help="Print the address instead of opening it. It works once, within 30 seconds.",
    )(function)


@click.group("app", cls=Group, short_form="open", aliases={"stop": "close"})
def app() -> None:
    """Open web apps of a host in the browser.

    An app has an origin of its own: it gets no cookie and no token of Jupyter, and can't call
    Jupyter's API. With a running Jupyter server an app stays open until the server ends; without
    one, as long as the command runs. For browsers that reach only Jupyter, such as behind a Hub:
    c.JupyterTPU.proxy_ports (docs/hosts/apps.md).

    `jupyter tpu app NAME PORT` is short for `jupyter tpu app open NAME PORT`.
    """


@app.command(
    "open",
    epilog=examples(
        "jupyter tpu app open my-tpu 8080",
        "jupyter tpu app open my-tpu 7860 --path /demo --no-browser",
    ),
)
@tpu_argument()
@argument("port", type=int, metavar="PORT", help="The port on the host.")
@options_of("OpenApp", "path", "allow_external", "host")
@browser_option
@json_option
def open_app(
    name: str,
    port: int,
    fields: dict[str, Any],
    no_browser: bool,
    as_json: bool,
) -> None:
    """Open a web app that a host serves on a port."""
    from ..fleet.models import OpenApp

    request = OpenApp(port=port, **fields)
    if request.allow_external:
        note(
            "This page may connect and send forms to any address, also to programs on this "
            "computer. Open only apps you trust."
        )
    with open_session() as session:
        opened = session.call(session.fleet.apps.open(name, request))
        show(session, opened, no_browser, as_json)


@app.command("list")
@list_options
def list_apps() -> None:
    """List the open web apps."""
    apps = fleet_call(lambda fleet: fleet.apps.list())
    print_list(apps, _table)


def _table(apps: Sequence[App]) -> str:
    if not apps:
        return "No apps are open. Open one: jupyter tpu app open NAME PORT"
    rows = [
        (
            app.id,
            app.name,
            host_text(app.tpu, app.host),
            str(app.port),
            app.logdir or app.path,
            state_text(app.state),
            size(app.sent),
            size(app.received),
        )
        for app in apps
    ]
    heads = ("ID", "NAME", "TPU", "PORT", "SHOWS", "STATE", "SENT", "RECEIVED")
    problems = [f"{app.id}: {problem_text(app.problem)}" for app in apps if app.problem]
    return "\n".join([table(heads, rows), *problems])


@app.command("close", epilog=examples("jupyter tpu app close 8080"))
@argument("id", metavar="ID|PORT", help="The app's ID, or its port on the host.")
@json_option
def close_app(id: str, as_json: bool) -> None:
    """Close a web app."""
    with open_session() as session:
        apps = [
            app for app in session.call(session.fleet.apps.list()) if id in (app.id, str(app.port))
        ]
        if not apps:
            raise TPUError(
                f"The app {id} does not exist.",
                Reason.NOT_FOUND,
                "Give its ID or its port; `jupyter tpu app list` shows them.",
            )
        for web_app in apps:
            session.call(session.fleet.apps.close(web_app.id))
            if not as_json:
                print(f"Closed {_title(web_app)}")
    if as_json:
        print_json(apps)


def show(session: FleetSession, opened: App, no_browser: bool, as_json: bool) -> None:
    if as_json:
        print_json(opened)
    show_app(session, opened, no_browser=no_browser, quiet=as_json)


def opened_app(session: FleetSession, operation: Operation) -> App:
    """The app that an operation has opened."""
    apps = session.call(session.fleet.apps.list())
    app = next((app for app in apps if app.id == operation.app), None)
    if app is None:
        raise TPUError("TensorBoard has been closed.", Reason.NOT_FOUND, "Open it again.")
    return app


def show_app(session: FleetSession, opened: App, *, no_browser: bool, quiet: bool) -> None:
    """Opens it in the browser. Without a server the app lasts as long as this command."""
    import threading

    visit = session.call(session.fleet.apps.visit(opened.id))
    if not quiet:
        print(f"{_title(opened)}: {visit.url}", flush=True)
    if not no_browser:
        if not _browse(visit.url):
            note("Could not start a browser. Open the address yourself.")
    elif not quiet:
        note("The address works once, within 30 seconds. Run the command again for another one.")
    if session.server is None:
        if not quiet:
            print("Press Ctrl-C to close it.", flush=True)
        threading.Event().wait()  # until Ctrl-C


def _browse(url: str) -> bool:
    """Starts the browser through a file: other users can read its command line."""
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


def _title(web_app: App) -> str:
    return f"{web_app.name} of {host_text(web_app.tpu, web_app.host)}"
