"""Describes messages that a host dropped because its journal was full."""

from __future__ import annotations

import logging

from ..agent.protocol.events import Gap
from ..agent.protocol.eviction import format_bytes, parse_losses

log = logging.getLogger(__name__)


def describe_gap(gap: Gap, running: bytes) -> list[tuple[bytes, str]]:
    """For each request whose output was dropped: its header, and a line of text.

    Returns at most as many lines as the gap has numbers. *running*: the header of the running
    request, for a gap without details.
    """
    try:
        losses = parse_losses(gap.note) if gap.note else []
    except ValueError:
        log.warning("Can't read which messages were dropped: %r", gap.note[:200])
        losses = []
    if losses:
        return [(loss.parent.encode(), f"{loss}\n") for loss in losses][: gap.last - gap.first + 1]
    one = gap.messages == 1
    what = "a message" if one else f"{gap.messages:,} messages"
    were = "was" if one else "were"
    text = f"… {what} ({format_bytes(gap.size)}) {were} too large to be stored\n"
    return [(running, text)]
