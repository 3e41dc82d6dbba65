"""Files and folders of a host as Jupyter's contents API has them, for JupyterLab's file browser.

A small program runs on the host for each request (`contents_on_host`). Paths begin at the root
folder, without its slash.
"""

from __future__ import annotations

import base64
import binascii
import json
import mimetypes
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from ...bounds import Unexpected, convert, decode
from ...environment.host_program import COMMAND, program
from ...errors import InvalidInput, Reason, TPUError
from ...links import Link
from ...ssh.stream import decode_answer
from ..models import Contents, CreateContents, RenameContents, SaveContents
from .contents_on_host import LISTED, OPENED
from .files import Size, file_error

_MODULE = "contents_on_host"
Format = Literal["json", "text", "base64"]
#: Seconds since 1970 that a date can have.
_Seconds = Annotated[float, Meta(ge=-62135596800, le=253402300799)]


class _Found(Struct):
    """What `contents_on_host` says of a file or folder."""

    path: Annotated[str, Meta(max_length=4096)]
    kind: Literal["directory", "file"]
    size: Size
    created: _Seconds
    modified: _Seconds
    writable: bool
    hash: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")] | None = None
    left_out: Size = 0


class _Answer(Struct):
    """The first line of its answer; *size* bytes follow."""

    model: Any = None
    size: Annotated[int, Meta(ge=0, le=OPENED)] = 0
    home: str = ""
    error: str | None = None  # errno's name
    message: str | None = None


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
        found = self._contents(answer)
        if type is not None and (type == "directory") != (found.type == "directory"):
            what = "a folder" if found.type == "directory" else "not a folder"
            raise InvalidInput(f"{self._named(path)} is {what}.")
        if type == "file":
            found.type = "file"  # a notebook as text, too
        if content:
            self._fill(found, data, format)
        return found

    async def save(self, path: str, wanted: SaveContents) -> Contents:
        """Writes a file in one step, or creates a folder."""
        if wanted.type == "directory":
            return self._contents((await self._call("make_folder", path))[0])
        data = _bytes_of(wanted)
        more = {} if wanted.chunk is None else {"chunk": wanted.chunk}
        return self._contents((await self._call("save", path, data, size=len(data), **more))[0])

    async def create(self, folder: str, wanted: CreateContents) -> Contents:
        if wanted.copy_from:
            source = checked(wanted.copy_from)
            return self._contents((await self._call("duplicate", folder, source=source))[0])
        if wanted.ext and (not wanted.ext.startswith(".") or "/" in wanted.ext):
            raise InvalidInput(f"{wanted.ext!r} is not the end of a name, such as .txt.")
        answer, _ = await self._call("create", folder, kind=wanted.type, extension=wanted.ext)
        return self._contents(answer)

    async def rename(self, path: str, wanted: RenameContents) -> Contents:
        return self._contents((await self._call("move", path, to=checked(wanted.path)))[0])

    async def delete(self, path: str, *, trash: bool = False) -> None:
        """Deletes a file, or a folder that is empty; *trash*: moves anything to the trash of the
        host's user.
        """
        await self._call("delete", path, trash=trash)

    async def _call(
        self, call: str, path: str, body: bytes = b"", **more: Any
    ) -> tuple[_Answer, bytes]:
        path = checked(path)
        request = json.dumps({"call": call, "path": path, **more}).encode() + b"\n"
        async with self._link.stream_bulk(COMMAND) as stream:
            await stream.write(_program() + request + body)
            line = decode_answer(await stream.read_line(), stream.errors, self._named(path))
            answer: _Answer = convert(line, _Answer, str(self._link.host))
            if answer.error is not None:
                raise self._error(answer.error, answer.message or "", path)
            data = bytearray()
            while len(data) < answer.size and (chunk := await stream.read()):
                data += chunk
        if len(data) < answer.size:
            raise TPUError(f"{self._named(path)} ended early.", Reason.INTERRUPTED)
        return answer, bytes(data)

    def _contents(self, answer: _Answer) -> Contents:
        found = _model(convert(answer.model, _Found, str(self._link.host)))
        found.home = answer.home
        return found

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
        return file_error(code, message, f"/{path}", str(self._link.host))

    def _named(self, path: str) -> str:
        return f"/{path} on {self._link.host}"

    def _fill(self, found: Contents, data: bytes, format: Format | None) -> None:
        if found.type == "directory":
            listed: list[_Found] = decode(data, list[_Found], str(self._link.host))
            if len(listed) > LISTED:
                raise Unexpected(str(self._link.host), f"more than {LISTED} files of a folder")
            found.content = [_model(each) for each in listed]
            found.format = "json"
        elif found.type == "notebook":
            try:
                found.content = msgspec.json.decode(data)
            except (ValueError, RecursionError) as error:
                where = self._named(found.path)
                raise InvalidInput(f"{where} is not a notebook: {error}.") from None
            found.format = "json"
        else:
            guess = mimetypes.guess_type(found.name)[0]
            if format != "base64":
                try:
                    found.content = data.decode()
                    found.format, found.mimetype = "text", guess or "text/plain"
                    return
                except UnicodeDecodeError:
                    if format == "text":
                        where = self._named(found.path)
                        raise InvalidInput(f"{where} is not UTF-8 text.") from None
            found.content = base64.b64encode(data).decode()
            found.format, found.mimetype = "base64", guess or "application/octet-stream"


def checked(path: str) -> str:
    """*path* without slashes around it; raises INVALID for one that is not clear."""
    path = path.strip("/")
    parts = path.split("/") if path else []
    if "\0" in path or not all(parts) or {".", ".."} & set(parts):
        raise InvalidInput(
            f"{path!r} is not a path.", "A path begins at the root folder. It has no . or .. in it."
        )
    return path


def _bytes_of(wanted: SaveContents) -> bytes:
    if wanted.type == "notebook":
        return (json.dumps(wanted.content, ensure_ascii=False, indent=1) + "\n").encode()
    if not isinstance(wanted.content, str):
        raise InvalidInput("The content of a file must be a string.")
    if wanted.format == "base64":
        try:
            return base64.b64decode(wanted.content, validate=True)
        except binascii.Error:
            raise InvalidInput("The content is not base64.") from None
    return wanted.content.encode()


def _model(found: _Found) -> Contents:
    is_file = found.kind == "file"
    return Contents(
        name=found.path.rpartition("/")[2],
        path=found.path,
        type="directory" if not is_file else _file_type(found.path),
        writable=found.writable,
        created=_time(found.created),
        last_modified=_time(found.modified),
        size=found.size if is_file else None,
        hash=found.hash,
        hash_algorithm="sha256" if found.hash else None,
        left_out=found.left_out,
    )


def _file_type(path: str) -> Literal["notebook", "file"]:
    return "notebook" if path.endswith(".ipynb") else "file"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


@cache
def _program() -> bytes:
    return program([(_MODULE, files(__package__).joinpath(f"{_MODULE}.py"))])
