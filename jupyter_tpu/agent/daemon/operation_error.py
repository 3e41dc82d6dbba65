"""`OperationError`: an operation of the daemon failed."""

from __future__ import annotations


class OperationError(Exception):
    """An op failed: the reason (a value of errors.Reason), the message, and a hint."""

    def __init__(self, reason: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.answer = {"reason": reason, "message": message, "hint": hint}
