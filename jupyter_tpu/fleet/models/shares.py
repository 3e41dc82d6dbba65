"""Folders that hosts of TPUs share over NFS."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from .problems import Problem


class ShareFolder(Struct, kw_only=True, forbid_unknown_fields=True):
    """A folder of host 0 that the other hosts get, at the same path."""

    #: Absolute, or relative to the home folder. It is created if it does not exist.
    folder: str = "shared"
    #: Other TPUs of the zone, whose hosts get it, too.
    tpus: list[str] = []
    #: Take it from the hosts again: from all, or those of `tpus`. The files stay on host 0.
    remove: bool = False
    #: Change nothing; the result says what would be done.
    dry_run: bool = False


class ShareStep(Struct, kw_only=True):
    """One thing that is done on a host, as root where that is needed."""

    #: A command, or which file is written.
    text: str
    #: What is written.
    content: str = ""


class HostShare(Struct, kw_only=True):
    """What was done on one host, or would be."""

    tpu: str
    host: int
    #: "server" has the folder on its disk.
    role: Literal["server", "client"]
    state: Literal["planned", "done", "failed"] = "planned"
    steps: list[ShareStep] = []
    problem: Problem | None = None


class ShareResult(Struct, kw_only=True):
    """How sharing a folder went, or what it would do."""

    request: ShareFolder
    #: The folder, absolute.
    path: str
    hosts: list[HostShare] = []


class SharingState(Struct, kw_only=True):
    """A shared folder on one host, as that says now."""

    tpu: str
    host: int
    role: Literal["server", "client"]
    #: Whether the folder can be used there.
    mounted: bool
    problem: str = ""


class SharedFolder(Struct, kw_only=True):
    """A folder that hosts share."""

    path: str
    #: Whose host 0 has it on its disk.
    tpu: str
    hosts: list[SharingState]


class SharedFolders(Struct, kw_only=True):
    """The shared folders of a TPU."""

    folders: list[SharedFolder]
    #: A sentence for each host that could not be asked.
    problems: list[str] = []
    #: When its hosts were asked, RFC 3339.
    time: str = ""
