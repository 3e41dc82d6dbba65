"""What the index has of a bucket, an object and an upload, and the conditions of a call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from ..model.api_errors import ApiError
from . import errors


class BucketRecord(Struct, kw_only=True):
    name: str
    project: str
    #: "US-CENTRAL1", "US"
    location: str
    created: str
    updated: str
    metageneration: int = 1
    #: Fields of the resource that a caller can write, as JSON has them.
    fields: dict[str, Any] = {}

    @property
    def versioned(self) -> bool:
        """Whether an object that is replaced or deleted stays, as one that is not live."""
        return bool((self.fields.get("versioning") or {}).get("enabled"))


class Sums(Struct, frozen=True):
    """The size of a content in bytes and its checksums in base64, as the API has them."""

    size: int
    crc32c: str
    md5: str


class ObjectRecord(Struct, kw_only=True):
    """One generation of an object. Its content is a file of this number; it never changes."""

    bucket: str
    name: str
    generation: int
    metageneration: int = 1
    size: int
    crc32c: str
    md5: str  # "" for one that was composed
    created: str
    updated: str
    #: When it ceased to be live; "" while it is.
    deleted: str = ""
    #: The number of objects that it was composed of; 0: it was not.
    components: int = 0
    #: Fields of the resource that a caller can write, as JSON has them.
    fields: dict[str, Any] = {}


class Conditions(Struct, frozen=True, kw_only=True):
    """Preconditions of a call: numbers that have to be, or not to be, those of the live object.

    A generation of 0 stands for "there is no live object".
    """

    generation: int | None = None
    not_generation: int | None = None
    metageneration: int | None = None
    not_metageneration: int | None = None

    @classmethod
    def of_query(cls, query: Mapping[str, Any], prefix: str = "if") -> Conditions:
        """Those of ``ifGenerationMatch`` and its like; "ifSource": of ``ifSourceGenerationMatch``.

        Raises ApiError for what is not a number.
        """
        names = (
            *("GenerationMatch", "GenerationNotMatch"),
            *("MetagenerationMatch", "MetagenerationNotMatch"),
        )
        values = [number(query, f"{prefix}{name}") for name in names]
        return cls(**dict(zip(cls.__struct_fields__, values, strict=True)))

    def check(self, live: ObjectRecord | BucketRecord | None, *, reading: bool = False) -> None:
        """Raises ApiError where *live* (None: there is none) does not fulfil them.

        What may not match is 304 (Not Modified) for a call that reads, unless there is nothing.
        """
        generation = getattr(live, "generation", 0)
        metageneration = 0 if live is None else live.metageneration
        if self.generation not in (None, generation):
            raise errors.condition_not_met()
        if self.metageneration not in (None, metageneration):
            raise errors.condition_not_met()
        if generation == self.not_generation or metageneration == self.not_metageneration:
            raise errors.not_modified() if reading else errors.condition_not_met()


class UploadRecord(Struct, kw_only=True):
    """A resumable upload. What has arrived is a file with its *id*."""

    id: str
    bucket: str
    name: str
    #: The time of its beginning, in seconds since 1970.
    started: float
    conditions: Conditions
    fields: dict[str, Any]
    #: The size of the whole in bytes; None: not known yet.
    size: int | None = None
    #: The checksums that the caller has said: "crc32c", "md5".
    declared: dict[str, str] = {}
    #: What it has become; None: it has not ended.
    object: ObjectRecord | None = None


def number(query: Mapping[str, Any], name: str) -> int | None:
    """The number that a parameter has; None where it is missing. Raises ApiError."""
    text = query.get(name)
    if text is None:
        return None
    try:
        return int(text)
    except (TypeError, ValueError):
        raise invalid_parameter(name, text) from None


def invalid_parameter(name: str, value: str) -> ApiError:
    return errors.invalid(f"Invalid value for parameter {name}: {value!r}.")
