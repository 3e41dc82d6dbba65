"""Arguments and options that several commands have, and what a shell completes in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import click

from .grammar import F, argument


class PortPair(click.ParamType):
    """``PORT`` or ``PORT:LOCAL``: the port on the host and the local one, None for any."""

    name = "port"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int | None]:
        if isinstance(value, tuple):
            return value
        match = re.fullmatch(r"(-?\d{1,9})(?::(-?\d{1,9}))?", value)
        if match is None:
            self.fail(
                f"{value!r} is not PORT or PORT:LOCAL, such as 6006 or 6006:7007.", param, ctx
            )
        return int(match[1]), int(match[2]) if match[2] else None


Completer = Callable[[click.Context, click.Parameter, str], list[str]]


def _completer(names: Callable[[], Iterable[str]]) -> Completer:
    """Completes from *names*, which are looked up only when the shell asks."""
    return lambda _ctx, _parameter, incomplete: [
        name for name in names() if name.startswith(incomplete)
    ]


def _tpu_names() -> Iterable[str]:
    from .session import tpu_names

    return tpu_names()


def _type_names() -> Iterable[str]:
    from ..catalog import types

    return [type_.name for type_ in types()]


def _zones() -> Iterable[str]:
    from ..catalog import zones

    return zones()


def _versions() -> Iterable[str]:
    from ..catalog import versions

    return versions()


def _environments() -> Iterable[str]:
    from ..kernels import KernelSpecs

    return sorted({spec.place.environment for spec in KernelSpecs().list()})


complete_type = _completer(_type_names)
complete_zone = _completer(_zones)
complete_version = _completer(_versions)
complete_environment = _completer(_environments)

#: --project, which `open_session` finds in the context's ``meta``.
project_option = click.option(
    "--project",
    metavar="PROJECT",
    expose_value=False,
    callback=lambda ctx, _, value: ctx.meta.__setitem__("project", value),
    help="Google Cloud project.  [default: gcloud's]",
)


def tpu_argument(
    *, required: bool = True, several: bool = False, zone_alone: bool = False, what: str = "TPU"
) -> Callable[[F], F]:
    """NAME, or NAME... as *names*; with gcloud's --zone and --project. Which TPUs.

    zone_alone: --zone means something without NAME, too; it is in the context's ``meta``.
    what: "queued resource", where that has the name.
    """

    def in_zone(ctx: click.Context, _: click.Parameter, value: Any) -> Any:
        zone = ctx.meta.get("zone")
        if zone and not (value or zone_alone or ctx.resilient_parsing):
            raise click.UsageError("--zone needs a TPU's NAME.", ctx)
        return tuple(_in_zone(ctx, name) for name in value) if several else _in_zone(ctx, value)

    name = argument(
        "names" if several else "name",
        nargs=-1 if several else 1,
        metavar="NAME..." if several else "NAME" if required else "[NAME]",
        required=required,
        callback=in_zone,
        shell_complete=_completer(_tpu_names),
        help=f"The {what}, or ZONE/NAME if {what}s in several zones have this name.",
    )
    zone = click.option(
        "--zone",
        metavar="ZONE",
        is_eager=True,  # before NAME
        expose_value=False,
        callback=lambda ctx, _, value: ctx.meta.__setitem__("zone", value),
        shell_complete=complete_zone,
        help=f"The zone of NAME.  [default: any zone with such a {what}]",
    )
    return lambda function: name(zone(project_option(function)))


def _in_zone(ctx: click.Context, name: str | None) -> str | None:
    """A TPU's name with the zone that --zone gives."""
    zone = ctx.meta.get("zone")
    if not (zone and name) or ctx.params.get("once"):  # of which it is a script's path
        return name
    own, _, _ = name.replace("~", "/").rpartition("/")
    if own not in ("", zone):
        raise click.UsageError(f"{name} is not in the zone {zone}, which --zone gives.", ctx)
    return name if own else f"{zone}~{name}"


ports_argument = argument(
    "ports",
    type=PortPair(),
    nargs=-1,
    required=True,
    metavar="PORT[:LOCAL]...",
    help="Port on the host, and local port (default: the same if it is free, else any).",
)
host_option = click.option(
    "--worker", "number", type=int, default=0, metavar="N", help="Number of the host."
)
hosts_option = click.option(
    "--worker", "hosts", default="all", metavar="HOSTS", help="Hosts: all, 0, or 0,2-5."
)
command_argument = argument(
    "command",
    nargs=-1,
    type=click.UNPROCESSED,
    metavar="-- CMD...",
    help="The command and its arguments; no shell changes them. For SCRIPT.py its arguments.",
)
copied_paths = argument(
    "paths",
    nargs=-1,
    required=True,
    metavar="SRC... DST",
    help="Files and folders. NAME:PATH is on a TPU; PATH is relative to its home folder, or "
    "absolute.",
)
connect_option = click.option(
    "--connect", "then_connect", is_flag=True, help="Then connect it (see `connect`)."
)
environment_option = click.option(
    "--env",
    "environment",
    default="default",
    metavar="ENV",
    shell_complete=complete_environment,
    help="Name of the environment.",
)
