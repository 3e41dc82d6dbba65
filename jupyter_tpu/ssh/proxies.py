"""What ~/.ssh/config says about the route to a host, and nothing else of it.

ProxyJump and ProxyCommand are honoured, because some networks can't be left without them. Host
key checking, keys, user and port are ours alone: no line of that file can weaken them for a TPU.
A jump host is the user's own affair: it is reached with their configuration and known hosts.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from ..errors import Reason, TPUError
from .address import HostAddress

if TYPE_CHECKING:
    from asyncssh import SSHClientConnection

log = logging.getLogger(__name__)


class ProxyRoute(Struct, frozen=True):
    """How to get to the SSH port; both empty: directly."""

    jumps: tuple[str, ...] = ()  # "[user@]host[:port]", the nearest first
    command: tuple[str, ...] = ()


def user_config() -> Path:
    """The user's OpenSSH configuration; it need not exist."""
    return Path.home() / ".ssh" / "config"


async def resolve_route(host: HostAddress, config: Path | None = None) -> ProxyRoute:
    """The route to *host*: the user's own wish, else the host's proxy command, else direct.

    Entries are matched by address only, never by a TPU's name: `ssh NAME` leads through us.
    """
    path = config if config is not None else user_config()
    if not _is_loopback(host.address) and os.access(path, os.R_OK):
        wish = await asyncio.to_thread(_configured, host, path)  # "Match exec" runs commands
        if wish is not None:
            return wish
    return ProxyRoute(command=host.proxy_command)


def _configured(host: HostAddress, path: Path) -> ProxyRoute | None:
    import asyncssh

    try:
        options = asyncssh.SSHClientConnectionOptions(
            config=[path],
            host=host.address,
            port=host.port,
            username=host.user,
            known_hosts=([], [], []),
            client_keys=None,
            agent_path=None,
        )
    except (asyncssh.ConfigParseError, OSError, ValueError) as error:
        log.warning("%s is left aside, it can't be read: %s", path, error)
        return None
    if isinstance(options.tunnel, str) and options.tunnel:
        return ProxyRoute(jumps=tuple(options.tunnel.split(",")))
    if options.proxy_command:
        command = options.proxy_command
        return ProxyRoute(
            command=("sh", "-c", command) if isinstance(command, str) else tuple(command)
        )
    return None


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


async def open_jumps(jumps: tuple[str, ...], stack: AsyncExitStack) -> SSHClientConnection | None:
    """Connects through *jumps* one after the other; *stack* closes them.

    Raises HOST_KEY, PERMISSION or UNREACHABLE, naming the jump host.
    """
    import asyncssh

    connection: SSHClientConnection | None = None
    for jump in jumps:
        user, _, place = jump.rpartition("@")
        name, colon, port = place.rpartition(":")
        try:
            connection = await asyncssh.connect(
                name if colon else place,
                int(port) if colon else (),
                username=user or (),
                tunnel=connection or (),
                keepalive_interval=5,
                keepalive_count_max=2,
            )
        except (asyncssh.HostKeyNotVerifiable, FileNotFoundError) as error:
            # asyncssh does not forgive a known hosts file that is named and not there.
            raise TPUError(
                f"The jump host {place} is not among your known hosts, or shows another key.",
                Reason.HOST_KEY,
                f"Connect to it once with `ssh {place}`, and check its key.",
            ) from error
        except asyncssh.PermissionDenied as error:
            raise TPUError(
                f"The jump host {place} let none of your keys in.",
                Reason.PERMISSION,
                f"Make `ssh {place}` work without a password first.",
            ) from error
        except (asyncssh.Error, OSError, ValueError) as error:
            raise TPUError(
                f"The jump host {place} can't be reached: {error}.",
                Reason.UNREACHABLE,
                f"Look whether `ssh {place}` works.",
            ) from error
        stack.push_async_callback(connection.wait_closed)
        stack.callback(connection.close)
    return connection
