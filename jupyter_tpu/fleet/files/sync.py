"""Folders that are kept the same on hosts: syncs, how they went, and the projects of notebooks."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import structs

from ...cloud import Node, NodeName
from ...errors import InvalidInput, Reason, TPUError, error_for
from ...files import sync as file_sync
from ...files.sync import (
    Bases,
    HostOutcome,
    LocalProject,
    SyncOptions,
    SyncOutcome,
    Watcher,
    default_mirrors,
    retry_after,
)
from ...links import HostName, no_such_host
from ...wording import count, hosts_text, other_hosts, phrase, size_text
from ..core.checks import another_node
from ..core.core import Core
from ..core.known_operations import OperationProgress
from ..core.operation_records import WatchedFolder
from ..models import (
    HostSync,
    NotCopied,
    Operation,
    Problem,
    SyncConflict,
    SyncCounts,
    SyncProject,
    SyncResult,
)
from ..models.core import timestamp, validated
from ..models.files import LISTED_PATHS
from .synced_projects import SyncedProjects


def result_of(request: SyncProject, outcome: SyncOutcome) -> SyncResult:
    written = sorted({path for host in outcome.hosts for path in host.written})
    deleted = sorted({path for host in outcome.hosts for path in host.deleted})
    newer = sorted({path for host in outcome.hosts for path in host.newer})
    conflicts = _conflicts(request, outcome.hosts)
    not_copied = _not_copied(outcome)
    return SyncResult(
        folder=request.folder,
        remote=request.remote,
        pull=request.pull,
        dry_run=request.dry_run,
        hosts=[_host(host) for host in outcome.hosts],
        counts=SyncCounts(
            files=outcome.files,
            written=len(written),
            deleted=len(deleted),
            conflicts=len(conflicts),
            newer=len(newer),
            not_copied=len(not_copied),
        ),
        written=written[:LISTED_PATHS],
        deleted=deleted[:LISTED_PATHS],
        conflicts=conflicts[:LISTED_PATHS],
        newer=newer[:LISTED_PATHS],
        not_copied=not_copied[:LISTED_PATHS],
        ended=timestamp(),
    )


def _host(outcome: HostOutcome) -> HostSync:
    return HostSync(
        host=outcome.host,
        written=len(outcome.written),
        deleted=len(outcome.deleted),
        size=outcome.size,
        transferred=outcome.transferred,
        problem=Problem.of(outcome.problem) if outcome.problem else None,
    )


def _conflicts(request: SyncProject, hosts: list[HostOutcome]) -> list[SyncConflict]:
    """Each path once; the times are of its first host."""
    sync_conflicts: dict[str, SyncConflict] = {}
    for outcome in hosts:
        for conflict, source, target in outcome.conflicts:
            here, there = (target, source) if request.pull else (source, target)
            entry = sync_conflicts.setdefault(
                conflict.path,
                SyncConflict(
                    path=conflict.path,
                    kind=conflict.kind,
                    here=timestamp("seconds", here.time) if here else "",
                    there=timestamp("seconds", there.time) if there else "",
                    hosts=[],
                ),
            )
            entry.hosts.append(outcome.host)
    return sorted(sync_conflicts.values(), key=lambda sync_conflict: sync_conflict.path)


def _not_copied(outcome: SyncOutcome) -> list[NotCopied]:
    files = [NotCopied(path=path, size=size, why=why) for path, size, why in outcome.skipped]
    refused: dict[tuple[str, str], NotCopied] = {}
    for host in outcome.hosts:
        for path, why in host.refused:
            entry = NotCopied(path=path, size=0, why=why, hosts=[])
            refused.setdefault((path, why), entry).hosts.append(host.host)
    return [*refused.values(), *sorted(files, key=lambda file: (-file.size, file.path))]


def summary(result: SyncResult) -> str:
    """One line: "Sent 3 files (12 kB) to 2 hosts"."""
    counts = result.counts
    good = [host for host in result.hosts if host.problem is None]
    where = phrase("this computer") if result.pull else count(len(good), "host")
    size = size_text(max((host.size for host in result.hosts), default=0))
    files, gone = count(counts.written, "file"), counts.deleted
    parts = []
    if counts.written and result.dry_run:
        parts.append(phrase(f"Would copy {files} ({size}) to {where}"))
    elif counts.written:
        parts.append(phrase(f"Copied {files} ({size}) to {where}"))
    if gone:
        parts.append(phrase(f"would delete {gone}" if result.dry_run else f"deleted {gone}"))
    if not parts:
        parts.append(phrase(f"Nothing to copy to {where}"))
    if counts.conflicts:
        parts.append(phrase(f"{counts.conflicts} in conflict"))
    if counts.newer and result.pull:
        parts.append(phrase(f"{counts.newer} only here or changed here"))
    elif counts.newer:
        parts.append(phrase(f"{counts.newer} only on the TPU or changed there"))
    if counts.not_copied:
        parts.append(phrase(f"{counts.not_copied} left out"))
    if failed := len(result.hosts) - len(good):
        parts.append(phrase(f"{failed} of {len(result.hosts)} hosts failed"))
    line = " · ".join(parts)
    return line[:1].upper() + line[1:]


def failure_of(outcome: SyncOutcome) -> TPUError | None:
    """Why not all hosts have the folder: names them, and says how the others are."""
    failed = [host for host in outcome.hosts if host.problem is not None]
    if not failed:
        return None
    first = failed[0].problem
    assert first is not None
    hint = first.hint
    if first.reason in (Reason.UNREACHABLE, Reason.INTERRUPTED):
        hint = "Sync again. What was copied is not copied again."
    message = first.message
    if len(outcome.hosts) > 1:
        where = hosts_text([host_outcome.host for host_outcome in failed])
        rest = other_hosts(len(outcome.hosts) - len(failed), "has it", "have it")
        message = f"The folder is not on {where}: {message}{rest}"
    return error_for(message, first.reason, hint)


#: Files of one folder at most.
MAX_FILES = 20_000
_MEGABYTE = 1_000_000
#: Seconds after which the copy of a project that a job needs is tried again.
BRING_AGAIN_SECONDS = 30.0


class SyncService:
    """Syncs, as a :class:`~jupyter_tpu.fleet.api.SyncAPI`; several may run at the same time.

    folder: where it keeps what was synced last.
    """

    def __init__(self, core: Core, folder: Path) -> None:
        self._finder = core.finder
        self._observed = core.observed
        self._connections = core.connections
        self._runner = core.runner
        core.connected.ends_with_tpu(self._end_watches)
        self._bases = Bases(folder)
        self._synced = SyncedProjects(folder / "projects")
        self._locks: defaultdict[tuple[str, ...], asyncio.Lock] = defaultdict(asyncio.Lock)
        self._first_rounds: dict[str, asyncio.Event] = {}  # by operation
        self._brought: dict[tuple[str, str], tuple[str, float]] = {}  # operations, and since when

    def projects(self, name: NodeName, node_id: str) -> list[SyncProject]:
        """The folders here that were copied to a TPU of this name, or are watched for it."""
        projects = {request.remote: request for request in self._synced.of(name, node_id)}
        for record in self._runner.known.on(name):
            content = record.content
            if isinstance(content, WatchedFolder) and content.node_id == node_id:
                projects[content.request.remote] = content.request
        return list(projects.values())

    async def require(self, node: Node, requests: Sequence[SyncProject]) -> None:
        """Has a TPU get these folders. Raises UNAVAILABLE until it has them."""
        there = {request.remote for request in self._synced.of(node.name, node.id)}
        for request in requests:
            if request.remote in there:
                continue
            async with self._locks["bring", node.id, request.remote]:
                raise await self._bring(node, request)

    async def _bring(self, node: Node, request: SyncProject) -> TPUError:
        """Begins to copy a folder, if that is not under way; why it is not there."""
        key, why = (node.id, request.remote), ""
        id, begun = self._brought.get(key, ("", -BRING_AGAIN_SECONDS))
        now = asyncio.get_running_loop().time()
        kinds = {record.operation.kind for record in self._runner.known.running_on(node.name)}
        if "sync" not in kinds:
            last = self._runner.known.find(id)
            if last is not None and last.problem is not None:
                why = f": {last.problem.message}"
            if now >= begun + BRING_AGAIN_SECONDS:
                operation = await self.start(f"{node.name.zone}~{node.name.node}", request)
                self._brought[key] = operation.id, now
        return TPUError(
            f"{node.name.node} does not have the project {request.folder} yet{why or '.'}",
            Reason.UNAVAILABLE,
            "The job starts when it is copied.",
        )

    async def bring_back(self, node: Node, requests: Sequence[SyncProject]) -> list[str]:
        """Has a TPU get the folders of the one before it, and waits for the first copy of each.
        Returns what went wrong, in sentences.
        """
        there, problems = self.projects(node.name, node.id), []
        for request in requests:
            if request in there:
                continue
            try:
                operation = await self.start(f"{node.name.zone}~{node.name.node}", request)
                if (first := self._first_rounds.get(operation.id)) is not None:
                    await first.wait()
            except TPUError as error:
                problems.append(f"{request.folder} is not copied again: {error.message}")
        return problems

    async def first_copies(self, name: NodeName) -> None:
        """Returns when each sync of a TPU that runs now has copied all that there was, or has
        failed.
        """
        for record in self._runner.known.running_on(name):
            if (first := self._first_rounds.get(record.operation.id)) is not None:
                await first.wait()

    def _end_watches(self, name: NodeName) -> None:
        for running in self._runner.known.running.values():
            watches = isinstance(running.record.content, WatchedFolder)
            if running.name == name and watches and running.task is not None:
                running.task.cancel()

    async def start(self, ref: str, request: SyncProject) -> Operation:
        request = validated(request)
        folder = _local_folder(request)
        if not (request.remote or folder.name):
            raise InvalidInput("A folder on the TPU is needed, too.", "Add :DIR to its name.")
        for path in request.only:
            _check_parts(path, path)
        if request.watch and (request.pull or request.dry_run):
            raise InvalidInput("Watching only works from here to the TPU.")
        node = await self._finder.find_ready(ref)
        if request.pull and not 0 <= request.host < len(node.endpoints):
            count = len(node.endpoints)
            raise no_such_host(node.name.node, request.host, count, Reason.NOT_FOUND)
        if request.remote:
            remote = _remote_folder(request.remote)
        else:
            host_id = self._connections.link(HostName(node.name, 0)).host_id
            claim = not (request.pull or request.dry_run)
            remote = file_sync.remote_folder(self._bases, host_id, folder, claim=claim)
        elsewhere = not request.remote and remote != f"~/{folder.name}"
        request = msgspec.structs.replace(request, folder=str(folder), remote=remote)

        first = asyncio.Event()

        async def work(progress: OperationProgress) -> None:
            try:
                await sync(progress)
            finally:
                first.set()
                self._first_rounds.pop(record.operation.id, None)

        async def sync(progress: OperationProgress) -> None:
            if elsewhere:
                progress.log(f"~/{folder.name} has another project, so this one is in {remote}")
            if request.watch:
                await self._watch(node, request, progress, first)
                return
            result, failure = await self._round(node, request, progress)
            progress.operation.result = msgspec.to_builtins(result)
            progress.log(summary(result))
            if failure is not None:
                raise failure

        watched = WatchedFolder(request=request, node_id=node.id) if request.watch else None
        record = self._runner.new_record("sync", node.name, watched)
        self._first_rounds[record.operation.id] = first
        return await self._runner.start(record, work)

    async def _round(
        self, node: Node, request: SyncProject, progress: OperationProgress
    ) -> tuple[SyncResult, TPUError | None]:
        """One comparison and copy: its result, and why it is not complete."""
        options = SyncOptions(
            delete=request.delete,
            overwrite=request.overwrite,
            only=tuple(request.only),
            dry_run=request.dry_run,
        )
        steps = file_sync.PULL_STEPS if request.pull else file_sync.PUSH_STEPS
        progress.plan(steps, len(node.endpoints), measured=True)
        common = (node.name.path, node.id, request.remote, request.folder)
        async with self._locks[common]:
            local = await asyncio.to_thread(
                LocalProject,
                Path(request.folder),
                self._bases,
                (int(request.max_file * _MEGABYTE), int(request.max_total * _MEGABYTE), MAX_FILES),
                for_agent=bool(request.agents_folder),
            )
            links = [
                self._connections.link(HostName(node.name, number))
                for number in range(len(node.endpoints))
            ]
            if request.pull:
                outcome = await file_sync.pull(
                    links[request.host],
                    local,
                    request.remote,
                    self._bases,
                    (*common, str(request.host)),
                    options,
                    progress,
                )
            else:
                outcome = await file_sync.push(
                    links,
                    local,
                    request.remote,
                    self._bases,
                    lambda number: (*common, str(number)),
                    options,
                    progress,
                )
        if not request.dry_run:
            default_mirrors().recheck(request.folder)
        result, failure = result_of(request, outcome), failure_of(outcome)
        if failure is None and not (request.pull or request.dry_run or request.only):
            await asyncio.to_thread(self._synced.note, node, request)
        return result, failure

    async def _watch(
        self, node: Node, request: SyncProject, progress: OperationProgress, first: asyncio.Event
    ) -> None:
        """A round now and after each change here. Where hosts can't be reached it is tried again
        until they can; what else goes wrong is tried again after the next change.
        """
        try:
            await self._watch_until_cancelled(node, request, progress, first)
        except asyncio.CancelledError:
            if self._observed.is_ready(node.name):  # not with its TPU: it is not watched again
                self._synced.note(node, structs.replace(request, watch=False))
            raise

    async def _watch_until_cancelled(
        self, node: Node, request: SyncProject, progress: OperationProgress, first: asyncio.Event
    ) -> None:
        last: SyncResult | None = None
        async with Watcher(Path(request.folder)) as watcher:
            while True:
                self._require_same(node)
                try:
                    result, failure = await self._round(node, request, progress)
                except TPUError as error:
                    failure = error
                else:
                    copied = result.counts.written or result.counts.deleted
                    result.rounds = (last.rounds if last else 0) + bool(copied)
                    if copied or last is None or result.conflicts != last.conflicts:
                        progress.log(summary(result))
                    progress.operation.result = msgspec.to_builtins(result)
                    last = result
                first.set()
                progress.block(failure)
                progress.set_message(f"Watching {request.folder}")
                await watcher.wait(retry_after(failure))

    def _require_same(self, node: Node) -> None:
        """Raises NOT_FOUND or CONFLICT when the TPU is gone, or another one has its name."""
        seen = self._observed.node(node.name)
        if seen is None and self._observed.complete(node.name):
            raise TPUError(f"{node.name.node} does not exist any more.", Reason.NOT_FOUND)
        if seen is not None and (other := another_node(seen, node.id)):
            raise other


# ---- what is asked for ---------------------------------------------------------------------------


def _local_folder(request: SyncProject) -> Path:
    if "\0" in request.folder or not request.folder.strip():
        raise InvalidInput("No folder was given.", "Name the folder here, such as ~/project.")
    folder = Path(request.folder).expanduser()
    if not folder.is_absolute():
        raise InvalidInput(f"{request.folder} is not a full path.", "A path begins with / or ~.")
    return folder.resolve()


def _remote_folder(asked: str) -> str:
    """As the host's program takes it: it begins with / or ~."""
    remote = asked.rstrip("/") or "/"
    if remote in ("~", "."):
        return "~"
    below = remote.removeprefix("~/").removeprefix("/")
    _check_parts(below, asked)
    return remote if remote[0] == "/" or remote[:2] == "~/" else f"~/{remote}"


def _check_parts(path: str, shown: str) -> None:
    parts = path.split("/")
    if "\0" in path or not all(parts) or {".", ".."} & set(parts):
        raise InvalidInput(
            f"{shown!r} is not a path of a folder or file.", "A path has no . or .. in it."
        )
