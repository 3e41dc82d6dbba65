"""Terminals on hosts: Jupyter's own terminals that run ``jupyter tpu ssh --keep``."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import msgspec
from jupyter_server.auth.decorator import authorized
from jupyter_server.utils import ensure_async
from tornado import web

from ..errors import Reason, TPUError
from ..fleet.core.host_numbers import host_number
from ..fleet.models import TPU
from ..python_command import module_command
from .fleet_handle import FleetHandle
from .handlers import Handler
from .routes import ROOT, TERMINAL, Terminal

#: Jupyter closes a terminal with its program, and an error with it: so it waits.
_SCRIPT = '"$@" || { printf "\\n%s" "$0"; read -r answer; }'
_ENDED = "The connection ended with an error. Press Enter to close the terminal."


#: Where it is, without the base URL.
PATTERN = f"/{ROOT}/" + TERMINAL.path.format(tpu="([^/]+)", host="([^/]+)")


class TerminalHandler(Handler):
    """Opens a terminal on a host. It can do what a terminal of the server can, so the caller needs
    permission for those, too.
    """

    def initialize(self, fleet: FleetHandle, emulator: Callable[[], str | None]) -> None:
        self._fleet = fleet
        self._emulator = emulator  # its state file, once the fleet is open

    @web.authenticated
    @authorized
    async def post(self, tpu: str, host: str) -> None:
        allowed: Any = self.authorizer.is_authorized(self, self.current_user, "write", "terminals")
        if not await ensure_async(allowed):
            raise web.HTTPError(403, "Opening a terminal needs permission to write terminals.")
        try:
            node: TPU = await self._fleet.call("tpu", unquote(tpu))
            command = _command(node, unquote(host), self._emulator())
            terminals = self.settings.get("terminal_manager")
            if terminals is None:
                raise TPUError(
                    "Terminals are turned off on this Jupyter server.",
                    Reason.PERMISSION,
                    f"Run this in a terminal of your own: jupyter tpu ssh {node.name}",
                )
        except TPUError as error:
            self.write_problem(error)
            return
        made = terminals.create(shell_command=["/bin/sh", "-c", _SCRIPT, _ENDED, *command])
        self.set_status(201)
        self.finish(msgspec.json.encode(Terminal(name=made["name"])))


def _command(tpu: TPU, host: str, emulator: str | None) -> list[str]:
    """What logs in to a host. Raises TPUError: no such host, or it is not running."""
    number = host_number(host, len(tpu.hosts), tpu.name)
    if tpu.state != "READY":
        raise TPUError(
            f"{tpu.name} is {tpu.state}, so there is nothing to log in to.",
            Reason.CONFLICT,
            "Wait until it is READY, or start it.",
        )
    # The server's settings, which other programs don't know.
    where = [f"CLOUDSDK_CORE_PROJECT={tpu.project}"]
    where += [f"JUPYTER_TPU_EMULATOR={emulator}"] if emulator else []
    kept = ["--keep", "--session", f"jupyter-{uuid.uuid4().hex[:8]}", "--in-jupyterlab"]
    login = ["ssh", f"{tpu.zone}~{tpu.name}", "--worker", str(number), *kept]
    return ["/usr/bin/env", *where, *module_command("jupyter_tpu.cli", *login)]
