"""Buckets and objects as JSON of Cloud Storage's API, and what a caller can write of them.

What the emulator's Cloud Storage would have to do, and does not (holds, encryption with own keys,
lifecycles), is refused.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from ...storage import errors
from ...storage.records import BucketRecord, ObjectRecord
from ..services import project_number

#: Fields that a caller can write.
_BUCKET = ("iamConfiguration", "labels", "storageClass", "versioning")
_OBJECT = (
    *("cacheControl", "contentDisposition", "contentEncoding", "contentLanguage", "contentType"),
    *("customTime", "metadata", "storageClass"),
)
#: Fields that a caller may send back as they came. Access control lists are ignored: who has a
#: token of the project may do all.
_BUCKET_READ = (
    *("kind", "id", "selfLink", "name", "projectNumber", "metageneration", "generation", "etag"),
    *("location", "locationType", "timeCreated", "updated", "acl", "defaultObjectAcl", "owner"),
)
_OBJECT_READ = (
    *("kind", "id", "selfLink", "mediaLink", "name", "bucket", "generation", "metageneration"),
    *("size", "md5Hash", "crc32c", "etag", "timeCreated", "updated", "timeDeleted"),
    *("timeStorageClassUpdated", "timeFinalized", "componentCount", "owner", "acl"),
)
_MULTI_REGIONS = ("US", "EU", "ASIA")


def bucket_fields(body: Any) -> dict[str, Any]:
    """What of *body*, a bucket, can be written. Raises ApiError for what the emulator lacks."""
    return _fields(body, _BUCKET, _BUCKET_READ, "buckets with the field")


def object_fields(body: Any) -> dict[str, Any]:
    """What of *body*, an object, can be written. Raises ApiError for what the emulator lacks."""
    fields = _fields(body, _OBJECT, _OBJECT_READ, "objects with the field")
    metadata = fields.get("metadata")
    if metadata is not None and not (
        isinstance(metadata, dict)
        and all(value is None or isinstance(value, str) for value in metadata.values())
    ):
        raise errors.invalid("Invalid value for field metadata: it maps strings to strings.")
    return fields


def declared_sums(body: Mapping[str, Any], header: str) -> dict[str, str]:
    """The checksums that a caller says, in an object or in the header ``X-Goog-Hash``."""
    pairs = (part.strip().partition("=") for part in header.split(",") if part.strip())
    sums = {kind: value for kind, _, value in pairs}
    sums |= {
        kind: body[field]
        for kind, field in (("crc32c", "crc32c"), ("md5", "md5Hash"))
        if body.get(field)
    }
    return sums


def bucket_resource(bucket: BucketRecord, base: str) -> dict[str, Any]:
    """*base*: the address of the API, by which the caller has come."""
    if bucket.location in _MULTI_REGIONS:
        kind = "multi-region"
    else:
        kind = "region" if "-" in bucket.location else "dual-region"
    access = {"enabled": False}
    defaults = {
        "storageClass": "STANDARD",
        "iamConfiguration": {
            "bucketPolicyOnly": access,
            "uniformBucketLevelAccess": access,
            "publicAccessPrevention": "inherited",
        },
    }
    return {
        "kind": "storage#bucket",
        "id": bucket.name,
        "name": bucket.name,
        "selfLink": f"{base}/storage/v1/b/{bucket.name}",
        "projectNumber": str(project_number(bucket.project)),
        "location": bucket.location,
        "locationType": kind,
        "metageneration": str(bucket.metageneration),
        "timeCreated": bucket.created,
        "updated": bucket.updated,
        "etag": _etag(bucket.metageneration),
        **defaults,
        **bucket.fields,
    }


def object_resource(object: ObjectRecord, base: str) -> dict[str, Any]:
    """*base*: the address of the API, by which the caller has come."""
    path = f"/storage/v1/b/{object.bucket}/o/{quote(object.name, safe='')}"
    media = f"{base}/download{path}?generation={object.generation}&alt=media"
    optional = {
        "md5Hash": object.md5,
        "componentCount": object.components,
        "timeDeleted": object.deleted,
    }
    return {
        "kind": "storage#object",
        "id": f"{object.bucket}/{object.name}/{object.generation}",
        "selfLink": f"{base}{path}",
        "mediaLink": media,
        "name": object.name,
        "bucket": object.bucket,
        "generation": str(object.generation),
        "metageneration": str(object.metageneration),
        "storageClass": "STANDARD",
        "size": str(object.size),
        "crc32c": object.crc32c,
        "etag": object_etag(object),
        "timeCreated": object.created,
        "updated": object.updated,
        "timeStorageClassUpdated": object.created,
        "timeFinalized": object.created,
        **{name: value for name, value in optional.items() if value},
        **object.fields,
    }


def object_etag(object: ObjectRecord) -> str:
    return _etag(object.generation, object.metageneration)


def _fields(
    body: Any, writable: tuple[str, ...], read: tuple[str, ...], what: str
) -> dict[str, Any]:
    if not isinstance(body, dict):
        raise errors.invalid("Parse Error: this is not an object.")
    fields = {name: value for name, value in body.items() if name in writable}
    for name, value in body.items():
        if name not in writable and name not in read and value not in (None, False, {}, []):
            raise errors.unsupported(f"{what} {name}")
    return fields


def _etag(*numbers: int) -> str:
    return base64.b64encode(" ".join(map(str, numbers)).encode()).decode()
