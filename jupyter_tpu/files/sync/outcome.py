"""What a sync is asked for, of which hosts, and how it went."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct, field

from ...errors import TPUError
from ...on_host.files.tree import TreeEntry
from .plan import Conflict
from .remote import StreamingHost


class SyncOptions(Struct, frozen=True, kw_only=True):
    """delete, overwrite: see `make_plan`. only: the files and folders that it is about; all if
    none. dry_run: only compare.
    """

    delete: bool = False
    overwrite: bool = False
    only: tuple[str, ...] = ()
    dry_run: bool = False

    def includes(self, path: str) -> bool:
        return not self.only or any(
            path == chosen or path.startswith(f"{chosen}/") for chosen in self.only
        )


class HostOutcome(Struct, kw_only=True):
    """How it went between this machine and one host.

    root: the folder there, absolute; "" if it is not known. written, deleted: paths; what would be
    in a dry run. size: bytes of the files that were written. transferred: bytes that crossed the
    line. conflicts: with what this machine and the host have, None if nothing. newer: paths that
    only the target has changed. refused: paths that were not copied, and why. problem: why it ended
    early.
    """

    host: int
    root: str = ""
    written: list[str] = []
    deleted: list[str] = []
    size: int = 0
    transferred: int = 0
    conflicts: list[tuple[Conflict, TreeEntry | None, TreeEntry | None]] = []
    newer: list[str] = []
    refused: list[tuple[str, str]] = []
    problem: TPUError | None = field(default=None)


class SyncOutcome(Struct, kw_only=True):
    """hosts: of each. skipped: [path, bytes, why] of what is never copied. files: how many the
    source has.
    """

    hosts: list[HostOutcome]
    skipped: list[list] = []
    files: int = 0


class MirrorHost(StreamingHost, Protocol):
    """A host whose folder may follow a project; ``links.Link`` is one."""

    @property
    def problem(self) -> TPUError | None:
        """Why it can't be reached now."""

    @property
    def host_id(self) -> str:
        """Text that identifies the host among those of all clouds."""

    @property
    def node_id(self) -> str:
        """The node's id of the TPU that it was last connected to."""

    def others(self) -> Sequence[MirrorHost]:
        """The other hosts of its TPU, as far as they are known."""
