"""Home folders: chosen, saved, brought back on the next TPU, and deleted."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Sequence

import msgspec

from ...cloud import Node, NodeName, is_attached
from ...concurrency import cancel_all
from ...errors import InvalidInput, Reason, TPUError
from ...on_host.agent.home.chosen import NOT_KEPT, is_plain
from ...on_host.agent.home.state import setting_digest
from ...own_log import happened
from ...progress import StepPlan
from ...wording import count, size_text
from ..core.core import Core
from ..core.known_operations import OperationProgress
from ..core.records import HomeRecord
from ..models import Home, HomeOutcome, HomeSetting, Operation, SetHome
from ..models.core import validated
from ..models.homes import USUAL_FOLDERS
from ..money.owners import TPUOwners
from .hosts import HomeHosts, Moved, require
from .index import HomeIndex

#: Between two looks whether a TPU lacks something; seconds.
LOOK_SECONDS = 5.0
#: Seconds for which a choice waits for what the TPU gets then.
SOON_SECONDS = 5.0
#: Seconds for the host to delete what is in the bucket.
FORGET_SECONDS = 300.0
HOME_STEP = StepPlan("home", "Restore the home folders", 3)
_WHAT = "Home folders"


class HomeService:
    """A :class:`~jupyter_tpu.fleet.api.HomesAPI`."""

    def __init__(self, core: Core, owners: TPUOwners, index: HomeIndex, hosts: HomeHosts) -> None:
        self._core = core
        self._owners = owners
        self._index = index
        self._hosts = hosts
        self._locks: defaultdict[NodeName, asyncio.Lock] = defaultdict(asyncio.Lock)
        #: What gives TPUs what they lack, and why it has failed.
        self._tasks: dict[NodeName, asyncio.Task[None]] = {}
        self._failed: dict[NodeName, str] = {}

    async def all(self) -> Sequence[Home]:
        await self._core.shared.reload()
        return self._index.all()

    # ---- what was chosen ----

    async def set(self, ref: str, request: SetHome) -> Home:
        request = validated(request)
        name = await self._core.finder.find(ref)
        node = self._core.observed.node(name)
        if node is not None:
            self._owners.require_consent(node, request.confirm_name)
        if is_attached(name):
            raise InvalidInput(
                "An attached machine has no service account that could use a bucket.",
                "Copy its folders: jupyter tpu copy",
            )
        home = self.choose(name, request)
        if self._hosts.can_reach(name):
            self._core.failures.clear(name, _WHAT)
            task = self._begin(name)
            # A large restore goes on; but a command without a server ends.
            await asyncio.wait({task}, timeout=SOON_SECONDS if self._core.supervise else None)
        record = self._index.of(name)
        return record.home if record is not None else home

    def choose(self, name: NodeName, request: SetHome) -> Home:
        """The same, for a TPU that is not there yet."""
        setting = HomeSetting(
            place=request.place,
            folders=chosen_folders(request),
            max_gb=request.max_gb,
            seconds=request.seconds,
        )
        happened(f"Home folders are kept in {setting.place}", tpu=name.node)
        return self._index.choose(name, setting)

    async def remove(self, ref: str) -> None:
        record = await self._record(ref)
        self._index.drop(record)
        happened("Home folders are not kept any more", tpu=record.tpu)
        if self._hosts.can_reach(record.name):
            await self._hosts.note(record.name, None)

    async def _record(self, ref: str) -> HomeRecord:
        """That of a TPU, which may be gone. Raises NOT_FOUND."""
        try:
            name = await self._core.finder.find(ref)
            record = self._index.of(name)
        except TPUError as error:
            record = self._index.called(ref)
            if record is None or error.reason is not Reason.NOT_FOUND:
                raise
        if record is None:
            raise TPUError(
                f"No home folders were chosen for {ref}.",
                Reason.NOT_FOUND,
                f"Choose them: jupyter tpu home set {ref} --in gs://BUCKET/FOLDER",
            )
        return record

    # ---- each TPU gets what it should have ----

    def due(self, name: NodeName) -> bool:
        """Whether a TPU gets home folders when it is connected."""
        record, node = self._index.of(name), self._core.observed.node(name)
        return record is not None and node is not None and record.node_id != node.id

    async def require(self, node: Node) -> None:
        """Has a TPU get them. Raises UNAVAILABLE until it has them."""
        record = self._index.of(node.name)
        if record is None or record.node_id == node.id:
            return
        self._begin(node.name)
        why = self._failed.get(node.name, "")
        raise TPUError(
            f"{node.name.node} does not have its home folders yet{f': {why}' if why else '.'}",
            Reason.UNAVAILABLE,
            "The job starts when they are restored. To start it without them: jupyter tpu home off "
            f"{node.name.node}",
        )

    def _begin(self, name: NodeName) -> asyncio.Task[None]:
        """Gives a TPU what it lacks, unless that runs, or has just failed."""
        task = self._tasks.get(name)
        if task is None or (task.done() and not self._core.failures.waits(name, _WHAT)):
            task = asyncio.create_task(self._settle_later(name), name=f"home-{name}")
            self._tasks[name] = task
        return task

    async def _settle_later(self, name: NodeName) -> None:
        try:
            await self.settle(name)
        except TPUError as error:
            self._failed[name] = error.message
            self._core.failures.record(name, _WHAT, error)
        else:
            self._failed.pop(name, None)
            self._core.failures.clear(name, _WHAT)

    async def shut_down(self) -> None:
        await cancel_all(self._tasks.values())

    async def settle(
        self, name: NodeName, moved: Moved = lambda done, total: None
    ) -> HomeOutcome | None:
        """A TPU gets what the one before it had, if it does not have it, and saves it from then on.
        None if nothing was chosen for it, or it has it. Raises TPUError.
        """
        async with self._locks[name]:
            record = self._index.of(name)
            if record is None:
                return None
            node = self._core.observed.require_hosts(name)
            setting = await self._hosts.setting(node, record.home.setting, record.tpu)
            digest = setting_digest(dict(setting))
            if record.node_id == node.id and self._index.noted.get(name) == digest:
                return None
            # A host says it has what it saves, or gets it, before it may save.
            outcome = require(await self._hosts.carry_out(name, "adopt", setting, moved))
            self._index.note(record, outcome)
            if self._index.of(name) is None:
                return outcome  # nothing is chosen for it any more
            await self._hosts.note(name, setting)
            self._index.settled(record, node, digest)
            if outcome.state == "restored":
                happened(f"Restored home folders from {setting['place']}", tpu=name.node)
            return outcome

    async def settle_in(self, name: NodeName, progress: OperationProgress) -> None:
        """The same as a step of what connects a TPU, which is connected without them, too."""
        progress.begin(HOME_STEP.key)
        try:
            outcome = await self.settle(name, _moved(progress, HOME_STEP.key))
        except TPUError as error:
            progress.done(HOME_STEP.key, "failed")
            progress.log(f"The home folders are not restored: {error.message} Will be retried.")
            return
        restored = outcome is not None and outcome.state == "restored"
        progress.done(HOME_STEP.key, "done" if restored else "skipped")
        if outcome is not None and restored:
            for line in outcome_lines(outcome):
                progress.log(line)

    async def run(self) -> None:
        """Until it is cancelled: what was not done when a TPU was connected is done later."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            names = {
                name
                for name, node_id in self._core.desired.connected.items()
                if self._index.of(name) is not None
                and self._hosts.can_reach(name)
                and self._core.observed.nodes[name].id == node_id
            }
            self._core.failures.retain(_WHAT, names)
            for name in names & self._index.noted.keys():
                if await self._lacks(name):
                    self._begin(name)
            for name in self._core.desired.connected:
                await self._end_dropped(name)

    async def _end_dropped(self, name: NodeName) -> None:
        """Has a host that could not be reached before save nothing any more."""
        noted = self._index.noted.get(name)
        if not noted or noted not in self._index.dropped or self._index.of(name) is not None:
            return
        if self._hosts.can_reach(name):
            with contextlib.suppress(TPUError):  # it is tried again
                await self._hosts.note(name, None)

    async def _lacks(self, name: NodeName) -> bool:
        """Whether a TPU does not have its home folders, or its host does not know what to save."""
        record, node = self._index.of(name), self._core.observed.nodes[name]
        if record is None:
            return False
        try:
            setting = await self._hosts.setting(node, record.home.setting, record.tpu)
        except TPUError:
            return True  # which says why
        digest = setting_digest(dict(setting))
        return record.node_id != node.id or self._index.noted.get(name) != digest

    # ---- operations ----

    async def save(self, ref: str) -> Operation:
        return await self._start(ref, "save", StepPlan("save", "Save the home folders", 1))

    async def restore(self, ref: str) -> Operation:
        return await self._start(ref, "restore", StepPlan("restore", HOME_STEP.title, 1))

    async def _start(self, ref: str, do: str, step: StepPlan) -> Operation:
        node = await self._core.finder.find_ready(ref)
        record = await self._record(f"{node.name.zone}~{node.name.node}")
        setting = await self._hosts.setting(node, record.home.setting, record.tpu)

        async def work(progress: OperationProgress) -> None:
            progress.plan([step], measured=True)
            progress.begin(step.key)
            name = node.name
            async with self._locks[name]:
                outcome = await self._hosts.carry_out(name, do, setting, _moved(progress, step.key))
            self._index.note(record, outcome)
            progress.operation.result = msgspec.to_builtins(outcome)
            require(outcome)
            if outcome.state in ("restored", "empty") and self._index.of(name) is not None:
                await self._hosts.note(name, setting)
                self._index.settled(record, node, setting_digest(dict(setting)))
            for line in outcome_lines(outcome):
                progress.log(line)
            progress.done(step.key)

        return await self._core.runner.start(
            self._core.runner.new_record(f"{do}-home", node.name), work
        )

    async def forget(self, ref: str) -> None:
        record = await self._record(ref)
        name = self._reached_from(record)
        node = self._core.observed.require_hosts(name)
        setting = await self._hosts.setting(node, record.home.setting, record.tpu)
        async with self._locks[name]:  # nothing has it saved again meanwhile
            if name == record.name:  # another one goes on with its own
                await self._hosts.note(name, None)
            require(await self._hosts.carry_out(name, "forget", setting, seconds=FORGET_SECONDS))
            self._index.drop(record)
        happened(f"Deleted the home folders in {record.home.setting.place}", tpu=record.tpu)

    def _reached_from(self, record: HomeRecord) -> NodeName:
        """A TPU of the project whose host can delete it now: its own, or another one."""
        if self._hosts.can_reach(record.name):
            return record.name
        for name in self._core.desired.connected:
            if name.project == record.project and self._hosts.can_reach(name):
                return name
        raise TPUError(
            f"No TPU is connected that could delete the home folders of {record.tpu} in "
            f"{record.home.setting.place}.",
            Reason.CONFLICT,
            "Connect one that may write there, or delete them with gcloud storage rm.",
        )


def _moved(progress: OperationProgress, step: str) -> Moved:
    def moved(done: int, total: int) -> None:
        if total:
            progress.part(step, done / total)
            progress.set_message(f"{size_text(done)} of {size_text(total)}")

    return moved


def outcome_lines(outcome: HomeOutcome) -> list[str]:
    """What became of it, for a log and a terminal."""
    files, size, new = count(outcome.files, "file"), size_text(outcome.size), size_text(outcome.new)
    match outcome.state:
        case "saved":
            lines = [f"Saved {files} ({size}) of the home folder, {new} of it new."]
        case "restored":
            lines = [f"Restored {files} ({size}) of the home folder, copied {new}."]
        case "same":
            lines = ["The home folder has all that was saved."]
        case "empty":
            lines = ["The bucket has no home folders."]
        case _:
            lines = [outcome.problem.message if outcome.problem is not None else outcome.state]
    lines += [f"Not saved: {one.path} ({one.why})" for one in outcome.left_out[:20]]
    if (more := outcome.left_out_count - min(20, len(outcome.left_out))) > 0:
        lines.append(f"Not saved: {more} more")
    if outcome.kept_count:
        lines.append(
            f"Newer on the TPU, so not restored: {_some(outcome.kept, outcome.kept_count)}"
        )
    if outcome.replaced_count:
        some = _some(outcome.replaced, outcome.replaced_count)
        lines.append(f"Older on the TPU, so replaced: {some}")
    return lines


def _some(paths: Sequence[str], number: int) -> str:
    more = f" and {number - min(10, len(paths))} more" if number > 10 else ""
    return ", ".join(paths[:10]) + more


def chosen_folders(request: SetHome) -> list[str]:
    """Paths from the home folder, each once. Raises INVALID."""
    folders = [_folder(one) for one in request.folders] or USUAL_FOLDERS
    return list(dict.fromkeys(folders))


def _folder(text: str) -> str:
    """A path from the home folder. Raises INVALID."""
    path = text.removeprefix("~/").rstrip("/")
    if path in ("", "~", ".") or not is_plain(path) or path.startswith("/"):
        own = path.split("/")[0] in NOT_KEPT
        raise InvalidInput(
            f"{text} is not a folder of the home folder that can be kept."
            if own
            else f"{text} is not the path of a folder or file in the home folder.",
            "Name folders in it, such as ~/checkpoints or .config.",
            field="folders",
        )
    return path
