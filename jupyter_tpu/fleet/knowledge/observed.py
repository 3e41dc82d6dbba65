"""What Google last said of TPUs."""

from __future__ import annotations

from msgspec import Struct

#: States that lead to another one by themselves; google.cloud.tpu_v2.Node.State.
CHANGING = frozenset(
    {"CREATING", "RESTARTING", "REIMAGING", "DELETING", "REPAIRING", "STOPPING", "STARTING"}
    | {"HIDING", "UNHIDING"}
)
#: States in which hosts answer.
RUNNING = frozenset({"READY"})


class Observed(Struct, frozen=True):
    """One TPU, as far as decisions need it."""

    state: str
    id: str
