"""An error as it is stored and sent."""

from __future__ import annotations

from msgspec import Struct

from .errors import Reason, TPUError, error_for


class Problem(Struct, kw_only=True):
    """The body of every error answer, and why something needs attention."""

    message: str
    reason: Reason
    hint: str = ""
    #: Seconds after which it may succeed, where Google says so.
    retry_after: float | None = None
    #: How far a limit reaches ("zone", "region", "project"), where Google says so.
    scope: str = ""
    #: The field of the request that was refused, without its path, such as "max_cost"; "" if no
    #: single field is the cause.
    field: str = ""

    @classmethod
    def of(cls, error: TPUError) -> Problem:
        return cls(
            message=error.message,
            reason=error.reason,
            hint=error.hint,
            retry_after=error.retry_after,
            scope=error.scope,
            field=error.field,
        )

    def to_error(self) -> TPUError:
        return error_for(
            self.message,
            self.reason,
            self.hint,
            retry_after=self.retry_after,
            scope=self.scope,
            field=self.field,
        )
