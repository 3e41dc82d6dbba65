"""What was the same here and on a host at the end of the last sync; kept on this machine."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TypeVar

import msgspec

from ...errors import Reason, TPUError
from ...files import write_atomically
from ...paths import private_dir

T = TypeVar("T", bound=msgspec.Struct)


class Base(msgspec.Struct):
    """For one folder here and one on a host.

    states: of the files that were the same. paths: the digest of the list of paths that the host
    was asked for last, and may remember.
    """

    states: dict[str, str] = {}
    paths: str = ""


class Hashes(msgspec.Struct):
    """The hashes of a local folder's files, as `on_host.tree.HashCache` has them."""

    known: dict[str, list] = {}


class Bases:
    """The files of this machine about syncs, in *folder*. One that can't be read counts as empty:
    then files that differ are conflicts.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, kind: type[T], *key: str) -> T:
        try:
            return msgspec.json.decode(self._path(kind, key).read_bytes(), type=kind)
        except (OSError, msgspec.DecodeError):
            return kind()

    def save(self, value: msgspec.Struct, *key: str) -> None:
        """Raises TPUError."""
        try:
            private_dir(self._folder)
            write_atomically(self._path(type(value), key), msgspec.json.encode(value))
        except OSError as error:
            raise TPUError(
                f"What was synced can't be saved in {self._folder}: {error.strerror}.",
                Reason.DISK_FULL,
                "Until it can, files that are changed later may be shown as conflicts.",
            ) from None

    def _path(self, kind: type, key: tuple[str, ...]) -> Path:
        name = hashlib.blake2b("\0".join(key).encode("utf-8", "replace"), digest_size=16)
        return self._folder / f"{kind.__name__.lower()}-{name.hexdigest()}.json"
