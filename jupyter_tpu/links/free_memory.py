"""Memory that connecting to many hosts has used goes back to the system.

glibc keeps what was freed, for what comes next: after the handshakes with 96 hosts and their first
answers that is more than all that their links need.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys

#: So many more links are worth it.
MANY_LINKS = 8
#: Looks in a row at which no link has come or gone.
CALM_LOOKS = 4


class FreeMemory:
    """Call `look` now and then."""

    def __init__(self) -> None:
        self._before = 0  # links at the last look
        self._calm = 0  # looks since it has changed
        self._returned = 0  # links when memory was last given back

    def look(self, links: int) -> bool:
        """Gives memory back if many *links* have come, and no more come. Returns whether it has."""
        self._calm = self._calm + 1 if links == self._before else 0
        self._before = links
        self._returned = min(self._returned, links)
        if self._calm < CALM_LOOKS or links < self._returned + MANY_LINKS:
            return False
        self._returned = links
        _trim()
        return True


def _trim() -> None:
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):  # another C library than glibc
            ctypes.CDLL(None).malloc_trim(0)
