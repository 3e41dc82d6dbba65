"""The words of the command line, and the one place where an error becomes a line and exit code 1.

Nothing but argparse is imported here; a command's own file is imported when it is called, so that
``jupyter tpu --help`` answers at once.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

from ..errors import TPUError

_ABOUT = """\
Google Cloud TPUs as part of the notebook.

examples:
  jupyter tpu create my-tpu --type v5litepod-8 --zone us-west4-a --connect
  jupyter tpu list
  jupyter tpu connect my-tpu --packages flax optax
  jupyter tpu delete my-tpu

Project, zone and credentials are gcloud's own (gcloud config, application default credentials).
Without a cloud account: `jupyter tpu emulator`, and JUPYTER_TPU_EMULATOR=STATE_FILE elsewhere.
"""


class _Parser(argparse.ArgumentParser):
    """A parser whose complaints are one line and exit code 1."""

    def error(self, message: str) -> NoReturn:
        from .console import complain

        complain(f"{message} (see `{self.prog} --help`)")
        raise SystemExit(1)


def parser() -> argparse.ArgumentParser:
    """All commands and options."""
    top = _Parser(
        prog="jupyter tpu",
        description=_ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    # Not "version": that is what create's --version is kept as.
    top.add_argument(
        "--version", dest="our_version", action="store_true", help="print the version and end"
    )
    commands = top.add_subparsers(metavar="COMMAND", title="commands")

    def command(name: str, run: str, help: str, example: str = "", into: Any = commands) -> Any:
        added = into.add_parser(
            name,
            help=help,
            description=help[0].upper() + help[1:] + ".",
            epilog=f"example:\n  {example}" if example else None,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        added.set_defaults(run=run)
        return added

    emulator = command(
        "emulator",
        "emulator:emulator",
        "run Cloud TPU on this machine, in the foreground",
        "jupyter tpu emulator --state ./tpu-emulator",
    )
    emulator.add_argument("--port", type=int, default=0, metavar="N", help="REST port (any free)")
    emulator.add_argument("--state", metavar="DIR", help="where its TPUs are kept")
    emulator.add_argument(
        "--env",
        action="store_true",
        help="also print the export lines that point gcloud and jupyter-tpu at it; only they are "
        "printed if it runs already",
    )

    create = command(
        "create",
        "tpus:create",
        "create a TPU",
        "jupyter tpu create my-tpu --type v5litepod-8 --zone us-west4-a --connect",
    )
    create.add_argument("name", metavar="NAME", help="lower-case letters, digits and hyphens")
    create.add_argument("--type", required=True, metavar="T", help="v5litepod-8, v4-8, …")
    create.add_argument("--zone", metavar="Z", help="its zone (gcloud's default zone)")
    create.add_argument("--version", metavar="IMG", help="runtime image (the type's usual one)")
    create.add_argument("--spot", action="store_true", help="cheaper, may be taken back any time")
    create.add_argument("--network", metavar="N", help="VPC network")
    create.add_argument("--subnetwork", metavar="S", help="its subnetwork")
    create.add_argument(
        "--connect", action="store_true", help="make it ready for notebooks, too (see connect)"
    )
    _environment(create)
    _waits(create)

    listing = command("list", "tpus:list_", "list the project's TPUs, with what their types mean")
    _json(listing)
    describe = command(
        "describe", "tpus:describe", "show one TPU: hosts, environments, running kernels"
    )
    _name(describe)
    _json(describe)
    start = command("start", "tpus:start", "start a stopped TPU")
    _name(start)
    _waits(start)
    stop = command("stop", "tpus:stop", "stop a TPU; its disk stays")
    _name(stop)
    _yes(stop, "end the kernels that run there without being asked")
    _waits(stop)
    delete = command(
        "delete",
        "tpus:delete",
        "delete a TPU, with everything on its disk",
        "jupyter tpu delete my-tpu --yes",
    )
    _name(delete)
    _yes(delete, "delete it, and end the kernels that run there, without being asked")
    _waits(delete)

    connect = command(
        "connect",
        "tpus:connect",
        "make a TPU ready for notebooks: an environment with JAX on its hosts, and its kernel",
        "jupyter tpu connect my-tpu --python 3.12 --packages flax optax",
    )
    _name(connect)
    _environment(connect)
    _waits(connect)
    disconnect = command(
        "disconnect",
        "tpus:disconnect",
        "remove a TPU's kernels from Jupyter; its environments stay on its hosts",
    )
    _name(disconnect)
    _yes(disconnect, "end the kernels that run there without being asked")
    _waits(disconnect)

    kernel = command("kernel", "", "the kernels of TPUs in Jupyter's kernel pickers")
    kinds = kernel.add_subparsers(metavar="list|end|take|add|remove|warm", required=True)
    listing = command(
        "list",
        "kernels:list_",
        "list those in the pickers; of a TPU: those that run there, who has them and its chips",
        "jupyter tpu kernel list my-tpu",
        kinds,
    )
    listing.add_argument("name", nargs="?", metavar="NAME", help="the TPU")
    _json(listing)
    for name, about in (
        ("end", "end a kernel that runs on a TPU, whoever has it"),
        ("take", "have your running Jupyter server take such a kernel over, with its notebook"),
    ):
        example = f"jupyter tpu kernel {name} my-tpu 1b671a64"
        one = command(name, f"kernels:{name}", about, example, kinds)
        _name(one)
        one.add_argument("kernel", metavar="KERNEL", help="its id, or how that begins")
    for name, about in (
        ("add", "add the kernel of an environment that is on the TPU"),
        ("remove", "remove a kernel; its environment stays on the TPU"),
    ):
        one = command(name, f"kernels:{name}", about, f"jupyter tpu kernel {name} my-tpu", kinds)
        _name(one)
        one.add_argument("--env", default="default", metavar="ENV", help="environment (default)")
    warm = command(
        "warm",
        "kernels:warm",
        "keep a kernel started on a connected TPU, ready to be the next one there, or do not",
        "jupyter tpu kernel warm my-tpu on --import numpy pandas",
        kinds,
    )
    _name(warm)
    warm.add_argument("what", choices=("on", "off", "default"), help="default: as configured")
    warm.add_argument("--env", default="default", metavar="ENV", help="environment (default)")
    warm.add_argument(
        "--import",
        dest="imports",
        nargs="+",
        default=[],
        metavar="MODULE",
        help="import these, too; nothing that takes the chips",
    )
    _json(warm)

    api = command(
        "api",
        "api:api",
        "call the REST interface of your running Jupyter server",
        """jupyter tpu api GET tpus
  jupyter tpu api POST tpus --data '{"name": "my-tpu", "type": "v5litepod-8"}' --follow""",
    )
    api.add_argument("method", metavar="METHOD", help="GET, POST, DELETE")
    api.add_argument("path", metavar="PATH", help="under jupyter-tpu/v1/: tpus, catalog, …")
    api.add_argument(
        "--data",
        metavar="JSON",
        help="the body: JSON, @FILE, or - for standard input",
    )
    api.add_argument("--server", metavar="URL", help="which server, if you have several")
    api.add_argument(
        "--follow", action="store_true", help="wait for the operation that the call starts"
    )

    tunnel = command(
        "tunnel",
        "tunnels:tunnel",
        "lead ports of this machine to ports of a host; list and remove such tunnels",
        """jupyter tpu tunnel my-tpu 6006            localhost:6006 leads to the TPU's port 6006
  jupyter tpu tunnel my-tpu 6006:7007 8888
  jupyter tpu tunnel list
  jupyter tpu tunnel remove 7007

With a running Jupyter server the tunnels are its, and come back with it; without one they last as
long as the command""",
    )
    tunnel.add_argument("name", nargs="?", metavar="NAME", help="the TPU; or list, or remove")
    tunnel.add_argument(
        "ports", nargs="*", metavar="PORT[:LOCAL]", help="on the host, and here (the same, or free)"
    )
    _worker(tunnel)
    tunnel.add_argument(
        "--address", default="127.0.0.1", help="listen on another address than loopback"
    )
    _json(tunnel)

    app = command(
        "app",
        "apps:app",
        "open a web page that a host serves, on an origin of its own; list and close such pages",
        """jupyter tpu app my-tpu 8080
  jupyter tpu app my-tpu 7860 --path /demo --no-browser
  jupyter tpu app list
  jupyter tpu app close 8080

What the page is served by never gets to Jupyter: no cookie, no token, no API. With a running
Jupyter server apps are open until it ends, without one as long as the command. For browsers that
reach nothing but Jupyter, behind a Hub say: c.JupyterTPU.proxy_ports (docs/apps.md)""",
    )
    app.add_argument("name", nargs="?", metavar="NAME", help="the TPU; or list, or close")
    app.add_argument("port", nargs="?", metavar="PORT", help="on the host; to close: or the id")
    app.add_argument("--path", default="/", help="where the page begins (/)")
    app.add_argument(
        "--anywhere",
        action="store_true",
        help="let the page connect and send forms to anywhere, not to its own server alone: to "
        "other programs on your machine, too, so only if you trust it",
    )
    _worker(app)
    _browser(app)
    _json(app)

    board = command(
        "tensorboard",
        "apps:tensorboard",
        "open TensorBoard (with xprof) for a folder of a host; installed there when it is missing",
        "jupyter tpu tensorboard my-tpu --logdir ~/runs",
    )
    _name(board)
    board.add_argument(
        "--logdir", required=True, metavar="DIR", help="on the host, or gs://bucket/folder"
    )
    _worker(board)
    _browser(board)
    _json(board)
    profile = command(
        "profile",
        "apps:profile",
        "trace what a kernel does for some seconds, and show the trace in TensorBoard",
        "jupyter tpu profile my-tpu --seconds 3",
    )
    _name(profile)
    profile.add_argument("kernel", nargs="?", metavar="KERNEL", help="its id (the only one)")
    profile.add_argument("--seconds", type=float, default=3.0, metavar="S", help="how long (3)")
    profile.add_argument("--logdir", metavar="DIR", help="where on the host it goes")
    _browser(profile)
    _json(profile)

    ssh = command(
        "ssh",
        "ssh:ssh",
        "log in on a host with your own ssh, whatever its address is now",
        """jupyter tpu ssh my-tpu
  jupyter tpu ssh my-tpu --worker 1 -- nproc
  jupyter tpu ssh my-tpu -- -L 8080:localhost:8080""",
    )
    _name(ssh)
    _worker(ssh)
    ssh.add_argument("--mosh", action="store_true", help="use mosh (UDP must be let in)")
    ssh.add_argument(
        "command", nargs=argparse.REMAINDER, metavar="-- …", help="ssh's options, and a command"
    )

    config = command(
        "ssh-config",
        "ssh:ssh_config",
        "let ssh, scp, rsync, git and VS Code find TPUs by name; prints the entries",
        "jupyter tpu ssh-config --write && ssh my-tpu",
    )
    what = config.add_mutually_exclusive_group()
    what.add_argument(
        "--write",
        action="store_true",
        help="keep the entries in a file of ours, and add one line to ~/.ssh/config to include it",
    )
    what.add_argument("--remove", action="store_true", help="take that line out again")
    what.add_argument(
        "--between-hosts",
        metavar="NAME",
        help="let the hosts of a pod reach each other, each with a key of its own",
    )

    proxy = commands.add_parser("proxy", allow_abbrev=False)  # for ssh, not for people
    proxy.set_defaults(run="proxy:proxy")
    proxy.add_argument("name")
    proxy.add_argument("--worker", type=int, default=0)
    proxy.add_argument("--set", action="append", default=[])
    for option in ("emulator", "project", "zone", "data", "key", "user", "known-hosts"):
        proxy.add_argument(f"--{option}")

    vscode = command(
        "vscode",
        "vscode:vscode",
        "write tasks for VS Code that create and connect TPUs",
        "jupyter tpu vscode ~/my-project",
    )
    vscode.add_argument(
        "--remote",
        metavar="NAME",
        help="print what opens VS Code on a TPU instead (with DIR there), as command and as link",
    )
    _worker(vscode)
    vscode.add_argument("dir", nargs="?", default=".", metavar="DIR", help="the project (here)")
    return top


def _name(command: argparse.ArgumentParser) -> None:
    command.add_argument("name", metavar="NAME", help="the TPU; zone/name if two have the same")


def _worker(command: argparse.ArgumentParser) -> None:
    command.add_argument("--worker", type=int, default=0, metavar="N", help="which host (0)")


def _browser(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--no-browser",
        dest="browser",
        action="store_false",
        help="print the address (good once, for 30 seconds) instead of opening it",
    )


def _json(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="print JSON, for programs")


def _yes(command: argparse.ArgumentParser, about: str) -> None:
    command.add_argument("--yes", "-y", action="store_true", help=about)


def _waits(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--no-wait",
        dest="wait",
        action="store_false",
        help="end at once, while it goes on",
    )
    _json(command)


def _environment(command: argparse.ArgumentParser) -> None:
    command.add_argument("--env", default="default", metavar="ENV", help="environment (default)")
    command.add_argument("--python", metavar="3.12", help="its Python (the newest that fits)")
    command.add_argument(
        "--packages", nargs="+", default=[], metavar="P", help="beside JAX and ipykernel"
    )
    command.add_argument("--requirements", metavar="FILE", help="a requirements file")


def run(argv: Sequence[str] | None = None) -> int:
    """Parses *argv* (default: the process's) and runs the command; returns the exit code."""
    words = parser()
    chosen = words.parse_args(argv)
    if chosen.our_version:
        from .. import __version__

        print(__version__)
        return 0
    if "run" not in chosen:
        words.print_help()
        return 0
    module, function = chosen.run.split(":")
    try:
        code = getattr(import_module(f".{module}", __package__), function)(chosen)
        sys.stdout.flush()
        return code or 0
    except TPUError as error:
        from .console import complain

        complain(str(error))
        return 1
    except KeyboardInterrupt:
        from .console import complain

        complain("Interrupted.")
        return 1
    except BrokenPipeError:
        # Whoever read our output (`… | head`) has left; nothing more can be said to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
