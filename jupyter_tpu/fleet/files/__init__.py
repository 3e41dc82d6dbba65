"""Files between this computer and hosts: copy, sync, browse, mirror, and folders that a pod shares.

What is there already is not sent again, so either can be interrupted and repeated.
"""

from __future__ import annotations

from ...paths import data_dir
from ..core.core import Core
from ..core.view import TPUFacts
from .contents import FileAccess
from .copies import CopyService
from .shares import ShareService
from .sync import MirroredProjects, SyncService


class Files:
    def __init__(self, core: Core) -> None:
        self.access = FileAccess(core.finder, core.connections)
        self.copies = CopyService(core)
        self.sync = SyncService(core, data_dir() / "sync")
        self.shares = ShareService(core)
        self._mirrored = MirroredProjects(core.connections, core.changes.mark_tpu_changed)
        core.ending.callback(self._mirrored.close)
        core.tpus.register(self._describe)

    def _describe(self, facts: TPUFacts) -> None:
        facts.projects = self._mirrored.on(facts.name)
        if facts.seen:
            facts.shares = self.shares.last_known(facts.node)
