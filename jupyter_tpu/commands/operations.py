"""Operations in words: what is being done, what failed, what goes on without us."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import Reason, TPUError

if TYPE_CHECKING:
    from ..fleet.models import Operation
    from .session import Session

DOING = {
    "create": "created",
    "start": "started",
    "stop": "stopped",
    "delete": "deleted",
    "connect": "connected",
    "disconnect": "disconnected",
    "environment": "given an environment",
    "compile": "compiled",
    "tensorboard": "given a TensorBoard",
    "profile": "traced",
}


def progress_line(operation: Operation) -> str:
    """What is being done now: "my-tpu: Installing JAX (2 of 4 hosts)"."""
    said = operation.message if operation.state == "running" else ""
    for step in operation.steps:
        if step.state == "running" and step.title == said and step.hosts > 1:
            said += f" ({step.hosts_done} of {step.hosts} hosts)"
    return f"{operation.tpu}: {said}" if said and operation.tpu else said


def subject(operation: Operation) -> str:
    return operation.tpu or "the program"


def status_command(operation: Operation) -> str:
    """The command that shows what becomes of it."""
    what = "list" if operation.tpu else f"api GET operations/{operation.id}"
    return f"`jupyter tpu {what}`"


def raise_failure(ended: Operation) -> None:
    """Raises what an operation failed with, or that it was cancelled."""
    if ended.state == "failed" and ended.problem is not None:
        raise TPUError(ended.problem.message, ended.problem.reason, ended.problem.hint)
    if ended.state == "cancelled":
        raise TPUError(
            f"{subject(ended)} is not {DOING[ended.kind]}: that was cancelled.", Reason.CANCELLED
        )


def left_running(session: Session, operation: Operation) -> str:
    """What becomes of an operation that nobody waits for."""
    if session.server is not None:
        return (
            f"{subject(operation)} is still being {DOING[operation.kind]} by the Jupyter server; "
            f"{status_command(operation)} shows it."
        )
    if operation.kind in ("connect", "environment"):
        return (
            f"{operation.tpu} is not connected yet; `jupyter tpu connect {operation.tpu}` goes on "
            "where this ended."
        )
    if operation.kind in ("tensorboard", "profile"):
        return f"TensorBoard is not open; `jupyter tpu {operation.kind}` goes on where this ended."
    return (
        f"{operation.tpu} is still being {DOING[operation.kind]} by Google; "
        "`jupyter tpu list` shows it."
    )
