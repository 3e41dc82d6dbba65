"""Messages from the keeper of a kernel to the kernel's client.

The kernel's own messages are passed on as they are.
"""

from __future__ import annotations

import msgspec

from ..agent.protocol.records import KeeperEvent
from ..ssh.agent_answers import checked_record
from ..ssh.host_values import InvalidAnswer, decoded


def keeper_event(parts: list[bytes]) -> KeeperEvent:
    """The event in a message of the keeper. Raises InvalidAnswer."""
    event: KeeperEvent = checked_record(decoded(parts[0], "event"), KeeperEvent, "event")
    return event


def kernel_info(content: bytes) -> bytes:
    """The *content* of a kernel_info_reply, if it is a JSON object. Raises InvalidAnswer."""
    try:
        msgspec.json.decode(content, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidAnswer("kernel_info_reply", str(error)) from None
    return content
