"""What to do next about one TPU, without I/O: from desired and observed state to actions.

The loop is level-triggered: it calls :func:`decide` again and again, after each poll of Google and
each end of an operation. Every action may be repeated and may be interrupted anywhere; the next
call finds what is left to do.

======================  ==========================================================
the TPU                 what is done about what is desired
======================  ==========================================================
gone, or another one    FORGET: unregister its kernelspecs, drop what was desired
of the same name
READY                   ACQUIRE its links; REGISTER ready environments; RESUME what
                        a dead server was creating, unless an operation works on it
any other state         RELEASE its links (each try would cost a call to Google);
                        REGISTER, since kernelspecs say that a TPU is stopped
======================  ==========================================================
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from ...cloud import Node, NodeState


class Action(StrEnum):
    FORGET = "forget"
    ACQUIRE = "acquire"
    RELEASE = "release"
    REGISTER = "register"
    RESUME = "resume"


class Desired(Struct, frozen=True, kw_only=True):
    """What is desired of one TPU that is connected or on which environments were created."""

    node_id: str  # of the node that was meant
    connected: bool
    unfinished: bool = False  # an environment that was being created when the server ended
    unregistered: bool = False  # a ready environment whose kernelspec is not as it should be


def decide(
    desired: Desired, node: Node | None, *, acquired: bool, busy: bool
) -> tuple[Action, ...]:
    """The next actions, in their order.

    node: None if Google's list, which was complete, does not have the TPU; acquired: whether
    this process holds its links; busy: whether an operation runs on it.
    """
    if busy:
        return ()  # the operation does what is needed, and ends with a call of this
    if node is None or (desired.node_id and node.id and node.id != desired.node_id):
        return (*((Action.RELEASE,) if acquired else ()), Action.FORGET)
    todo: list[Action] = []
    needed = desired.connected and node.state is NodeState.READY
    if needed != acquired:
        todo.append(Action.ACQUIRE if needed else Action.RELEASE)
    if desired.connected and desired.unregistered:
        todo.append(Action.REGISTER)
    if desired.unfinished and node.state is NodeState.READY:
        todo.append(Action.RESUME)
    return tuple(todo)
