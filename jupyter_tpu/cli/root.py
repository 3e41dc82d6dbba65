"""The grammar's root: which commands there are, and where an error becomes a line and an exit code.

Only click is imported here; a command's module is imported when the command is used.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module

import click

from ..commands.grammar import CONTEXT, Group, usage_line
from ..errors import TPUError

#: Where each command is: a module of this folder (or of `commands`, which magics have, too), and
#: the command's name there.
COMMANDS = {
    "create": "tpus:create",
    "hunt": "hunts:hunt",
    "queued": "queued:queued",
    "list": "tpus:list_tpus",
    "usage": ".commands.usage:usage",
    "adopt": "owners:adopt",
    "describe": "tpus:describe",
    "start": "power:start",
    "stop": "power:stop",
    "delete": "power:delete",
    "connect": "tpus:connect",
    "disconnect": "power:disconnect",
    "attach": "attached:attach",
    "detach": "power:detach",
    "kernel": "kernels:kernel",
    "env": "environments:env",
    "token": "tokens:token",
    "grant": ".commands.grant_group:grant",
    "prices": ".commands.grant_group:prices",
    "operation": "operations:operation",
    "run": "run:run",
    "job": ".commands.job_group:job",
    "tunnel": "tunnels:tunnel",
    "app": "apps:app",
    "tensorboard": "apps:tensorboard",
    "profile": "profile:profile",
    "top": "top:top",
    "chips": "chips:chips",
    "guard": ".commands.guard_group:guard",
    "doctor": ".commands.doctor_command:doctor",
    "network": "networks:network",
    "ssh-key": "ssh_keys:ssh_key",
    "logging": "logs:logging",
    "copy": "copy:copy",
    "sync": "sync:sync",
    "share": "share:share",
    "ssh": "ssh:ssh",
    "ssh-config": "ssh:ssh_config",
    "vscode": "vscode:vscode",
    "server": "server:server",
    "api": "api:api",
    "emulator": "emulator:emulator",
    "completion": "completion:completion",
}


class LazyGroup(Group):
    """The commands of COMMANDS, each imported when it is used or listed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(import_module(f".{module}", __package__), name)
        return command


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings=CONTEXT,
    epilog="Each command has a --help of its own. `jupyter tpu completion` lets your shell "
    "complete commands and TPUs.",
)
@click.option("--version", is_flag=True, help="Print the version and exit.")
@click.pass_context
def tpu(ctx: click.Context, version: bool) -> None:
    """Google Cloud TPUs as part of the notebook.

    \b
    Examples:
      jupyter tpu create my-tpu --type v5litepod-8 --zone us-west4-a --connect
      jupyter tpu list
      jupyter tpu connect my-tpu --packages flax optax
      jupyter tpu delete my-tpu

    Project, zone and credentials are those of gcloud (`gcloud config`, application default
    credentials). To try it without a cloud account, run `jupyter tpu emulator`, and set
    JUPYTER_TPU_EMULATOR=STATE_FILE elsewhere.
    """
    if version:
        from ..version import __version__

        click.echo(__version__)
    elif ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def run(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit code."""
    from .completion import VARIABLE, complete

    if VARIABLE in os.environ:
        return complete(tpu)
    from ..commands.terminal import OutputError, clean_output, open_standard_streams

    open_standard_streams()
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        with clean_output():
            code = _run(words)
            sys.stdout.flush()
            return code
    except (BrokenPipeError, OutputError) as error:
        from .console import complain

        with contextlib.suppress(BrokenPipeError, OutputError), clean_output():
            if isinstance(error, OutputError):
                complain(str(error))
        # Nothing more can be written, not at the end of the process either. For a broken pipe that
        # is no news: who read our output (`… | head`) has had enough.
        with open(os.devnull, "wb") as null:
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(OSError, ValueError):
                    os.dup2(null.fileno(), stream.fileno())
        return 1


def _run(words: list[str]) -> int:
    """Runs one command; an error is a line on stderr. Returns the exit code."""
    from ..commands.terminal import OutputError
    from .console import complain

    try:
        with tpu.make_context("jupyter tpu", words) as ctx:
            tpu.invoke(ctx)
        return 0
    except click.exceptions.Exit as end:  # after --help, for instance
        return end.exit_code
    except click.UsageError as error:
        complain(usage_line(error))
        return error.exit_code
    except OutputError:
        raise
    except TPUError as error:
        complain(str(error))
        return 1
    except UnicodeEncodeError:  # bytes of the command line become surrogates
        if not any(map(_is_no_text, words)):
            raise
        complain("The command line has bytes that are not UTF-8 text.")
        return 1
    except KeyboardInterrupt:
        complain("Interrupted.")
        return 1


def _is_no_text(word: str) -> bool:
    return bool(re.search("[\ud800-\udfff]", word))
