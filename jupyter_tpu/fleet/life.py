"""A connected TPU's life, without I/O: from what should be and what is to what to do and to say.

The loop is level-triggered: it calls :func:`actions` again and again, after each look at Google,
each change of a link and each end of an operation. Every action may be repeated and may be
interrupted anywhere; the next round finds what is left to do.

What should be (:class:`Wish`) is what the user asked for and SQLite keeps. What is
(:class:`Seen`) is what the poll last saw; None says that Google's list, which was complete, does
not have the TPU.

======================  ==========================================================
the TPU                 what is done about a wish
======================  ==========================================================
gone, or another one    FORGET: unregister its kernelspecs, drop the wish
of the same name
READY                   HOLD its links; REGISTER ready environments; RESUME what a
                        dead server was making, unless an operation works on it
any other state         RELEASE its links (each try would cost a call to Google)
======================  ==========================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from msgspec import Struct

from ..links import LinkState
from .models import Connection

#: States that lead to another one by themselves; google.cloud.tpu_v2.Node.State.
CHANGING = frozenset(
    {"CREATING", "RESTARTING", "REIMAGING", "DELETING", "REPAIRING", "STOPPING", "STARTING"}
    | {"HIDING", "UNHIDING"}
)
#: States in which hosts answer.
RUNNING = frozenset({"READY"})


class Action(str, Enum):
    FORGET = "forget"
    HOLD = "hold"
    RELEASE = "release"
    REGISTER = "register"
    RESUME = "resume"


class Wish(Struct, frozen=True, kw_only=True):
    """What should be, for one TPU that is connected or on which environments were made."""

    node_id: str  # of the node that was meant
    connected: bool
    unfinished: bool = False  # an environment that was being made when the server ended
    unregistered: bool = False  # a ready environment whose kernelspec was not checked yet


class Seen(Struct, frozen=True):
    state: str
    id: str


def actions(wish: Wish, seen: Seen | None, *, held: bool, working: bool) -> tuple[Action, ...]:
    """What the loop does next about one TPU.

    held: whether this process holds its links; working: whether an operation runs on it.
    """
    if working:
        return ()  # the operation does what is needed, and ends with a call of this
    if seen is None or (wish.node_id and seen.id and seen.id != wish.node_id):
        return (*((Action.RELEASE,) if held else ()), Action.FORGET)
    todo: list[Action] = []
    should_hold = wish.connected and seen.state in RUNNING
    if should_hold != held:
        todo.append(Action.HOLD if should_hold else Action.RELEASE)
    if wish.connected and wish.unregistered:
        todo.append(Action.REGISTER)
    if wish.unfinished and seen.state in RUNNING:
        todo.append(Action.RESUME)
    return tuple(todo)


def connection(
    *,
    state: str,
    connected: bool,
    connecting: bool,
    failed: bool,
    ready: bool,
    links: Sequence[LinkState],
    supervised: bool,
) -> Connection:
    """What is said about a TPU.

    state: Google's word; connected: what should be; connecting: a connect operation runs;
    failed: the last one failed, ready: an environment is ready; links: of all its hosts;
    supervised: this process keeps them up (a command beside no server does not, and can only say
    what should be).
    """
    if connecting:
        return Connection.CONNECTING
    if failed and not ready:
        return Connection.NEEDS_YOU
    if not connected or state not in RUNNING:
        return Connection.DISCONNECTED
    if LinkState.NEEDS_YOU in links:
        return Connection.NEEDS_YOU
    if (links or not supervised) and all(link is LinkState.UP for link in links):
        return Connection.CONNECTED if ready else Connection.NEEDS_YOU
    return Connection.RECONNECTING
