"""``jupyter tpu ray``: the same as ``%tpu ray``, and the dashboard in a browser."""

from __future__ import annotations

from ..commands import ray_group
from ..commands.grammar import Group, command, examples
from ..commands.parameters import tpu_argument
from ..commands.session import open_session
from .apps import browser_option, show_app
from .console import json_option, print_json

_shared = ray_group.ray


@command("dashboard", epilog=examples("jupyter tpu ray dashboard my-pod"))
@tpu_argument()
@browser_option
@json_option
def dashboard(name: str, no_browser: bool, as_json: bool) -> None:
    """Open Ray's dashboard.

    It has an origin of its own, as all web apps of hosts, and needs no token there.
    """
    with open_session() as session:
        opened = session.call(session.fleet.ray.open_dashboard(name))
        if as_json:
            print_json(opened)
        show_app(session, opened, no_browser=no_browser, quiet=as_json)


ray = Group(
    "ray",
    commands={**_shared.commands, "dashboard": dashboard},
    help=_shared.help,
    aliases={"up": "start", "down": "stop"},
)
