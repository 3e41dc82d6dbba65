"""What the process that keeps a kernel on its host may say to the kernel's client.

The kernel's own messages are passed on as they are.
"""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, TypedDict

import msgspec
from msgspec import Meta

from ..ssh.agent_answers import Kernel
from ..ssh.host_values import InvalidAnswer, Line, Text, checked, decoded

#: A kernel's exit code; None: not known.
_Code = Annotated[int, Meta(ge=-(1 << 31), le=1 << 31)] | None


class KeeperHello(TypedDict):
    """info: the content of the kernel's kernel_info_reply, as JSON."""

    status: NotRequired[Kernel | None]
    info: NotRequired[Text]


class Rejection(TypedDict):
    """Why the keeper does not serve a client."""

    reason: NotRequired[Line]
    message: NotRequired[Text]
    holder: NotRequired[Line]


class Notice(TypedDict):
    """failed: the protocol error that the keeper has seen."""

    failed: NotRequired[Text]


class KeeperEvent(TypedDict):
    """What happened to the kernel; ``code`` is of "exited" and "ended", ``why`` of "paused"."""

    event: Literal["ready", "exited", "ended", "paused", "resumed"]
    code: NotRequired[_Code]
    cause: NotRequired[Text]
    output: NotRequired[Text]
    asked: NotRequired[bool]
    why: NotRequired[Text]


def keeper_event(parts: list[bytes]) -> KeeperEvent:
    """The event in a message of the keeper. Raises InvalidAnswer."""
    event: KeeperEvent = checked(decoded(parts[0], "event"), KeeperEvent, "event")
    return event


def kernel_info(content: bytes) -> bytes:
    """The *content* of a kernel_info_reply, if it is a JSON object. Raises InvalidAnswer."""
    try:
        msgspec.json.decode(content, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidAnswer("kernel_info_reply", str(error)) from None
    return content
