"""How one host is reached: connections, host keys, keys, forwarding, and the agent over them."""

from .address import HostAddress
from .command import CommandFailed, CompletedCommand, NotListening
from .connection import Connection, Keepalive
from .forwarding import Forwarder
from .keys import ensure_key, fingerprint, public_key, user_name
from .known_hosts import KnownHosts
from .listening import PortInUse
from .opening import connect
