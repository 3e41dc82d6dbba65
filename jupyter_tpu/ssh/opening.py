"""Opens SSH connections: the only place that does.

asyncssh with the options that measured best (AES-GCM, curve25519, no compression unless asked
for), keys pinned by the caller, and a keepalive, without which a silent peer is never noticed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from ..errors import Reason, TPUError
from .address import HostAddress
from .connection import CHANNEL_LIMIT, Connection, Keepalive
from .keys import fingerprint, load_key
from .proxies import ProxyRoute, open_jumps, resolve_route

if TYPE_CHECKING:
    from asyncssh import SSHClientConnection

log = logging.getLogger(__name__)


async def connect(
    host: HostAddress,
    *,
    keepalive: Keepalive | None = None,
    limit: float = 20.0,
    compressed: bool = False,
) -> Connection:
    """Opens a connection.

    Parameters
    ----------
    host: where, as whom, and which keys the host may show.
    keepalive: how soon silence counts as lost.
    limit: seconds for all of it, proxies included.
    compressed: all that goes over it, if the host's sshd can; for slow lines.

    Raises HOST_KEY for a host with another key than the pinned ones (both fingerprints are in
    the message), PERMISSION where it refuses our key, KEY_FILE, and UNREACHABLE.
    """
    import asyncssh

    stack = AsyncExitStack()
    shown: list[str] = []
    try:
        route = await resolve_route(host)
        ssh, lost = await asyncio.wait_for(
            _open(host, route, keepalive or Keepalive(), stack, shown, compressed), limit
        )
    except BaseException as error:
        await stack.aclose()
        if isinstance(error, asyncssh.HostKeyNotVerifiable) and shown:
            raise _host_key_error(host, shown[-1]) from error
        if isinstance(error, asyncssh.PermissionDenied):
            raise TPUError(
                f"{host.label} refused the key {host.identity_file} for user {host.user}.",
                Reason.PERMISSION,
                "If the project uses OS Login, switch it off for this TPU "
                "(metadata enable-oslogin=FALSE), or set JUPYTER_TPU_SSH_USER.",
            ) from error
        if isinstance(error, (asyncssh.Error, OSError, asyncio.TimeoutError)):
            raise _unreachable(host, error, limit) from error
        raise
    nodelay = asyncio.get_running_loop().create_task(_enable_nodelay(ssh))
    stack.callback(nodelay.cancel)
    return Connection(ssh, host, stack, lost)


async def _open(
    host: HostAddress,
    route: ProxyRoute,
    keepalive: Keepalive,
    stack: AsyncExitStack,
    shown: list[str],
    compressed: bool,
) -> tuple[SSHClientConnection, asyncio.Future[None]]:
    import asyncssh

    lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    class Client(asyncssh.SSHClient):
        def validate_host_public_key(self, _host, _addr, _port, key) -> bool:
            # Asked only about keys that are not pinned.
            shown.append(key.export_public_key("openssh").decode())
            return False

        def connection_lost(self, _exc: Exception | None) -> None:
            if not lost.done():
                lost.set_result(None)

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
        server_host_key_algs=_host_key_algorithms(host.host_keys),
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
    if str(ssh.get_extra_info("send_cipher")).endswith("-gcm@openssh.com"):
        _without_ignored_packets(ssh)
    return ssh, lost


async def _enable_nodelay(ssh: SSHClientConnection) -> None:
    """Has the host's sshd send what it has to say at once.

    OpenSSH's sshd does so (TCP_NODELAY) only from the first command on; channels alone don't count.
    Before it, Nagle's algorithm holds small packets back until the ones before are acknowledged,
    which takes another round trip, or 40 ms where there is hardly one.
    """
    import asyncssh

    try:
        await ssh.run("true", timeout=CHANNEL_LIMIT)
    except (asyncssh.Error, OSError) as error:
        log.debug("A host runs no commands, and is slower for it: %s", error)


def _without_ignored_packets(ssh: SSHClientConnection) -> None:
    """Spares the empty packet that asyncssh sends before each other one.

    It hides the last block of CBC ciphers from who chooses the next text. AES-GCM chains no
    blocks, and there it doubles the number of packets. (asyncssh has no option for it; where a
    later version sends none, or in another way, this changes nothing.)
    """
    from asyncssh.constants import MSG_IGNORE

    send = ssh.send_packet

    def send_packet(kind: int, *parts: bytes, handler: Any = None) -> None:
        if kind != MSG_IGNORE:
            send(kind, *parts, handler=handler)

    ssh.send_packet = send_packet  # type: ignore[assignment,method-assign]


def _host_key_algorithms(keys: Sequence[str]) -> list[str]:
    """The pinned kinds first; the others too, so that a host without them can be told off with
    the fingerprint of the key that it has.
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
        f"{host.label} at {host.address} shows the host key {fingerprint(shown)}, "
        f"but {pinned} is pinned; it was not connected to.",
        Reason.HOST_KEY,
        "Somebody may be listening in. If you know that the host was set up anew, forget its key "
        f"with `ssh-keygen -R {host.alias} -f {shlex.quote(str(KnownHosts().path))}`.",
    )


def _unreachable(host: HostAddress, error: BaseException, limit: float) -> TPUError:
    if isinstance(error, asyncio.TimeoutError):
        problem = f"no answer within {limit:g} s"
    elif isinstance(error, OSError) and error.errno:
        problem = os.strerror(error.errno).lower()
    else:
        problem = getattr(error, "reason", "") or str(error)
    return TPUError(
        f"{host.label} at {host.address} port {host.port} can't be reached: "
        f"{problem.strip().rstrip('.') or error.__class__.__name__}.",
        Reason.UNREACHABLE,
        "Check the network and the TPU's firewall rules (SSH must be let in).",
    )
