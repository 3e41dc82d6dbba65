"""A sync in words: what was copied, what was left as it is, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import Reason, TPUError
from ..terminal.tables import table
from ..wording import size_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..fleet.models import Operation, SyncProject, SyncResult
    from ..terminal.session import Session

_KINDS = {
    "changed": "changed on both sides",
    "different": "different on both sides",
    "deleted": "deleted in one, changed in the other",
}
#: Paths that are listed one by one.
_SHOWN = 20


def result_of(operation: Operation) -> SyncResult | None:
    """The result so far; None if there is none yet."""
    import msgspec

    from ..fleet.models import SyncResult

    if operation.result is None:
        return None
    return msgspec.convert(operation.result, SyncResult)


def sync_project(
    session: Session,
    name: str,
    request: SyncProject,
    wait: Callable[[Operation], object],
    show: Callable[[SyncResult], None] | None = None,
) -> None:
    """Syncs once and prints how it went. Raises what it failed with, and CONFLICT.

    wait: waits for the operation's end, and raises what it failed with. show: prints in place of
    this function.
    """
    operation = session.call(session.fleet.sync.start(name, request))
    try:
        wait(operation)
    finally:
        ended = session.call(session.fleet.operations.get(operation.id))
        result = result_of(ended)
        if result is not None and show is not None:
            show(result)
        elif result is not None:
            print("\n".join(filter(None, (*ended.log, details(result)))))
    if result is not None:
        raise_conflicts(result)


def details(result: SyncResult) -> str:
    """What is left as it is, and in a dry run what would be done."""
    counts, lines = result.counts, []
    if result.dry_run:
        lines += _listed(result.written, counts.written, "would copy    ")
        lines += _listed(result.deleted, counts.deleted, "would delete  ")
    if result.conflicts:
        all_hosts = [host.host for host in result.hosts]
        rows = [
            (
                conflict.path,
                _KINDS[conflict.kind]
                + (_on(conflict.hosts) if conflict.hosts != all_hosts else ""),
                conflict.here or "deleted",
                conflict.there or "deleted",
            )
            for conflict in result.conflicts[:_SHOWN]
        ]
        lines += ["", table(("CONFLICT", "", "CHANGED HERE", "CHANGED ON THE TPU"), rows)]
        lines += _more(len(rows), counts.conflicts)
    if result.newer:
        side = "Here" if result.pull else "On the TPU"
        lines += ["", f"{side} only, or changed there since the last sync:"]
        lines += _listed(result.newer, counts.newer, "  ")
    if result.not_copied:
        left_out = [
            (file.path, _size(file.size), file.why + _on(file.hosts))
            for file in result.not_copied[:_SHOWN]
        ]
        lines += ["", table(("LEFT OUT", "SIZE", "WHY"), left_out)]
        lines += _more(len(left_out), counts.not_copied)
    return "\n".join(lines).strip("\n")


def raise_conflicts(result: SyncResult) -> None:
    """Raises CONFLICT where files were changed on both sides."""
    count = result.counts.conflicts
    if count and not result.dry_run:
        files = "1 file was" if count == 1 else f"{count} files were"
        raise TPUError(
            f"{files} not copied, because both sides have changed.",
            Reason.CONFLICT,
            "To decide: --overwrite replaces the other side's files (with --only PATH only these). "
            "To keep the other side's, sync in the other direction with --overwrite.",
        )


def _listed(paths: list[str], count: int, before: str) -> list[str]:
    shown = paths[:_SHOWN]
    return [before + path for path in shown] + _more(len(shown), count)


def _more(shown: int, count: int) -> list[str]:
    return [f"... and {count - shown} more"] if count > shown else []


def _on(hosts: list[int]) -> str:
    return f" (host {', '.join(map(str, hosts))})" if hosts else ""


def _size(size: int) -> str:
    return size_text(size) if size else "-"
