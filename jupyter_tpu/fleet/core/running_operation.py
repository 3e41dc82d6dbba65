"""An operation that runs in this process, and what running one needs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from ...cloud import NodeName
from ...errors import TPUError
from .operation_progress import OperationProgress
from .records import OperationRecord, OperationRequest

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
