"""What the state of a TPU means, and what can be done now."""

from __future__ import annotations

from ...cloud import Node, NodeState
from ...retired import INSTEAD

_WAIT = "Google is working on it. Wait."
_TAKEN = "Google took it away. Delete it, and create another one."
_ADVICE = {
    NodeState.CREATING: "Google is creating it. Wait.",
    NodeState.READY: "Connect it, or stop or delete it.",
    NodeState.STARTING: "Google is starting it. Wait.",
    NodeState.STOPPING: "Google is stopping it. Wait.",
    NodeState.STOPPED: "Only its disk is billed. Start it, or delete it.",
    NodeState.RESTARTING: _WAIT,
    NodeState.REPAIRING: "Google is repairing it. Wait.",
    NodeState.HIDDEN: "Google keeps it for itself. It may come back.",
    NodeState.DELETING: "Google is deleting it. Wait.",
    NodeState.PREEMPTED: _TAKEN,
    NodeState.TERMINATED: _TAKEN,
    NodeState.FAILED: "Google could not repair it. Delete it, and create another one.",
    NodeState.UNKNOWN: "Google said nothing, or a word that this program does not know.",
}


def advice(node: Node, *, free: bool) -> str:
    """A few sentences, for people. free: whether it costs nothing while it is READY."""
    if node.retired:
        return f"A TPU Node, which Google has retired. Delete it. {INSTEAD}"
    billed = node.state is NodeState.READY and not free
    return ("It is billed, used or not. " if billed else "") + _ADVICE[node.state]
