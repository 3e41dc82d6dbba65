"""One client per kernel: a lease with a fencing number, as a state machine without a clock.

A client with the *secret* of the last grant gets the lease at once, and the old connection is
fenced off: it is the same client coming back. Other clients wait until it has expired or was
released, or take it over on purpose. Each grant has a higher number than all before.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import NamedTuple, Union

#: Seconds for which a lease is valid without being renewed.
LEASE_SECONDS = 20.0


class Granted(NamedTuple):
    fence: int
    ttl: float  # seconds


class Denied(NamedTuple):
    holder: str
    expires_in: float  # seconds


class KernelLease:
    """The right to use the kernel.

    Parameters
    ----------
    secret: of the client that the lease is reserved for at first.
    now: the time, in seconds, on any clock that does not jump.
    ttl: seconds for which a grant is valid without :meth:`renew`.
    """

    def __init__(self, secret: str, now: float, *, ttl: float = LEASE_SECONDS) -> None:
        self.ttl = ttl
        self.fence = 0
        self.holder = ""
        self._secret = self._digest(secret)
        self._expires = now + ttl

    def claim(
        self, secret: str, holder: str, now: float, *, steal: bool = False
    ) -> Union[Granted, Denied]:
        """Grants or denies the lease to a client."""
        digest = self._digest(secret)
        if not self.is_held_by(secret) and not steal and now < self._expires:
            return Denied(self.holder, self._expires - now)
        self._secret, self.holder = digest, holder
        self.fence += 1
        self._expires = now + self.ttl
        return Granted(self.fence, self.ttl)

    def is_held_by(self, secret: str) -> bool:
        """Whether it was last granted to, or is reserved for, the client with *secret*."""
        return hmac.compare_digest(self._digest(secret), self._secret)

    def renew(self, fence: int, now: float) -> bool:
        """Renews the grant *fence*; False if a later one was made."""
        if fence != self.fence:
            return False
        self._expires = now + self.ttl
        return True

    def release(self, fence: int) -> None:
        """Ends the grant *fence*, so that the next client need not wait."""
        if fence == self.fence:
            self._expires = float("-inf")

    @staticmethod
    def _digest(secret: str) -> bytes:
        return hashlib.sha256(secret.encode()).digest()
