"""The commands of ``%tpu``, and the options of ``%%tpu``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..commands.grammar import (
    CONTEXT,
    Command,
    Group,
    argument,
    environment_option,
    local_port_option,
    packages_option,
    ports_argument,
    python_option,
    tpu_argument,
    worker_option,
)
from ..commands.session import open_session
from ..commands.tables import describe_tunnel, opened_tunnel, table, tpu_table, tunnel_table
from ..errors import Reason, TPUError
from .kernels import kernelspec_of
from .show import wait_for

if TYPE_CHECKING:
    from .kernels import NotebookKernels


@click.group("%tpu", cls=Group, context_settings=CONTEXT, invoke_without_command=True)
@click.pass_context
def line(ctx: click.Context) -> None:
    """Run cells of this notebook on a TPU.

    \b
    %%tpu [NAME] [--env ENV]
                           run this cell there (default: on the TPU that was used last)
    %%tpu compile TYPE [OPTIONS]
                           compile the program in the cell's last line (function, shapes ...) for
                           a TPU of that type; needs no TPU

    A notebook has one kernel per TPU and environment, which keeps its variables from cell to
    cell. It ends when the notebook's own kernel ends.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@line.command("connect")
@tpu_argument()
@environment_option
@python_option
@packages_option
@click.pass_obj
def connect(
    kernels: NotebookKernels,
    name: str,
    environment: str,
    python: str | None,
    packages: tuple[str, ...],
) -> None:
    """Prepare a TPU, and start a kernel of this notebook on it."""
    from ..fleet.models import ConnectTPU

    wanted = ConnectTPU(environment=environment, python=python, packages=list(packages))
    with open_session() as session:
        tpu = session.call(session.fleet.tpu(name))
        ref = f"{tpu.zone}~{tpu.name}"
        if kernelspec_of(tpu, environment) is None or python or packages:
            wait_for(session, session.call(session.fleet.connect(ref, wanted)))
            tpu = session.call(session.fleet.tpu(ref))
    spec = kernelspec_of(tpu, environment)
    if spec is None:
        raise TPUError(f"{tpu.name} is connected, but has no environment {environment}.")
    kernel = kernels.start(ref, environment, *spec)
    print(f"{kernel.display_name}: cells that begin with %%tpu now run there.")


@line.command("status")
@click.pass_obj
def status(kernels: NotebookKernels) -> None:
    """List this notebook's kernels on TPUs."""
    if not kernels.all():
        print("This notebook has no kernel on a TPU. Start one: %tpu connect NAME")
        return
    rows = [
        (
            kernel.tpu,
            kernel.environment,
            kernel.display_name,
            "running" if kernel.alive() else "dead",
            "default of %%tpu" if key == kernels.last else "",
        )
        for key, kernel in kernels.all().items()
    ]
    print(table(("TPU", "ENVIRONMENT", "KERNEL", "STATE", ""), rows))
    print("They end when this notebook's own kernel ends.")


@line.command("list")
def list_tpus() -> None:
    """List the project's TPUs."""
    with open_session() as session:
        print(tpu_table(session.call(session.fleet.tpus())))


@line.group("tunnel", cls=Group, short_form="open", aliases={"remove": "close"})
def tunnel() -> None:
    """Forward local ports to ports of a host. The running Jupyter server keeps the tunnels.

    `%tpu tunnel NAME PORT` is short for `%tpu tunnel open NAME PORT`.
    """


@tunnel.command("open")
@tpu_argument()
@ports_argument
@local_port_option
@worker_option
def open_tunnel(
    name: str, ports: list[tuple[int, int | None]], local_port: int | None, worker: int
) -> None:
    """Forward local ports to ports of a host."""
    from ..commands.tunnels import requests

    wanted = requests(ports, local_port, host=worker)
    with open_session() as session:
        if session.server is None:
            raise TPUError(
                "Tunnels need a running Jupyter server with the jupyter-tpu extension.",
                Reason.CONFLICT,
                f"In a terminal: jupyter tpu tunnel open {name} {ports[0][0]}",
            )
        for each in wanted:
            print(opened_tunnel(session.call(session.fleet.open_tunnel(name, each))))


@tunnel.command("list")
@tpu_argument(required=False)
def list_tunnels(name: str | None) -> None:
    """List the tunnels of a TPU, or of all TPUs."""
    with open_session() as session:
        fleet = session.fleet
        tunnels = session.call(fleet.all_tunnels() if name is None else fleet.tunnels(name))
        print(tunnel_table(tunnels))


@tunnel.command("close")
@argument("ids", nargs=-1, required=True, metavar="ID|LOCAL...", help="ID or local port.")
def close(ids: tuple[str, ...]) -> None:
    """Close tunnels."""
    from ..commands.tunnels import close_tunnels

    with open_session() as session:
        for each in close_tunnels(session, ids):
            print(f"Closed: {describe_tunnel(each)}")


@line.command("disconnect")
@tpu_argument(required=False)
@click.pass_obj
def disconnect(kernels: NotebookKernels, name: str | None) -> None:
    """End this notebook's kernels on a TPU, and disconnect it (default: the one used last)."""
    name = name or (kernels.last and kernels.last[0])
    if not name:
        raise TPUError("This notebook has no kernel on a TPU.", Reason.NOT_FOUND)
    with open_session() as session:
        tpu = session.call(session.fleet.tpu(name))
        ref = f"{tpu.zone}~{tpu.name}"
        for key in kernels.all():
            if key[0] == ref:
                kernels.end(key)
        try:
            wait_for(session, session.call(session.fleet.disconnect(ref)))
        except TPUError as error:
            if error.reason is not Reason.KERNELS_RUNNING:
                raise
            print(f"This notebook's kernel has ended. {error.message} {tpu.name} stays connected.")
        else:
            print(f"Disconnected {tpu.name}. Its environments stay on its hosts.")


@click.command("%%tpu", cls=Command, context_settings=CONTEXT)
@tpu_argument(required=False)
@click.option("--env", "environment", metavar="ENV", help="Name of the environment.")
def cell(name: str | None, environment: str | None) -> tuple[str | None, str | None]:
    """Run this cell on a TPU, by default the one that was used last; see %tpu."""
    return name, environment
