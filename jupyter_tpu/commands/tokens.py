"""What `jupyter tpu token` and `%tpu token` do: choose which tokens TPUs get.

A Jupyter server that runs looks for the values in its own environment, which may be another than
that of a command.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from .. import tokens
from ..errors import TPUError
from .session import LOOK_LIMIT, client_of
from .tables import table

if TYPE_CHECKING:
    from ..fleet.servers import Server

#: Said where a chosen token has no value here.
MISSING = "not found here"


def list_tokens() -> list[dict[str, str]]:
    """``name`` and ``source`` of each; never a value."""
    named_tokens = [(name, tokens.find(name)) for name in tokens.passed_names()]
    return [{"name": name, "source": token.source if token else ""} for name, token in named_tokens]


def describe_tokens(listed: Sequence[Mapping[str, str]]) -> str:
    rows = [(token["name"], token["source"] or MISSING) for token in listed]
    if not rows:
        return (
            "Kernels, commands and jobs on TPUs get no token. To pass one on: jupyter tpu token "
            "pass HF_TOKEN"
        )
    names = [name for name, _ in rows]
    return "\n".join([str(table(("TOKEN", "FROM"), rows)), *_missing_in_servers(names)])


def pass_tokens(names: tuple[str, ...]) -> str:
    tokens.pass_on(*names)
    lines = [f"Kernels, commands and jobs on TPUs get {', '.join(names)} from their next start on."]
    lines += [
        f"{name}: {MISSING}. {tokens.how_to_set(name)}"
        for name in names
        if tokens.find(name) is None
    ]
    return "\n".join([*lines, *_missing_in_servers(names)])


def remove_tokens(names: tuple[str, ...]) -> str:
    removed = [name for name in names if tokens.keep_back(name)]
    if not removed:
        return f"{', '.join(names)}: not passed to TPUs."
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
