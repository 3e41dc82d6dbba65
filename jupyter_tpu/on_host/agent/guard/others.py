"""What the hosts of a TPU publish for each other: what each is busy with. Host 0 reads it.

A published text does not say when it was written. So a host writes a different text at each look,
and host 0 notes, by its own uptime, when a text changed. No clocks are compared. A host whose text
does not change any more (its guard has ended, or it was restarted) soon counts as busy.
"""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Optional, Sequence, Tuple

#: Seconds for which a host's text counts, also where looks take longer than they should.
FRESH_TEXT_SECONDS = 120.0


class ActivityPublisher:
    """Makes the texts of this host."""

    def __init__(self) -> None:
        self._process, self._looks = os.urandom(6).hex(), 0

    def text(self, busy: Optional[Sequence[str]]) -> str:
        """busy: what the host is busy with; None: it can't say."""
        self._looks += 1
        return json.dumps({"look": "%s %d" % (self._process, self._looks), "busy": busy})


class ActivityReader:
    """What host 0 knows of the *hosts* in all, itself among them."""

    def __init__(self, hosts: int) -> None:
        self._hosts = hosts
        self._heard: Optional[float] = None
        #: What each host said last, and since when at most; None: it may have said it long ago.
        self._texts: Dict[int, Tuple[str, Optional[float]]] = {}

    def receive(self, texts: Sequence[str], uptime: float) -> None:
        """texts: those of all hosts, host 0's first."""
        for host in range(1, self._hosts):
            text = texts[host] if host < len(texts) else ""
            if host not in self._texts:
                self._texts[host] = text, None
            elif text != self._texts[host][0]:
                self._texts[host] = text, self._heard
        self._heard = uptime

    def busy(self, uptime: float) -> List[str]:
        """What the other hosts are busy with, in words; one that has not said it lately is, too."""
        reasons = []
        for host in range(1, self._hosts):
            text, since = self._texts.get(host, ("", None))
            said = None
            if since is not None and uptime - since <= FRESH_TEXT_SECONDS:
                said = _read(text)
            if said is None:
                reasons.append("host %d (no report)" % host)
            else:
                reasons += ["%s on host %d" % (reason, host) for reason in said]
        return reasons


def _read(text: str) -> Optional[List[str]]:
    """What a host has said; None if it could not say, or that can't be read."""
    try:
        said: Any = json.loads(text)["busy"]
        return None if said is None else [str(reason)[:80] for reason in said]
    except (ValueError, KeyError, TypeError):
        return None
