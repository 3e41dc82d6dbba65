"""The project folder on this machine."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ...errors import InvalidInput, Reason, TPUError
from ...on_host.files.changes import known_of, receive_contents
from ...on_host.files.messages import TransferFailure, TransferPeer
from ...on_host.files.tree import HashCache, TooLarge, TreeEntry, entries, look_up, walk
from ...ssh.host_values import InvalidAnswer
from ...wording import size_text
from ..errors import file_error
from ..exchange import TransferStream, exchange
from .bases import Bases, Hashes
from .ignore import ProjectRules

Tree = dict[str, TreeEntry]
#: Folders that an error names.
_NAMED_FOLDERS = 3


class LocalProject:
    """The folder *path*. Its methods block: call them in a thread.

    limits: bytes of one file, bytes of all, and files, that are synced at most. for_agent: as for
    `ProjectRules`. tree, skipped: as they were read last.
    """

    def __init__(
        self,
        path: Path,
        bases: Bases,
        limits: tuple[int, int, int],
        *,
        for_agent: bool = False,
    ) -> None:
        self.path = path
        self.limits = limits
        self.rules = ProjectRules(path, for_agent=for_agent)
        self.tree: Tree = {}
        self.skipped: list[list] = []
        self._bases = bases
        self._for_agent = for_agent
        self._cache = HashCache(bases.load(Hashes, str(path)).known)

    def unread(self) -> LocalProject:
        """The same folder, of which nothing was read yet."""
        return LocalProject(self.path, self._bases, self.limits, for_agent=self._for_agent)

    def read(self) -> tuple[Tree, list[list]]:
        """What is to be synced, and [path, size, reason] of what is not.

        Raises NO_FOLDER, and INVALID where it is more than the limits.
        """
        stat_results, self.skipped = self.find()
        self.tree = entries(str(self.path), stat_results, self._cache, self.skipped)
        self._save()
        return self.tree, self.skipped

    def find(self) -> tuple[dict[str, os.stat_result], list[list]]:
        """As :meth:`read`, without reading the files: {path: lstat}, and what is skipped."""
        if not self.path.is_dir():
            raise no_folder(self.path)
        try:
            return walk(str(self.path), self.rules, self.limits, self.rules.read)
        except TooLarge as large:
            raise too_large(str(self.path), large.args, self.limits) from None
        except OSError as error:
            raise TPUError(f"{self.path}: {error.strerror}.", Reason.PERMISSION) from None

    def read_rules(self) -> None:
        """Reads what is left out of a folder that may be missing, or larger than the limits."""
        if self.path.is_dir():
            limits = (math.inf,) * 3
            _, self.skipped = walk(str(self.path), self.rules, limits, self.rules.read)

    def leaves_out(self, path: str) -> bool:
        """Whether a file that a host has does not come here, or is not deleted here."""
        return self.rules.leaves_out(path) or is_skipped(self.skipped, path)

    def look_up(self, paths: Iterable[str]) -> Tree:
        tree = look_up(str(self.path), paths, self._cache)
        self._save()
        return tree

    def exists(self, path: str) -> bool:
        return os.path.lexists(self.path / path)

    def known(self, changes: list[dict]) -> dict[str, Any]:
        """What is here of large files that a host is to send."""
        return known_of(str(self.path), changes)

    async def receive(
        self, stream: TransferStream, changes: list[dict], report: Callable[[int], None]
    ) -> list[str | None]:
        """Carries out *changes* with the contents that a host sends: for each why it was not, or
        None. Raises TPUError.
        """

        def work(peer: TransferPeer) -> list[str | None]:
            self.path.mkdir(parents=True, exist_ok=True)
            memory = self._bases.file("begun", str(self.path))
            results = [*receive_contents(peer, str(self.path), changes, memory, report)]
            peer.receive_end()
            return results

        try:
            return await exchange(stream, work)
        except TransferFailure as error:
            if error.code == "LOST":
                text = "The transfer ended early."
                raise TPUError(text, Reason.INTERRUPTED, "Sync again.") from None
            if error.code == "PROTOCOL":
                raise InvalidAnswer("files", error.message) from None
            raise file_error(error.code, error.path, error.message, "this computer") from None

    def _save(self) -> None:
        with contextlib.suppress(TPUError):  # it is only quicker with it
            self._bases.save(Hashes(self._cache.fresh), str(self.path))


def is_skipped(skipped: list[list], path: str) -> bool:
    return any(
        path == skipped_path or (skipped_path[-1:] == "/" and path.startswith(skipped_path))
        for skipped_path, *_ in skipped
    )


def no_folder(path: Path) -> TPUError:
    return TPUError(
        f"The folder {path} does not exist on this computer.", Reason.NO_FOLDER, "Check its path."
    )


def too_large(folder: str, totals: Any, limits: tuple[int, int, int]) -> TPUError:
    """totals: what `TooLarge` says."""
    count, size, shares = totals
    largest = sorted(shares.items(), key=lambda share: -share[1])[:_NAMED_FOLDERS]
    named = ", ".join(f"{name} ({size_text(share)})" for name, share in largest)
    what = f"more than {limits[2]} files" if count > limits[2] else f"{size_text(size)} or more"
    return InvalidInput(
        f"{folder} is too large to sync: it has {what}. The largest in it: {named}.",
        "Add what is not needed to .gitignore, sync a smaller folder, or raise the limit.",
    )
