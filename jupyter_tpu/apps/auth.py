"""Who may see an app: a one-time ticket in a URL is exchanged for a session cookie. No I/O.

Jupyter's token opens nothing at an app's origin and is never sent there. A client that has the
token requests a *ticket* (30 seconds, one use). The browser that presents the ticket gets a
*session*: 256 random bits in a cookie. Only pages of this origin send that cookie, and only in the
partition (the JupyterLab tab, or a window of its own) in which the ticket was used.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable

from msgspec import Struct

#: Seconds in which a ticket must be used.
TICKET_LIFETIME = 30.0
#: Sessions of one app. Above this the oldest is dropped, and its page asks to open the app again.
MAX_SESSIONS = 64


class AppSession(Struct, frozen=True):
    """One browser's access to an app."""

    secret: str
    #: The origin of the page that may frame the app; "" for the app's own pages only.
    framed_by: str


class AppAuth:
    """Tickets and sessions of one app."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tickets: dict[str, tuple[float, str]] = {}  # expiry time and framed_by
        self._sessions: list[AppSession] = []

    def issue_ticket(self, framed_by: str) -> str:
        """A new ticket, for a page of *framed_by* (an origin) or, if "", for a window."""
        now = self._clock()
        self._tickets = {t: entry for t, entry in self._tickets.items() if entry[0] > now}
        ticket = secrets.token_urlsafe(32)
        self._tickets[ticket] = (now + TICKET_LIFETIME, framed_by)
        return ticket

    def redeem(self, ticket: str) -> AppSession | None:
        """A session for a ticket; None for one that is invalid, used or expired."""
        match = None
        for known in self._tickets:
            if _equal(known, ticket):
                match = known
        if match is None:
            return None
        expires, framed_by = self._tickets.pop(match)
        if self._clock() >= expires:
            return None
        session = AppSession(secrets.token_urlsafe(32), framed_by)
        self._sessions = [*self._sessions[-(MAX_SESSIONS - 1) :], session]
        return session

    def find_session(self, secret: str) -> AppSession | None:
        """The session with this secret."""
        session = None
        for known in self._sessions:
            if _equal(known.secret, secret):
                session = known
        return session


def _equal(ours: str, received: str) -> bool:
    """Compares in constant time."""
    return hmac.compare_digest(ours.encode(), received.encode("utf-8", "replace"))
