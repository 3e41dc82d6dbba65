"""What can be done with buckets and objects.

All that changes something is one transaction of the index, in the emulator's one thread: of two
callers with the same precondition exactly one succeeds.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from msgspec import Struct
from msgspec.structs import replace

from ...paths import private_dir
from ..model.operations import rfc3339
from . import errors
from .contents import Incoming, ObjectFiles
from .index import Index
from .records import BucketRecord, Conditions, ObjectRecord, Sums

#: Objects that one can be composed of.
MOST_SOURCES = 32
_BUCKET_NAME = re.compile(r"(?!goog)[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]")
_LOCATION = re.compile(r"US|EU|ASIA|NAM4|EUR[4578]|ASIA1|[A-Z]+-[A-Z]+[0-9]+")
_LONGEST_NAME_BYTES = 1024


class ObjectPage(Struct, frozen=True):
    """A page of a bucket's objects. *after*: where the next begins; None: this is the last."""

    objects: list[ObjectRecord]
    prefixes: list[str]
    after: tuple[str, int] | None


class Source(Struct, frozen=True):
    """An object that another is composed of."""

    name: str
    generation: int | None = None
    conditions: Conditions = Conditions()


class Buckets:
    """All buckets, in *folder*, with at most *limit* bytes of objects."""

    def __init__(self, folder: Path, limit: int) -> None:
        private_dir(folder)
        self.index = Index(folder / "index.sqlite")
        self.contents = ObjectFiles(folder, limit)
        uploads = [upload.id for upload in self.index.uploads() if upload.object is None]
        self.contents.sweep(self.index.generations(), uploads)

    def close(self) -> None:
        self.index.close()

    # ---- buckets --------------------------------------------------------------------------------

    def get(self, name: str) -> BucketRecord:
        """Raises ApiError for a bucket that does not exist."""
        bucket = self.index.bucket(name)
        if bucket is None:
            raise errors.no_bucket()
        return bucket

    def create(
        self, project: str, name: str, location: str, fields: dict[str, Any]
    ) -> BucketRecord:
        if not _BUCKET_NAME.fullmatch(name) or ".." in name:
            raise errors.invalid(f"Invalid bucket name: '{name}'")
        location = (location or "US").upper()
        if not _LOCATION.fullmatch(location):
            raise errors.invalid("The specified location constraint is not valid.")
        now = _now()
        bucket = BucketRecord(
            name=name, project=project, location=location, created=now, updated=now, fields=fields
        )
        with self.index.transaction():
            if (existing := self.index.bucket(name)) is not None:
                raise errors.bucket_exists(own=existing.project == project)
            self.index.put_bucket(bucket)
        return bucket

    def change(self, name: str, fields: Mapping[str, Any], conditions: Conditions) -> BucketRecord:
        """Sets *fields* of a bucket; those that are None are removed."""
        with self.index.transaction():
            bucket = self.get(name)
            conditions.check(bucket)
            bucket.fields = _merged(bucket.fields, fields, "labels")
            bucket.metageneration += 1
            bucket.updated = _now()
            self.index.put_bucket(bucket)
        return bucket

    def delete(self, name: str, conditions: Conditions) -> None:
        with self.index.transaction():
            conditions.check(self.get(name))
            if not self.index.is_empty(name):
                raise errors.not_empty()
            self.index.delete_bucket(name)

    # ---- objects --------------------------------------------------------------------------------

    def find(
        self,
        bucket: str,
        name: str,
        generation: int | None = None,
        conditions: Conditions = Conditions(),  # noqa: B008 – it does not change
        *,
        reading: bool = False,
    ) -> ObjectRecord:
        """The live object of that name, or one *generation*. Raises ApiError."""
        object = self.index.object(bucket, name, generation)
        conditions.check(object, reading=reading)
        if object is None:
            raise errors.no_object(bucket, name)
        return object

    def open(self, object: ObjectRecord) -> BinaryIO:
        """Its content, which can be read to its end although the object is deleted."""
        return self.contents.open(object.generation)

    def list_objects(
        self,
        bucket: str,
        *,
        prefix: str = "",
        delimiter: str = "",
        start: str = "",
        end: str = "",
        after: tuple[str, int] | None = None,
        trailing: bool = False,
        versions: bool = False,
        limit: int = 1000,
    ) -> ObjectPage:
        """Objects whose names begin with *prefix*, from *start* on and before *end*, in order.

        Those that have the *delimiter* after the prefix are one prefix each for all that begin so;
        *trailing*: with the object whose name is that prefix. *after*: of the page before.
        """
        position = after or (max(prefix, start), -1)
        before = min(filter(None, (_successor(prefix), end)), default=None)
        objects: list[ObjectRecord] = []
        prefixes: list[str] = []
        more = True
        while more:
            more = False
            for object in self.index.objects(bucket, position, before, versions=versions):
                if len(objects) + len(prefixes) >= limit:
                    return ObjectPage(objects, prefixes, position)
                name = object.name
                at = name.find(delimiter, len(prefix)) if delimiter else -1
                position = (name, object.generation)
                if at < 0:
                    objects.append(object)
                    continue
                common = name[: at + len(delimiter)]
                if trailing and name == common:
                    objects.append(object)
                prefixes.append(common)
                # The others that begin so are not looked at.
                following = _successor(common)
                more = following is not None
                position = (following or "", -1)
                break
        return ObjectPage(objects, prefixes, None)

    def change_object(
        self,
        bucket: str,
        name: str,
        fields: Mapping[str, Any],
        generation: int | None,
        conditions: Conditions,
        *,
        all: bool,
    ) -> ObjectRecord:
        """Sets *fields* of an object; those that are None are removed. *all*: the others, too."""
        with self.index.transaction():
            object = self.find(bucket, name, generation, conditions)
            object.fields = _merged({} if all else object.fields, fields, "metadata")
            object.metageneration += 1
            object.updated = _now()
            self.index.put_object(object)
        return object

    def delete_object(
        self, bucket: str, name: str, generation: int | None, conditions: Conditions
    ) -> None:
        """Without a *generation* a versioned bucket keeps it, as one that is not live."""
        with self.index.transaction():
            object = self.find(bucket, name, generation, conditions)
            gone = self._retire(object, keep=generation is None and self.get(bucket).versioned)
        self._remove(gone)

    async def insert(
        self,
        bucket: str,
        name: str,
        fields: dict[str, Any],
        conditions: Conditions,
        incoming: Incoming,
        declared: Mapping[str, str],
        components: int = 0,
    ) -> ObjectRecord:
        """*incoming* becomes the object of that *name*. It is left as it is after an ApiError.

        declared: checksums that it has to have, "crc32c" and "md5".
        """
        conditions.check(self.index.object(bucket, name))
        sums = await asyncio.to_thread(incoming.sums)
        for kind, actual in (("crc32c", sums.crc32c), ("md5", sums.md5)):
            if declared.get(kind, actual) != actual:
                raise errors.wrong_sum(f"{kind.upper()} hash", declared[kind], actual)
        return self._publish(bucket, name, fields, conditions, incoming, sums, components)

    async def compose(
        self,
        bucket: str,
        name: str,
        fields: dict[str, Any],
        conditions: Conditions,
        sources: Sequence[Source],
    ) -> ObjectRecord:
        """An object of the contents of *sources*, one after the other."""
        if not 0 < len(sources) <= MOST_SOURCES:
            raise errors.invalid(
                f"The number of source components provided ({len(sources)}) is not from 1 to "
                f"{MOST_SOURCES}"
            )
        objects = [
            self.find(bucket, source.name, source.generation, source.conditions)
            for source in sources
        ]
        files = [self.open(object) for object in objects]
        components = sum(max(1, object.components) for object in objects)
        with await asyncio.to_thread(self.contents.concatenate, files) as incoming:
            return await self.insert(bucket, name, fields, conditions, incoming, {}, components)

    def copy(
        self,
        source: ObjectRecord,
        bucket: str,
        name: str,
        fields: dict[str, Any] | None,
        conditions: Conditions,
        *,
        move: bool = False,
    ) -> ObjectRecord:
        """A copy under another name, with the *fields* of the source for None. *move*: instead."""
        sums = Sums(source.size, source.crc32c, source.md5)
        with self.contents.copy(source.generation) as incoming:
            return self._publish(
                bucket,
                name,
                source.fields if fields is None else fields,
                conditions,
                incoming,
                sums,
                source.components,
                instead_of=source if move else None,
            )

    def _publish(
        self,
        bucket: str,
        name: str,
        fields: dict[str, Any],
        conditions: Conditions,
        incoming: Incoming,
        sums: Sums,
        components: int,
        instead_of: ObjectRecord | None = None,
    ) -> ObjectRecord:
        check_name(name)
        now = _now()
        with self.index.transaction():
            keep = self.get(bucket).versioned
            live = self.index.object(bucket, name)
            conditions.check(live)
            object = ObjectRecord(
                bucket=bucket,
                name=name,
                generation=self.index.next_generation(),
                size=sums.size,
                crc32c=sums.crc32c,
                md5="" if components else sums.md5,
                components=components,
                created=now,
                updated=now,
                fields=fields,
            )
            gone = [*self._retire(live, keep=keep)]
            if instead_of is not None and instead_of != live:
                gone += self._retire(instead_of, keep=keep)
            self.index.put_object(object)
            self.contents.publish(incoming, object.generation)
        self._remove(gone)
        return object

    def _retire(self, object: ObjectRecord | None, *, keep: bool) -> list[int]:
        """It is no longer live. Returns the contents that can be removed after the transaction."""
        if object is None:
            return []
        if keep:
            self.index.put_object(replace(object, deleted=_now()))
            return []
        self.index.delete_object(object)
        return [object.generation]

    def _remove(self, generations: Sequence[int]) -> None:
        for generation in generations:
            self.contents.remove(generation)


def check_name(name: str) -> None:
    """Raises ApiError for what can't be the name of an object."""
    if not 0 < len(name.encode()) <= _LONGEST_NAME_BYTES:
        raise errors.invalid("The maximum object length is 1024 characters, but got a name with "
                             f"{len(name.encode())} characters.")  # fmt: skip
    if name in (".", "..") or set(name) & {"\r", "\n"}:
        raise errors.invalid(f"Disallowed unicode characters present in object name {name!r}")


def _successor(prefix: str) -> str | None:
    """The first text that comes after all that begin with *prefix*; None: there is none."""
    for at in range(len(prefix) - 1, -1, -1):
        if (code := ord(prefix[at])) < 0x10FFFF:
            return prefix[:at] + chr(0xE000 if code == 0xD7FF else code + 1)
    return None


def _merged(fields: Mapping[str, Any], changes: Mapping[str, Any], mapping: str) -> dict[str, Any]:
    """*fields* with *changes*, which remove what is None; in *mapping* each key for itself."""
    merged = {**fields, **changes}
    if mapping in changes and changes[mapping] is not None:
        items = {**(fields.get(mapping) or {}), **changes[mapping]}
        merged[mapping] = {key: value for key, value in items.items() if value is not None}
    return {key: value for key, value in merged.items() if value is not None}


def _now() -> str:
    return rfc3339(datetime.now(UTC))
