"""Files and folders of hosts over Jupyter's contents protocol, for JupyterLab's file browser."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import msgspec
from jupyter_server.auth.decorator import authorized
from tornado import web

from ..errors import InvalidInput, TPUError
from ..fleet.models import Contents, CreateContents, RenameContents, SaveContents
from ..fleet.models.core import parse_request
from ..links import core_thread
from .files import FileHandler
from .routes import CONTENTS_PATH, ROOT

if TYPE_CHECKING:
    from ..fleet.files.contents import HostContents

#: Where they are, without the base URL.
PATTERN = f"/{ROOT}/" + CONTENTS_PATH.format(tpu="([^/]+)", host="([^/]+)", path="(.*)").replace(
    "/(.*)", "(?:/(.*))?"
)
_FORMATS = {"json", "text", "base64"}


class ContentsHandler(FileHandler):
    """A path on a host. Files can have secrets, so permission for Jupyter's own is needed."""

    @web.authenticated
    @authorized
    async def get(self, *_: str) -> None:
        await self.check_contents("read")
        type, format = self._query("type"), self._query("format")
        content, digest = self._query("content"), self._query("hash")
        if format not in {None, *_FORMATS}:
            return self.write_problem(InvalidInput(f"{format!r} is not json, text or base64."))
        await self._answer(
            lambda files, path: files.get(
                path,
                type=type,
                format=format,  # type: ignore[arg-type]
                content=content != "0",
                digest=digest == "1",
            )
        )

    @web.authenticated
    @authorized
    async def post(self, *_: str) -> None:
        await self._change(CreateContents, lambda files: files.create, 201)

    @web.authenticated
    @authorized
    async def put(self, *_: str) -> None:
        await self._change(SaveContents, lambda files: files.save)

    @web.authenticated
    @authorized
    async def patch(self, *_: str) -> None:
        await self._change(RenameContents, lambda files: files.rename)

    @web.authenticated
    @authorized
    async def delete(self, *_: str) -> None:
        await self.check_contents("write")
        # As for files of this computer; JupyterLab asks for the one or the other.
        trash = bool(getattr(self.settings["contents_manager"], "delete_to_trash", False))
        await self._answer(lambda files, path: files.delete(path, trash=trash), 204)

    def _query(self, name: str) -> str | None:
        return self.get_query_argument(name, None)

    async def _change(
        self,
        model: type[msgspec.Struct],
        method: Callable[[HostContents], Callable[[str, Any], Awaitable[Contents]]],
        status: int = 200,
    ) -> None:
        await self.check_contents("write")
        try:
            request = parse_request(model, self.request.body)
        except TPUError as error:
            return self.write_problem(error)
        await self._answer(lambda files, path: method(files)(path, request), status)

    async def _answer(
        self,
        call: Callable[[HostContents, str], Awaitable[Contents | None]],
        status: int = 200,
    ) -> None:
        async def on_core_thread() -> Contents | None:
            tpu, host, path = (unquote(part or "") for part in self.path_args)
            files: HostContents = await self._fleet.call("files.contents", tpu, host)
            return await call(files, path)

        try:
            contents = await core_thread().call(on_core_thread())
        except TPUError as error:
            return self.write_problem(error)
        self.set_status(status)
        if contents is None:
            self.finish()
        else:
            self.finish(msgspec.json.encode(contents))
