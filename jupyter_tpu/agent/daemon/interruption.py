"""Google's announcements that it is about to stop this host. No I/O.

Sources: cloud.google.com/compute/docs/metadata/getting-live-migration-notice, and
cloud.google.com/compute/docs/instances/create-use-spot#detect-preemption.
"""

from __future__ import annotations

from typing import Any, Dict, Optional

MAINTENANCE, PREEMPTION = "maintenance", "preemption"
#: The keys of the metadata server that announce each, the graver one first, and what they say while
#: nothing is announced.
KEYS = ("preempted", PREEMPTION, ("FALSE", "")), ("maintenance-event", MAINTENANCE, ("NONE", ""))


class Announced:
    """What was announced, from the values of the metadata server in any order."""

    def __init__(self) -> None:
        self._values: Dict[str, str] = {}
        #: ``kind`` and since when it is known (``noticed``); None while nothing is announced.
        self.interruption: Optional[Dict[str, Any]] = None

    def note(self, key: str, value: str, now: str) -> bool:
        """Takes the *value* of one of the KEYS; returns whether something else is announced.

        What is announced twice is known since the first time.
        """
        self._values[key] = value.strip().upper()
        kinds = [kind for name, kind, quiet in KEYS if self._values.get(name, "") not in quiet]
        kind = kinds[0] if kinds else None
        known = self.interruption and self.interruption["kind"]
        if kind == known:
            return False
        self.interruption = None if kind is None else {"kind": kind, "noticed": now}
        return True
