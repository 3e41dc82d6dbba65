"""``jupyter tpu token`` and ``%tpu token``: choose which tokens of this computer TPUs get.

A Jupyter server that runs looks for the values in its own environment, which may be another than
that of a command.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from .. import tokens
from ..errors import TPUError
from ..terminal.grammar import Group, argument, examples
from ..terminal.printing import list_options, print_list
from ..terminal.session import LOOK_LIMIT, client_of
from ..terminal.tables import table

if TYPE_CHECKING:
    from ..fleet.servers import Server

#: Said where a chosen token has no value here.
MISSING = "not found here"


def list_tokens() -> list[dict[str, Any]]:
    """``name`` and ``source`` of each, and whether ``agents`` get it; never a value."""
    named_tokens = [(name, tokens.find(name)) for name in tokens.passed_names()]
    agents = tokens.passed_names(agents=True)
    return [
        {"name": name, "source": token.source if token else "", "agents": name in agents}
        for name, token in named_tokens
    ]


def describe_tokens(listed: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        (token["name"], token["source"] or MISSING, "yes" if token["agents"] else "no")
        for token in listed
    ]
    if not rows:
        return (
            "Kernels, commands and jobs on TPUs get no token. To pass one on: jupyter tpu token "
            "pass HF_TOKEN"
        )
    names = [name for name, *_ in rows]
    return "\n".join([str(table(("TOKEN", "FROM", "AGENTS"), rows)), *_missing_in_servers(names)])


def pass_tokens(names: tuple[str, ...], *, agents: bool = False) -> str:
    tokens.pass_on(*names, agents=agents)
    lines = [f"Kernels, commands and jobs on TPUs get {', '.join(names)} from their next start on."]
    if agents:
        lines.append("What coding agents start gets them, too, and can read their values.")
    lines += [
        f"{name}: {MISSING}. {tokens.how_to_set(name)}"
        for name in names
        if tokens.find(name) is None
    ]
    return "\n".join([*lines, *_missing_in_servers(names)])


def remove_tokens(names: tuple[str, ...], *, agents: bool = False) -> str:
    removed = [name for name in names if tokens.keep_back(name, agents=agents)]
    if not removed:
        return f"{', '.join(names)}: not passed to {'coding agents' if agents else 'TPUs'}."
    if agents:
        return f"What coding agents start from now on does not get {', '.join(removed)}."
    return (
        f"Kernels, commands and jobs that are started from now on don't get {', '.join(removed)}. "
        "Those that run keep it."
    )


def _missing_in_servers(names: Sequence[str]) -> list[str]:
    """A line for each token that is found here, but not by a running Jupyter server."""
    here = [name for name in names if tokens.find(name) is not None]
    if not here:
        return []
    from ..links import core_thread

    return [
        f"{name}: the Jupyter server at {server.url} does not have it, so what it starts does not "
        f"get it. {tokens.how_to_set(name)}"
        for server, missing in core_thread().wait(_missing_in_each())
        for name in here
        if name in missing
    ]


async def _missing_in_each() -> list[tuple[Server, set[str]]]:
    """The running servers, and the chosen tokens that each does not find."""
    import asyncio

    from ..fleet.servers import running_servers

    async def missing(server: Server) -> set[str]:
        try:
            client = client_of(server)
        except TPUError:
            return set()  # it requires a password: it can't be asked
        try:
            async with asyncio.timeout(LOOK_LIMIT):
                return {token.name for token in await client.tokens.list() if not token.source}
        except (TimeoutError, TPUError):
            return set()  # without the extension, or hanging: nothing is started there
        finally:
            await client.close()

    servers = running_servers()
    return list(zip(servers, await asyncio.gather(*map(missing, servers)), strict=True))


_tokens_argument = argument(
    "tokens", nargs=-1, required=True, metavar="NAME...", help="Such as HF_TOKEN or WANDB_API_KEY."
)


@click.group("token", cls=Group)
def token() -> None:
    """Choose which tokens of this computer are passed to kernels, commands and jobs on TPUs.

    A token is a variable of the environment in which Jupyter runs. HF_TOKEN is also found where
    `hf auth login` stores it, and WANDB_API_KEY where `wandb login` does. Only names are
    stored. Values are read when something starts. They are in no file and no process list of the
    host.
    """


@token.command("list")
@list_options
def list_all() -> None:
    """List the tokens, and where each is found. Values are not shown."""
    print_list(list_tokens(), describe_tokens)


@token.command("pass", epilog=examples("jupyter tpu token pass HF_TOKEN WANDB_API_KEY"))
@_tokens_argument
@click.option(
    "--agents", is_flag=True, help="Also to what coding agents start. They can read the values."
)
def pass_on(tokens: tuple[str, ...], agents: bool) -> None:
    """Pass tokens to kernels, commands and jobs that are started on TPUs from now on.

    What coding agents start does not get them, nor what runs on a TPU that an agent has created.
    """
    print(pass_tokens(tokens, agents=agents))


@token.command("remove", epilog=examples("jupyter tpu token remove HF_TOKEN"))
@_tokens_argument
@click.option("--agents", is_flag=True, help="Only to what coding agents start.")
def remove(tokens: tuple[str, ...], agents: bool) -> None:
    """Stop passing tokens to what is started from now on."""
    print(remove_tokens(tokens, agents=agents))
