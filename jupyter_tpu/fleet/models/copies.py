"""Copies of files and folders to hosts and from them."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from ...options import option
from .problems import Problem


class CopyFiles(Struct, kw_only=True, forbid_unknown_fields=True):
    """What to copy. Here is the computer that runs Jupyter, or the command.

    Source and destination mean what they mean for `cp -r`: a folder that exists gets the sources,
    another name becomes theirs.
    """

    #: Files and folders. Here: absolute, or with ~. On a host: absolute, or relative to the home
    #: folder.
    sources: Annotated[list[str], Meta(min_length=1)]
    #: "": the home folder of the other side.
    destination: str = ""
    #: From a host to here.
    download: bool = False
    #: One host for a download.
    hosts: Annotated[
        str,
        option(
            "Hosts: 0, 0,2-5, or all. One host sends the files on to the others.", "--worker", "-w"
        ),
    ] = "0"
    overwrite: Annotated[bool, option("Replace files that exist.")] = False


class FileProblem(Struct, kw_only=True):
    """A file that was not copied, and why."""

    path: str
    message: str


class HostCopy(Struct, kw_only=True):
    """What was copied to one host, or from it."""

    host: int
    state: Literal["done", "failed"] = "done"
    #: Of what was sent now.
    files: int = 0
    bytes: int = 0
    #: How many files were there already, with the same size and time.
    unchanged: int = 0
    #: Where the files and folders that were named are now.
    targets: list[str] = []
    #: The first 100 files that were not copied, and how many there are.
    problems: list[FileProblem] = []
    problem_count: int = 0
    #: Why nothing more was copied.
    problem: Problem | None = None


class CopyResult(Struct, kw_only=True):
    """What was asked for, and how it went on each host.

    Where files would be overwritten, the operation fails with EXISTS, nothing was changed, and
    `existing` has the first 100 of them.
    """

    request: CopyFiles
    copies: list[HostCopy] = []
    existing: list[str] = []
    existing_count: int = 0
