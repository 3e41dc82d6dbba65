"""The buckets of a project, as Cloud Storage lists them.

https://cloud.google.com/storage/docs/json_api/v1/buckets/list
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from .google_apis import GoogleAPIs

#: Pages of an answer that are read, of a thousand buckets each.
MOST_PAGES = 5


class StorageBucket(Struct, frozen=True, kw_only=True):
    """regions: where its objects are, in small letters, such as "us-west4"; for one of several
    regions of a continent, its name, such as "us".
    """

    name: str
    location: str
    regions: tuple[str, ...]


async def list_buckets(apis: GoogleAPIs, project: str) -> list[StorageBucket]:
    """By their names. Raises what `GoogleAPIs` raises."""
    buckets: list[StorageBucket] = []
    token = ""
    for _ in range(MOST_PAGES):
        query = {"project": project, **({"pageToken": token} if token else {})}
        page = await apis.get("storage", "/storage/v1/b", **query)
        buckets += [_bucket(item) for item in page.get("items", ()) if isinstance(item, dict)]
        token = str(page.get("nextPageToken", ""))
        if not token:
            break
    return sorted(buckets, key=lambda bucket: bucket.name)


def _bucket(item: dict[str, Any]) -> StorageBucket:
    location = str(item.get("location", "")).lower()
    placement = item.get("customPlacementConfig") or {}
    regions = tuple(str(region).lower() for region in placement.get("dataLocations", ()))
    return StorageBucket(
        name=str(item.get("name", "")), location=location, regions=regions or (location,)
    )
