"""The private parts of asyncssh that are used here: a list of all, and the code that uses the few.

Any of them may be gone, or have another shape, in the next asyncssh. So each is looked at before it
is used, once in a process. Where one is missing, the plain way is taken, and the log and `jupyter
tpu doctor` say what that costs: nobody has to wait for us to get a security release of asyncssh.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import re
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from asyncssh import SSHClientConnection, SSHClientConnectionOptions

log = logging.getLogger(__name__)

#: Seconds for a connection of asyncssh to itself.
CONNECT_SECONDS = 20.0


class Internal(NamedTuple):
    """Parts of one class or module of asyncssh that have one use.

    Attributes
    ----------
    use: what they are for, a word.
    owner: the class or module, below `asyncssh`.
    parts: "name", "name: type", or "name(arguments, keyword=)" for what can be called like this.
    without: what is different without them.
    """

    use: str
    owner: str
    parts: tuple[str, ...]
    without: str


CONNECTION = "connection.SSHClientConnection"
OPTIONS = "connection.SSHClientConnectionOptions"
CHANNEL = "channel.SSHChannel"
ENCRYPTION = "encryption.GCMEncryption"
CIPHER = "crypto.cipher.GCMCipher"
_SLOWER = "Downloads take 1.8 times the processor time, and uploads 1.5 times."

INTERNALS = (
    Internal("silence", CONNECTION, ("_keepalive_count: int",), "No link is shown as silent."),
    Internal("channels", CONNECTION, ("_channels: dict",), "Idle connections stay open."),
    Internal(
        "route",
        OPTIONS,
        ("tunnel", "proxy_command"),
        "ProxyJump and ProxyCommand are read with `ssh -G`.",
    ),
    Internal(
        "exec",
        "config",
        ("_exec(command)",),
        "A command of `Match exec` in ~/.ssh/config has no time limit.",
    ),
    Internal(
        "packets",
        CONNECTION,
        (
            *("_recv_data()", "_recv_handler()", "_recv_pkthdr()", "_recv_packet()"),
            *("_inpbuf: bytes", "_packet: bytes", "_pktlen: int", "_channels: dict"),
            *("_recv_blocksize: int", "_max_recv_pktlen: int", "_recv_seq: int"),
            *("_recv_encryption", "_send_encryption", "_decompressor", "_transport"),
            *("send_packet(kind, data, handler=)", "_reset_keepalive_timer()"),
            *("_send_disconnect(code, reason, language)", "_force_close(error)"),
            *("internal_error()", "add_channel(channel)", "_compressor"),
            *("_kex_complete: bool", "_send_seq: int", "_send(data)", "_rekey_bytes: int"),
            *("_rekey_bytes_sent: int", "_rekey_seconds: int", "_rekey_time: float"),
        ),
        _SLOWER,
    ),
    Internal(
        "packets",
        CHANNEL,
        (
            *("_recv_state: str", "_recv_window: int", "_accept_data(data)", "_send_buf: list"),
            *("_send_buf_len: int", "_send_window: int", "_send_pktsize: int", "_send_chan"),
            *("_send_state: str", "_flush_send_buf()"),
        ),
        _SLOWER,
    ),
    Internal("packets", ENCRYPTION, ("_cipher",), _SLOWER),
    Internal(
        "packets",
        CIPHER,
        (
            *("_key: bytes", "_iv: bytes", "encrypt_and_sign(header, data)"),
            "verify_and_decrypt(header, data, mac)",
        ),
        _SLOWER,
    ),
)

# Besides these names, some behavior that asyncssh's documentation does not promise:
#
# - `connection_lost`, which asyncio calls, ends all channels with an error (`drop`).
# - An error for a key with a passphrase has that word in its text (`keys.load_key`).
# - A channel whose reading is paused keeps its data, and opens its whole window again as soon as it
#   hands on one packet (`transport.ChannelTransport`).

#: By use and owner, what was found in this process.
_usable: dict[tuple[str, str], bool] = {}


def usable(use: str, owner: str, thing: object) -> bool:
    """Whether *thing*, an *owner*, has the parts for this use. The log says it if it has not."""
    known = _usable.get((use, owner))
    if known is None:
        (internal,) = (one for one in INTERNALS if (one.use, one.owner) == (use, owner))
        missing = _missing(internal, thing)
        known = _usable[use, owner] = not missing
        if missing:
            log.warning("%s %s", lacks(missing), internal.without)
    return known


def lacks(names: list[str]) -> str:
    """A sentence: "asyncssh 3.0 has no channel.SSHChannel._recv_window as it is used here."."""
    from .library import asyncssh

    listed = ", ".join(names)
    return f"asyncssh {asyncssh.__version__} has no {listed} as it is used here."


def _missing(internal: Internal, thing: object) -> list[str]:
    """The parts that *thing* does not have, or has in another shape."""
    return [
        f"{internal.owner}.{re.split(r'[:(]', part)[0]}"
        for part in internal.parts
        if not _has(thing, part)
    ]


def _has(thing: object, part: str) -> bool:
    name, colon, kind = part.partition(": ")
    name, bracket, arguments = name.partition("(")
    if not hasattr(thing, name):
        return False
    value = getattr(thing, name)
    if colon:
        return kind in {parent.__name__ for parent in type(value).__mro__}
    if not bracket:
        return True
    words = [word for word in arguments.removesuffix(")").split(", ") if word]
    keywords = [word.removesuffix("=") for word in words if word.endswith("=")]
    try:
        inspect.signature(value).bind(
            *words[: len(words) - len(keywords)], **dict.fromkeys(keywords)
        )
    except (TypeError, ValueError):
        return False
    return True


async def missing_parts() -> dict[str, list[str]]:
    """What the installed asyncssh does not have, by what is different without it; {} is usual.

    It opens a connection of asyncssh to itself, since many parts are of open connections.
    """
    from .library import asyncssh

    class Session(asyncssh.SSHTCPSession[bytes]):
        pass

    class Server(asyncssh.SSHServer):
        def begin_auth(self, username: str) -> bool:
            return False

        def connection_requested(self, *_: Any) -> Any:
            return Session()

    ours, theirs = _socket_pair()
    key = asyncssh.generate_private_key("ssh-ed25519")
    async with asyncio.timeout(CONNECT_SECONDS):
        serving = asyncssh.run_server(
            theirs, config=None, server_factory=Server, server_host_keys=[key]
        )
        opening = asyncssh.run_client(
            ours,
            config=None,
            username="nobody",
            known_hosts=None,
            client_keys=None,
            agent_path=None,
            encryption_algs=["aes128-gcm@openssh.com"],
        )
        server, ssh = await asyncio.gather(serving, opening)
        try:
            channel, _ = await ssh.create_connection(Session, "nowhere", 1)
            encryption = getattr(ssh, "_send_encryption", None)
            owners: dict[str, object] = {
                CONNECTION: ssh,
                OPTIONS: asyncssh.SSHClientConnectionOptions(config=None),
                CHANNEL: channel,
                ENCRYPTION: encryption,
                CIPHER: getattr(encryption, "_cipher", None),
                "config": asyncssh.config,
            }
            found: dict[str, list[str]] = {}
            for internal in INTERNALS:
                if missing := _missing(internal, owners[internal.owner]):
                    found.setdefault(internal.without, []).extend(missing)
            return found
        finally:
            ssh.abort()
            server.abort()


def _socket_pair() -> tuple[socket.socket, socket.socket]:
    """Both ends of a TCP connection, since asyncssh wants their addresses."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        ours = socket.create_connection(listening.getsockname(), CONNECT_SECONDS)
        theirs, address = listening.accept()
    if address != ours.getsockname():
        raise ConnectionError("another program has connected")
    return ours, theirs


def unanswered_keepalives(ssh: SSHClientConnection) -> int:
    """How many keepalives were sent since the host's last answer."""
    return ssh._keepalive_count if usable("silence", CONNECTION, ssh) else 0


def has_channels(ssh: SSHClientConnection) -> bool:
    """Whether a channel is open, or being opened."""
    return bool(ssh._channels) if usable("channels", CONNECTION, ssh) else True


def drop(ssh: SSHClientConnection) -> None:
    """Ends a connection and its channels, with an error, without telling the host."""
    ssh.connection_lost(None)


def route_options(
    options: SSHClientConnectionOptions,
) -> tuple[object, str | tuple[str, ...]] | None:
    """ProxyJump and ProxyCommand, as asyncssh has read them from a configuration; None: it does
    not say.
    """
    if not usable("route", OPTIONS, options):
        return None
    command = options.proxy_command
    return options.tunnel, command if isinstance(command, str) else tuple(command or ())


def replace_exec(succeeds: Callable[[str], bool]) -> None:
    """From now on *succeeds* runs the commands of `Match exec`."""
    from .library import asyncssh

    if usable("exec", "config", asyncssh.config):
        asyncssh.config._exec = succeeds  # type: ignore[assignment]
