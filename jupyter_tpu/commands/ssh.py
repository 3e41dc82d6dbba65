"""``jupyter tpu ssh``: the user's own OpenSSH, or mosh, with a host."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click
from click.shell_completion import CompletionItem

from ..errors import Reason, TPUError
from ..terminal.grammar import WrappingCommand, argument, examples
from ..terminal.nodes import find_node
from ..terminal.parameters import tpu_argument
from ..terminal.session import current_target
from .persistent_shell import check_session, keep_shell

if TYPE_CHECKING:
    from ..cloud import Cloud, Node
    from ..links import HostName
    from ..ssh.openssh_config import HostEntry


T = TypeVar("T")


class HostOrAll(click.ParamType):
    """A host's number, or "all"."""

    name = "host"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | str:
        return value if value == "all" else click.INT.convert(value, param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return [CompletionItem("all")] if "all".startswith(incomplete) else []


@click.command(
    "ssh",
    cls=WrappingCommand,
    context_settings={"allow_interspersed_args": False},
    epilog=examples(
        "jupyter tpu ssh my-tpu",
        "jupyter tpu ssh my-tpu --keep",
        "jupyter tpu ssh my-tpu --worker 1 --command nproc",
        "jupyter tpu ssh my-tpu --worker all --command 'df -h /'",
        "jupyter tpu ssh my-tpu -- -L 8080:localhost:8080",
    ),
)
@tpu_argument()
@argument(
    "args",
    nargs=-1,
    type=click.UNPROCESSED,
    metavar="[-- ...]",
    help="Options of ssh, and a command.",
)
@click.option(
    "--worker",
    "number",
    type=HostOrAll(),
    default=0,
    metavar="N|all",
    help="Number of the host, or all hosts, which needs a command.",
)
@click.option(
    "--command", "remote_command", metavar="CMD", help="Run this command.  [default: a login shell]"
)
@click.option(
    "--ssh-flag",
    "ssh_flags",
    multiple=True,
    metavar="FLAG",
    help="Options of ssh, as for gcloud: %USER% and %INSTANCE% become the user and the address. "
    "Can be repeated.",
)
@click.option("--mosh", is_flag=True, help="Use mosh. The host's UDP ports must be reachable.")
@click.option(
    "--keep",
    is_flag=True,
    help="Keep the shell when the connection is lost, and connect again. Needs tmux on the host.",
)
@click.option(
    "--session",
    default="main",
    metavar="SESSION",
    help="Name of the kept shell: the same name shows the same shell.",
)
@click.option("--in-jupyterlab", is_flag=True, hidden=True)
def ssh(
    name: str,
    args: tuple[str, ...],
    number: int | str,
    remote_command: str | None,
    ssh_flags: tuple[str, ...],
    mosh: bool,
    keep: bool,
    session: str,
    in_jupyterlab: bool,
) -> None:
    """Log in to a host with your own ssh, or run a command there.

    The host's current address is looked up each time. The shell has the environment variables
    of kernels: without TCMalloc, and with JAX's compilation cache.
    """
    args = args[1:] if args[:1] == ("--",) else args
    before, after = _split(args)
    flags = [word for flag in ssh_flags for word in flag.split()]  # as gcloud does
    if remote_command is not None:
        if after or mosh:
            raise click.UsageError("--command can't be used with another command or with --mosh.")
        after = [remote_command]
    if keep and (after or mosh or isinstance(number, str)):
        raise click.UsageError("--keep is for a shell on one host, without a command or --mosh.")
    node, cloud = wait_for(find_node(name, current_target()))
    if isinstance(number, str):
        _on_all_hosts(cloud, node, flags, before, [] if mosh else after)
        return
    if not mosh and not _runs_no_shell([*flags, *before]):
        terminal = ["-t"] if not after and sys.stdin.isatty() else []
        before, after = [*terminal, *before], _clean(after)
    host = host_of(node, number)
    entry = _entry(cloud, node, host.number)
    address = _address(node, host.number)
    command = [_program("ssh"), *_options(entry), *_filled_in(flags, entry.user, address)]
    if keep:
        destination = ("--", entry.names[0])
        code = keep_shell(
            [*command, *before],
            destination,
            check_session(session),
            lambda: wait_for(cloud.get_node(node.name)),
            jupyterlab=in_jupyterlab,
        )
        raise click.exceptions.Exit(code)
    if mosh:
        # mosh asks ssh for the address it used, and would replace our ProxyCommand by one of its
        # own to learn it. Its packets go straight to the host.
        # mosh runs its ssh through a shell.
        start = [_program("mosh"), "--experimental-remote-ip=local", f"--ssh={shlex.join(command)}"]
        _become([*start, f"{entry.user}@{address}", *(["--", *args] if args else [])])
    _become([*command, *before, "--", entry.names[0], *after])


def _split(args: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """OpenSSH's options, which come before the host's name, and what runs there."""
    if "--" in args:
        split = args.index("--")
        return args[:split], args[split + 1 :]
    options = _leading_options(args)
    return options, args[len(options) :]


def _on_all_hosts(
    cloud: Cloud, node: Node, flags: Sequence[str], before: Sequence[str], after: Sequence[str]
) -> None:
    """Runs a command on all hosts at once; each line of output begins with the host's number.

    flags: as gcloud's; before, after: words for ssh before and after the host's name. Raises
    INTERNAL if the command fails on a host.
    """
    if not after:
        raise click.UsageError("--worker all needs --command CMD, without --mosh.")
    program = _program("ssh")
    if not _runs_no_shell([*flags, *before]):
        after = _clean(after)
    host_of(node, 0)  # a TPU that is not ready may have none

    def run(number: int) -> int:
        entry = _entry(cloud, node, number)
        filled_in = _filled_in(flags, entry.user, _address(node, number))
        options = [*_options(entry), "-o", "BatchMode yes", *filled_in, *before]
        process = subprocess.Popen(
            [program, *options, "--", entry.names[0], *after],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        with process:
            assert process.stdout is not None
            for line in process.stdout:
                print(f"{number}: {line}", end="" if line.endswith("\n") else "\n", flush=True)
        return process.returncode

    with ThreadPoolExecutor(len(node.endpoints)) as threads:
        codes = list(threads.map(run, range(len(node.endpoints))))
    failed = ", ".join(f"{number} (exit code {code})" for number, code in enumerate(codes) if code)
    if failed:
        raise TPUError(f"The command failed on hosts of {node.name.node}: {failed}.")


def host_of(node: Node, number: int) -> HostName:
    from ..fleet.core.host_numbers import check_host
    from ..links import HostName

    check_host(node, number)
    return HostName(node.name, number)


def _entry(cloud: Cloud, node: Node, number: int) -> HostEntry:
    from ..fleet.files.openssh import entry

    name = node.name.node + (f"-{number}" if number else "")
    return entry(cloud, node, number, (name,))


def _address(node: Node, number: int) -> str:
    endpoint = node.endpoints[number]
    return endpoint.external or endpoint.internal


def _filled_in(flags: Sequence[str], user: str, address: str) -> list[str]:
    """gcloud's --ssh-flag, with what it puts into it."""
    return [flag.replace("%USER%", user).replace("%INSTANCE%", address) for flag in flags]


def _options(entry: HostEntry) -> list[str]:
    return [word for name, value in entry.options() for word in ("-o", f"{name} {value}")]


#: Options of ssh that take a value, which may be the next word.
_WITH_VALUE = frozenset("BbcDEeFIiJLlmOoPpQRSWw")


#: Options with which ssh runs no shell, or something else in its place.
_WITHOUT_SHELL = frozenset("GNOQsVW")


def _runs_no_shell(options: Sequence[str]) -> bool:
    """Whether one of ssh's *options* says so."""
    index = 0
    while index < len(options):
        letters = options[index][1:]
        value = next((i for i, letter in enumerate(letters) if letter in _WITH_VALUE), None)
        if _WITHOUT_SHELL & set(letters if value is None else letters[: value + 1]):
            return True
        index += 2 if value is not None and value == len(letters) - 1 else 1
    return False


def _clean(command: Sequence[str]) -> list[str]:
    """The shell with clean variables, in place of the login shell or of a command's."""
    from ..ssh.clean_shell import clean_shell

    return [clean_shell(" ".join(command) if command else None)]


def _leading_options(args: Sequence[str]) -> Sequence[str]:
    """The options of ssh at the start of *args*, with their values."""
    count = 0
    while count < len(args) and args[count].startswith("-") and len(args[count]) > 1:
        word = args[count]
        count += 1
        first = next((i for i, letter in enumerate(word[1:], 1) if letter in _WITH_VALUE), None)
        if first is not None and first == len(word) - 1:
            count += 1
    return args[:count]


def _program(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise TPUError(
            f"{name} is not installed on this machine.",
            Reason.NOT_FOUND,
            f"Install it ({'OpenSSH' if name == 'ssh' else name}) with your system's package "
            "manager.",
        )
    return path


def _become(command: list[str]) -> NoReturn:
    sys.stdout.flush()
    os.execv(command[0], command)


def wait_for(coroutine: Coroutine[Any, Any, T]) -> T:
    from ..links import core_thread

    return core_thread().wait(coroutine)
