"""The files that objects consist of.

```
STATE/storage/
  index.sqlite      see index.py
  contents/         one file for each generation of an object; it never changes
  incoming/         what is being uploaded, composed or copied; then it is moved to contents/
```

A file is in ``contents`` before the index has its object, and leaves it after. What the index does
not have was left by an emulator that was killed, and is removed at the next start.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import secrets
import shutil
import threading
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import BinaryIO, Self

import google_crc32c

from ...paths import private_dir
from . import errors
from .records import Sums

_CHUNK_BYTES = 2**20
#: What is left free on the disk, in bytes.
_SPARE_BYTES = 2**28


class ObjectFiles:
    """At most *limit* bytes of files below *folder*."""

    def __init__(self, folder: Path, limit: int) -> None:
        self._limit = limit
        self._contents = private_dir(folder / "contents")
        self._incoming = private_dir(folder / "incoming")
        self._used = 0
        self._counting = threading.Lock()  # concatenate() is called in threads

    def sweep(self, generations: Collection[int], uploads: Collection[str]) -> None:
        """Removes what belongs to none of these, and counts the rest."""
        known = {*map(str, generations)}, {*uploads}
        for folder, names in zip((self._contents, self._incoming), known, strict=True):
            for file in folder.iterdir():
                if file.name in names:
                    self._used += file.stat().st_size
                else:
                    file.unlink()

    def open(self, generation: int) -> BinaryIO:
        """The content of an object; it can be read to its end although the object is deleted."""
        return (self._contents / str(generation)).open("rb")

    def incoming(self, id: str = "") -> Incoming:
        """A file to write to: that of an upload, or one that is new."""
        return Incoming(self, self._incoming / (id or secrets.token_hex(16)))

    def concatenate(self, sources: Sequence[BinaryIO]) -> Incoming:
        """A new file with all that is in *sources*, which are closed then."""
        target = self.incoming()
        with contextlib.ExitStack() as stack:
            for source in sources:
                stack.enter_context(source)
            try:
                for source in sources:
                    while data := source.read(_CHUNK_BYTES):
                        target.write(data)
            except BaseException:
                target.discard()
                raise
        target.close()
        return target

    def copy(self, generation: int) -> Incoming:
        """A new file with that content, which takes no time where hard links are possible."""
        source, target = self._contents / str(generation), self.incoming()
        target.discard()
        self.grow(source.stat().st_size)
        try:
            os.link(source, target.path)
        except OSError:
            shutil.copyfile(source, target.path)
        return target

    def publish(self, incoming: Incoming, generation: int) -> None:
        """*incoming* becomes the content of an object."""
        os.replace(incoming.path, self._contents / str(generation))

    def remove(self, generation: int) -> None:
        path = self._contents / str(generation)
        self.grow(-path.stat().st_size)
        path.unlink()

    def grow(self, size: int) -> None:
        """Another *size* bytes are needed, or no longer if it is negative. Raises ApiError if there
        is no room for them.
        """
        with self._counting:
            if size > 0 and (
                self._used + size > self._limit
                or shutil.disk_usage(self._incoming).free < size + _SPARE_BYTES
            ):
                raise errors.full(self._limit)
            self._used += size


class Incoming:
    """A file that grows by what a caller sends, until it is published or discarded.

    As a context manager, it is discarded at the end if it was not published.
    """

    def __init__(self, contents: ObjectFiles, path: Path) -> None:
        self.path = path
        self._contents = contents
        self._file = path.open("ab")

    @property
    def size(self) -> int:
        """The number of bytes so far."""
        return self._file.tell() if not self._file.closed else self.path.stat().st_size

    def write(self, data: bytes) -> None:
        """Raises ApiError where there is no room."""
        self._contents.grow(len(data))
        self._file.write(data)

    def truncate(self, size: int) -> None:
        """Forgets what comes after *size* bytes."""
        self._file.flush()
        self._contents.grow(size - self.size)
        self._file.truncate(size)
        self._file.seek(size)

    def close(self) -> None:
        """All is in the file."""
        self._file.close()

    def discard(self) -> None:
        """Removes it, unless it was published."""
        self.close()
        if self.path.exists():
            self._contents.grow(-self.size)
            self.path.unlink()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.discard()

    def sums(self) -> Sums:
        """Takes a second for a gigabyte."""
        self.close()
        md5, crc32c = hashlib.md5(usedforsecurity=False), google_crc32c.Checksum()
        with self.path.open("rb") as file:
            while data := file.read(_CHUNK_BYTES):
                md5.update(data)
                crc32c.update(data)
            size = file.tell()
        return Sums(size, *(base64.b64encode(sum.digest()).decode() for sum in (crc32c, md5)))
