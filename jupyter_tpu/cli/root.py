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

from ..errors import TPUError
from ..terminal.grammar import CONTEXT, Group, usage_line
from ..terminal.language import choose_from, in_language
from ..terminal.translated_help import help_text

#: The commands in the parts of `--help`, most used first, and what the help says of each. So no
#: command is imported for that.
GROUPS = {
    "TPUs": {
        "create": "Create a TPU; shows the price first.",
        "list": "List the project's TPUs.",
        "connect": "Prepare a TPU for notebooks: JAX and a kernel.",
        "describe": "Show a TPU's hosts, environments and kernels.",
        "start": "Start stopped TPUs.",
        "stop": "Stop TPUs. Their disks are kept.",
        "delete": "Delete TPUs and everything on their disks.",
        "replace": "Create a TPU again, the same, on other hardware.",
        "report-fault": "Tell Google that a host is broken.",
        "disconnect": "Remove the kernels of TPUs from Jupyter.",
        "attach": "Use machines that you reach by SSH.",
        "detach": "Stop what runs on attached machines, forget them.",
        "adopt": "Become the owner of somebody else's TPU.",
    },
    "Capacity": {
        "hunt": "Try zones, types and tiers until a TPU is available.",
        "reservation": "Reserved TPUs: list them, reserve some days.",
        "queued": "Request TPUs that wait in Google's own queue.",
        "plan": "Find the cheapest type for a JAX function.",
    },
    "Work on hosts": {
        "run": "Run a command on all hosts, and see its output.",
        "ssh": "Log in to a host, or run a command there.",
        "copy": "Copy files and folders to hosts, or back (scp).",
        "sync": "Copy what has changed in a folder; or watch it.",
        "job": "Run commands that continue without this computer.",
        "serve": "Serve models: health, restarts, a local port.",
        "ray": "Run Ray on all hosts, and scripts that use it.",
        "tunnel": "Forward local ports to ports of a host.",
        "top": "Show memory and load of the chips.",
        "chips": "See what uses the chips, free or split them.",
        "tensorboard": "Open TensorBoard for a folder of a host.",
        "profile": "Trace programs, and see the trace in TensorBoard.",
        "app": "Open web apps of a host in the browser.",
        "share": "Share a folder of host 0 with the other hosts.",
    },
    "Kernels and environments": {
        "env": "Python environments of a TPU, and their packages.",
        "kernel": "Kernels of TPUs: list, stop, take over.",
        "session": "Keep the variables of kernels when a TPU ends.",
        "home": "Keep folders of a TPU's home in a bucket.",
        "token": "Choose which tokens, such as HF_TOKEN, TPUs get.",
    },
    "Money": {
        "usage": "Who has which TPUs, and what they cost.",
        "guard": "Stop a TPU when idle, at a cost or time.",
        "budget": "What coding agents may spend, and have spent.",
        "grant": "Say which TPUs you may use at no charge.",
        "prices": "What TPUs cost, and when that was read.",
    },
    "Setup and problems": {
        "logs": "Show the output of jobs, or what jupyter-tpu has done.",
        "doctor": "Find out why JAX or a create fails.",
        "operation": "Show and cancel running operations.",
        "network": "Check and set up the network of TPUs.",
        "ssh-config": "Let ssh, scp, git and VS Code find TPUs by name.",
        "ssh-key": "Manage the SSH key that logs in to TPUs.",
        "logging": "Choose whether Google stores the logs of hosts.",
        "server": "Show the Jupyter server in use, or start one.",
        "vscode": "Write tasks for VS Code that create TPUs.",
        "completion": "Let your shell complete commands and TPUs.",
        "api": "Call the REST interface of your Jupyter server.",
        "skill": "Print a SKILL.md for coding agents.",
        "mcp": "Tools for coding agents (MCP), on stdin and stdout.",
        "emulator": "Run an emulator of Cloud TPU on this computer.",
    },
}
COMMANDS = [name for group in GROUPS.values() for name in group]
#: Where a command is, if not in the file of its name in `commands`, under that name.
_ELSEWHERE = {"list": ("commands.list", "list_tpus"), "mcp": ("mcp.command", "mcp")}


class LazyGroup(Group):
    """The commands of COMMANDS, each imported when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        module, name = _ELSEWHERE.get(cmd_name, (f"commands.{name}", name))
        command: click.Command = getattr(import_module(f"...{module}", __name__), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for title, group in GROUPS.items():
            with formatter.section(in_language(title)):
                formatter.write_dl(
                    [(name.ljust(width), help_text(summary)) for name, summary in group.items()]
                )

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args == ["login"]:
            ctx.fail(
                "To log in to Google Cloud, run `gcloud auth application-default login`; to a "
                "host, `jupyter tpu ssh NAME`."
            )
        return super().resolve_command(ctx, args)


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings=CONTEXT,
    # Where people look who come from other tools.
    aliases={"cp": "copy", "exec": "run", "login": "ssh", "scp": "copy"},
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
    from ..commands.completion import VARIABLE, complete

    if VARIABLE in os.environ:
        return complete(tpu)
    from ..terminal.streams import OutputError, clean_output, open_standard_streams

    open_standard_streams()
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        with clean_output():
            code = _run(words)
            sys.stdout.flush()
            return code
    except (BrokenPipeError, OutputError) as error:
        with contextlib.suppress(BrokenPipeError, OutputError), clean_output():
            if isinstance(error, OutputError):
                _complain(str(error))
        # Nothing more can be written, not at the end of the process either. For a broken pipe that
        # is no news: who read our output (`… | head`) has had enough.
        with open(os.devnull, "wb") as null:
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(OSError, ValueError):
                    os.dup2(null.fileno(), stream.fileno())
        return 1


def _run(words: list[str]) -> int:
    """Runs one command; an error is a line on stderr. Returns the exit code."""
    from ..terminal.streams import OutputError

    choose_from(words)
    try:
        with tpu.make_context("jupyter tpu", words) as ctx:
            tpu.invoke(ctx)
        return 0
    except click.exceptions.Exit as end:  # after --help, for instance
        return end.exit_code
    except click.UsageError as error:
        _complain(usage_line(error))
        return error.exit_code
    except OutputError:
        raise
    except TPUError as error:
        _complain(str(error))
        return 1
    except UnicodeEncodeError:  # bytes of the command line become surrogates
        if not any(map(_is_no_text, words)):
            raise
        _complain("The command line has bytes that are not UTF-8 text.")
        return 1
    except KeyboardInterrupt:
        _complain("Interrupted.")
        return 1


def _complain(message: str) -> None:
    from ..terminal.printing import complain

    complain(message)


def _is_no_text(word: str) -> bool:
    return bool(re.search("[\ud800-\udfff]", word))
