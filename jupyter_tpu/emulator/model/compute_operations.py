"""Compute Engine's operations: DONE is said of failures, too, which are in their errors."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from . import api_errors
from .instance_records import ComputeOperation
from .operations import rfc3339

_KEPT_OPERATIONS = 300


class ComputeOperations:
    """All of them, by path. *now* gives the time, *chance* their ids."""

    def __init__(
        self,
        operations: Iterable[ComputeOperation],
        now: Callable[[], datetime],
        chance: random.Random,
    ) -> None:
        self._operations = {operation.path: operation for operation in operations}
        self._now = now
        self._chance = chance
        self._one_ended = asyncio.Event()

    def all(self) -> list[ComputeOperation]:
        return list(self._operations.values())

    def get(self, path: str) -> ComputeOperation:
        try:
            return self._operations[path]
        except KeyError:
            raise api_errors.resource_not_found(path) from None

    def list_in(self, project: str, place: str) -> list[ComputeOperation]:
        return [
            compute_operation
            for compute_operation in self.all()
            if (compute_operation.project, compute_operation.place) == (project, place)
        ]

    def repeated(self, request_id: str, target: str, kind: str) -> ComputeOperation | None:
        """What an earlier call with the same *request_id* has begun."""
        for compute_operation in self._operations.values():
            if request_id and (
                compute_operation.request_id,
                compute_operation.target,
                compute_operation.kind,
            ) == (
                request_id,
                target,
                kind,
            ):
                return compute_operation
        return None

    def in_progress(self, target: str) -> list[ComputeOperation]:
        return [
            compute_operation
            for compute_operation in self.all()
            if compute_operation.target == target and compute_operation.status != "DONE"
        ]

    def begin(
        self, kind: str, target: str, target_id: str = "", *, by: str = "", request_id: str = ""
    ) -> ComputeOperation:
        """One on the resource at the path *target* (projects/P/…)."""
        _, project, *rest = target.split("/")
        place = "/".join(rest[:2]) if rest[:1] in (["zones"], ["regions"]) else "global"
        operation = ComputeOperation(
            project=project,
            place=place,
            name=f"operation-{self._chance.getrandbits(96):024x}",
            id=str(self._chance.randrange(10**18, 9 * 10**18)),
            kind=kind,
            target=target,
            target_id=target_id,
            inserted=rfc3339(self._now()),
            user=by,
            request_id=request_id,
        )
        self._operations[operation.path] = operation
        done = [path for path, old in self._operations.items() if old.status == "DONE"]
        for path in done[: max(0, len(self._operations) - _KEPT_OPERATIONS)]:
            del self._operations[path]
        return operation

    def end(self, operation: ComputeOperation, errors: Sequence[dict[str, str]] = ()) -> None:
        if operation.status != "DONE":
            operation.status, operation.errors = "DONE", list(errors)
            operation.ended = rfc3339(self._now())
            event, self._one_ended = self._one_ended, asyncio.Event()
            event.set()

    async def wait(self, operation: ComputeOperation, seconds: float) -> None:
        """Returns when it is DONE, or after so many seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while operation.status != "DONE":
                    await self._one_ended.wait()

    def end_all(self, target: str, errors: Sequence[dict[str, str]] = ()) -> None:
        for operation in self.in_progress(target):
            self.end(operation, errors)

    def happened(self, kind: str, target: str, target_id: str, message: str = "") -> None:
        """Google did something by itself."""
        operation = self.begin(kind, target, target_id, by="system")
        self.end(operation, [{"code": kind, "message": message}] if message else ())
