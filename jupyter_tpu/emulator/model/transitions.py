"""The states through which each operation takes a node: the one table of transitions."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

#: "reset" is of queued resources only, whose states are in ``queued.py``.
Verb = Literal["create", "delete", "start", "stop", "update", "maintain", "reset"]


class Transition(Struct, frozen=True):
    """An operation: the states it may begin in, the state during it, and the state after it."""

    begins_in: tuple[str, ...]
    during: str | None  # None: the state stays as it is
    after: str | None


#: "delete" may begin in any state, and ends the operation in progress.
TRANSITIONS: dict[str, Transition] = {
    "create": Transition((), "CREATING", "READY"),
    "start": Transition(("STOPPED",), "STARTING", "READY"),
    "stop": Transition(("READY",), "STOPPING", "STOPPED"),
    "update": Transition(("READY", "STOPPED"), None, None),
    "maintain": Transition(("READY",), "REPAIRING", "READY"),
    "delete": Transition((), "DELETING", None),
}
#: The state after an operation that failed. A node that could not be created is removed.
AFTER_FAILURE = {"start": "STOPPED", "stop": "READY", "maintain": "STOPPED", "delete": "STOPPED"}
