"""The commands of ``%tpu``. Here are those for TPUs and hosts; `kernel_grammar` has the others."""

from __future__ import annotations

import codecs
import os
import sys
from typing import TYPE_CHECKING, Any

import click

from ..commands.attach import attach
from ..commands.budget import budget
from ..commands.chips import chips
from ..commands.doctor import doctor
from ..commands.grant import grant
from ..commands.guard import guard
from ..commands.hunt import (
    QUEUED,
    agreed,
    candidate_table,
    costs_money,
    hunt_group,
    hunt_options,
    left_to_server,
)
from ..commands.job import job
from ..commands.list import list_tpus
from ..commands.profile import memory_text, profile_options, traced_line, untraced_lines
from ..commands.ray import ray
from ..commands.token import token
from ..commands.tunnel import close, list_tunnels
from ..commands.usage import usage
from ..errors import Reason, TPUError
from ..terminal.field_options import options_of
from ..terminal.grammar import CONTEXT, Group, argument, command, examples
from ..terminal.parameters import copied_paths, hosts_option, ports_argument, tpu_argument
from ..terminal.session import open_session
from ..terminal.streams import write_plain
from ..terminal.tables import opened_tunnel
from .failures import MagicError
from .kernel_grammar import (
    auto,
    checkpoint,
    connect,
    disconnect,
    kernel_session,
    memory,
    pull,
    push,
    status,
    tpu_option,
)
from .show import wait_for

if TYPE_CHECKING:
    from ..fleet.models import StartHunt
    from .kernels import NotebookKernels


@command(
    "start",
    epilog=examples(
        "%tpu hunt start my-tpu --type v5litepod-8 --zone us-west4-a --zone us-central1-a --yes",
        "%tpu hunt start my-tpu --type v6e-8 --zone - --tier spot --max-price 5 --deadline 8h",
    ),
)
@hunt_options
@click.option("--yes", "-y", is_flag=True, help="Start it, whatever it costs.")
def start(request: StartHunt, yes: bool) -> None:
    """Start a hunt. The running Jupyter server continues it; without one, this waits for its end.

    What costs something needs --yes or --max-price.
    """
    with open_session() as session:
        candidates, confirmed = agreed(session, request)
        print(candidate_table(candidates))
        if costs_money(candidates) and request.tpu.max_price is None and not yes:
            raise TPUError(
                "You would pay while it is READY, used or not. Nothing was started.",
                Reason.PRICE,
                "Add --yes to agree to these prices, or --max-price USD.",
            )
        hunt = session.call(session.fleet.hunts.start(confirmed))
        if hunt.queued:
            print(QUEUED)
        if session.server is not None:
            print(left_to_server(hunt))
        else:
            wait_for(session, session.call(session.fleet.operations.get(hunt.id)))


hunt = hunt_group(start)


@click.group(
    "%tpu",
    cls=Group,
    aliases={"cp": "copy", "exec": "run", "logs": "job logs", "scp": "copy"},
    context_settings=CONTEXT,
    invoke_without_command=True,
)
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


# Without `dashboard`, which opens the browser of a terminal: the panel has it.
_ray = Group("ray", help=ray.help, aliases={"up": "start", "down": "stop"})
for _command in (ray.commands[_name] for _name in ("start", "status", "submit", "stop")):
    _ray.add_command(_command)

for _command in (
    connect, status, disconnect, memory, checkpoint, kernel_session, push, pull, auto,
):  # fmt: skip
    line.add_command(_command)
for _shared in (
    list_tpus,
    hunt,
    budget,
    grant,
    guard,
    doctor,
    job,
    _ray,
    usage,
    attach,
    token,
    chips,
):
    line.add_command(_shared)


@line.command("top", epilog=examples("%tpu top", "%tpu top my-tpu --worker 0"))
@tpu_argument(required=False)
@hosts_option
def top(name: str | None, hosts: str) -> None:
    """Show memory and load of the chips of a TPU, or of all connected TPUs, now."""
    from ..commands.top import Loads, load_text

    with open_session() as session:
        print(load_text(Loads(session, name, hosts).look()))


@line.command(
    "profile",
    epilog=examples("%tpu profile", "%tpu profile my-pod --seconds 5", "%tpu profile --memory"),
)
@tpu_argument(required=False)
@profile_options
@click.pass_obj
def profile(
    kernels: NotebookKernels,
    name: str | None,
    fields: dict[str, Any],
    memory: bool,
) -> None:
    """Trace the programs of a TPU (default: the one used last), on all hosts at once.

    A program is traced while it runs, such as a background cell (%%tpu --no-wait), or one of
    another notebook. The running Jupyter server shows the trace in TensorBoard.
    """
    import msgspec

    from ..fleet.models import MemoryQuery, Profile, ProfileTPU

    name = name or kernels.last_tpu
    if not name:
        raise TPUError(
            "This notebook has no kernel on a TPU.",
            Reason.NOT_FOUND,
            "Name the TPU: %tpu profile NAME",
        )
    request = ProfileTPU(**fields)
    with open_session() as session:
        if memory:
            query = MemoryQuery(hosts=request.hosts)
            print(memory_text(session.call(session.fleet.profiles.memory(name, query))))
            return
        if session.server is None:
            raise TPUError(
                "TensorBoard needs a running Jupyter server with the jupyter-tpu extension.",
                Reason.CONFLICT,
                f"In a terminal: jupyter tpu profile {name}",
            )
        operation = session.call(session.fleet.profiles.start(name, request))
        wait_for(session, operation)
        ended = session.call(session.fleet.operations.get(operation.id))
        profile = msgspec.convert(ended.result, Profile)
        print("\n".join([traced_line(profile), *untraced_lines(profile)]))
        visit = session.call(session.fleet.apps.visit(ended.app))
        print(f"TensorBoard is in the TPU panel, or for 30 seconds here: {visit.url}")


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
@options_of("StartRun", "hosts", "cwd", "timeout", "environment")
@click.pass_obj
def run(
    kernels: NotebookKernels, words: tuple[str, ...], tpu: str | None, fields: dict[str, Any]
) -> None:
    """Run a command on the hosts of a TPU, by default on all of them at once.

    Its output is shown while it runs. To stop it on all hosts, interrupt the cell.
    """
    from ..commands import run_output as runs
    from ..commands.scripts import only_tpu
    from ..fleet.models import StartRun

    decoders = {
        stream: codecs.getincrementaldecoder("utf-8")("replace") for stream in ("stdout", "stderr")
    }

    def write(stream: str, data: bytes) -> None:
        out = sys.stdout if stream == "stdout" else sys.stderr
        write_plain(out, decoders[stream].decode(data))

    request = StartRun(command=[*words], **fields)
    with open_session() as session:
        name = tpu or kernels.last_tpu or only_tpu(session)
        ended = runs.execute(session, name, request, lambda run: runs.output_to(write, run))
    if ended.code:  # not 0 on all hosts
        raise MagicError("\n".join(runs.summary(ended)))


@line.group("tunnel", cls=Group, short_form="open", aliases={"remove": "close", "stop": "close"})
def tunnel() -> None:
    """Forward local ports to ports of a host. The running Jupyter server keeps the tunnels.

    `%tpu tunnel NAME PORT` is short for `%tpu tunnel open NAME PORT`.
    """


@tunnel.command("open")
@tpu_argument()
@ports_argument
@options_of("OpenTunnel", "local_port", "host")
def open_tunnel(name: str, ports: list[tuple[int, int | None]], fields: dict[str, Any]) -> None:
    """Forward local ports to ports of a host."""
    from ..commands.tunnel import requests

    open_tunnels = requests(ports, **fields)
    with open_session() as session:
        if session.server is None:
            raise TPUError(
                "Tunnels need a running Jupyter server with the jupyter-tpu extension.",
                Reason.CONFLICT,
                f"In a terminal: jupyter tpu tunnel open {name} {ports[0][0]}",
            )
        for request in open_tunnels:
            print(opened_tunnel(session.call(session.fleet.tunnels.open(name, request))))


tunnel.add_command(list_tunnels)
tunnel.add_command(close)


@line.command("sync", epilog=examples("%tpu sync", "%tpu sync ~/project", "%tpu sync --pull"))
@argument("folder", default=".", metavar="[DIR]", help="The folder here.")
@options_of("SyncProject", "remote", "pull", "overwrite")
@tpu_option
@click.pass_obj
def sync(kernels: NotebookKernels, folder: str, fields: dict[str, Any], tpu: str | None) -> None:
    """Copy what has changed in a folder to all hosts of the TPU, or with --pull back from host 0.

    Without DIR it is this notebook's working folder. A file that was changed on both sides is not
    copied but listed.
    """
    from ..commands.sync import sync_project
    from ..fleet.models import SyncProject

    name = tpu or kernels.last_tpu
    if not name:
        raise TPUError(
            "This notebook has no kernel on a TPU.",
            Reason.NOT_FOUND,
            "Start one with %tpu connect NAME, or add --tpu NAME.",
        )
    path = os.path.abspath(os.path.expanduser(folder))
    request = SyncProject(folder=path, **fields)
    with open_session() as session:
        sync_project(session, name, request, lambda operation: wait_for(session, operation))


@line.command(
    "copy",
    epilog=examples(
        "%tpu copy data.csv my-tpu:",
        "%tpu copy my-tpu:runs/model.ckpt .",
        "%tpu copy data my-pod: --worker all",
    ),
)
@copied_paths
@options_of("CopyFiles", "hosts", "overwrite", "make_folder")
def copy(paths: tuple[str, ...], fields: dict[str, Any]) -> None:
    """Copy files and folders to hosts of a TPU, or from one host to here.

    A copy that was interrupted continues where it stopped when you repeat it.
    """
    from ..commands.copy import copy_in_session, parse

    with open_session() as session:
        operation = copy_in_session(session, parse(paths), fields)
        wait_for(session, operation)
        print(session.call(session.fleet.operations.get(operation.id)).log[-1])
