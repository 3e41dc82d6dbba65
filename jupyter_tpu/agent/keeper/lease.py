"""One master per kernel: a lease with a fencing number, as a machine without a clock of its own.

Whoever presents the *secret* under which the lease was last granted gets it at once, and the old
connection is fenced off: that is the same client coming back. Anyone else waits until it has
expired or was released, or steals it on purpose. Each grant has a higher number than all before.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import NamedTuple, Union

#: Seconds for which a lease holds without being renewed.
TTL = 20.0


class Granted(NamedTuple):
    fence: int
    ttl: float  # seconds


class Denied(NamedTuple):
    holder: str
    expires_in: float  # seconds


class Lease:
    """Who may drive the kernel.

    Parameters
    ----------
    secret: of the client that the lease is kept for at the beginning.
    now: the time, in seconds, on any clock that does not jump.
    ttl: seconds for which a grant holds without :meth:`renew`.
    """

    def __init__(self, secret: str, now: float, *, ttl: float = TTL) -> None:
        self.ttl = ttl
        self.fence = 0
        self.holder = ""
        self._secret = self._digest(secret)
        self._expires = now + ttl

    def claim(
        self, secret: str, holder: str, now: float, *, steal: bool = False
    ) -> Union[Granted, Denied]:
        """A client asks for it."""
        digest = self._digest(secret)
        if not self.is_of(secret) and not steal and now < self._expires:
            return Denied(self.holder, self._expires - now)
        self._secret, self.holder = digest, holder
        self.fence += 1
        self._expires = now + self.ttl
        return Granted(self.fence, self.ttl)

    def is_of(self, secret: str) -> bool:
        """Whether it was last granted to the client that has *secret*, or is kept for it."""
        return hmac.compare_digest(self._digest(secret), self._secret)

    def renew(self, fence: int, now: float) -> bool:
        """The holder of *fence* is alive; False: it was fenced off."""
        if fence != self.fence:
            return False
        self._expires = now + self.ttl
        return True

    def release(self, fence: int) -> None:
        """The holder of *fence* leaves on purpose; the next one need not wait."""
        if fence == self.fence:
            self._expires = float("-inf")

    @staticmethod
    def _digest(secret: str) -> bytes:
        return hashlib.sha256(secret.encode()).digest()
