"""An operation that runs in this process: its steps, progress and log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Literal, Protocol

from ...cloud import NodeName
from ...environment import StepPlan
from ...errors import TPUError
from ..models import Operation, Problem, Step
from .records import OperationRecord, OperationRequest

LOG_LINES = 1000


class OperationProgress:
    """Writes into an :class:`Operation`; *changed* is called after each change.

    It is what ``environment.ProgressReporter`` asks for, too.
    """

    def __init__(self, operation: Operation, changed: Callable[[], None]) -> None:
        self.operation = operation
        self._changed = changed
        self._measured = False
        self._weights: dict[str, float] = {}
        self._steps: dict[str, Step] = {}
        self._parts: dict[str, float] = {}

    def plan(self, steps: Sequence[StepPlan], hosts: int = 0, *, measured: bool = False) -> None:
        """Sets the steps: their titles and what share of the time each takes.

        measured: whether progress is known; how long Google takes is not.
        """
        self._measured = measured
        self._weights = {step.key: step.weight for step in steps}
        self._steps = {
            step.key: Step(title=step.title, hosts=hosts if step.all_hosts else 0) for step in steps
        }
        self._parts = dict.fromkeys(self._weights, 0.0)
        self.operation.steps = list(self._steps.values())
        self._update()

    def begin(self, key: str) -> None:
        step = self._steps[key]
        step.state = "running"
        self.operation.message = step.title
        self._update()

    def part(self, key: str, part: float) -> None:
        """How far a step is, 0 to 1; it never goes back."""
        if part > self._parts[key]:
            self._parts[key] = min(part, 1.0)
            self._update()

    def host_done(self, key: str) -> None:
        step = self._steps[key]
        step.hosts_done += 1
        self._update()

    def done(self, key: str, state: Literal["done", "skipped", "failed"] = "done") -> None:
        self._steps[key].state = state
        self._parts[key] = 1.0
        self._update()

    def set_message(self, message: str) -> None:
        """Sets what is being done now, where no step shows it."""
        self.operation.message = message
        self._changed()

    def block(self, problem: TPUError | None) -> None:
        """Shows what stands in the way while it continues; None when nothing does any more."""
        shown = None if problem is None else Problem.of(problem)
        before = self.operation.problem
        if shown != before:
            self.operation.problem = shown
            if shown is not None and (before is None or before.message != shown.message):
                self.log(f"{shown.message} {shown.hint}".strip())
            self._changed()

    def log(self, line: str) -> None:
        """A line of the log; control characters and colours are left out."""
        text = "".join(c for c in line.rstrip() if c.isprintable() or c == "\t")
        self.operation.log.append(text)
        if len(self.operation.log) > LOG_LINES:
            del self.operation.log[:-LOG_LINES]
        self._changed()

    def fail(self) -> None:
        """Marks the running step as the one that failed."""
        for step in self._steps.values():
            if step.state == "running":
                step.state = "failed"

    def _update(self) -> None:
        total = sum(self._weights.values())
        if total and self._measured:
            whole = sum(self._weights[key] * part for key, part in self._parts.items())
            self.operation.progress = round(whole / total, 3)
        self._changed()


Work = Callable[[OperationProgress], Coroutine[Any, Any, None]]
CarryOut = Callable[[OperationRequest], object]
Save = Callable[[OperationRecord], Coroutine[Any, Any, None]]


class OperationCancelled(Exception):
    """An operation has ended because it was cancelled, and nothing of it is left."""


class OperationStore(Protocol):
    """Where operations are written down (`Store`)."""

    def save_operation(self, record: OperationRecord) -> None: ...

    def drop_operation(self, id: str) -> None: ...

    def save_request(self, id: str, request: OperationRequest) -> None: ...

    def drop_request(self, id: str) -> None: ...

    async def flush(self) -> None: ...

    async def take_over_operation(
        self, record: OperationRecord, owner: str
    ) -> OperationRecord | None: ...


class OperationLease(Protocol):
    """Which process runs an operation (`ProcessLease`)."""

    id: str

    def alive(self, owner: str) -> bool: ...


class RunningOperation:
    """What the runner knows of one."""

    def __init__(self, record: OperationRecord) -> None:
        self.record = record
        self.task: asyncio.Task[None] | None = None
        self.carry_out: CarryOut | None = None  # None: the task is cancelled
        self.requests: set[OperationRequest] = set()  # that were carried out, or have begun to be
        self.saved: object = None  # the states that were last saved
        self.accepted = asyncio.Event()  # it is on disk, or was refused
        self.refused: TPUError | None = None  # why it could not be saved, and so never ran

    @property
    def name(self) -> NodeName:
        """The TPU that it is about now: a hunt goes from zone to zone."""
        return self.record.name
