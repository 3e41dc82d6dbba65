"""How each operation moves a node from state to state: the one table of transitions."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Verb = Literal["create", "delete", "start", "stop", "update", "maintain"]


class Transition(Struct, frozen=True):
    """How an operation moves a node: states it may begin in, the one during, the one after."""

    begins_in: tuple[str, ...]
    during: str | None  # None: the state stays as it is
    after: str | None


#: "delete" may begin in any state, and ends whatever is under way.
TRANSITIONS: dict[str, Transition] = {
    "create": Transition((), "CREATING", "READY"),
    "start": Transition(("STOPPED",), "STARTING", "READY"),
    "stop": Transition(("READY",), "STOPPING", "STOPPED"),
    "update": Transition(("READY", "STOPPED"), None, None),
    "maintain": Transition(("READY",), "REPAIRING", "READY"),
    "delete": Transition((), "DELETING", None),
}
#: Where a node is after an operation that failed; a node that could not be created is gone.
AFTER_FAILURE = {"start": "STOPPED", "stop": "READY", "maintain": "STOPPED", "delete": "STOPPED"}
