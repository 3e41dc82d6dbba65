"""What was the same here and on a host at the end of the last sync; kept on this machine."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import ClassVar, TypeVar

import msgspec

from ...errors import Reason, TPUError
from ...local_files import write_atomically
from ...paths import private_dir


class Stored(msgspec.Struct):
    """What a file has, whose name begins with *file_name*."""

    file_name: ClassVar[str]


T = TypeVar("T", bound=Stored)


class Base(Stored):
    """For one folder here and one on a host.

    states: of the files that were the same. paths: the digest of the list of paths that the host
    was asked for last, and may remember.
    """

    file_name = "base"
    states: dict[str, str] = {}
    paths: str = ""


class Sent(Stored):
    """What is being sent to a host, by whatever process of this machine: the states that its files
    may have got when that process ended early.
    """

    file_name = "sent"
    states: dict[str, str] = {}


class Hashes(Stored):
    """The hashes of a local folder's files, as `on_host.files.tree.HashCache` has them."""

    file_name = "hashes"
    known: dict[str, list] = {}


class Bases:
    """The files of this machine about syncs, in *folder*. One that can't be read counts as empty:
    then files that differ are conflicts.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, kind: type[T], *key: str) -> T:
        try:
            return msgspec.json.decode(self.file(kind.file_name, *key).read_bytes(), type=kind)
        except (OSError, msgspec.DecodeError):
            return kind()

    def save(self, value: Stored, *key: str) -> None:
        """Raises TPUError."""
        try:
            private_dir(self._folder)
            write_atomically(self.file(value.file_name, *key), msgspec.json.encode(value))
        except OSError as error:
            raise TPUError(
                f"What was synced can't be saved in {self._folder}: {error.strerror}.",
                Reason.DISK_FULL,
                "Until it can, files that are changed later may be shown as conflicts.",
            ) from None

    def remove(self, kind: type[Stored], *key: str) -> None:
        """Raises TPUError."""
        try:
            self.file(kind.file_name, *key).unlink(missing_ok=True)
        except OSError as error:
            raise TPUError(
                f"A file in {self._folder} can't be deleted: {error.strerror}.", Reason.PERMISSION
            ) from None

    def file(self, name_begin: str, *key: str) -> Path:
        name = hashlib.blake2b("\0".join(key).encode("utf-8", "replace"), digest_size=16)
        return self._folder / f"{name_begin}-{name.hexdigest()}.json"
