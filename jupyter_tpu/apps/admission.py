"""Who may see an app: a one-time ticket in a URL is changed for a cookie. No I/O.

Jupyter's token opens nothing at an app's origin and never goes there. Who has it asks for a
*ticket* (30 seconds, one use); the browser that brings the ticket gets a *pass*, 256 random bits
in a cookie that only this origin's pages send, and only in the partition (the tab of JupyterLab,
or a window of its own) in which the ticket was used.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable

from msgspec import Struct

#: Seconds in which a ticket must be used.
TICKET_LIFE = 30.0
#: Passes of one app that are kept; the oldest is dropped: its page says to open the app again.
PASSES = 64


class Pass(Struct, frozen=True):
    """What a browser was let in with."""

    secret: str
    #: The origin of the page that may frame the app; "" for none but the app's own.
    framed_by: str


class Admission:
    """Tickets and passes of one app."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tickets: dict[str, tuple[float, str]] = {}
        self._passes: list[Pass] = []

    def ticket(self, framed_by: str) -> str:
        """A new ticket, for a page of *framed_by* (an origin) or, if "", for a window."""
        now = self._clock()
        self._tickets = {t: said for t, said in self._tickets.items() if said[0] > now}
        ticket = secrets.token_urlsafe(32)
        self._tickets[ticket] = (now + TICKET_LIFE, framed_by)
        return ticket

    def redeem(self, ticket: str) -> Pass | None:
        """A pass for a ticket; None for one that is not valid (any more)."""
        found = None
        for known in self._tickets:
            if _same(known, ticket):
                found = known
        if found is None:
            return None
        until, framed_by = self._tickets.pop(found)
        if self._clock() >= until:
            return None
        made = Pass(secrets.token_urlsafe(32), framed_by)
        self._passes = [*self._passes[-(PASSES - 1) :], made]
        return made

    def find(self, secret: str) -> Pass | None:
        """The pass that a cookie holds."""
        found = None
        for known in self._passes:
            if _same(known.secret, secret):
                found = known
        return found


def _same(ours: str, said: str) -> bool:
    """Compared in constant time."""
    return hmac.compare_digest(ours.encode(), said.encode("utf-8", "replace"))
