"""`Files`: files of this machine and of hosts, copied, kept in sync and shared."""

from __future__ import annotations

from ...paths import data_dir
from ..core.core import Core
from ..core.view import TPUFacts
from .contents import FileAccess
from .copies import CopyService
from .shares import ShareService
from .sync import SyncService


class Files:
    def __init__(self, core: Core) -> None:
        self.access = FileAccess(core.finder, core.connections)
        self.copies = CopyService(core)
        self.sync = SyncService(core, data_dir() / "sync")
        self.shares = ShareService(core)
        core.tpus.register(self._describe)

    def _describe(self, facts: TPUFacts) -> None:
        if facts.seen:
            facts.shares = self.shares.last_known(facts.node)
