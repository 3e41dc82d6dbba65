"""What can go wrong, as the few reasons that every face shows.

An error is raised where it is known, with one sentence that says what happened, a reason that
programs can branch on and a hint that says what to do next. Faces translate it once: the server
into a status and a JSON body, the command line into one line on stderr.
"""

from __future__ import annotations

import math
from enum import StrEnum

from .wording import printable


class Reason(StrEnum):
    """Why something failed; the words of the REST contract."""

    INVALID = "INVALID"  # the request itself: a name, a type, a zone, a body
    NO_CREDENTIALS = "NO_CREDENTIALS"
    NO_PROJECT = "NO_PROJECT"
    PERMISSION = "PERMISSION"
    NOT_FOUND = "NOT_FOUND"
    EXISTS = "EXISTS"
    CONFLICT = "CONFLICT"  # not possible in the state that the thing is in
    KERNELS_RUNNING = "KERNELS_RUNNING"  # would end someone's kernels; needs a confirmation
    JOBS_RUNNING = "JOBS_RUNNING"  # would end jobs; needs a confirmation
    STILL_BILLED = "STILL_BILLED"  # would leave a TPU that costs money; needs a confirmation
    PRICE = "PRICE"  # would cost money; its price needs a confirmation
    BUDGET = "BUDGET"  # outside of the budget that a person has set
    NOT_YOURS = "NOT_YOURS"  # another person's TPU; needs its name as a confirmation
    CHIPS_HELD = "CHIPS_HELD"  # another process has the host's TPU chips
    QUOTA = "QUOTA"
    RATE_LIMITED = "RATE_LIMITED"  # too many requests in a short time
    NO_CAPACITY = "NO_CAPACITY"
    UNREACHABLE = "UNREACHABLE"
    HOST_KEY = "HOST_KEY"  # the host shows another key than the pinned one
    KEY_FILE = "KEY_FILE"  # our own private key: unreadable or open to others
    LOGIN_SHELL = "LOGIN_SHELL"  # the host's login shell does not run commands
    NO_PYTHON = "NO_PYTHON"
    NO_IPYKERNEL = "NO_IPYKERNEL"  # a Python lacks it; to install it needs a confirmation
    NO_FOLDER = "NO_FOLDER"  # a folder on the host does not exist
    DISK_FULL = "DISK_FULL"
    ENVIRONMENT = "ENVIRONMENT"  # making an environment failed
    CPU_FALLBACK = "CPU_FALLBACK"  # JAX does not see the host's TPU chips
    TIMEOUT = "TIMEOUT"
    CANCELLED = "CANCELLED"
    INTERRUPTED = "INTERRUPTED"  # the server was stopped in the middle; can be resumed
    UNAVAILABLE = "UNAVAILABLE"  # Google's side, for now
    INTERNAL = "INTERNAL"


class TPUError(Exception):
    """A failure a person should read.

    Parameters
    ----------
    message: one sentence, what happened; no stack, no secret.
    reason: what programs branch on.
    hint: what to do next; "" where nothing can be said.
    retry_after: seconds after which it may succeed, where Google says so.
    scope: how far a limit reaches ("zone", "region", "project"), where Google says so; else "".
    field: the name of the field of a request that is refused; "" if it is about no single one.
    """

    def __init__(
        self,
        message: str,
        reason: Reason = Reason.INTERNAL,
        hint: str = "",
        *,
        retry_after: float | None = None,
        scope: str = "",
        field: str = "",
    ) -> None:
        message, hint = printable(message), printable(hint)  # they may quote a host
        super().__init__(message)
        self.message = message
        self.reason = Reason(reason)
        self.hint = hint
        self.retry_after = retry_after
        self.scope = scope
        self.field = field

    def __str__(self) -> str:
        again = f"Try again in {duration(self.retry_after)}." if self.retry_after else ""
        return " ".join(filter(None, (self.message, self.hint, again)))

    def __reduce__(self):
        more = {"retry_after": self.retry_after, "scope": self.scope, "field": self.field}
        return (type(self), (self.message, self.reason, self.hint), more)


class InvalidInput(TPUError, ValueError):
    """A wrong argument or request (INVALID): a ``ValueError`` too, as Python's own functions raise.

    Parameters as of `TPUError`; the reason is fixed.
    """

    def __init__(self, message: str, hint: str = "", *, field: str = "") -> None:
        super().__init__(message, Reason.INVALID, hint, field=field)

    def __reduce__(self):
        return (type(self), (self.message, self.hint), {"field": self.field})


class ConnectionLost(TPUError):
    """A connection that was open ended or fell silent (UNREACHABLE). Links reconnect automatically.

    Parameters
    ----------
    peer: what it led to, "my-tpu" or "the kernel".
    cause: more about it; "" if nothing is known.
    """

    def __init__(self, peer: str, cause: str = "") -> None:
        self.peer = peer
        self.cause = cause
        super().__init__(
            f"The connection to {peer} was lost{': ' + cause if cause else ''}.",
            Reason.UNREACHABLE,
            "Reconnecting automatically.",
        )

    def __reduce__(self):
        return (type(self), (self.peer, self.cause))


def duration(seconds: float) -> str:
    """A time to wait: "30 s", "5 min"."""
    return f"{math.ceil(seconds)} s" if seconds < 120 else f"{math.ceil(seconds / 60)} min"


def error_for(
    message: str,
    reason: Reason,
    hint: str = "",
    *,
    retry_after: float | None = None,
    scope: str = "",
    field: str = "",
) -> TPUError:
    """The error of a *reason* that is known at run time: `InvalidInput` for INVALID.

    Parameters as of `TPUError`.
    """
    if reason == Reason.INVALID:
        return InvalidInput(message, hint, field=field)
    return TPUError(message, reason, hint, retry_after=retry_after, scope=scope, field=field)
