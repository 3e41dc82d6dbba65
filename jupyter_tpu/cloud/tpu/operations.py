"""Waiting for long-running operations: quick first, then slower, with a limit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from ...backoff import POLLING
from ...errors import Reason, TPUError
from ..errors import operation_error
from ..models import OperationStatus

if TYPE_CHECKING:
    from google.longrunning.operations_pb2 import Operation

#: Google gives up on capacity after about a minute; gcloud on the operation after half an hour.
OPERATION_SECONDS = 1800.0  # seconds

#: A poll that fails for these reasons is repeated; the operation itself continues at Google.
_PASSING = (Reason.UNAVAILABLE, Reason.RATE_LIMITED, Reason.TIMEOUT)
_FAILING_LIMIT = 300.0  # seconds in which all polls fail


def operation_status(operation: Operation, *, project: str = "") -> OperationStatus:
    """What Google's *operation* says, in our words."""
    error = None
    if operation.done and operation.HasField("error"):
        error = operation_error(operation.error, project=project)
    return OperationStatus(operation.done, error)


async def wait_for_operation(
    operation: Operation,
    poll: Callable[[str], Awaitable[Operation]],
    *,
    what: str,
    project: str = "",
    limit: float = OPERATION_SECONDS,
) -> None:
    """Returns when *operation* is done; raises TPUError if it failed.

    Parameters
    ----------
    operation: as returned by the call that started it.
    poll: gets an operation by its name; raises TPUError.
    what: "creating my-tpu", for the message.
    limit: seconds; TIMEOUT after that. The operation itself continues at Google, also when the
        waiting task is cancelled.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + limit
    answered = loop.time()
    for pause in POLLING:
        if operation.done:
            break
        if loop.time() + pause > end:
            raise TPUError(
                f"{what[:1].upper()}{what[1:]} did not finish within {limit / 60:.0f} minutes.",
                Reason.TIMEOUT,
                "It may still succeed. Check the list of TPUs.",
            )
        await asyncio.sleep(pause)
        try:
            operation = await poll(operation.name)
        except TPUError as error:
            if error.reason not in _PASSING or loop.time() - answered > _FAILING_LIMIT:
                raise
        else:
            answered = loop.time()
    ended = operation_status(operation, project=project)
    if ended.error is not None:
        raise ended.error
