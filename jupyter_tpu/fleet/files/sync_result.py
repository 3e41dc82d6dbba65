"""How a sync went, as faces show it."""

from __future__ import annotations

from ...environment.file_sync import HostOutcome, SyncOutcome
from ...errors import Reason, TPUError, error_for
from ...wording import count, hosts_text, other_hosts, phrase, size_text
from ..models import HostSync, NotCopied, Problem, SyncConflict, SyncCounts, SyncProject, SyncResult
from ..models.core import timestamp
from ..models.files import LISTED


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
        written=written[:LISTED],
        deleted=deleted[:LISTED],
        conflicts=conflicts[:LISTED],
        newer=newer[:LISTED],
        not_copied=not_copied[:LISTED],
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
