"""The private parts of asyncssh that are used here: a list of all, and the code that uses the few.

pyproject.toml bounds asyncssh because of them. tests/unit/test_ssh_asyncssh_internals.py fails for
each part that an asyncssh does not have, and names it. To allow a newer asyncssh: install it, run
that file and tests/integration/test_ssh_connection.py, and move the bound.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from asyncssh import SSHClientConnection, SSHClientConnectionOptions


class Internal(NamedTuple):
    """Parts of one class or module of asyncssh that have one use.

    Attributes
    ----------
    owner: the class or module, below `asyncssh`.
    names: of the parts.
    use: what they are used for, and where.
    without: what happens, or has to be done, if they are gone.
    """

    owner: str
    names: tuple[str, ...]
    use: str
    without: str


_NO_PACKETS = (
    "No connection opens. Remove `gcm_packets`: a download then takes 1.7 times the CPU time, "
    "an upload 1.3 times (benchmarks/tunnel.py)."
)

INTERNALS = (
    Internal(
        "connection.SSHClientConnection",
        ("_keepalive_count",),
        "keepalives sent since the last answer: `Connection.silent`",
        "No link is shown as silent. A lost one is still noticed.",
    ),
    Internal(
        "connection.SSHClientConnection",
        ("_channels",),
        "the open channels: `Connection.in_use`, and to find a packet's channel in `gcm_packets`",
        "No connection counts as idle, so those for bulk data stay open. " + _NO_PACKETS,
    ),
    Internal(
        "connection.SSHClientConnection",
        ("connection_lost",),
        "ends all channels with an error, unlike `abort`: `Connection.abort`",
        "Close the connection's socket: its end is noticed a little later.",
    ),
    Internal(
        "connection.SSHClientConnectionOptions",
        ("tunnel", "proxy_command"),
        "what the user's configuration sets: `proxies.resolve_route`",
        "Read ProxyJump and ProxyCommand from `ssh -G`.",
    ),
    Internal(
        "config",
        ("_exec",),
        "replaced, to limit the commands of `Match exec`: `proxies`",
        "A command that does not end is left running at each attempt to connect.",
    ),
    Internal(
        "connection.SSHClientConnection",
        (
            *("_recv_data", "_inpbuf", "_recv_handler", "_recv_pkthdr", "_recv_packet"),
            *("_packet", "_pktlen", "_recv_blocksize", "_max_recv_pktlen", "_recv_seq"),
            *("_recv_encryption", "_send_encryption", "_decompressor", "send_packet"),
            *("_transport", "_reset_keepalive_timer", "_send_disconnect", "_force_close"),
            "internal_error",
        ),
        "reading and writing packets in `gcm_packets`",
        _NO_PACKETS,
    ),
    Internal(
        "channel.SSHChannel",
        ("_recv_state", "_recv_window", "_accept_data"),
        "handing data to their channel in `gcm_packets`",
        _NO_PACKETS,
    ),
    Internal(
        "encryption.GCMEncryption",
        ("_cipher",),
        "replaced by `gcm_packets` with its own",
        _NO_PACKETS,
    ),
    Internal(
        "crypto.cipher.GCMCipher",
        ("_key", "_iv", "encrypt_and_sign", "verify_and_decrypt"),
        "the base of the cipher in `gcm_packets`",
        _NO_PACKETS,
    ),
    Internal(
        "constants",
        ("MSG_CHANNEL_DATA", "MSG_IGNORE"),
        "the kinds of packets that `gcm_packets` handles itself",
        "Write their numbers (94 and 2) from RFC 4250.",
    ),
)

# Besides these names, some behavior that asyncssh's documentation does not promise:
#
# - An error for a key with a passphrase has that word in its text (`keys.load_key`).
# - A channel whose reading is paused keeps its data, and opens its whole window again as soon as it
#   hands on one packet (`transport.ChannelTransport`).


def unanswered_keepalives(ssh: SSHClientConnection) -> int:
    """How many keepalives were sent since the host's last answer."""
    return getattr(ssh, "_keepalive_count", 0)


def has_channels(ssh: SSHClientConnection) -> bool:
    """Whether a channel is open, or being opened."""
    return bool(getattr(ssh, "_channels", True))


def drop(ssh: SSHClientConnection) -> None:
    """Ends a connection and its channels, with an error, without telling the host."""
    ssh.connection_lost(None)


def route_options(
    options: SSHClientConnectionOptions,
) -> tuple[object, str | tuple[str, ...]]:
    """ProxyJump and ProxyCommand, as asyncssh has read them from a configuration."""
    command = options.proxy_command
    return options.tunnel, command if isinstance(command, str) else tuple(command or ())


def replace_exec(succeeds: Callable[[str], bool]) -> None:
    """From now on *succeeds* runs the commands of `Match exec`."""
    import asyncssh.config

    asyncssh.config._exec = succeeds  # type: ignore[assignment]
