"""Operations in words: what is being done, what failed, and what continues without us."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import Reason, TPUError
from .printing import note

if TYPE_CHECKING:
    from ..fleet.models import Operation
    from .session import FleetSession


def activity(operation: Operation) -> str:
    """ "creating my-tpu"."""
    from ..fleet.models.operation_kinds import KINDS

    return KINDS[operation.kind].activity.format(operation.tpu)


def progress_line(operation: Operation) -> str:
    """The current step: "my-tpu: Installing JAX (2 of 4 hosts)", or what stands in its way; "" once
    it has ended.
    """
    line = operation.message if operation.state == "running" else ""
    if line and operation.problem is not None:
        return operation.problem.message
    for step in operation.steps:
        if step.state == "running" and step.title == line and step.hosts > 1:
            line += f" ({step.hosts_done} of {step.hosts} hosts)"
    return f"{operation.tpu}: {line}" if line and operation.tpu else line


class LogReader:
    """Reads the log of one operation, as it grows."""

    def __init__(self) -> None:
        self._read: list[str] = []

    def new_lines(self, operation: Operation) -> list[str]:
        """What was not in the log before; it drops its first lines when it is long."""
        before, now = self._read, list(operation.log)
        self._read = now
        for at in range(len(before)):
            if now[: len(before) - at] == before[at:]:
                return now[len(before) - at :]
        return now


def status_command(operation: Operation) -> str:
    """The command that shows how it is going."""
    if operation.kind == "hunt":
        return f"`jupyter tpu hunt describe {operation.tpu}`"
    if operation.kind in ("queue", "unqueue"):
        return "`jupyter tpu queued list`"
    return f"`jupyter tpu {'list' if operation.tpu else 'operation list'}`"


def raise_failure(ended: Operation) -> None:
    """Raises what an operation failed with, or that it was cancelled."""
    if ended.state == "failed" and ended.problem is not None:
        error = ended.problem.to_error()
        if ended.kind == "create" and error.reason is Reason.NO_CAPACITY:
            error.hint = (
                "To look for capacity in all zones until there is some, add --zone - and "
                "--until-available to `jupyter tpu create`, or use `jupyter tpu hunt start`."
            )
        raise error
    if ended.state == "cancelled":
        raise TPUError(f"Cancelled {activity(ended)}.", Reason.CANCELLED)


def wait_with_notes(session: FleetSession, operation: Operation) -> None:
    """Waits for an operation, with a note for each step that takes a while and each line of its
    log; an interrupt cancels it. Raises what it failed with.
    """
    from ..fleet.client import wait_for_end

    noted, log = "", LogReader()

    def show(now: Operation) -> None:
        nonlocal noted
        if (line := progress_line(now)) and line != noted:
            noted = line
            note(line)
        for line in log.new_lines(now):
            note(line)

    try:
        raise_failure(session.call(wait_for_end(session.fleet, operation, show)))
    except KeyboardInterrupt:
        session.call(session.fleet.operations.cancel(operation.id))
        raise


def left_running(session: FleetSession, operation: Operation) -> str:
    """What happens to an operation that is no longer waited for."""
    from ..fleet.models.operation_kinds import KINDS

    left = KINDS[operation.kind].without_server
    if left and session.server is None:
        return left.format(operation.tpu)
    who = "The Jupyter server" if session.server is not None else "Google"
    return f"{who} is still {activity(operation)}; {status_command(operation)} shows its state."
