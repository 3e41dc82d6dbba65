"""The error for hosts that a TPU has not got. It is light, for those that only read numbers."""

from __future__ import annotations

from ..errors import Reason, TPUError, error_for


def no_such_host(
    tpu: str, host: int | str, count: int, reason: Reason = Reason.INVALID
) -> TPUError:
    """The error for a *host* that *tpu*, which has *count* hosts, does not have."""
    hint = "It has host 0 only." if count else "It has no hosts now."
    if count > 1:
        hint = f"It has the hosts 0 to {count - 1}."
    return error_for(f"{tpu} has no host {host}.", reason, hint)
