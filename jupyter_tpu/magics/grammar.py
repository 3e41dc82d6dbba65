"""The commands of ``%tpu``, and the options of ``%%tpu``."""

from __future__ import annotations

import keyword
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from ..commands.grammar import (
    CONTEXT,
    ENVIRONMENT_OF_COMMAND,
    Command,
    Group,
    argument,
    cwd_option,
    environment_option,
    examples,
    hosts_option,
    local_port_option,
    packages_option,
    ports_argument,
    python_option,
    timeout_option,
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

F = TypeVar("F", bound=Callable[..., Any])


class Variable(click.ParamType):
    """The name of a variable."""

    name = "variable"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not value.isidentifier() or keyword.iskeyword(value):
            self.fail(f"{value!r} is not the name of a variable.", param, ctx)
        return str(value)


def _names_argument(help: str) -> Callable[[F], F]:
    return argument(
        "names", nargs=-1, required=True, type=Variable(), metavar="VARIABLE...", help=help
    )


_tpu_option = click.option(
    "--tpu", metavar="NAME", help="The TPU.  [default: the one that was used last]"
)
_some_environment_option = click.option(
    "--env", "environment", metavar="ENV", help="Name of the environment."
)
_unpickle_option = click.option(
    "--unpickle",
    is_flag=True,
    show_default=False,
    help="Also copy objects that must be unpickled. This can run any code of the TPU here.",
)


@click.group("%tpu", cls=Group, context_settings=CONTEXT, invoke_without_command=True)
@click.pass_context
def line(ctx: click.Context) -> None:
    """Run cells of this notebook on a TPU.

    \b
    %%tpu [NAME] [OPTIONS]
                           run this cell there (default: on the TPU that was used last);
                           see %%tpu --help
    %%tpu compile TYPE [OPTIONS]
                           compile the program in the cell's last line (function, shapes ...) for
                           a TPU of that type; needs no TPU
    %%local                run this cell here, while `%tpu auto` is on

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
    print(_auto_state(kernels))
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


@line.group("token", cls=Group)
def token() -> None:
    """Choose which tokens of this computer TPUs get; see `jupyter tpu token --help`."""


@token.command("list")
def list_tokens() -> None:
    """List the tokens, and where each is found. Values are not shown."""
    from ..commands.tokens import describe_tokens

    print(describe_tokens())


@token.command("pass")
@_names_argument("Such as HF_TOKEN or WANDB_API_KEY.")
def pass_token(names: tuple[str, ...]) -> None:
    """Pass tokens to kernels, commands and jobs that are started on TPUs from now on."""
    from ..commands.tokens import pass_tokens

    print(pass_tokens(names))


@token.command("remove")
@_names_argument("Such as HF_TOKEN or WANDB_API_KEY.")
def remove_token(names: tuple[str, ...]) -> None:
    """Pass tokens to nothing that is started from now on."""
    from ..commands.tokens import remove_tokens

    print(remove_tokens(names))


@line.command("doctor")
@tpu_argument()
def doctor(name: str) -> None:
    """Check what keeps JAX from the chips of a TPU."""
    from ..commands.doctor import describe

    with open_session() as session:
        print(describe(session.call(session.fleet.doctor.check(name))))


@line.command(
    "run",
    context_settings={"allow_interspersed_args": False},
    epilog=examples("%tpu run hostname", "%tpu run --worker 0 -- sh -c 'ls | head'"),
)
@argument(
    "words",
    nargs=-1,
    required=True,
    type=click.UNPROCESSED,
    metavar="CMD...",
    help="The command and its arguments; no shell changes them.",
)
@click.option(
    "--tpu", metavar="NAME", help="The TPU.  [default: the one used last, or the only READY one]"
)
@hosts_option
@cwd_option
@timeout_option
@click.option("--env", "environment", metavar="ENV", help=ENVIRONMENT_OF_COMMAND)
@click.pass_obj
def run(
    kernels: NotebookKernels,
    words: tuple[str, ...],
    tpu: str | None,
    hosts: str,
    cwd: str,
    timeout: float | None,
    environment: str | None,
) -> None:
    """Run a command on the hosts of a TPU, by default on all of them at once.

    Its output is shown while it runs. To stop it on all hosts, interrupt the cell.
    """
    from ..fleet.models import StartRun
    from .runs import run_command

    request = StartRun(
        command=[*words], hosts=hosts, cwd=cwd, timeout=timeout, environment=environment
    )
    run_command(tpu or (kernels.last and kernels.last[0]), request)


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
            print(opened_tunnel(session.call(session.fleet.tunnels.open(name, each))))


@tunnel.command("list")
@tpu_argument(required=False)
def list_tunnels(name: str | None) -> None:
    """List the tunnels of a TPU, or of all TPUs."""
    with open_session() as session:
        fleet = session.fleet
        tunnels = session.call(fleet.tunnels.all() if name is None else fleet.tunnels.list(name))
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
        if kernels.auto is not None and kernels.auto[0] == ref:
            kernels.auto = None
            print(_auto_state(kernels))
        try:
            wait_for(session, session.call(session.fleet.disconnect(ref)))
        except TPUError as error:
            if error.reason is not Reason.KERNELS_RUNNING:
                raise
            print(f"This notebook's kernel has ended. {error.message} {tpu.name} stays connected.")
        else:
            print(f"Disconnected {tpu.name}. Its environments stay on its hosts.")


@line.command("push", epilog=examples("%tpu push x params", "%tpu push x --tpu my-tpu"))
@_names_argument("Variables of this notebook.")
@_tpu_option
@_some_environment_option
@click.pass_obj
def push(
    kernels: NotebookKernels, names: tuple[str, ...], tpu: str | None, environment: str | None
) -> None:
    """Copy variables of this notebook to its kernel on a TPU.

    Arrays, also within lists, dicts and other objects, are copied as raw bytes, with their dtype.
    A JAX array becomes one of the TPU's first device. What is not built in, NumPy's or JAX's is
    pickled here, and unpickled there, where its package must be installed.
    """
    from .variables import push_variables

    push_variables(kernels.use(tpu, environment)[0], kernels.namespace, names)


@line.command("pull", epilog=examples("%tpu pull loss params", "%tpu pull model --unpickle"))
@_names_argument("Variables of the kernel on the TPU.")
@_tpu_option
@_some_environment_option
@_unpickle_option
@click.pass_obj
def pull(
    kernels: NotebookKernels,
    names: tuple[str, ...],
    tpu: str | None,
    environment: str | None,
    unpickle: bool,
) -> None:
    """Copy variables of the kernel on a TPU to this notebook.

    Arrays are copied as raw bytes, with their dtype. JAX's are JAX arrays here if this notebook
    has imported JAX, and NumPy arrays if not. Built-in values, data frames, and lists, tuples,
    dicts and sets of these are rebuilt without running code. Other objects need --unpickle.
    """
    from .variables import pull_variables

    kernel, _ = kernels.use(tpu, environment)
    pull_variables(kernel, kernels.namespace, names, unpickle=unpickle)


@line.command("auto", epilog=examples("%tpu auto on", "%tpu auto on my-tpu", "%tpu auto off"))
@argument(
    "state",
    type=click.Choice(["on", "off"]),
    required=False,
    metavar="[on|off]",
    help="Without it, the command says which it is.",
)
@tpu_argument(required=False)
@_some_environment_option
@click.pass_obj
def auto(
    kernels: NotebookKernels, state: str | None, name: str | None, environment: str | None
) -> None:
    """Run every following cell on a TPU, as if it began with %%tpu.

    Cells that begin with %tpu, %%tpu or %%local run as before: %%local means here.
    """
    if state == "on":
        kernels.use(name, environment)
        kernels.auto = kernels.last
    elif state == "off":
        kernels.auto = None
    print(_auto_state(kernels))


def _auto_state(kernels: NotebookKernels) -> str:
    if kernels.auto is None:
        return "Automatic running is off: cells that begin with %%tpu run on a TPU."
    ref, environment = kernels.auto
    return (
        f"Automatic running is on: every cell runs on {ref.partition('~')[2]} (environment "
        f"{environment}), except those that begin with %%local. To end it: %tpu auto off"
    )


@line.command("sync", epilog=examples("%tpu sync", "%tpu sync ~/project", "%tpu sync --pull"))
@argument("folder", default=".", metavar="[DIR]", help="The folder here.")
@click.option("--to", "remote", default="", metavar="DIR", help="The folder on the TPU.")
@click.option("--pull", is_flag=True, help="Copy from the TPU to here.")
@click.option("--overwrite", is_flag=True, help="Also copy what the target has changed.")
@_tpu_option
@click.pass_obj
def sync(
    kernels: NotebookKernels,
    folder: str,
    remote: str,
    pull: bool,
    overwrite: bool,
    tpu: str | None,
) -> None:
    """Copy what has changed in a folder to all hosts of the TPU, or with --pull back from host 0.

    Without DIR it is this notebook's working folder. A file that was changed on both sides is not
    copied but listed.
    """
    from ..commands.sync import sync_project
    from ..fleet.models import SyncProject

    name = tpu or (kernels.last and kernels.last[0])
    if not name:
        raise TPUError(
            "This notebook has no kernel on a TPU.",
            Reason.NOT_FOUND,
            "Start one with %tpu connect NAME, or add --tpu NAME.",
        )
    path = os.path.abspath(os.path.expanduser(folder))
    request = SyncProject(folder=path, remote=remote, pull=pull, overwrite=overwrite)
    with open_session() as session:
        sync_project(session, name, request, lambda operation: wait_for(session, operation))


class CellOptions(NamedTuple):
    """What the line of a ``%%tpu`` cell says."""

    name: str | None
    environment: str | None
    #: The local variable that gets the cell's value, or its handle.
    out: str | None
    wait: bool
    unpickle: bool


@click.command(
    "%%tpu",
    cls=Command,
    context_settings=CONTEXT,
    epilog=examples("%%tpu", "%%tpu my-tpu --out loss", "%%tpu --no-wait --out training"),
)
@tpu_argument(required=False)
@_some_environment_option
@click.option(
    "--out",
    metavar="VARIABLE",
    type=Variable(),
    help="Copy the value of the cell's last line to this variable of this notebook. With "
    "--no-wait, the variable gets the handle.",
)
@click.option(
    "--no-wait",
    "wait",
    flag_value=False,
    default=True,
    show_default=False,
    help="Return at once, with a handle: its result(), done(), output, show() and interrupt().",
)
@_unpickle_option
def cell(
    name: str | None, environment: str | None, out: str | None, wait: bool, unpickle: bool
) -> CellOptions:
    """Run this cell on a TPU, by default the one that was used last; see %tpu.

    The value of the last line is also Out[n] and _ of this notebook: itself if it is small and
    plain (numbers, text, arrays of up to 64 KiB), else a stand-in, whose pull() copies the value.
    An error is raised here with the nearest built-in class: `except ValueError` catches it.
    exit() ends the kernel on the TPU, with its variables.
    """
    return CellOptions(name, environment, out, wait, unpickle)
