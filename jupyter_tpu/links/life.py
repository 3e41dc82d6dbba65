"""A link's life as a state machine without I/O: events in, actions out, no clock and no socket.

The theory. A link is wanted or not. While it is wanted, one of these is always true: it is up, an
attempt to connect is running, a timer will start the next one, or it needs the user's attention. So
it can't get stuck, whatever is lost. The table below has every transition; an event without a row
for the current state changes nothing (a late timer, a second LOST).

After a first loss the link connects at once, since most interruptions are short. After a failed
attempt, or a loss before the connection has settled, it waits longer each time, with jitter, up to
a limit, so that many links do not overload a host that has come back. If it was connected in
between it waits a second at most: then the host is up, and only the line is unstable.

The driver (`driver.py`) does what the actions say and nothing else: one attempt at a time, and one
timer at a time (a new SCHEDULE replaces it).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, StrEnum

from msgspec import Struct

from ..backoff import Backoff


class LinkState(StrEnum):
    """The state of the supervised SSH connection to one host."""

    DOWN = "down"  # not wanted
    CONNECTING = "connecting"
    UP = "up"
    SILENT = "silent"  # no answer for longer than the keepalive interval
    WAITING = "waiting"  # before the next attempt
    NEEDS_ATTENTION = "needs-attention"  # does not reconnect automatically; the problem says why


class LinkEvent(Enum):
    """What happens to a link."""

    WANTED = "wanted"  # acquired, or asked for again
    UNWANTED = "unwanted"  # released
    CONNECTED = "connected"
    FAILED = "failed"  # the attempt failed; another may succeed
    REFUSED = "refused"  # the attempt failed, and so will others until the user acts
    LOST = "lost"  # the connection is gone
    SILENCE = "silence"  # no answer for longer than the keepalive interval
    HEARD = "heard"  # an answer after silence
    TIMER = "timer"  # the time of SCHEDULE is over
    WOKE = "woke"  # this machine slept, or its network changed
    MOVED = "moved"  # the host has another address, or can be reached again


class LinkCommand(Enum):
    """What the driver has to do."""

    CONNECT = "connect"  # start an attempt
    DISCONNECT = "disconnect"  # drop the connection, or the attempt under way
    SCHEDULE = "schedule"  # TIMER after `delay` seconds
    UNSCHEDULE = "unschedule"
    PROBE = "probe"  # ask the host for an answer now: HEARD or LOST
    REPORT = "report"  # the state has changed


class LinkAction(Struct, frozen=True):
    do: LinkCommand
    delay: float = 0.0  # seconds; of SCHEDULE


#: Seconds a connection has to last before its loss counts as a first loss.
SETTLED_SECONDS = 10.0
#: Between attempts.
DELAYS = Backoff(0.25, 30.0, jitter=(0.5, 1.0))
#: The failures in a row that still count after a connection: the next delay is up to 1 s.
FEW_FAILURES = 2

_S, _E, _C = LinkState, LinkEvent, LinkCommand


class _Step(Enum):
    """How the number of failures in a row changes."""

    KEEP = 0
    MORE = 1
    NONE = 2
    FEW = 3


# Rows: (state, event) -> (next state, actions, failures). SCHEDULE's delay follows from the state
# entered: SETTLED_SECONDS for UP, the back-off for WAITING.
_TABLE: dict[tuple[LinkState, LinkEvent], tuple[LinkState, tuple[LinkCommand, ...], _Step]] = {
    (_S.DOWN, _E.WANTED): (_S.CONNECTING, (_C.CONNECT,), _Step.NONE),
    # An attempt that succeeded just when it was cancelled.
    (_S.DOWN, _E.CONNECTED): (_S.DOWN, (_C.DISCONNECT,), _Step.KEEP),
    #
    (_S.CONNECTING, _E.CONNECTED): (_S.UP, (_C.SCHEDULE,), _Step.FEW),
    (_S.CONNECTING, _E.FAILED): (_S.WAITING, (_C.SCHEDULE,), _Step.MORE),
    (_S.CONNECTING, _E.LOST): (_S.WAITING, (_C.SCHEDULE,), _Step.MORE),
    (_S.CONNECTING, _E.REFUSED): (_S.NEEDS_ATTENTION, (), _Step.KEEP),
    (_S.CONNECTING, _E.UNWANTED): (_S.DOWN, (_C.DISCONNECT,), _Step.NONE),
    (_S.CONNECTING, _E.MOVED): (_S.CONNECTING, (_C.DISCONNECT, _C.CONNECT), _Step.NONE),
    (_S.CONNECTING, _E.WOKE): (_S.CONNECTING, (_C.DISCONNECT, _C.CONNECT), _Step.NONE),
    #
    (_S.UP, _E.LOST): (_S.CONNECTING, (_C.UNSCHEDULE, _C.DISCONNECT, _C.CONNECT), _Step.MORE),
    (_S.UP, _E.SILENCE): (_S.SILENT, (), _Step.KEEP),
    (_S.UP, _E.TIMER): (_S.UP, (), _Step.NONE),  # it has settled
    (_S.UP, _E.WOKE): (_S.SILENT, (_C.PROBE,), _Step.KEEP),
    (_S.UP, _E.MOVED): (_S.CONNECTING, (_C.UNSCHEDULE, _C.DISCONNECT, _C.CONNECT), _Step.NONE),
    (_S.UP, _E.UNWANTED): (_S.DOWN, (_C.UNSCHEDULE, _C.DISCONNECT), _Step.NONE),
    #
    (_S.SILENT, _E.HEARD): (_S.UP, (_C.SCHEDULE,), _Step.KEEP),
    (_S.SILENT, _E.LOST): (_S.CONNECTING, (_C.UNSCHEDULE, _C.DISCONNECT, _C.CONNECT), _Step.MORE),
    (_S.SILENT, _E.WOKE): (_S.SILENT, (_C.PROBE,), _Step.KEEP),
    (_S.SILENT, _E.MOVED): (_S.CONNECTING, (_C.UNSCHEDULE, _C.DISCONNECT, _C.CONNECT), _Step.NONE),
    (_S.SILENT, _E.UNWANTED): (_S.DOWN, (_C.UNSCHEDULE, _C.DISCONNECT), _Step.NONE),
    #
    (_S.WAITING, _E.TIMER): (_S.CONNECTING, (_C.CONNECT,), _Step.KEEP),
    (_S.WAITING, _E.WOKE): (_S.CONNECTING, (_C.UNSCHEDULE, _C.CONNECT), _Step.NONE),
    (_S.WAITING, _E.MOVED): (_S.CONNECTING, (_C.UNSCHEDULE, _C.CONNECT), _Step.NONE),
    (_S.WAITING, _E.UNWANTED): (_S.DOWN, (_C.UNSCHEDULE,), _Step.NONE),
    (_S.WAITING, _E.CONNECTED): (_S.WAITING, (_C.DISCONNECT,), _Step.KEEP),
    #
    (_S.NEEDS_ATTENTION, _E.WANTED): (_S.CONNECTING, (_C.CONNECT,), _Step.NONE),
    (_S.NEEDS_ATTENTION, _E.MOVED): (_S.CONNECTING, (_C.CONNECT,), _Step.NONE),
    (_S.NEEDS_ATTENTION, _E.UNWANTED): (_S.DOWN, (), _Step.NONE),
    (_S.NEEDS_ATTENTION, _E.CONNECTED): (_S.NEEDS_ATTENTION, (_C.DISCONNECT,), _Step.KEEP),
}

# Rows that replace the above while there are failures: lost again before it had settled.
_WHILE_UNSETTLED: dict[
    tuple[LinkState, LinkEvent], tuple[LinkState, tuple[LinkCommand, ...], _Step]
] = {
    (_S.UP, _E.LOST): (_S.WAITING, (_C.DISCONNECT, _C.SCHEDULE), _Step.MORE),
    (_S.SILENT, _E.LOST): (_S.WAITING, (_C.DISCONNECT, _C.SCHEDULE), _Step.MORE),
}


class LinkLife:
    """One link's life.

    Parameters
    ----------
    jitter: gives a number in [0, 1); how much of the back-off's spread to use.
    """

    def __init__(self, jitter: Callable[[], float]) -> None:
        self.state = LinkState.DOWN
        self.failures = 0  # in a row
        self._jitter = jitter

    def on(self, event: LinkEvent) -> list[LinkAction]:
        """What to do about *event*, in order."""
        key = (self.state, event)
        row = (_WHILE_UNSETTLED.get(key) if self.failures else None) or _TABLE.get(key)
        if row is None:
            return []
        state, doing, step = row
        if step is _Step.MORE:
            self.failures += 1
        elif step is _Step.NONE:
            self.failures = 0
        elif step is _Step.FEW:
            self.failures = min(self.failures, FEW_FAILURES)
        changed = state is not self.state
        self.state = state
        actions = [LinkAction(do, self._delay() if do is _C.SCHEDULE else 0.0) for do in doing]
        if changed:
            actions.append(LinkAction(_C.REPORT))
        return actions

    def _delay(self) -> float:
        if self.state is LinkState.UP:
            return SETTLED_SECONDS
        return DELAYS.after(self.failures, self._jitter())
