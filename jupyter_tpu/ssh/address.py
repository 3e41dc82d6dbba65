"""How a host is addressed, and the protocol by which this room is told."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from msgspec import Struct


class HostAddress(Struct, frozen=True, kw_only=True):
    """Everything needed to open a connection to one host."""

    address: str
    port: int = 22
    user: str
    #: Keys one of which the host must show, "ssh-ed25519 AAAA…" each; never empty.
    host_keys: tuple[str, ...]
    #: Its name in known_hosts: "tpu.NODE_ID-WORKER".
    alias: str
    #: What people call it, for messages: "my-tpu"; the alias if empty.
    name: str = ""
    identity_file: Path
    #: A command whose standard input and output lead to the host's SSH port, for hosts without
    #: an address that can be reached; empty for a direct connection.
    proxy_command: tuple[str, ...] = ()
    #: Addresses by which servers that run on the host are reached from the host itself, the
    #: likeliest first.
    loopbacks: tuple[str, ...] = ("localhost",)

    @property
    def label(self) -> str:
        """The host's name in messages."""
        return self.name or self.alias


class HostResolver(Protocol):
    """Tells where a host is now; asked before each connection."""

    async def resolve(self) -> HostAddress:
        """The host's present address; raises TPUError where it has none."""
