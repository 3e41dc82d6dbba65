"""All handlers of the extension."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .compiling import Compilations, CompileHandler
from .contents import PATTERN as CONTENTS
from .contents import ContentsHandler
from .files import CONTENT_PATTERN, ContentHandler, FileHandler
from .files import PATTERN as FILES
from .fleet_handle import FleetHandle
from .handlers import handlers
from .jax import JaxService, jax_handlers
from .prometheus import PrometheusHandler
from .proxy import PATTERN, ProxyHandler, ProxyPorts
from .routes import COMPILE, PLAN, PROMETHEUS, ROOT
from .terminals import PATTERN as TERMINALS
from .terminals import TerminalHandler


def table(
    fleet: FleetHandle, jax: JaxService, ports: ProxyPorts, emulator: Callable[[], str | None]
) -> list[tuple[str, type, dict[str, Any]]]:
    """For the web application, below its base URL. *emulator*: gives its state file, if any."""
    compilations = Compilations(fleet)
    of_fleet = {"fleet": fleet}
    return [
        *handlers(fleet),
        (PATTERN, ProxyHandler, {"ports": ports, **of_fleet}),
        *jax_handlers(jax),
        (f"/{ROOT}/{COMPILE.path}", CompileHandler, {"start": compilations.start}),
        (f"/{ROOT}/{PLAN.path}", CompileHandler, {"start": compilations.start_plan}),
        (TERMINALS, TerminalHandler, {"emulator": emulator, **of_fleet}),
        (FILES, FileHandler, of_fleet),
        (CONTENT_PATTERN, ContentHandler, of_fleet),
        (CONTENTS, ContentsHandler, of_fleet),
        (f"/{ROOT}/{PROMETHEUS.path}", PrometheusHandler, of_fleet),
    ]
