"""Sessions from outside of the notebook: chosen, listed, saved, restored and deleted."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from ...cloud import Node, NodeName, is_attached
from ...errors import InvalidInput, Reason, TPUError
from ...own_log import happened
from ...progress import StepPlan
from ...wording import count, size_text
from ..core.core import Core
from ..core.known_operations import OperationProgress
from ..files.sync import SyncService
from ..homes.service import HomeService
from ..kernels.kernels import KernelService
from ..models import (
    BucketList,
    Kernel,
    ListQuery,
    Operation,
    Problem,
    RestartKernel,
    RestoreSession,
    SaveSessions,
    Session,
    SessionList,
    SessionOutcome,
    SessionResult,
    SessionSetting,
    SetSessions,
)
from ..models.core import validated
from ..models.sessions import COMPUTER, LARGEST_GB, kernel_place
from ..money.owners import TPUOwners
from .buckets import OfferedBuckets
from .computer import COPY_STEP, SEND_STEP, ComputerSessions, copy_saved, shown
from .hosts import SessionHosts
from .index import SessionIndex
from .kernels import KernelSessions

#: Seconds for running kernels to note another setting.
SETTING_SECONDS = 10.0
#: Seconds for a restarted kernel to answer.
RESTART_SECONDS = 120.0
#: After a restart, the kernel is looked for so often; seconds.
LOOK_SECONDS = 0.5

#: Restarts a kernel of this process's Jupyter server; raises CONFLICT if it has none of the id.
Restart = Callable[[str], Awaitable[None]]


class SessionService:
    """A :class:`~jupyter_tpu.fleet.api.SessionsAPI`."""

    #: How kernels are restarted; None where there is no Jupyter server.
    restart_here: Restart | None = None

    def __init__(
        self,
        core: Core,
        kernels: KernelService,
        owners: TPUOwners,
        index: SessionIndex,
        hosts: SessionHosts,
        saver: KernelSessions,
        homes: HomeService,
        sync: SyncService,
        computer: ComputerSessions,
    ) -> None:
        self._computer = computer
        self._core = core
        self._kernels = kernels
        self._owners = owners
        self._index = index
        self._hosts = hosts
        self._saver = saver
        self._buckets = OfferedBuckets(core)
        self._homes = homes
        self._sync = sync
        core.connected.session_setting = index.setting

    # ---- what was chosen ----

    async def set(self, ref: str, request: SetSessions) -> SessionSetting:
        request = validated(request)
        name = await self._core.finder.find(ref)
        node = self._core.observed.node(name)
        if node is not None:
            self._owners.require_consent(node, request.confirm_name)
        if is_attached(name) and request.place.startswith("gs://"):
            raise InvalidInput(
                "An attached machine has no service account that could use a bucket.",
                "Save on its disk.",
                field="place",
            )
        setting = self.choose(name, request)
        await self._tell_kernels(name, setting)
        return setting

    def choose(self, name: NodeName, request: SetSessions) -> SessionSetting:
        """The same, for a TPU that has no kernels yet."""
        setting = SessionSetting(
            automatic=request.automatic,
            place=request.place,
            max_gb=request.max_gb,
            seconds=request.seconds,
            keep_days=request.keep_days,
        )
        self._index.choose(name, setting)
        happened("Sessions are saved in " + (setting.place or "the host's disk"), tpu=name.node)
        self._core.connected.register_again(name)
        return setting

    async def remove(self, ref: str) -> None:
        name = await self._core.finder.find(ref)
        self._index.choose(name, None)
        happened("Sessions are not saved any more", tpu=name.node)
        self._core.connected.register_again(name)
        await self._tell_kernels(name, None)

    async def _tell_kernels(self, name: NodeName, setting: SessionSetting | None) -> None:
        """Running kernels have it from now on, if they answer soon."""
        if not self._hosts.can_reach(name):
            return
        chosen = None
        if setting is not None:
            chosen = {
                "place": setting.kernel_place,
                "automatic": setting.automatic,
                "seconds": setting.seconds,
            }
        try:
            kernels = await self._kernels.fetch_running(name, SETTING_SECONDS)
        except TPUError:
            return
        request = {"do": "set", "setting": chosen}
        await self._saver.carry_out(name, kernels, request, SETTING_SECONDS, lambda _: None)

    async def buckets(self, zone: str) -> BucketList:
        return await self._buckets.near(zone)

    # ---- what there is ----

    async def all(self) -> Sequence[Session]:
        await self._core.shared.reload()
        return self._index.all()

    async def list(self, ref: str, query: ListQuery | None = None) -> SessionList:
        name = await self._core.finder.find(ref)
        node, setting = self._core.observed.node(name), self._index.setting(name)
        node_id = node.id if node is not None else ""
        problems: list[Problem] = []
        fresh = query is not None and query.fresh
        if self._hosts.can_reach(name):
            if fresh or not self._hosts.was_asked(name, node_id):
                places = {"", setting.place if setting is not None else ""}
                places |= {s.place for s in self._index.all() if s.tpu == name.node}
                errors = await self._hosts.refresh(name, places - {COMPUTER})
                problems = [Problem.of(error) for error in errors]
        elif node is not None:
            problems = [
                Problem(
                    message=f"{name.node} is {node.state} or not connected, so its host was not "
                    "asked. This is what was last known.",
                    reason=Reason.CONFLICT,
                    hint="",
                )
            ]
        problems += self._computer.problems(name)
        return SessionList(
            setting=setting, sessions=self._index.restorable(name, node_id), problems=problems
        )

    async def forget(self, ref: str, session: str) -> None:
        record = self._index.require(session)
        if record.session.place == COMPUTER:
            await self._computer.delete(record.session)
            happened(f"Deleted the session {record.session.name} from this computer")
            self._index.drop(session)
            return
        node = await self._core.finder.find_ready(ref)
        self._require_there(node, record.session, record.node_id)
        await self._hosts.forget(node.name, record.session)
        happened(f"Deleted the session {record.session.name}", tpu=node.name.node)
        self._index.drop(session)

    def _require_there(self, node: Node, session: Session, node_id: str) -> None:
        if not session.place and node_id != node.id:
            raise TPUError(
                f"The session {session.name} is on the disk of another TPU, {session.tpu}.",
                Reason.CONFLICT,
                "Only a session in a bucket can be used on another TPU.",
            )

    # ---- operations ----

    async def save(self, ref: str, request: SaveSessions | None = None) -> Operation:
        request = validated(request or SaveSessions())
        node = await self._core.finder.find_ready(ref)
        kernels = await self._chosen(node.name, request.kernels)
        if request.name and len(kernels) > 1:
            raise InvalidInput(
                "One name is for one kernel.", "Choose a kernel, or omit the name.", field="name"
            )
        setting = self._index.setting(node.name)
        chosen = setting.place if setting is not None else ""
        place = chosen if request.place is None else request.place
        limit = None
        if place == COMPUTER:
            limit = request.max_gb or (setting.max_gb if setting is not None else LARGEST_GB)
        ask = {
            "do": "save",
            "name": request.name,
            "place": kernel_place(place),
            "overwrite": request.overwrite,
        }
        work = partial(self._save, node.name, kernels, ask, request.seconds, limit)
        return await self._core.runner.start(self._core.runner.new_record("save", node.name), work)

    async def _chosen(self, name: NodeName, ids: Sequence[str]) -> Sequence[Kernel]:
        if ids:
            return [await self._kernels.require(name, id) for id in dict.fromkeys(ids)]
        kernels = [*await self._kernels.running(name)]
        if not kernels:
            raise TPUError(
                f"No kernel runs on {name.node}.", Reason.NOT_FOUND, "Run a cell there first."
            )
        return kernels

    async def _save(
        self,
        name: NodeName,
        kernels: Sequence[Kernel],
        request: dict[str, Any],
        seconds: float,
        limit: float | None,
        progress: OperationProgress,
    ) -> None:
        """limit: in GB, of what is copied to this computer; None: nothing is."""
        steps = [StepPlan("save", f"Save {count(len(kernels), 'kernel')}", 1)]
        progress.plan(steps + ([COPY_STEP] if limit is not None else []), measured=True)
        outcomes = await self._step("save", name, kernels, request, seconds, progress)
        if limit is not None:
            progress.begin(COPY_STEP.key)
            report = shown(progress, COPY_STEP)
            outcomes = await copy_saved(
                self._computer, self._index, name, outcomes, limit, progress, report
            )
            failed = problem_of(outcomes) is not None
            progress.done(COPY_STEP.key, "failed" if failed else "done")
        require_all(outcomes)

    async def _step(
        self,
        step: str,
        name: NodeName,
        kernels: Sequence[Kernel],
        request: dict[str, Any],
        seconds: float,
        progress: OperationProgress,
    ) -> Sequence[SessionOutcome]:
        """Has kernels carry out a request, as a step of an operation; its result says how."""
        progress.begin(step)
        done = 0
        bytes_of: dict[str, tuple[int, int]] = {}

        def ended() -> None:
            nonlocal done
            done += 1
            progress.part(step, done / len(kernels))

        def moved(kernel: str, part: int, whole: int) -> None:
            bytes_of[kernel] = part, whole
            there, total = (sum(pair[of] for pair in bytes_of.values()) for of in (0, 1))
            progress.set_message(f"{size_text(there)} of {size_text(total)}")
            if len(kernels) == 1:
                progress.part(step, there / total)

        outcomes = await self._saver.carry_out(
            name, kernels, request, seconds, progress.log, ended, moved
        )
        progress.operation.result = msgspec.to_builtins(SessionResult(kernels=outcomes))
        progress.done(step, "failed" if problem_of(outcomes) is not None else "done")
        return outcomes

    async def restore(self, ref: str, session: str, request: RestoreSession) -> Operation:
        request = validated(request)
        node = await self._core.finder.find_ready(ref)
        record = self._index.require(session)
        self._require_there(node, record.session, record.node_id)
        kernel = await self._kernels.require(node.name, request.kernel)
        here = record.session.place == COMPUTER
        if not record.session.place and record.session.host != kernel.host:
            raise TPUError(
                f"The session is on the disk of host {record.session.host}, and the kernel runs on "
                f"host {kernel.host}.",
                Reason.CONFLICT,
                "Choose a kernel on that host.",
            )
        ask = _restoring(record.session.name, record.session.place, overwrite=request.overwrite)

        async def work(progress: OperationProgress) -> None:
            step = StepPlan("restore", f"Restore {record.session.name}", 1)
            progress.plan([SEND_STEP, step] if here else [step], measured=here)
            await self._files_there(node, progress)
            async with contextlib.AsyncExitStack() as stack:
                if here:
                    progress.begin(SEND_STEP.key)
                    hosts = [*range(len(kernel.hosts or ()))] or [kernel.host]
                    ask["place"] = await stack.enter_async_context(
                        self._computer.on_hosts(
                            node.name, hosts, record.session, shown(progress, SEND_STEP)
                        )
                    )
                    ask["whole"] = True
                    progress.done(SEND_STEP.key)
                outcomes = await self._step(
                    "restore", node.name, [kernel], ask, request.seconds, progress
                )
            require_all(outcomes)

        return await self._core.runner.start(
            self._core.runner.new_record("restore", node.name), work
        )

    async def _files_there(self, node: Node, progress: OperationProgress) -> None:
        """A new TPU first gets the home folders and projects of the one before it: variables may
        need the modules and files that are in them.
        """
        try:
            await self._homes.settle(node.name)
        except TPUError as error:
            progress.log(f"The home folders are not restored: {error.message}")
        await self._sync.first_copies(node.name)

    async def restart(
        self, ref: str, kernel: str, request: RestartKernel | None = None
    ) -> Operation:
        request = validated(request or RestartKernel())
        node = await self._core.finder.find_ready(ref)
        before = await self._kernels.require(node.name, kernel)
        if self.restart_here is None:
            raise TPUError(
                "There is no Jupyter server here that could restart a kernel.",
                Reason.CONFLICT,
                "Save it, restart it, and restore it: %tpu session save, %tpu session restore.",
            )
        restart = self.restart_here
        setting = self._index.setting(node.name)
        place = setting.kernel_place if setting is not None else ""

        async def work(progress: OperationProgress) -> None:
            progress.plan(
                [
                    StepPlan("save", "Save the variables", 4),
                    StepPlan("restart", "Restart the kernel", 2),
                    StepPlan("restore", "Restore the variables", 4),
                ]
            )
            save = {"do": "save", "place": place, "aside": True}
            outcomes = await self._step(
                "save", node.name, [before], save, request.seconds, progress
            )
            require_all(outcomes)
            progress.begin("restart")
            await restart(kernel)
            after = await self._restarted(node.name, before)
            progress.done("restart")
            if outcomes[0].state == "empty":
                progress.done("restore", "skipped")
                return
            ask = _restoring(outcomes[0].name, place, overwrite=True)
            require_all(
                await self._step("restore", node.name, [after], ask, request.seconds, progress)
            )

        return await self._core.runner.start(
            self._core.runner.new_record("restart", node.name), work
        )

    async def _restarted(self, name: NodeName, before: Kernel) -> Kernel:
        """The kernel of the same id that has started later."""
        try:
            async with asyncio.timeout(RESTART_SECONDS):
                while True:
                    kernels = await self._kernels.list(
                        f"{name.zone}~{name.node}", ListQuery(fresh=True)
                    )
                    for kernel in kernels:
                        new = kernel.id == before.id and kernel.started != before.started
                        if new and kernel.state not in ("starting", "dead"):
                            return kernel
                    await asyncio.sleep(LOOK_SECONDS)
        except TimeoutError:
            raise TPUError(
                "The kernel did not start again in time. Its session is saved.",
                Reason.TIMEOUT,
                "Start it, and restore it: %tpu session restore",
            ) from None


def _restoring(name: str, place: str, *, overwrite: bool) -> dict[str, Any]:
    return {"do": "restore", "name": name, "place": place, "overwrite": overwrite}


def problem_of(outcomes: Sequence[SessionOutcome]) -> TPUError | None:
    """Why not all is saved or restored; None if it is."""
    failed = [outcome for outcome in outcomes if outcome.problem is not None]
    if not failed:
        return None
    first = failed[0].problem
    assert first is not None
    if len(outcomes) == 1:
        return first.to_error()
    names = ", ".join(outcome.notebook or outcome.kernel for outcome in failed)
    return TPUError(
        f"{len(failed)} of {len(outcomes)} kernels: {names}. {first.message}",
        Reason(first.reason),
        first.hint,
    )


def require_all(outcomes: Sequence[SessionOutcome]) -> None:
    if (error := problem_of(outcomes)) is not None:
        raise error
