"""``jupyter tpu operation``: what takes longer than a second, whichever process runs it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ..errors import Reason, TPUError
from ..terminal.grammar import Group, argument, examples
from ..terminal.operations import activity, progress_line, raise_failure
from ..terminal.printing import json_option, list_options, print_json, print_list
from ..terminal.questions import confirm, yes_option
from ..terminal.session import FleetSession, fleet_call, open_session
from ..terminal.tables import table

if TYPE_CHECKING:
    from ..fleet.models import Operation

#: Kinds whose cancelling deletes what they have created.
_CREATES = ("create", "hunt", "queue")
_operation_argument = argument("id", metavar="ID", help="Operation ID, or its unique prefix.")


@click.group("operation", cls=Group)
def operation() -> None:
    """Show and cancel operations, including those of servers and other commands."""


@operation.command("list")
@list_options
def list_operations() -> None:
    """List running and recent operations, newest first."""
    operations = fleet_call(lambda fleet: fleet.operations.list())
    print_list(operations, _table)


def _table(operations: Sequence[Operation]) -> str:
    if not operations:
        return "No operations yet."
    rows = [
        (
            operation.id,
            activity(operation),
            operation.state,
            operation.created,
            progress_line(operation) or operation.message,
        )
        for operation in operations
    ]
    return table(("ID", "OPERATION", "STATE", "STARTED", "MESSAGE"), rows, cut_last=True)


@operation.command("cancel", epilog=examples("jupyter tpu operation cancel 3f2a"))
@_operation_argument
@yes_option("Cancel it without asking.")
@json_option
def cancel(id: str, yes: bool, as_json: bool) -> None:
    """Cancel an operation, and wait until it has cleaned up.

    Cancelling a create deletes what was created.
    """
    with open_session() as session:
        current = _find(session, id)
        if current.state == "running" and current.cancellable and not yes:
            deletes = " What was created is deleted." if current.kind in _CREATES else ""
            confirm(
                f"Cancel {activity(current)}?{deletes}", "Add --yes to cancel it without asking."
            )
        ended = _wait(session, session.call(session.fleet.operations.cancel(current.id)))
    if ended.state == "failed":
        raise_failure(ended)
    if as_json:
        print_json(ended)
    elif ended.state == "cancelled":
        print(f"Cancelled {activity(ended)}.")
    else:
        print(f"Not cancelled: {activity(ended)} had already finished.")


@operation.command("stop-trying", epilog=examples("jupyter tpu operation stop-trying 3f2a"))
@_operation_argument
@yes_option("Keep the TPU without asking.")
@json_option
def stop_trying(id: str, yes: bool, as_json: bool) -> None:
    """Stop trying to delete a TPU that Google refuses to delete. The TPU stays."""
    from ..fleet.models import StopTrying

    with open_session() as session:
        current = _find(session, id)
        try:
            asked = session.call(
                session.fleet.operations.stop_trying(current.id, StopTrying(keep_tpu=yes))
            )
        except TPUError as error:
            if error.reason is not Reason.STILL_BILLED:
                raise
            confirm(f"{error.message} Stop trying to delete it?", "Add --yes to keep it.")
            asked = session.call(
                session.fleet.operations.stop_trying(current.id, StopTrying(keep_tpu=True))
            )
        ended = _wait(session, asked)
    if as_json:
        print_json(ended)
    elif ended.undeleted and ended.problem is not None:
        print(ended.problem.message)
    else:
        print(f"Google has now deleted {ended.tpu}.")


def _find(session: FleetSession, id: str) -> Operation:
    operations = session.call(session.fleet.operations.list())
    matching = [operation for operation in operations if operation.id.startswith(id)]
    if len(matching) == 1:
        return matching[0]
    raise TPUError(
        f"{'Several operations begin' if matching else 'No operation begins'} with {id!r}.",
        Reason.CONFLICT if matching else Reason.NOT_FOUND,
        "See their IDs: `jupyter tpu operation list`.",
    )


def _wait(session: FleetSession, operation: Operation) -> Operation:
    from ..fleet.client import wait_for_end

    return session.call(wait_for_end(session.fleet, operation))
