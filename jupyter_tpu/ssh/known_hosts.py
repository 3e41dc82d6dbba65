"""Pinned host keys, in an OpenSSH known_hosts file of our own.

An entry has the host's alias, "tpu.NODE_ID-WORKER". So a changed address does not matter, and a new
node of the same name, which has a new id, is another host. The host's name is the entry's comment;
pinning its successor removes the entry. Keys come from Google's authenticated API only: there is no
trust on first use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from ..local_files import write_atomically
from ..paths import data_dir, private_dir

#: The types of host keys that are used, the preferred one first.
KINDS = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ssh-rsa")


class KnownHosts:
    """The file; read again at each use, since other processes pin keys, too.

    If two processes write at the same moment, one entry may be lost; it is then fetched again.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path

    @property
    def path(self) -> Path:
        return self._path if self._path is not None else data_dir() / "known_hosts"

    def keys(self, alias: str) -> tuple[str, ...]:
        """The pinned keys of *alias*, "TYPE BASE64" each; empty if none is pinned."""
        # A file of many hosts is read for each of them: only their own lines are split.
        entries = [line.split() for line in self._lines() if alias in line]
        return tuple(" ".join(parts[1:3]) for parts in entries if _is_entry(parts, alias))

    def pin(self, hosts: Mapping[str, Iterable[str]], names: Mapping[str, str]) -> None:
        """Replaces the entries of several hosts in one step.

        Parameters
        ----------
        hosts: alias -> keys ("TYPE BASE64").
        names: alias -> the host's name ("project/zone/node/0", no blanks). Entries of other aliases
            with the same name belong to hosts that are gone, and are removed.
        """
        replaced = set(names.values())
        kept = []
        for line in self._lines():
            parts = line.split()
            if parts and parts[0] in hosts:
                continue
            if len(parts) > 3 and parts[3] in replaced:
                continue
            kept.append(line)
        for alias, keys in hosts.items():
            name = names.get(alias, "")
            kept += (f"{alias} {' '.join(key.split()[:2])} {name}".rstrip() for key in keys)
        self._write("".join(f"{line}\n" for line in kept))

    def forget(self, alias: str) -> None:
        """Removes the pinned keys of *alias*."""
        kept = [line for line in self._lines() if line.split()[:1] != [alias]]
        self._write("".join(f"{line}\n" for line in kept))

    def _lines(self) -> list[str]:
        try:
            return self.path.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []

    def _write(self, text: str) -> None:
        private_dir(self.path.parent)
        write_atomically(self.path, text)


def _is_entry(parts: list[str], alias: str) -> bool:
    return len(parts) >= 3 and parts[0] == alias
