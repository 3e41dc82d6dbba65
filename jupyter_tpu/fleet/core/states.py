"""What the state of a TPU means, and what can be done now."""

from __future__ import annotations

from datetime import UTC, datetime

from ...cloud import Node, NodeState, is_attached
from ...retired import INSTEAD
from ..models.guard import GuardStop

_WAIT = "Google is working on it. Wait."
_ANOTHER = "Delete it, and create another one."
_ADVICE = {
    NodeState.CREATING: "Google is creating it. Wait.",
    NodeState.STARTING: "Google is starting it. Wait.",
    NodeState.STOPPING: "Google is stopping it. Wait.",
    NodeState.STOPPED: "Start it, or delete it.",
    NodeState.RESTARTING: _WAIT,
    NodeState.REPAIRING: "Google is repairing it. Wait.",
    NodeState.HIDDEN: "Google has hidden it. It may come back.",
    NodeState.DELETING: "Google is deleting it. Wait.",
    NodeState.PREEMPTED: f"Google preempted it. {_ANOTHER}",
    NodeState.TERMINATED: f"Google terminated it. {_ANOTHER}",
    NodeState.FAILED: f"Google could not repair it. {_ANOTHER}",
    NodeState.UNKNOWN: "Google did not say more. Look again in a minute.",
}
#: Whether it can be stopped: what can be done later with one that is connected, and now.
_READY = {
    True: ("Stop or delete it when you no longer need it.", "Connect it, or stop or delete it."),
    False: ("Delete it when you no longer need it.", "Connect it, or delete it."),
}
_REASONS = {
    "": "",
    "idle": " because it was idle",
    "time": " because its time limit was reached",
    "cost": " because its cost limit was reached",
}
_BILLED = {
    NodeState.READY: "It is billed, used or not. ",
    NodeState.STOPPED: "Only its disk is billed. ",
}


def advice(node: Node, *, free: bool, connected: bool, guard_stop: GuardStop | None = None) -> str:
    """A few sentences, for people. free: whether it costs nothing while it is READY."""
    if is_attached(node.name):
        return "It is reached by SSH alone. Detach it when you no longer need it."
    if node.retired:
        return f"A TPU Node, which Google has retired. Delete it. {INSTEAD}"
    if node.waiting and not node.endpoints:  # a slice, whose waiting has no limit
        return "It waits for capacity, and is not billed. It waits until you cancel or delete it."
    if node.waiting:
        return "It waits for capacity, and is not billed. Google ends that after 2 hours at most."
    if node.state is NodeState.READY:
        later, now = _READY[_can_be_stopped(node)]
        now = later if connected else now
    else:
        now = _ADVICE[node.state]
    who = f"{_stopped(guard_stop)} " if guard_stop is not None else ""
    return who + ("" if free else _BILLED.get(node.state, "")) + now


def _can_be_stopped(node: Node) -> bool:
    """Compute Engine starts neither slices again, nor hosts that run for a limited time."""
    if node.api == "tpu":
        return True
    return len(node.endpoints) == 1 and node.tier in ("on-demand", "reserved")


def _stopped(stop: GuardStop) -> str:
    """Who has stopped it, when, and why."""
    why = _REASONS[stop.reason]
    if not stop.certain:
        return f"It was stopped while no Jupyter server watched it, probably by its guard{why}."
    when = datetime.fromisoformat(stop.time).astimezone(UTC) if stop.time else None
    return f"Its guard stopped it{f' at {when:%Y-%m-%d %H:%M} UTC' if when else ''}{why}."
