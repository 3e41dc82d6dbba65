"""Home folders are saved before their TPU is stopped or deleted, within the time of sessions."""

from __future__ import annotations

import time

from ...cloud import NodeName
from ...errors import Reason, TPUError
from ...progress import StepPlan
from ..core.core import Core
from ..core.known_operations import OperationProgress
from ..core.operation_records import FinalSave
from ..models import BeforeEnd
from ..models.consequences import Act
from ..models.sessions import SAVE_SECONDS
from .hosts import HomeHosts, require
from .index import HomeIndex
from .service import outcome_lines

SAVE_HOME_STEP = StepPlan("home", "Save the home folders", 2)
_ENDS = ("stop", "delete", "replace")


class HomesBeforeEnd:
    def __init__(self, core: Core, index: HomeIndex, hosts: HomeHosts) -> None:
        self._observer = core.observer
        self._observed = core.observed
        self._index = index
        self._hosts = hosts

    def plan(self, name: NodeName, how: BeforeEnd) -> FinalSave | None:
        """What an operation that begins now writes down; None: nothing is saved."""
        if how == "skip" or self._index.of(name) is None:
            return None
        return FinalSave(required=how == "require", until=time.time() + SAVE_SECONDS)

    async def save(
        self, name: NodeName, plan: FinalSave | None, progress: OperationProgress
    ) -> None:
        """Raises TPUError if they have to be saved, and are not."""
        if plan is None:
            return
        progress.begin(SAVE_HOME_STEP.key)
        try:
            saved = await self._save(name, plan.until - time.time(), progress)
        except TPUError as error:
            progress.done(SAVE_HOME_STEP.key, "failed")
            if plan.required:
                raise
            progress.log(f"The home folders are not saved: {error.message}")
            return
        progress.done(SAVE_HOME_STEP.key, "done" if saved else "skipped")

    async def _save(self, name: NodeName, left: float, progress: OperationProgress) -> bool:
        await self._observer.ensure_recent()  # this process may have just started
        record, node = self._index.of(name), self._observed.node(name)
        if record is None or node is None or not self._observed.is_ready(name):
            return False
        if record.node_id != node.id:
            return False  # this TPU has never had them
        if left <= 0:
            raise TPUError(
                "There was no time left for it when this process continued.", Reason.INTERRUPTED
            )
        setting = await self._hosts.setting(node, record.home.setting, record.tpu)
        outcome = await self._hosts.carry_out(name, "save", setting, seconds=left)
        self._index.note(record, outcome)
        require(outcome)
        for line in outcome_lines(outcome):
            progress.log(line)
        return True

    def sentences(self, name: NodeName, act: Act) -> list[str]:
        """What happens to them."""
        record = self._index.of(name)
        if act not in _ENDS or record is None:
            return []
        setting, node = record.home.setting, self._observed.node(name)
        shown = ", ".join(f"~/{folder}" for folder in setting.folders[:12])
        shown += " …" if len(setting.folders) > 12 else ""
        if node is None or record.node_id != node.id:
            return [
                f"Its home folders ({shown}) are not saved before that: those in {setting.place} "
                "were not restored yet."
            ]
        saved = f"Before that, these home folders are saved in {setting.place}: {shown}."
        if act == "stop":
            return [saved]
        return [saved, f"The next TPU called {name.node} gets them."]
