"""How one host is reached: connections, host keys, keys, forwarding, and the daemon over them."""

from typing import TYPE_CHECKING

from ..lazy import lazy_names

if TYPE_CHECKING:
    from .address import HostAddress
    from .command import CommandFailed, CompletedCommand, NotListening
    from .connection import Keepalive, SSHConnection
    from .forwarding import Forwarder
    from .keys import ensure_key, fingerprint, public_key, user_name
    from .known_hosts import KnownHosts
    from .listening import PortInUse
    from .opening import connect

__getattr__ = lazy_names(
    __name__,
    {
        "address": "HostAddress",
        "command": "CommandFailed CompletedCommand NotListening",
        "connection": "SSHConnection Keepalive",
        "forwarding": "Forwarder",
        "keys": "ensure_key fingerprint public_key user_name",
        "known_hosts": "KnownHosts",
        "listening": "PortInUse",
        "opening": "connect",
    },
)
