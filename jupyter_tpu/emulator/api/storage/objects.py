"""The calls that are about objects, but for uploads."""

from __future__ import annotations

import re
from datetime import datetime
from email.utils import format_datetime

from aiohttp import web

from ...storage import Buckets, errors
from ...storage.buckets import Source
from ...storage.records import Conditions, ObjectRecord, invalid_parameter, number
from ..rest import error_response
from . import resources
from .bodies import send
from .call import Call, page_token

_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


class ObjectCalls:
    """By Google's names, in `table`."""

    def __init__(self, buckets: Buckets) -> None:
        self._buckets = buckets
        self.table = {
            "objects.list": self.list_all,
            "objects.get": self.get,
            "objects.patch": self.change,
            "objects.update": self.change,
            "objects.delete": self.delete,
            "objects.compose": self.compose,
            "objects.copy": self.copy,
            "objects.rewrite": self.rewrite,
            "objects.move": self.move,
        }

    async def list_all(self, call: Call) -> web.StreamResponse:
        limit, after = call.page()
        page = self._buckets.list_objects(
            call.bucket.name,
            prefix=call.query.get("prefix", ""),
            delimiter=call.query.get("delimiter", ""),
            start=call.query.get("startOffset", ""),
            end=call.query.get("endOffset", ""),
            after=after if "pageToken" in call.query else None,
            trailing=call.is_true("includeTrailingDelimiter"),
            versions=call.is_true("versions"),
            limit=limit,
        )
        items = [resources.object_resource(object, call.base) for object in page.objects]
        answer = {
            "items": items,
            "prefixes": page.prefixes,
            "nextPageToken": page.after and page_token(page.after),
        }
        shown = {name: value for name, value in answer.items() if value}
        return web.json_response({"kind": "storage#objects", **shown})

    async def get(self, call: Call) -> web.StreamResponse:
        object = self._buckets.find(
            *(call.bucket.name, call.path["object"], call.generation, call.conditions),
            reading=True,
        )
        etag = resources.object_etag(object)
        if call.request.headers.get("If-None-Match") == etag:
            raise errors.not_modified()
        if call.request.headers.get("If-Match", etag) != etag:
            raise errors.condition_not_met()
        if not call.download and call.query.get("alt") != "media":
            return call.answer(object)
        return await self._send(object, call)

    async def _send(self, object: ObjectRecord, call: Call) -> web.StreamResponse:
        fields = object.fields
        sums = [f"crc32c={object.crc32c}", *([f"md5={object.md5}"] if object.md5 else [])]
        names = ["contentEncoding", "contentDisposition", "contentLanguage", "cacheControl"]
        headers = {
            "Content-Type": fields.get("contentType", "application/octet-stream"),
            **{
                re.sub("([A-Z])", r"-\1", name).title(): fields[name]
                for name in names
                if name in fields
            },
            "ETag": resources.object_etag(object),
            "Last-Modified": format_datetime(datetime.fromisoformat(object.updated), usegmt=True),
            "X-Goog-Generation": str(object.generation),
            "X-Goog-Metageneration": str(object.metageneration),
            "X-Goog-Storage-Class": fields.get("storageClass", "STANDARD"),
            "X-Goog-Stored-Content-Encoding": fields.get("contentEncoding", "identity"),
            "X-Goog-Stored-Content-Length": str(object.size),
            "X-Goog-Hash": ",".join(sums),
            "Accept-Ranges": "bytes",
        }
        with self._buckets.open(object) as file:
            part = _range(call.request.headers.get("Range", ""), object.size)
            first, end = part or (0, object.size)
            if part is not None:
                headers["Content-Range"] = f"bytes {first}-{end - 1}/{object.size}"
            if first >= end and part is not None:
                refusal = error_response(errors.range_not_satisfiable())
                refusal.headers["Content-Range"] = f"bytes */{object.size}"
                return refusal
            response = web.StreamResponse(status=200 if part is None else 206, headers=headers)
            response.content_length = end - first
            await response.prepare(call.request)
            file.seek(first)
            await send(response, file, end - first, call.line)
            await response.write_eof()
        return response

    async def change(self, call: Call) -> web.StreamResponse:
        object = self._buckets.change_object(
            call.bucket.name,
            call.path["object"],
            resources.object_fields(await call.body()),
            call.generation,
            call.conditions,
            all=call.name == "objects.update",
        )
        return call.answer(object)

    async def delete(self, call: Call) -> web.StreamResponse:
        self._buckets.delete_object(
            call.bucket.name, call.path["object"], call.generation, call.conditions
        )
        return web.Response(status=204)

    async def compose(self, call: Call) -> web.StreamResponse:
        body = await call.body()
        if unknown := set(body) - {"kind", "destination", "sourceObjects"}:
            raise errors.unsupported(f"composing with {', '.join(sorted(unknown))}")
        sources = [
            Source(
                str(source.get("name", "")),
                number(source, "generation"),
                Conditions.of_query(source.get("objectPreconditions") or {}),
            )
            for source in body.get("sourceObjects", [])
        ]
        object = await self._buckets.compose(
            call.bucket.name,
            call.path["object"],
            resources.object_fields(body.get("destination") or {}),
            call.conditions,
            sources,
        )
        return call.answer(object)

    async def copy(self, call: Call) -> web.StreamResponse:
        source = self._source(call, number(call.query, "sourceGeneration"))
        return call.answer(await self._copy(call, source))

    async def move(self, call: Call) -> web.StreamResponse:
        source = self._source(call, number(call.query, "sourceGeneration"))
        object = self._buckets.copy(
            *(source, call.bucket.name, call.path["name"], None, call.conditions), move=True
        )
        return call.answer(object)

    async def rewrite(self, call: Call) -> web.StreamResponse:
        """A copy, in several calls if it is for another location and the caller limits each."""
        generation, _, text = call.query.get("rewriteToken", "").partition(".")
        if text and not (generation + text).isdecimal():
            raise invalid_parameter("rewriteToken", f"{generation}.{text}")
        before = int(text or 0)
        pinned = int(generation) if text else number(call.query, "sourceGeneration")
        source = self._source(call, pinned)
        most = number(call.query, "maxBytesRewrittenPerCall")
        answer = {"kind": "storage#rewriteResponse", "objectSize": str(source.size)}
        elsewhere = self._buckets.get(call.path["to"]).location != call.bucket.location
        if elsewhere and most and source.size > before + most:
            done = str(before + most)
            token = f"{source.generation}.{done}"
            return web.json_response(
                {**answer, "done": False, "totalBytesRewritten": done, "rewriteToken": token}
            )
        copied = resources.object_resource(await self._copy(call, source), call.base)
        done = str(source.size)
        return web.json_response(
            {**answer, "done": True, "totalBytesRewritten": done, "resource": copied}
        )

    def _source(self, call: Call, generation: int | None) -> ObjectRecord:
        return self._buckets.find(
            *(call.bucket.name, call.path["object"], generation),
            Conditions.of_query(call.query, "ifSource"),
        )

    async def _copy(self, call: Call, source: ObjectRecord) -> ObjectRecord:
        fields = resources.object_fields(await call.body())
        if set(fields) <= {"storageClass"}:  # nothing of the metadata is said: it is copied
            fields = {**source.fields, **fields}
        return self._buckets.copy(
            source, call.path["to"], call.path["name"], fields, call.conditions
        )


def _range(header: str, size: int) -> tuple[int, int] | None:
    """The first byte and the one after the last; None: all. Nothing, if there are no such bytes."""
    match = _RANGE.fullmatch(header)
    if match is None or not (match[1] or match[2]):
        return None
    if match[1] and match[2] and int(match[1]) > int(match[2]):
        return None
    if not match[1]:
        return max(0, size - int(match[2])), size
    return int(match[1]), min(size, int(match[2]) + 1) if match[2] else size
