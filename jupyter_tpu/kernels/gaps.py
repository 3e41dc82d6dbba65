"""What a host dropped because its journal was full, in words for who reads the cell."""

from __future__ import annotations

import logging

from ..agent.protocol.events import Gap
from ..agent.protocol.eviction import format_bytes, parse_losses

log = logging.getLogger(__name__)


def describe_gap(gap: Gap, running: bytes) -> list[tuple[bytes, str]]:
    """A line for each request that misses something: the request's header, and the text.

    There are no more of them than numbers in the gap. *running*: the header of the request that is
    told of a gap whose keeper does not say whose output it was.
    """
    try:
        found = parse_losses(gap.note) if gap.note else []
    except ValueError:
        log.warning("A gap with a note that cannot be read: %r", gap.note[:200])
        found = []
    if found:
        return [(loss.parent.encode(), f"{loss}\n") for loss in found][: gap.last - gap.first + 1]
    one = gap.messages == 1
    what = "a message" if one else f"{gap.messages:,} messages"
    were = "was" if one else "were"
    text = f"… {what} ({format_bytes(gap.size)}) {were} too large to be kept here\n"
    return [(running, text)]
