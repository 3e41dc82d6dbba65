"""Which method of the daemon's parts handles a request, and how a request fails."""

from __future__ import annotations

from typing import Any, Awaitable, Callable, Dict, Type

from ..protocol.declarations import Answer, ProtocolRequest


class OperationError(Exception):
    """An op failed: the reason (a value of errors.Reason), the message, and a hint."""

    def __init__(self, reason: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.answer = {"reason": reason, "message": message, "hint": hint}


Method = Callable[[Any, Any], Awaitable[Answer]]


def handles(kind: Type[ProtocolRequest[Answer]]) -> Callable[[Method[Answer]], Method[Answer]]:
    """Marks a method that handles requests of this kind."""

    def mark(method: Method[Answer]) -> Method[Answer]:
        method.handles = kind  # type: ignore[attr-defined]
        return method

    return mark


def handlers(*parts: Any) -> Dict[str, Callable[[Any], Awaitable[Any]]]:
    """The marked methods of these objects, by the ops of their requests."""
    by_op = {}
    for part in parts:
        for name in dir(type(part)):
            kind = getattr(getattr(type(part), name), "handles", None)
            if kind is not None:
                by_op[kind.op] = getattr(part, name)
    return by_op
