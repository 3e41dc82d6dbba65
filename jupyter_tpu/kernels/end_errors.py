"""Why a kernel ended, or is lost to its client, in words for users."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import Reason, TPUError
from ..on_host.agent.protocol import messages
from ..on_host.agent.protocol.events import SHELL, Message


class LeaseLost(TPUError):
    """Another client has taken the kernel over. It continues there."""

    def __init__(self, holder: str) -> None:
        super().__init__(
            f"The kernel was taken over by {holder}.",
            Reason.CONFLICT,
            "It continues there. `jupyter tpu kernel take` brings it back.",
        )


class ProtocolMismatch(TPUError):
    """The two ends speak different protocols. The kernel continues for a client that can attach."""

    def __init__(self, message: str, reason: Reason = Reason.INTERNAL) -> None:
        super().__init__(
            f"{message} The kernel continues on its host.",
            reason,
            "`jupyter tpu kernel take` brings it back to this server, or to the one that started "
            "it. `jupyter tpu kernel stop` ends it.",
        )


def ended_elsewhere_error() -> TPUError:
    """The kernel was ended on purpose, and not by its client."""
    return TPUError(
        "The kernel was ended in the TPU panel or by another program, or its TPU was "
        "stopped or deleted.",
        Reason.CANCELLED,
        "If its TPU is ready, start it again.",
    )


def gone_error(ending: dict[str, Any] | None) -> TPUError:
    """The host has no such kernel any more. *ending*: what it recorded, if it did."""
    if ending is not None and ending.get("end") == "asked":
        return ended_elsewhere_error()
    if ending is not None:
        message = f"{ending.get('cause')} That was on {ending.get('died')}."
        if ending.get("waiting"):
            message += " Its last output is no longer stored on the host"
            message += ": other kernels needed the space." if ending.get("end") == "room" else "."
    else:
        message = (
            "The kernel is no longer on its host. The host was restarted, or the kernel was killed."
        )
    return TPUError(
        message, Reason.NOT_FOUND, "Restart the kernel. Variables that were not saved are lost."
    )


def host_rebooted_error() -> TPUError:
    return TPUError(
        "The kernel's host was restarted, which ended the kernel.",
        Reason.NOT_FOUND,
        "Restart the kernel. Variables that were not saved are lost.",
    )


def is_reply_of_dead(message: Message) -> bool:
    """Whether, after the kernel's exit, its keeper answers a cell in its place."""
    if message.channel != SHELL:
        return False
    try:
        content = messages.decode_part(message.parts, messages.CONTENT)
    except ValueError:
        return False
    return content.get("ename") == "KernelDied" or content.get("status") == "aborted"


def exit_error(event: Mapping[str, Any], *, was_ready: bool) -> TPUError:
    """The kernel ended on its own. *event*: the keeper's ``ended``; *was_ready*: it had started."""
    lines = str(event.get("output", "")).strip().splitlines()
    fatal = (line for line in lines if line.startswith("Fatal Python error"))
    reason = f": {next(fatal, lines[-1])}" if lines else "."
    # An earlier version's keeper does not say the cause.
    cause = event.get("cause") or f"The kernel exited with code {event.get('code')}."
    return TPUError(
        f"{cause.rstrip('.')}{reason}", Reason.INTERNAL if was_ready else Reason.ENVIRONMENT
    )
