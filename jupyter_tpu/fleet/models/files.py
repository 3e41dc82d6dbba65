"""Files on hosts."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct


class HostFile(Struct, kw_only=True):
    """A file on a host."""

    path: str  # relative to the home folder, or absolute
    size: int  # bytes


class Contents(Struct, kw_only=True):
    """A file or folder on a host, as Jupyter's contents API has it."""

    name: str
    path: str  # from the root folder, without its slash
    type: Literal["directory", "file", "notebook"]
    writable: bool
    created: str  # RFC 3339
    last_modified: str
    size: int | None = None  # bytes
    mimetype: str | None = None
    #: A folder's files and folders; a notebook; a file's text or base64. None if not asked for.
    content: Any = None
    format: Literal["json", "text", "base64"] | None = None
    hash: str | None = None  # hexadecimal
    hash_algorithm: Literal["sha256"] | None = None
    #: How many of a large folder's files are not in the content.
    left_out: int = 0
    #: The home folder's path.
    home: str = ""


class SaveContents(Struct, kw_only=True):
    """What is saved. With `chunk`, a part of a file: 1, 2, … and -1 for the last one."""

    type: Literal["directory", "file", "notebook"] = "file"
    format: Literal["json", "text", "base64"] | None = None
    content: Any = None
    chunk: int | None = None


class CreateContents(Struct, kw_only=True):
    """A new file or folder in a folder, which gets a free name; or a copy of a file."""

    type: Literal["directory", "file", "notebook"] = "file"
    ext: str = ""
    copy_from: str = ""


class RenameContents(Struct, kw_only=True):
    """The new path."""

    path: str
