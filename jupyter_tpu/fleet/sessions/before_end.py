"""What is saved of the kernels of a TPU before it is stopped or deleted, and what is lost then."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from ...cloud import NodeName
from ...errors import Reason, TPUError
from ...progress import StepPlan
from ..core.core import Core
from ..core.known_operations import OperationProgress
from ..core.operation_records import FinalSave
from ..kernels.kernels import ASK_FIRST, KernelService
from ..models import BeforeEnd, Kernel, SessionResult, SetSessions
from ..models.consequences import Act
from ..models.sessions import COMPUTER, SAVE_SECONDS, Session
from .computer import ComputerSessions, copy_saved
from .index import SessionIndex
from .kernels import KernelSessions
from .service import problem_of, require_all

#: Seconds for a session to be copied to this computer where all has to be saved.
REQUIRED_COPY_SECONDS = 3600.0
SAVE_STEP = StepPlan("sessions", "Save the variables of kernels", 2)
#: What ends the kernels, and whether their host's disk goes with them.
_ENDS = {"stop": False, "delete": True, "replace": True}


class SessionsBeforeEnd:
    """Saves what can be saved in time. A TPU that is to end does so, unless a person has asked
    that nothing is lost.
    """

    def __init__(
        self,
        core: Core,
        kernels: KernelService,
        index: SessionIndex,
        saver: KernelSessions,
        computer: ComputerSessions,
    ) -> None:
        self._computer = computer
        self._observer = core.observer
        self._observed = core.observed
        self._kernels = kernels
        self._index = index
        self._saver = saver

    def plan(self, name: NodeName, how: BeforeEnd, *, keeps_disk: bool) -> FinalSave | None:
        """What an operation that begins now writes down; None: nothing is saved.

        keeps_disk: whether what is on the disk of the host is still there afterwards. Raises
        CONFLICT where all has to be saved, and nothing would be left of it.
        """
        setting = self._index.setting(name)
        if how == "skip" or (how == "save" and setting is None):
            return None
        if not keeps_disk and not (setting is not None and setting.place):
            if how == "save":
                return None
            raise TPUError(
                f"The variables of kernels can't be kept: the disk of {name.node} is deleted.",
                Reason.CONFLICT,
                f"Choose a bucket, or this computer: jupyter tpu session auto {name.node} --in "
                "gs://BUCKET/FOLDER or --in computer",
            )
        return FinalSave(
            required=how == "require", until=time.time() + SAVE_SECONDS, copies=not keeps_disk
        )

    def chosen(self, name: NodeName) -> SetSessions | None:
        """What a TPU gets that takes the place of this one; None: nothing."""
        setting = self._index.setting(name)
        if setting is None:
            return None
        return SetSessions(
            automatic=setting.automatic,
            place=setting.place,
            max_gb=setting.max_gb,
            seconds=setting.seconds,
            keep_days=setting.keep_days,
        )

    async def save(
        self, name: NodeName, plan: FinalSave | None, progress: OperationProgress
    ) -> None:
        """The first step of what ends a TPU. Raises TPUError if all has to be saved, and is not."""
        if plan is None:
            return
        progress.begin(SAVE_STEP.key)
        setting, left = self._index.setting(name), plan.until - time.time()
        try:
            kernels = await self._running(name, left)
            if left <= 0 and kernels:
                raise TPUError(
                    "There was no time left for it when this process continued.", Reason.INTERRUPTED
                )
        except TPUError as error:
            progress.done(SAVE_STEP.key, "failed")
            if plan.required:
                raise
            progress.log(f"The variables of kernels are not saved: {error.message}")
            return
        if not kernels:
            progress.done(SAVE_STEP.key, "skipped")
            return
        place = setting.kernel_place if setting is not None else ""
        request = {"do": "save", "place": place, "aside": True}
        progress.log(f"Saving the variables of kernels, for at most {left:.0f} s")
        outcomes = await self._saver.carry_out(name, kernels, request, left, progress.log)
        progress.operation.result = msgspec.to_builtins(SessionResult(kernels=outcomes))
        if plan.copies and setting is not None and setting.place == COMPUTER:
            left = REQUIRED_COPY_SECONDS if plan.required else max(1.0, plan.until - time.time())
            outcomes = await copy_saved(
                self._computer, self._index, name, outcomes, setting.max_gb, progress, seconds=left
            )
        problem = problem_of(outcomes)
        progress.done(SAVE_STEP.key, "done" if problem is None else "failed")
        if plan.required:
            require_all(outcomes)
        elif problem is not None:
            progress.log(f"Not all variables are saved: {problem.message}")

    async def _running(self, name: NodeName, seconds: float) -> Sequence[Kernel]:
        await self._observer.ensure_recent()  # this process may have just started
        if not self._observer.observed.is_ready(name):
            return []
        return await self._kernels.fetch_running(name, min(ASK_FIRST, max(1.0, seconds)))

    def consequences(
        self, name: NodeName, act: Act, kernels: Sequence[Kernel]
    ) -> tuple[bool, str, list[Session]]:
        """Whether kernels are saved before, where in a sentence, and which sessions are lost."""
        if act not in _ENDS:
            return False, "", []
        node, setting = self._observed.node(name), self._index.setting(name)
        place = setting.place if setting is not None else ""
        if not _ENDS[act] and setting is not None:
            place = setting.kernel_place
        saves = setting is not None and (bool(place) or not _ENDS[act])
        lost = self._index.on_disk(node.id) if _ENDS[act] and node is not None else []
        if not kernels or setting is None:
            text = ""
        elif saves and place == COMPUTER:
            text = (
                "Before that, their variables are saved and copied to this computer, for up to a "
                f"minute. A session of more than {setting.max_gb:g} GB is not copied."
            )
        elif saves:
            text = (
                f"Before that, their variables are saved in {place}, for up to a minute."
                if place
                else f"Before that, their variables are saved on the disk of {name.node}, for up "
                "to a minute."
            )
        else:
            text = (
                f"Their variables are not kept, because they are saved on the disk of {name.node} "
                "only. To keep them, choose a bucket or this computer."
            )
        return saves, text, lost
