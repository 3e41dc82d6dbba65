"""What went wrong, as faces show it."""

from __future__ import annotations

from msgspec import Struct

from ...errors import Reason, TPUError


class Problem(Struct, kw_only=True):
    """The body of every error answer, and why something needs the user."""

    message: str
    reason: Reason
    hint: str = ""

    @classmethod
    def of(cls, error: TPUError) -> Problem:
        return cls(message=error.message, reason=error.reason, hint=error.hint)

    def to_error(self) -> TPUError:
        return TPUError(self.message, self.reason, self.hint)
