"""How one machine is reached: connection, host keys, keys, files, and the agent over it."""

from .address import HostAddress, HostResolver
from .command import CommandFailed, CompletedCommand, NotListening
from .connection import Connection, Keepalive
from .forwarding import Forwarder
from .keys import ensure_key, fingerprint, public_key, user_name
from .known_hosts import KnownHosts
from .listening import PortInUse
from .opening import connect

__all__ = [
    "CommandFailed",
    "CompletedCommand",
    "Connection",
    "Forwarder",
    "HostAddress",
    "HostResolver",
    "Keepalive",
    "KnownHosts",
    "NotListening",
    "PortInUse",
    "connect",
    "ensure_key",
    "fingerprint",
    "public_key",
    "user_name",
]
