"""Files of hosts: their contents, copies, shared folders and synced projects."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from ...files.copy import HostCopy
from ...options import option
from .core import Problem


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
    make_folder: Annotated[
        bool,
        option("Create the folder of the destination if it is missing.", "--parents", "-p"),
    ] = False
    #: Set by the server for coding agents: what is not in this folder, hidden files and credentials
    #: are left out. "": for people.
    agents_folder: str = ""


class CopyResult(Struct, kw_only=True):
    """What was asked for, and how it went on each host.

    Where files would be overwritten, the operation fails with EXISTS, nothing was changed, and
    `existing` has the first 100 of them.
    """

    request: CopyFiles
    copies: list[HostCopy] = []
    existing: list[str] = []
    existing_count: int = 0


class ShareFolder(Struct, kw_only=True, forbid_unknown_fields=True):
    """A folder of host 0 that the other hosts get, at the same path."""

    #: Absolute, or relative to the home folder. It is created if it does not exist.
    folder: str = "shared"
    tpus: Annotated[
        list[str],
        option("Share it with these TPUs of the zone, too.", "--with", metavar="OTHER..."),
    ] = []
    remove: Annotated[
        bool,
        option(
            "Stop sharing the folder with the other hosts, or (--with) with the hosts of OTHER. "
            "Its files stay on host 0."
        ),
    ] = False
    #: Change nothing; the result says what would be done.
    dry_run: Annotated[bool, option("Only show what would be done on each host.")] = False


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


#: How many paths of a kind a result lists; `SyncCounts` has all.
LISTED_PATHS = 200

Megabytes = Annotated[float, Meta(gt=0)]


class SyncProject(Struct, kw_only=True, forbid_unknown_fields=True):
    """What to sync. Here is the computer that runs Jupyter, or the command."""

    #: The folder here, absolute or with ~.
    folder: str
    remote: Annotated[
        str,
        option(
            "The folder on the TPU, absolute or relative to the home folder.",
            "--to",
            metavar="DIR",
            default="the local folder's name",
        ),
    ] = ""
    pull: Annotated[bool, option("Copy from the TPU to here.")] = False
    host: Annotated[int, option("Number of the host to copy from.", "--worker", metavar="N")] = 0
    delete: Annotated[
        bool,
        option(
            "When copying from the TPU: also delete what was deleted there. To the TPU: also if "
            "the local folder is empty."
        ),
    ] = False
    overwrite: Annotated[bool, option("Also replace files that were changed in the target.")] = (
        False
    )
    #: Relative to the folder.
    only: Annotated[
        list[str], option("Only these files and folders in it.", metavar="PATH...")
    ] = []
    dry_run: Annotated[bool, option("Only show what would be copied.")] = False
    #: It ends when the operation is cancelled.
    watch: Annotated[
        bool, option("Continue, and copy each change.", typing_hint="Ctrl-C ends it.")
    ] = False
    max_file: Annotated[Megabytes, option("Leave out files larger than this.", unit="MB")] = 100.0
    max_total: Annotated[Megabytes, option("Refuse folders larger than this.", unit="MB")] = 1000.0
    #: Set by the server for coding agents: what is not in this folder, hidden files and credentials
    #: are left out. "": for people.
    agents_folder: str = ""


class SyncConflict(Struct, kw_only=True):
    """A file that was not copied, because the target's version would be lost unseen.

    `changed` on both sides since the last sync; `different`, and they never were the same;
    `deleted` in the source, and changed in the target. Times are of the last change, "" where the
    file does not exist.
    """

    path: str
    kind: Literal["changed", "different", "deleted"]
    here: str
    there: str
    hosts: list[int]


class NotCopied(Struct, kw_only=True):
    """A file or folder that was left out, and why."""

    path: str
    #: bytes
    size: int
    why: str
    #: The hosts where it could not be copied; []: it is left out everywhere.
    hosts: list[int] = []


class HostSync(Struct, kw_only=True):
    """What was copied to or from one host."""

    host: int
    #: Files that were written, and deleted.
    written: int = 0
    deleted: int = 0
    #: Bytes of these files, and those that crossed the line.
    size: int = 0
    transferred: int = 0
    #: Why it ended early.
    problem: Problem | None = None


class SyncCounts(Struct, kw_only=True):
    """How many paths there are of each kind, over all hosts."""

    files: int = 0
    written: int = 0
    deleted: int = 0
    conflicts: int = 0
    newer: int = 0
    not_copied: int = 0


class SyncResult(Struct, kw_only=True):
    """How a sync went, or its last round. Lists have at most 200 entries."""

    folder: str
    remote: str
    pull: bool
    dry_run: bool
    hosts: list[HostSync]
    counts: SyncCounts
    #: Paths that were written and deleted; in a dry run those that would be.
    written: list[str] = []
    deleted: list[str] = []
    conflicts: list[SyncConflict] = []
    #: Paths that only the target has, or has changed. They stay.
    newer: list[str] = []
    not_copied: list[NotCopied] = []
    #: With `watch`: how often something was copied.
    rounds: int = 0
    ended: str = ""


class MirroredProject(Struct, kw_only=True):
    """The project of notebooks whose kernels run on a host, which gets what is changed here, and
    then the other hosts of its TPU.
    """

    #: The folder here, and on the hosts.
    folder: str
    remote: str
    host: int
    #: Whether the kernels' host has what is here now.
    state: Literal["copying", "current", "failed"]
    problem: Problem | None = None
    #: The last comparison with each host, without the paths that were copied; null before the
    #: first. A host that could not get the project has a problem in it.
    result: SyncResult | None = None
