"""Opens SSH connections; nothing else does.

It uses asyncssh with the options that measured best (AES-GCM, curve25519, no compression unless
asked for), keys that the caller has pinned, and a keepalive, without which a silent peer is never
noticed. `asyncssh_internals` lists what is used of asyncssh's private parts.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shlex
import socket
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from ..errors import Reason, TPUError
from ..library_logs import warnings_only
from .address import HostAddress
from .connection import CHANNEL_LIMIT, Keepalive, SSHConnection
from .keys import fingerprint, load_key
from .proxies import ProxyRoute, open_jumps, resolve_route

if TYPE_CHECKING:
    from asyncssh import SSHClientConnection

log = logging.getLogger(__name__)
warnings_only("asyncssh")

#: Seconds for closing what was opened before an attempt failed.
CLOSE_LIMIT = 2.0


async def connect(
    host: HostAddress,
    *,
    keepalive: Keepalive | None = None,
    limit: float = 20.0,
    compressed: bool = False,
    command_within: float = 0.0,
) -> SSHConnection:
    """Opens a connection.

    Parameters
    ----------
    host: address, user, and the keys that the host may have.
    keepalive: how soon silence counts as a lost connection.
    limit: seconds for all of it, proxies included.
    compressed: compresses all its data, if the host's sshd can; for slow lines.
    command_within: seconds in which the caller will probably run a command; see `_enable_nodelay`.

    Raises HOST_KEY for a host with another key than the pinned ones (the message has both
    fingerprints), PERMISSION if it rejects our key, KEY_FILE, and UNREACHABLE.
    """
    from .library import asyncssh

    keepalive = keepalive or Keepalive()
    stack = AsyncExitStack()
    shown: list[str] = []
    try:
        async with asyncio.timeout(limit):
            route = await resolve_route(host)
            ssh, lost = await _open(host, route, keepalive, stack, shown, compressed)
    except BaseException as error:
        # Jump hosts may be silent, too.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_LIMIT):
                await stack.aclose()
        if isinstance(error, asyncssh.HostKeyNotVerifiable) and shown:
            raise _host_key_error(host, shown[-1]) from error
        if isinstance(error, asyncssh.PermissionDenied):
            raise TPUError(
                f"{host.label} rejected the key {host.identity_file} for user {host.user}.",
                Reason.PERMISSION,
                "If the project uses OS Login, run `jupyter tpu ssh-key add`, or switch it off for "
                "this TPU (metadata enable-oslogin=FALSE).",
            ) from error
        if isinstance(error, (asyncssh.Error, OSError, asyncio.TimeoutError)):
            raise _unreachable(host, error, limit) from error
        raise
    connection = SSHConnection(ssh, host, stack, lost, keepalive.interval)
    nodelay = asyncio.get_running_loop().create_task(_enable_nodelay(connection, command_within))
    stack.callback(nodelay.cancel)
    return connection


async def _open(
    host: HostAddress,
    route: ProxyRoute,
    keepalive: Keepalive,
    stack: AsyncExitStack,
    shown: list[str],
    compressed: bool,
) -> tuple[SSHClientConnection, asyncio.Future[None]]:
    from .library import asyncssh

    lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    class Client(asyncssh.SSHClient):
        def validate_host_public_key(self, _host, _addr, _port, key) -> bool:
            # Called only for keys that are not pinned.
            shown.append(key.export_public_key("openssh").decode())
            return False

        def connection_lost(self, _exc: Exception | None) -> None:
            if not lost.done():
                lost.set_result(None)

    from .gcm_packets import speed_up  # asyncssh is slow to import

    pinned = [asyncssh.import_public_key(key) for key in host.host_keys]
    tunnel = await open_jumps(route.jumps, stack)
    ssh = await asyncssh.connect(
        host.address,
        host.port,
        config=None,
        client_factory=Client,
        tunnel=tunnel or (),
        proxy_command=list(route.command) or None,
        known_hosts=(pinned, [], []),
        server_host_key_algs=host_key_algorithms(host.host_keys),
        x509_trusted_certs=None,
        username=host.user,
        client_keys=[load_key(host.identity_file)],
        agent_path=None,
        preferred_auth="publickey",
        gss_kex=False,
        gss_auth=False,
        kex_algs="^curve25519-sha256,curve25519-sha256@libssh.org",
        encryption_algs="^aes128-gcm@openssh.com",
        compression_algs=["zlib@openssh.com", "none"] if compressed else ["none"],
        keepalive_interval=keepalive.interval,
        keepalive_count_max=keepalive.count,
    )
    speed_up(ssh)
    return ssh, lost


async def _enable_nodelay(connection: SSHConnection, wait: float) -> None:
    """Makes the host's sshd send small packets at once.

    OpenSSH's sshd sets TCP_NODELAY with the first command; forwarded channels don't count. Until
    then Nagle's algorithm delays small packets until earlier ones are acknowledged, which takes
    another round trip, or 40 ms on a short line. So one is run, unless another was for *wait*
    seconds; it takes the client a millisecond of processor time.
    """
    await asyncio.sleep(wait)
    if connection.has_run_command:
        return
    try:
        await connection.run(["true"], timeout=CHANNEL_LIMIT)
    except TPUError as error:
        log.debug("The host runs no commands, so small packets are slower: %s", error)


def host_key_algorithms(keys: Sequence[str]) -> list[str]:
    """The pinned types first; the others too, so that the error for a host with another type of key
    can show its fingerprint.
    """
    kinds = [key.split()[0] for key in keys]
    order = ["ssh-ed25519", "ecdsa-sha2-nistp256", "rsa-sha2-512", "rsa-sha2-256"]
    return sorted(
        order, key=lambda name: ("ssh-rsa" if name.startswith("rsa") else name) not in kinds
    )


def _host_key_error(host: HostAddress, shown: str) -> TPUError:
    from .known_hosts import KnownHosts

    kind = shown.split()[0]
    same_kind = [key for key in host.host_keys if key.split()[0] == kind] or host.host_keys
    pinned = ", ".join(map(fingerprint, same_kind))
    return TPUError(
        f"{host.label} at {host.address} has the host key {fingerprint(shown)}, "
        f"but {pinned} is pinned. No connection was made.",
        Reason.HOST_KEY,
        "Someone may be intercepting the connection. If you know that the host was reinstalled, "
        "remove its key with "
        f"`ssh-keygen -R {host.alias} -f {shlex.quote(str(KnownHosts().path))}`.",
    )


def _unreachable(host: HostAddress, error: BaseException, limit: float) -> TPUError:
    return TPUError(
        f"{host.label} at {host.address} port {host.port} can't be reached: "
        f"{failure_text(error, limit)}.",
        Reason.UNREACHABLE,
        "Check the network, and that the TPU's firewall rules allow SSH.",
    )


def failure_text(error: BaseException, limit: float) -> str:
    """Why a connection was not opened within *limit* seconds, as the end of a sentence."""
    if isinstance(error, asyncio.TimeoutError):
        return f"no answer within {limit:g} s"
    if isinstance(error, socket.gaierror):  # its numbers are not those of the system
        text = str(error.strerror).lower()
    elif isinstance(error, OSError) and error.errno:
        text = os.strerror(error.errno).lower()
    else:
        text = getattr(error, "reason", "") or str(error)
    return text.strip().rstrip(".") or error.__class__.__name__
