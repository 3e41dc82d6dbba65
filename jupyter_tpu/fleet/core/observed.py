"""The TPUs as Google last reported them."""

from __future__ import annotations

from collections.abc import Collection

from ...cloud import API, Maintenance, Node, NodeName, NodeState
from ...errors import Reason, TPUError
from ...retired import tpu_node_error
from ..models import Problem

NEEDS_READY = "This needs a READY TPU."


class ObservedState:
    """All TPUs as Google last reported them; filled by the observer."""

    def __init__(self) -> None:
        self.nodes: dict[NodeName, Node] = {}
        #: Maintenance that the cloud announces or does, by `Node.id`.
        self.maintenance: dict[str, Maintenance] = {}
        #: Why the list may be incomplete.
        self.problem: Problem | None = None
        #: The project of the last poll, which says nothing about TPUs of other projects.
        self.project = ""
        #: When the last poll began; seconds since the epoch.
        self.asked = 0.0
        #: Zones that did not answer the last poll; None: the last poll failed, or there was none.
        self.unreachable: frozenset[str] | None = None
        #: Control planes of Google that did not answer the last poll.
        self.unanswered: frozenset[API] = frozenset()

    def complete(self, name: NodeName) -> bool:
        """Whether the last poll would have seen this TPU if it existed."""
        if self.unreachable is None or self.unanswered or name.project != self.project:
            return False
        return name.zone not in self.unreachable

    def node(self, name: NodeName) -> Node | None:
        return self.nodes.get(name)

    def is_ready(self, name: NodeName) -> bool:
        node = self.nodes.get(name)
        return node is not None and node.state is NodeState.READY

    def require(
        self, name: NodeName, states: tuple[NodeState, ...], allowed: str, *, if_stopped: str = ""
    ) -> Node:
        """The node, if it is in one of *states*.

        Raises CONFLICT with what is *allowed*, and the hint *if_stopped* for a stopped one.
        """
        node = self.nodes.get(name)
        if node is None or node.state not in states:
            state = f"The TPU {name.node} is not ready yet."
            if node is not None:
                state = f"The TPU {name.node} is {node.state}."
            raise TPUError(
                f"{state} {allowed}",
                Reason.CONFLICT,
                if_stopped if node is not None and node.state is NodeState.STOPPED else "",
            )
        return node

    def require_ready(self, name: NodeName) -> Node:
        """As :meth:`require`, for what can be done once a stopped TPU is started."""
        return self.require(name, (NodeState.READY,), NEEDS_READY, if_stopped="Start it first.")

    def require_hosts(self, name: NodeName) -> Node:
        """The node, if it is READY and has hosts to log in to; as :meth:`require_ready`."""
        node = self.nodes.get(name)
        if node is not None and node.retired:
            raise tpu_node_error(name.node)
        return self.require_ready(name)

    def changing(self, besides: Collection[NodeName] = ()) -> bool:
        """Whether a TPU is changing to another state, *besides* these."""
        return any(node.state.changing for name, node in self.nodes.items() if name not in besides)
