"""The long-running operations: begun, asked for, ended, and after a while forgotten."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import TypeVar

from . import api_errors
from .records import EmulatedOperation, OperationFailure, Verb

KEPT_OPERATIONS = 200
CANCELLED = 1


class Operations:
    """All of them, by name. *now* gives the time, *chance* the random part of their names."""

    def __init__(
        self,
        operations: Iterable[EmulatedOperation],
        now: Callable[[], datetime],
        chance: random.Random,
    ) -> None:
        self._found = {operation.name: operation for operation in operations}
        self._now = now
        self._chance = chance

    def __len__(self) -> int:
        return len(self._found)

    def all(self) -> list[EmulatedOperation]:
        return list(self._found.values())

    def get(self, name: str) -> EmulatedOperation:
        try:
            return self._found[name]
        except KeyError:
            raise api_errors.not_found(name) from None

    def list_in(self, project: str, zone: str) -> list[EmulatedOperation]:
        """Those of a zone, or of all zones for "-"."""
        start = f"projects/{project}/locations/" + ("" if zone == "-" else f"{zone}/")
        return [
            emulated_operation
            for name, emulated_operation in self._found.items()
            if name.startswith(start)
        ]

    def request_cancel(self, name: str) -> None:
        """Only a request: the service promises nothing, and neither does this."""
        self.get(name).cancel_requested = True

    def delete(self, name: str) -> None:
        """Removes it if it is done: the client is no longer interested."""
        if self.get(name).done:
            del self._found[name]

    def in_progress(self, target: str | None = None) -> list[EmulatedOperation]:
        """Those in progress (on *target*); an emulator that starts again continues them."""
        return [
            operation
            for operation in self._found.values()
            if not operation.done and target in (None, operation.target)
        ]

    def repeated(self, request_id: str, target: str) -> EmulatedOperation | None:
        """What an earlier call with the same *request_id* has begun on *target*."""
        for operation in self._found.values():
            if request_id and (operation.request_id, operation.target) == (request_id, target):
                return operation
        return None

    def last(self, target: str) -> EmulatedOperation | None:
        """The newest one on *target*."""
        emulated_operations = [
            operation for operation in self._found.values() if operation.target == target
        ]
        return emulated_operations[-1] if emulated_operations else None

    def begin(self, verb: Verb, target: str) -> EmulatedOperation:
        parent = target.rsplit("/", 2)[0]
        moment = self._now()
        milliseconds = int(moment.timestamp() * 1000)
        tail = "-".join(f"{self._chance.getrandbits(32):08x}" for _ in range(3))
        operation = EmulatedOperation(
            name=f"{parent}/operations/operation-{milliseconds}-{tail}",
            verb=verb,
            target=target,
            created=rfc3339(moment),
        )
        self._found[operation.name] = operation
        done = [name for name, old in self._found.items() if old.done]
        for name in done[: max(0, len(self._found) - KEPT_OPERATIONS)]:
            del self._found[name]
        return operation

    def end(self, operation: EmulatedOperation, error: OperationFailure | None) -> None:
        operation.done, operation.error = True, error
        operation.ended = rfc3339(self._now())

    def end_all(self, target: str) -> None:
        """Something else begins that ends what is in progress on *target*."""
        for operation in self.in_progress(target):
            self.end(
                operation, OperationFailure(code=CANCELLED, message="The operation was cancelled.")
            )


def rfc3339(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


T = TypeVar("T")


def paginate(items: Sequence[T], size: int, token: str) -> tuple[Sequence[T], str]:
    """One page of *items* (all for size 0) and the token of the next, "" for the last."""
    try:
        start = int(token or 0)
    except ValueError:
        raise api_errors.invalid_field("the page token is not valid") from None
    end = start + size if size > 0 else len(items)
    return items[start:end], str(end) if end < len(items) else ""
