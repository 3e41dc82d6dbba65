"""Project folders that are kept the same here and on hosts."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from ...options import option
from .problems import Problem

#: How many paths of a kind a result lists; `SyncCounts` has all.
LISTED = 200

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
