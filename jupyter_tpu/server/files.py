"""Files of hosts: what a file is, download and upload. Nothing is kept in memory or on a disk here.

The content goes over the core thread, where the link is, and is paused there while the other side
is slow.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import msgspec
from jupyter_server.auth.decorator import authorized
from jupyter_server.utils import ensure_async
from tornado import web
from tornado.iostream import StreamClosedError

from ..errors import InvalidInput, TPUError
from ..fleet.models import Problem
from ..links import core_thread
from .fleet_handle import FleetHandle
from .handlers import StreamingHandler, boolean
from .languages import encoded
from .routes import FILE, ROOT
from .status import STATUS

if TYPE_CHECKING:
    from ..fleet.files.files import HostFiles
    from ..fleet.models import HostFile

#: Where they are, without the base URL.
PATTERN = f"/{ROOT}/" + FILE.path.format(tpu="([^/]+)", host="([^/]+)")
CONTENT_PATTERN = PATTERN + "/content"


class FileHandler(StreamingHandler):
    """What a file is. Files can have secrets, so the caller needs permission for Jupyter's own."""

    def initialize(self, fleet: FleetHandle) -> None:
        self._fleet = fleet

    @web.authenticated
    @authorized
    async def get(self, tpu: str, host: str) -> None:
        await self.check_contents("read")
        try:
            path = self.raw_query("path")
            host_file = await core_thread().call(self._describe(path))
        except TPUError as error:
            self.write_problem(error)
            return
        self.finish(msgspec.json.encode(host_file))

    async def _describe(self, path: str) -> HostFile:
        return await (await self.host_files()).describe(path)

    async def check_contents(self, action: str) -> None:
        allowed: Any = self.authorizer.is_authorized(self, self.current_user, action, "contents")
        if not await ensure_async(allowed):
            raise web.HTTPError(403, f"Files of a host need permission to {action} contents.")

    def raw_query(self, name: str) -> str:
        """A value of the query as it is: Tornado's own methods strip it and replace characters."""
        values = self.request.query_arguments.get(name, [b""])
        try:
            return values[-1].decode()
        except UnicodeDecodeError:
            raise InvalidInput(f"{name} is not UTF-8.") from None

    async def host_files(self) -> HostFiles:
        """On the core thread."""
        tpu, host = map(unquote, self.path_args)
        return await self._fleet.call("files.on_host", tpu, host)


@web.stream_request_body
class ContentHandler(FileHandler):
    """A file's content. All is checked before the first byte of a body is read."""

    def initialize(self, fleet: FleetHandle) -> None:
        super().initialize(fleet)
        self._body: asyncio.Queue[bytes] = asyncio.Queue(4)  # on the core thread; b"" ends it
        self._transfer: asyncio.Future[Any] | None = None

    async def prepare(self) -> None:  # type: ignore[override]
        await super().prepare()
        if self.request.method == "PUT" and not self._finished:
            await ensure_async(self._begin_upload())

    @web.authenticated
    @authorized("write")
    async def _begin_upload(self) -> None:
        await self.check_contents("write")
        length = self.request.headers.get("Content-Length", "")
        if re.fullmatch("[0-9]{1,19}", length) is None:
            raise web.HTTPError(400, "An upload needs a Content-Length.")
        connection: Any = self.request.connection
        connection.set_max_body_size(sys.maxsize)
        self._transfer = asyncio.ensure_future(self._answer_upload(int(length)))

    async def data_received(self, chunk: bytes) -> None:
        """Passes it on. What a refused upload still sends is read and dropped: a browser that can't
        send it would not see the answer.
        """
        if self._transfer is not None and not self._transfer.done():
            put = asyncio.ensure_future(core_thread().call(self._body.put(chunk)))
            await asyncio.wait([put, self._transfer], return_when=asyncio.FIRST_COMPLETED)
            put.cancel()

    def on_connection_close(self) -> None:
        super().on_connection_close()
        if self._transfer is not None:
            self._transfer.cancel()

    async def put(self, *_: str) -> None:
        await self.data_received(b"")
        assert self._transfer is not None
        await self._transfer
        self.finish()

    async def _answer_upload(self, size: int) -> None:
        """Uploads, and answers at once, also if not all was sent."""
        answer: HostFile | Problem
        try:
            answer = await core_thread().call(self._upload(size))
            self.set_status(201)
        except TPUError as error:
            answer = Problem.of(error)
            self.set_status(STATUS.get(error.reason, 500))
        data = encoded(answer, self.language)
        self.set_header("Content-Type", "application/json")
        self.set_header("Content-Length", str(len(data)))
        self.write(data)
        await self.flush()

    @web.authenticated
    @authorized
    async def get(self, tpu: str, host: str) -> None:
        await self.check_contents("read")
        self._transfer = asyncio.ensure_future(core_thread().call(self._download()))
        await asyncio.wait([self._transfer])
        if self._transfer.cancelled():  # the browser is gone
            self._auto_finish = False
            return
        try:
            self._transfer.result()
        except StreamClosedError:
            self._auto_finish = False
        except TPUError as error:
            if not self._headers_written:
                self.write_problem(error)
                return
            # It must not look complete.
            self.log.warning("TPUs: %s", error)
            self.detach().close()

    # ---- on the core thread ----

    async def _upload(self, size: int) -> HostFile:
        overwrite = boolean(self.raw_query("overwrite") or "false")
        if not isinstance(overwrite, bool):
            raise InvalidInput("overwrite must be true or false.")
        files = await self.host_files()
        return await files.upload(self.raw_query("path"), size, self._chunks(), overwrite=overwrite)

    async def _chunks(self) -> AsyncIterator[bytes]:
        while chunk := await self._body.get():
            yield chunk

    async def _download(self) -> None:
        files = await self.host_files()
        async with files.download(self.raw_query("path")) as (file, content):
            await self.on_server_loop(self._write_head(file))
            async for chunk in content:
                await self.on_server_loop(self.write_chunk(chunk))

    # ---- on the server's loop ----

    async def _write_head(self, file: HostFile) -> None:
        name = quote(file.path.rpartition("/")[2], safe="")
        self._transforms = []  # not compressed: its length is said
        self.set_header("Content-Type", "application/octet-stream")
        self.set_header("Content-Length", str(file.size))
        self.set_header("Content-Disposition", f"attachment; filename*=UTF-8''{name}")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Cache-Control", "no-store")
        await self.flush()
