"""The proxies that ~/.ssh/config sets for a host; nothing else of that file is used.

ProxyJump and ProxyCommand are honoured, because some networks can't be left without them. Host key
checking, keys, user and port are ours: no line of that file can weaken them for a TPU. A jump host
is the user's own: it is reached with their configuration and known hosts.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import re
import shlex
import signal
import subprocess
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from ..errors import Reason, TPUError
from .address import HostAddress
from .asyncssh_internals import replace_exec, route_options

if TYPE_CHECKING:
    from asyncssh import SSHClientConnection

log = logging.getLogger(__name__)

#: Seconds in which a command of `Match exec` has to end.
EXEC_LIMIT = 10.0


class ProxyRoute(Struct, frozen=True):
    """How to reach the SSH port; directly if both are empty."""

    jumps: tuple[str, ...] = ()  # "[user@]host[:port]", the nearest first
    command: tuple[str, ...] = ()


def user_config() -> Path:
    """The path of the user's OpenSSH configuration, which may not exist."""
    return Path.home() / ".ssh" / "config"


async def resolve_route(host: HostAddress, config: Path | None = None) -> ProxyRoute:
    """The route to *host*: as the user configured it, else the host's proxy command, else direct.

    Entries are matched by address only, never by a TPU's name: `ssh NAME` goes through us. Raises
    UNREACHABLE if a command of "Match exec" does not end.
    """
    path = config if config is not None else user_config()
    if not _is_loopback(host.address) and os.access(path, os.R_OK):
        configured = await asyncio.to_thread(_configured, host, path)  # "Match exec" runs commands
        if configured is not None:
            return configured
    return ProxyRoute(command=host.proxy_command)


def _configured(host: HostAddress, path: Path) -> ProxyRoute | None:
    from .library import asyncssh

    replace_exec(_exec)
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
        log.warning("Ignored %s because it could not be read: %s", path, error)
        return None
    except subprocess.TimeoutExpired as error:
        raise _exec_error(error) from error
    jumps, command = route_options(options) or _openssh_route(host, path)
    if isinstance(jumps, str) and jumps:
        return ProxyRoute(jumps=tuple(jumps.split(",")))
    if command:
        return ProxyRoute(command=("sh", "-c", command) if isinstance(command, str) else command)
    return None


def _openssh_route(host: HostAddress, path: Path) -> tuple[str, tuple[str, ...]]:
    """ProxyJump and ProxyCommand as `ssh` itself reads them. Raises subprocess.TimeoutExpired."""
    command = ["ssh", "-G", "-F", str(path), "-p", str(host.port), f"{host.user}@{host.address}"]
    tokens = {"h": host.address, "n": host.address, "p": str(host.port), "r": host.user, "%": "%"}
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=EXEC_LIMIT
        )
        lines = done.stdout.decode(errors="replace").splitlines()
        settings = dict(line.partition(" ")[::2] for line in lines)
        jumps, proxy = (
            "" if settings.get(name) == "none" else settings.get(name, "")
            for name in ("proxyjump", "proxycommand")
        )
        words = shlex.split(proxy)
    except (OSError, ValueError) as error:
        log.warning("Ignored the proxies of %s, which `ssh -G` can't tell: %s", path, error)
        return "", ()
    return jumps, tuple(re.sub("%(.)", lambda m: tokens.get(m[1], m[0]), word) for word in words)


def _exec(cmd: str) -> bool:
    """Whether *cmd*, of `Match exec`, succeeds; raises subprocess.TimeoutExpired.

    asyncssh would wait forever for it.
    """
    null = subprocess.DEVNULL
    with subprocess.Popen(
        cmd, shell=True, stdin=null, stdout=null, stderr=null, start_new_session=True
    ) as process:
        try:
            return process.wait(EXEC_LIMIT) == 0
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise


def _exec_error(error: subprocess.TimeoutExpired) -> TPUError:
    return TPUError(
        f"A command of `Match exec` in ~/.ssh/config did not end within {error.timeout:g} s: "
        f"{str(error.cmd)[:200]}.",
        Reason.UNREACHABLE,
        "Correct or remove it.",
    )


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


async def open_jumps(jumps: tuple[str, ...], stack: AsyncExitStack) -> SSHClientConnection | None:
    """Connects through *jumps* one after the other; *stack* closes them.

    Raises HOST_KEY, PERMISSION or UNREACHABLE, naming the jump host.
    """
    from .library import asyncssh

    replace_exec(_exec)
    connection: SSHClientConnection | None = None
    for jump in jumps:
        user, _, target = jump.rpartition("@")
        name, colon, port = target.rpartition(":")
        try:
            connection = await asyncssh.connect(
                name if colon else target,
                int(port) if colon else (),
                username=user or (),
                tunnel=connection or (),
                keepalive_interval=5,
                keepalive_count_max=2,
            )
        except subprocess.TimeoutExpired as error:
            raise _exec_error(error) from error
        except (asyncssh.HostKeyNotVerifiable, FileNotFoundError) as error:
            # FileNotFoundError: a configured known hosts file that does not exist.
            raise TPUError(
                f"The jump host {target} is not in your known hosts, or has a different key.",
                Reason.HOST_KEY,
                f"Connect to it once with `ssh {target}` and check its key.",
            ) from error
        except asyncssh.PermissionDenied as error:
            raise TPUError(
                f"The jump host {target} accepted none of your keys.",
                Reason.PERMISSION,
                f"Make `ssh {target}` work without a password first.",
            ) from error
        except (asyncssh.Error, OSError, ValueError) as error:
            raise TPUError(
                f"The jump host {target} could not be reached: {error}.",
                Reason.UNREACHABLE,
                f"Check that `ssh {target}` works.",
            ) from error
        stack.push_async_callback(connection.wait_closed)
        stack.callback(connection.close)
    return connection
