"""``jupyter tpu sync`` and ``%tpu sync``: a folder is copied to all hosts, or from one of them."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from ..errors import Reason, TPUError
from ..terminal.field_options import options_of
from ..terminal.grammar import argument, command, examples
from ..terminal.operations import LogReader, raise_failure
from ..terminal.parameters import project_option
from ..terminal.printing import json_option, note, print_json
from ..terminal.session import FleetSession, open_session
from ..terminal.tables import table
from ..terminal.waiting import finish, progress_stream
from ..wording import size_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..fleet.models import Operation, SyncProject, SyncResult
    from ..terminal.session import FleetSession


@command(
    "sync",
    epilog=examples(
        "jupyter tpu sync . my-tpu                 this folder to ~/NAME-OF-THE-FOLDER",
        "jupyter tpu sync . my-tpu:work --watch    and again after each change, until Ctrl-C",
        "jupyter tpu sync my-tpu:work/runs runs    results back",
        "jupyter tpu sync . my-tpu --dry-run",
    ),
)
@argument("source", metavar="DIR|NAME:DIR", help="The folder to copy.")
@argument(
    "target",
    metavar="NAME[:DIR]|DIR",
    help="Where to. NAME is a TPU; DIR on it is relative to the home folder, and has the name of "
    "the local folder if it is omitted.",
)
@options_of(
    "SyncProject",
    "watch",
    "dry_run",
    "delete",
    "overwrite",
    "only",
    "max_file",
    "max_total",
    "host",
)
@project_option
@json_option
def sync(source: str, target: str, fields: dict[str, Any], as_json: bool) -> None:
    """Copy a folder to all hosts of a TPU, or from one host; only what has changed.

    Files excluded by .gitignore are not copied. A file that was changed on both sides is not copied
    but listed, and the exit code is 1. Files that were deleted here since the last sync are deleted
    there, if they were not changed there.
    """
    from ..fleet.models import SyncProject

    name, folder, remote, pull = _direction(source, target)
    request = SyncProject(folder=folder, remote=remote, pull=pull, **fields)
    request.only = [*map(os.path.normpath, request.only)]
    with open_session() as session:
        if request.watch:
            _watch(session, name, request)
            return
        sync_project(
            session,
            name,
            request,
            lambda operation: finish(session, operation, progress_stream(as_json)),
            print_json if as_json else None,
        )


def _watch(session: FleetSession, name: str, request: SyncProject) -> None:
    """Prints the operation's log as it grows; Ctrl-C ends it."""
    from ..fleet.client import wait_for_end
    from ..links import core_thread

    log = LogReader()

    def show(operation: Operation) -> None:
        for line in log.new_lines(operation):
            print(line, flush=True)

    operation = session.call(session.fleet.sync.start(name, request))
    note(f"Watching {request.folder}. Press Ctrl-C to end.")
    future = core_thread().submit(wait_for_end(session.fleet, operation, show))
    try:
        raise_failure(future.result())
    except KeyboardInterrupt:
        future.cancel()
        session.call(session.fleet.operations.cancel(operation.id))
        print(f"Ended. {name} keeps what was copied.", file=sys.stderr)


def _direction(source: str, target: str) -> tuple[str, str, str, bool]:
    """(TPU, local folder, remote folder, whether it is copied from the TPU).

    As for scp, a path with a / before its : is local.
    """
    name, colon, remote = source.partition(":")
    if colon and name and "/" not in name and not os.path.exists(source):
        return name, _local(target), remote, True
    name, _, remote = target.partition(":")
    if not name or "/" in name or name in (".", "..", "~"):
        raise click.UsageError(
            f"{target!r} is not a TPU. To it: DIR NAME or DIR NAME:DIR. From it: NAME:DIR DIR."
        )
    return name, _local(source), remote, False


def _local(folder: str) -> str:
    return os.path.abspath(os.path.expanduser(folder))


_KINDS = {
    "changed": "changed on both sides",
    "different": "different on both sides",
    "deleted": "deleted in one, changed in the other",
}


#: Paths that are listed one by one.
_MOST_PATHS = 20


def result_of(operation: Operation) -> SyncResult | None:
    """The result so far; None if there is none yet."""
    import msgspec

    from ..fleet.models import SyncResult

    if operation.result is None:
        return None
    return msgspec.convert(operation.result, SyncResult)


def sync_project(
    session: FleetSession,
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
            for conflict in result.conflicts[:_MOST_PATHS]
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
            for file in result.not_copied[:_MOST_PATHS]
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
    shown = paths[:_MOST_PATHS]
    return [before + path for path in shown] + _more(len(shown), count)


def _more(shown: int, count: int) -> list[str]:
    return [f"... and {count - shown} more"] if count > shown else []


def _on(hosts: list[int]) -> str:
    return f" (host {', '.join(map(str, hosts))})" if hosts else ""


def _size(size: int) -> str:
    return size_text(size) if size else "-"
