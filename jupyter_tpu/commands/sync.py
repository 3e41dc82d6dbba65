"""``jupyter tpu sync``: copies a folder to all hosts of a TPU, or from one of them."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from ..terminal.console import json_option, note, print_json
from ..terminal.field_options import options_of
from ..terminal.grammar import argument, command, examples
from ..terminal.operations import LogReader, raise_failure
from ..terminal.parameters import project_option
from ..terminal.session import Session, open_session
from ..terminal.waiting import finish, progress_stream
from .sync_text import sync_project

if TYPE_CHECKING:
    from ..fleet.models import Operation, SyncProject


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


def _watch(session: Session, name: str, request: SyncProject) -> None:
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
