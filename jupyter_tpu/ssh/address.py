"""The address of a host."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct


class HostAddress(Struct, frozen=True, kw_only=True):
    """Everything needed to open a connection to one host."""

    address: str
    port: int = 22
    user: str
    #: Keys of which the host must have one, "ssh-ed25519 AAAA…" each; never empty.
    host_keys: tuple[str, ...]
    #: Its name in known_hosts: "tpu.NODE_ID-WORKER".
    alias: str
    #: Its name in messages: "my-tpu"; the alias if empty.
    name: str = ""
    identity_file: Path
    #: A command that connects its standard input and output to the host's SSH port, for hosts
    #: without a reachable address; empty for a direct connection.
    proxy_command: tuple[str, ...] = ()
    #: Addresses by which servers that run on the host are reached from the host itself, the
    #: likeliest first.
    loopbacks: tuple[str, ...] = ("localhost",)

    @property
    def label(self) -> str:
        """The host's name in messages."""
        return self.name or self.alias
