"""Resumable uploads: what has arrived stays, also when the emulator is killed in between."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

from ..model.api_errors import ApiError
from . import errors
from .buckets import Buckets, check_name
from .contents import Incoming
from .records import Conditions, ObjectRecord, UploadRecord

#: Multiples of this are kept of what has arrived, in bytes.
GRANULE_BYTES = 2**18
_WEEK_SECONDS = 7 * 24 * 3600.0  # seconds that an upload may take


class Uploads:
    """The resumable uploads to *buckets*."""

    def __init__(self, buckets: Buckets) -> None:
        self._buckets = buckets
        self._index = buckets.index
        self._writing: dict[str, asyncio.Task[Any]] = {}
        self._finishing: set[str] = set()

    def begin(
        self,
        bucket: str,
        name: str,
        fields: dict[str, Any],
        conditions: Conditions,
        size: int | None,
        declared: Mapping[str, str],
    ) -> UploadRecord:
        """Raises ApiError for what could not become an object now."""
        check_name(name)
        conditions.check(self._index.object(bucket, name))
        upload = UploadRecord(
            id=secrets.token_urlsafe(32),
            bucket=bucket,
            name=name,
            started=time.time(),
            conditions=conditions,
            fields=fields,
            size=size,
            declared=dict(declared),
        )
        self._expire()
        self._index.put_upload(upload)
        return upload

    def get(self, id: str) -> UploadRecord:
        """Raises ApiError if there is none, or no longer."""
        upload = self._index.upload(id)
        if upload is None:
            raise errors.no_upload()
        return upload

    @contextlib.asynccontextmanager
    async def writing(self, id: str) -> AsyncIterator[tuple[UploadRecord, Incoming | None]]:
        """An upload and what has arrived, to write what comes next; None: it has ended.

        Who writes already is interrupted. Only full granules are kept, until all is there.
        """
        task = asyncio.current_task()
        assert task is not None
        while (before := self._writing.get(id)) is not None:
            if id not in self._finishing:
                before.cancel()
            await asyncio.wait([before])
        upload = self.get(id)
        if upload.object is not None:
            yield upload, None
            return
        self._writing[id] = task
        incoming = self._buckets.contents.incoming(id)
        try:
            yield upload, incoming
        finally:
            if incoming.path.exists() and incoming.size != upload.size:
                incoming.truncate(incoming.size // GRANULE_BYTES * GRANULE_BYTES)
            incoming.close()
            del self._writing[id]

    async def finish(self, upload: UploadRecord, incoming: Incoming) -> ObjectRecord:
        """The upload becomes an object; an ApiError ends it."""
        self._finishing.add(upload.id)
        try:
            upload.object = await self._buckets.insert(
                upload.bucket,
                upload.name,
                upload.fields,
                upload.conditions,
                incoming,
                upload.declared,
            )
        except ApiError:
            self._index.delete_upload(upload.id)
            incoming.discard()
            raise
        finally:
            self._finishing.discard(upload.id)
        self._index.put_upload(upload)
        return upload.object

    def cancel(self, upload: UploadRecord) -> None:
        """It ends, and what has arrived is removed."""
        self._index.delete_upload(upload.id)
        if (task := self._writing.get(upload.id)) is not None:
            task.cancel()
        if upload.object is None:
            self._buckets.contents.incoming(upload.id).discard()

    def _expire(self) -> None:
        for upload in self._index.uploads(started_before=time.time() - _WEEK_SECONDS):
            self.cancel(upload)
