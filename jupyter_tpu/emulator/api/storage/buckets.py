"""The calls that are about buckets."""

from __future__ import annotations

from aiohttp import web

from ...storage import Buckets
from . import resources
from .call import Call, page_token


class BucketCalls:
    """By Google's names, in `table`."""

    def __init__(self, buckets: Buckets) -> None:
        self._buckets = buckets
        self.table = {
            "buckets.list": self.list_all,
            "buckets.insert": self.create,
            "buckets.get": self.get,
            "buckets.patch": self.change,
            "buckets.update": self.change,
            "buckets.delete": self.delete,
            "buckets.getStorageLayout": self.layout,
            "buckets.testIamPermissions": self.permissions,
            "managedFolders.list": self.list_folders,
        }

    async def list_all(self, call: Call) -> web.StreamResponse:
        limit, after = call.page()
        prefix = call.query.get("prefix", "")
        found = self._buckets.index.buckets(call.project, prefix, after[0], limit + 1)
        shown = found[:limit]
        more = {"nextPageToken": page_token((shown[-1].name, 0))} if len(found) > limit else {}
        items = [resources.bucket_resource(bucket, call.base) for bucket in shown]
        return web.json_response({"kind": "storage#buckets", "items": items, **more})

    async def create(self, call: Call) -> web.StreamResponse:
        body = await call.body()
        fields = resources.bucket_fields(body)
        name, location = body.get("name", ""), body.get("location") or ""
        return call.answer(self._buckets.create(call.project, name, location, fields))

    async def get(self, call: Call) -> web.StreamResponse:
        call.conditions.check(call.bucket, reading=True)
        return call.answer(call.bucket)

    async def change(self, call: Call) -> web.StreamResponse:
        fields = resources.bucket_fields(await call.body())
        return call.answer(self._buckets.change(call.bucket.name, fields, call.conditions))

    async def delete(self, call: Call) -> web.StreamResponse:
        self._buckets.delete(call.bucket.name, call.conditions)
        return web.Response(status=204)

    async def layout(self, call: Call) -> web.StreamResponse:
        bucket = resources.bucket_resource(call.bucket, call.base)
        return web.json_response(
            {
                "kind": "storage#storageLayout",
                "bucket": bucket["name"],
                "location": bucket["location"],
                "locationType": bucket["locationType"],
                "hierarchicalNamespace": {"enabled": False},
            }
        )

    async def permissions(self, call: Call) -> web.StreamResponse:
        asked = call.query.getall("permissions", [])
        allowed = [name for name in asked if name.startswith("storage.")]
        return web.json_response(
            {"kind": "storage#testIamPermissionsResponse", "permissions": allowed}
        )

    async def list_folders(self, call: Call) -> web.StreamResponse:
        """There are none, but gcloud asks before it removes a bucket."""
        return web.json_response({"kind": "storage#managedFolders"})
