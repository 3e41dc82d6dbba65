"""Files and folders of a host as Jupyter's contents API has them, for JupyterLab's file browser.

A small program runs on the host for each request (`on_host.files.requests`). Paths begin at the
root folder, without its slash.
"""

from __future__ import annotations

import base64
import binascii
import json
import mimetypes
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import msgspec
from msgspec import Meta

from ...errors import InvalidInput, Reason, TPUError
from ...files.errors import file_error
from ...links import HostName, Link
from ...on_host.files.requests import LARGEST_FILE_BYTES, MOST_ENTRIES
from ...on_host.packing import program
from ...ssh.host_program import COMMAND
from ...ssh.host_values import Count, InvalidAnswer, Line, Text, Timestamp, Word, decoded
from ...ssh.host_values import checked as checked_answer
from ...ssh.stream import decode_answer
from ..core.core import Core
from ..core.host_numbers import host_number
from ..models import Contents, CreateContents, RenameContents, SaveContents
from .files import PROGRAM, HostFiles

#: Without its first slash. The file browser makes the path of a tab from it.
BrowserPath = Annotated[str, Meta(pattern=r"(?s)\A(?!/|(.*/)?\.\.?(/|\Z))[^\0]{0,4096}\Z")]


class FoundFile(TypedDict):
    """A file or folder of the host."""

    path: BrowserPath
    kind: Literal["file", "directory"]
    size: Count
    created: Timestamp
    modified: Timestamp
    writable: bool
    hash: NotRequired[Word]
    left_out: NotRequired[Count]


FoundFiles = Annotated[list[FoundFile], Meta(max_length=MOST_ENTRIES)]


class ContentsAnswer(TypedDict):
    """What the program on the host says before the content; or an error."""

    size: NotRequired[Annotated[int, Meta(ge=0, le=LARGEST_FILE_BYTES)]]
    model: NotRequired[FoundFile | None]
    home: NotRequired[Line]
    error: NotRequired[Word]  # an errno's name
    message: NotRequired[Text | None]


Format = Literal["json", "text", "base64"]


class HostContents:
    """The files and folders of one host, as the user that we log in as.

    All methods raise INVALID for a path that is not clear, NOT_FOUND, PERMISSION, EXISTS,
    NO_FOLDER, DISK_FULL, and UNREACHABLE where the connection is lost.
    """

    def __init__(self, link: Link) -> None:
        self._link = link

    async def get(
        self,
        path: str,
        *,
        type: str | None = None,
        format: Format | None = None,
        content: bool = True,
        digest: bool = False,
    ) -> Contents:
        """type, format: raise INVALID if it can't be given so. Without a format, a file is text if
        it is UTF-8, else base64.
        """
        answer, data = await self._call("get", path, content=content, digest=digest)
        contents = _contents(answer)
        if type is not None and (type == "directory") != (contents.type == "directory"):
            file = self._named(path)
            folder = contents.type == "directory"
            raise InvalidInput(f"{file} is a folder." if folder else f"{file} is not a folder.")
        if type == "file":
            contents.type = "file"  # a notebook as text, too
        if content:
            self._fill(contents, data, format)
        return contents

    async def save(self, path: str, request: SaveContents) -> Contents:
        """Writes a file in one step, or creates a folder."""
        if request.type == "directory":
            return _contents((await self._call("make_folder", path))[0])
        data = _bytes_of(request)
        more = {} if request.chunk is None else {"chunk": request.chunk}
        return _contents((await self._call("save", path, data, size=len(data), **more))[0])

    async def create(self, folder: str, request: CreateContents) -> Contents:
        if request.copy_from:
            source = checked(request.copy_from)
            return _contents((await self._call("duplicate", folder, source=source))[0])
        if request.ext and (not request.ext.startswith(".") or "/" in request.ext):
            raise InvalidInput(f"{request.ext!r} is not the end of a name, such as .txt.")
        answer, _ = await self._call("create", folder, kind=request.type, extension=request.ext)
        return _contents(answer)

    async def rename(self, path: str, request: RenameContents) -> Contents:
        return _contents((await self._call("move", path, to=checked(request.path)))[0])

    async def delete(self, path: str, *, trash: bool = False) -> None:
        """Deletes a file, or a folder that is empty; *trash*: moves anything to the trash of the
        host's user.
        """
        await self._call("delete", path, trash=trash)

    async def _call(
        self, call: str, path: str, body: bytes = b"", **more: Any
    ) -> tuple[ContentsAnswer, bytes]:
        path = checked(path)
        request = json.dumps({"call": call, "path": path, **more}).encode() + b"\n"
        async with self._link.stream_bulk(COMMAND) as stream:
            await stream.write(program(PROGRAM) + request + body)
            line = decode_answer(await stream.read_line(), stream.errors, self._named(path))
            answer: ContentsAnswer = checked_answer(line, ContentsAnswer, call)
            if "error" in answer:
                raise self._error(answer["error"], answer.get("message") or "", path)
            size = answer.get("size", 0)
            data = bytearray()
            while len(data) < size and (chunk := await stream.read()):
                data += chunk
        if len(data) < size:
            raise TPUError(f"{self._named(path)} ended early.", Reason.INTERRUPTED)
        return answer, bytes(data)

    def _error(self, code: str, message: str, path: str) -> TPUError:
        match code:
            case "EFBIG":
                return InvalidInput(
                    f"{self._named(path)} is larger than 100 MB.",
                    "Download it, or open a part of it.",
                )
            case "ENOTEMPTY":
                return TPUError(
                    f"The folder {self._named(path)} is not empty.",
                    Reason.CONFLICT,
                    "Delete what is in it first.",
                )
        return file_error(code, f"/{path}", message, str(self._link.host))

    def _named(self, path: str) -> str:
        return f"/{path} on {self._link.host}"

    def _fill(self, contents: Contents, data: bytes, format: Format | None) -> None:
        if contents.type == "directory":
            listed = decoded(b'{"files":%b}' % data, "get")["files"]
            models = checked_answer(listed, FoundFiles, "get")
            contents.content = [_model(model) for model in models]
            contents.format = "json"
        elif contents.type == "notebook":
            try:
                contents.content = msgspec.json.decode(data)
            except (ValueError, RecursionError) as error:
                where = self._named(contents.path)
                raise InvalidInput(f"{where} is not a notebook: {error}.") from None
            contents.format = "json"
        else:
            guess = mimetypes.guess_type(contents.name)[0]
            if format != "base64":
                try:
                    contents.content = data.decode()
                    contents.format, contents.mimetype = "text", guess or "text/plain"
                    return
                except UnicodeDecodeError:
                    if format == "text":
                        where = self._named(contents.path)
                        raise InvalidInput(f"{where} is not UTF-8 text.") from None
            contents.content = base64.b64encode(data).decode()
            contents.format, contents.mimetype = "base64", guess or "application/octet-stream"


def checked(path: str) -> str:
    """*path* without slashes around it; raises INVALID for one that is not clear."""
    path = path.strip("/")
    parts = path.split("/") if path else []
    if "\0" in path or not all(parts) or {".", ".."} & set(parts):
        raise InvalidInput(
            f"{path!r} is not a path.", "A path begins at the root folder. It has no . or .. in it."
        )
    return path


def _bytes_of(request: SaveContents) -> bytes:
    if request.type == "notebook":
        return (json.dumps(request.content, ensure_ascii=False, indent=1) + "\n").encode()
    if not isinstance(request.content, str):
        raise InvalidInput("The content of a file must be a string.")
    if request.format == "base64":
        try:
            return base64.b64decode(request.content, validate=True)
        except binascii.Error:
            raise InvalidInput("The content is not base64.") from None
    return request.content.encode()


def _model(file: FoundFile) -> Contents:
    path = file["path"]
    is_file = file["kind"] == "file"
    return Contents(
        name=path.rpartition("/")[2],
        path=path,
        type="directory" if not is_file else "notebook" if path.endswith(".ipynb") else "file",
        writable=file["writable"],
        created=_time(file["created"]),
        last_modified=_time(file["modified"]),
        size=file["size"] if is_file else None,
        hash=file.get("hash"),
        hash_algorithm="sha256" if "hash" in file else None,
        left_out=file.get("left_out", 0),
    )


def _contents(answer: ContentsAnswer) -> Contents:
    model = answer.get("model")
    if model is None:
        raise InvalidAnswer("file", "Object missing required field `model`")
    contents = _model(model)
    contents.home = answer.get("home", "")
    return contents


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


class FileAccess:
    """Files of hosts of READY TPUs. Both methods raise NOT_FOUND for a host that does not exist."""

    def __init__(self, core: Core) -> None:
        self._finder = core.finder
        self._connections = core.connections

    async def on_host(self, ref: str, host: str) -> HostFiles:
        """The files of a host, by its number."""
        return HostFiles(await self._link(ref, host))

    async def contents(self, ref: str, host: str) -> HostContents:
        """As :meth:`on_host`, for a file browser."""
        return HostContents(await self._link(ref, host))

    async def _link(self, ref: str, host: str) -> Link:
        node = await self._finder.find_ready(ref)
        number = host_number(host, len(node.endpoints), node.name.node)
        return self._connections.link(HostName(node.name, number))
