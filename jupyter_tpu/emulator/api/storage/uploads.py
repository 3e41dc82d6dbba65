"""Uploads: in one request, or resumable in several."""

from __future__ import annotations

import re
from typing import Any

from aiohttp import web

from ...storage import Buckets, errors
from ...storage.contents import Incoming
from ...storage.records import invalid_parameter, number
from ...storage.uploads import Uploads
from . import resources
from .bodies import Multipart, pieces
from .call import Call

_CONTENT_RANGE = re.compile(r"bytes (?:(\d+)-\d+|\*)/(\d+|\*)")


class UploadCalls:
    """``objects.insert``, in `table`."""

    def __init__(self, buckets: Buckets) -> None:
        self._buckets = buckets
        self._uploads = Uploads(buckets)
        self.table = {"objects.insert": self.insert}

    async def insert(self, call: Call) -> web.StreamResponse:
        """An upload in one request, or a request of a resumable one."""
        if (id := call.query.get("upload_id")) is not None:
            return await self._continue(call, id)
        kinds = {"media": self._media, "multipart": self._multipart, "resumable": self._begin}
        handler = kinds.get(kind := call.query.get("uploadType", ""))
        if handler is None or call.request.method != "POST":
            raise invalid_parameter("uploadType", kind)
        return await handler(call)

    async def _media(self, call: Call) -> web.StreamResponse:
        name = _name(call, {})
        kind = call.request.headers.get("Content-Type", "application/octet-stream")
        with self._buckets.contents.incoming() as incoming:
            async for data in pieces(call.request, call.line):
                incoming.write(data)
            object = await self._buckets.insert(
                *(call.bucket.name, name, {"contentType": kind}, call.conditions),
                *(incoming, _sums(call, {})),
            )
        return call.answer(object)

    async def _multipart(self, call: Call) -> web.StreamResponse:
        body = Multipart(call.request.headers.get("Content-Type", ""))
        with self._buckets.contents.incoming() as incoming:
            async for data in body.content(pieces(call.request, call.line)):
                incoming.write(data)
            fields = resources.object_fields(body.metadata)
            fields.setdefault("contentType", body.content_type or "application/octet-stream")
            object = await self._buckets.insert(
                *(call.bucket.name, _name(call, body.metadata), fields, call.conditions),
                *(incoming, _sums(call, body.metadata)),
            )
        return call.answer(object)

    async def _begin(self, call: Call) -> web.StreamResponse:
        body, headers = await call.body(), call.request.headers
        fields = resources.object_fields(body)
        kind = headers.get("X-Upload-Content-Type", "application/octet-stream")
        fields.setdefault("contentType", kind)
        upload = self._uploads.begin(
            *(call.bucket.name, _name(call, body), fields, call.conditions),
            number(headers, "X-Upload-Content-Length"),
            _sums(call, body),
        )
        path = f"/upload/storage/v1/b/{call.bucket.name}/o?uploadType=resumable"
        location = f"{call.base}{path}&upload_id={upload.id}"
        return web.Response(headers={"Location": location, "X-GUploader-UploadID": upload.id})

    async def _continue(self, call: Call, id: str) -> web.StreamResponse:
        if self._uploads.get(id).bucket != call.bucket.name:
            raise errors.no_upload()
        if call.request.method == "DELETE":
            self._uploads.cancel(self._uploads.get(id))
            return web.Response(status=499, reason="Client Closed Request")
        async with self._uploads.writing(id) as (upload, incoming):
            if upload.object is not None:
                return call.answer(upload.object)
            assert incoming is not None
            upload.declared |= _sums(call, {})
            upload.size = await self._receive(call, incoming, upload.size)
            if incoming.size == upload.size:
                return call.answer(await self._uploads.finish(upload, incoming))
        arrived = incoming.size
        headers = {"Range": f"bytes=0-{arrived - 1}"} if arrived else {}
        return web.Response(
            status=308,
            reason="Resume Incomplete",
            headers={**headers, "X-GUploader-UploadID": id},
        )

    @staticmethod
    async def _receive(call: Call, incoming: Incoming, size: int | None) -> int | None:
        """Appends what the request has; the size of the whole upload, None if it is not known."""
        text = call.request.headers.get("Content-Range")
        match = _CONTENT_RANGE.fullmatch("bytes 0-0/*" if text is None else text)
        if match is None:
            raise errors.invalid(f"Failed to parse Content-Range header: {text}")
        total = None if match[2] == "*" else int(match[2])
        skip = incoming.size - int(match[1] or incoming.size)
        if skip < 0:
            raise errors.invalid(
                f"Invalid request.  According to the Content-Range header, the upload offset is "
                f"{match[1]} byte(s), which exceeds already uploaded size of {incoming.size} "
                "byte(s)."
            )
        async for data in pieces(call.request, call.line):
            new = data[skip:]
            skip = max(0, skip - len(data))
            incoming.write(new)
        if text is None:  # all of it, in one request
            total = incoming.size
        known = size if total is None else total
        if size not in (None, known) or (known is not None and incoming.size > known):
            raise errors.invalid("Invalid request.  The upload has another size than was said.")
        return known


def _name(call: Call, body: dict[str, Any]) -> str:
    names = {call.query.get("name"), body.get("name")} - {None}
    if not names:
        raise errors.required("name")
    if len(names) > 1:
        raise errors.invalid(
            "Value 'name' in the metadata does not agree with the value in the query parameter."
        )
    return str(names.pop())


def _sums(call: Call, body: dict[str, Any]) -> dict[str, str]:
    return resources.declared_sums(body, call.request.headers.get("X-Goog-Hash", ""))
