"""Messages that the relay sends in the kernel's name: kernel_info replies, states, notes, and the
ends of cells that the kernel never got.

A busy kernel answers kernel_info only when its cell ends, and an unreachable one only when its
link is back. JupyterLab shows nothing until then. So the relay answers from memory.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

from ..on_host.agent.protocol import messages
from ..on_host.agent.protocol.activity import KernelActivity
from ..on_host.agent.protocol.events import IOPUB, SHELL, Gap, Message
from ..on_host.agent.protocol.eviction import format_bytes, parse_losses

log = logging.getLogger(__name__)

#: A message with the channel that it belongs to.
Channeled = tuple[int, list[bytes]]


def asks_for_info(header: bytes) -> bool:
    """Whether a message is a kernel_info_request, and not one of a subshell, which its thread
    answers. JupyterLab names the subshell in every header, null where there is none.
    """
    if b'"kernel_info_request"' not in header:
        return False
    try:
        return not json.loads(header).get("subshell_id")
    except (ValueError, AttributeError):
        return False


class KernelInfoResponder:
    """Answers the clients of one kernel from memory.

    Parameters
    ----------
    kernel_id: its id.
    send: sends a message to the clients on a channel.
    """

    def __init__(self, kernel_id: str, send: Callable[[int, list[bytes]], None]) -> None:
        self._kernel_id = kernel_id
        self._send = send
        self._signer = messages.MessageSigner("", "")
        self._pending: list[Channeled] = []  # requests before info is known
        self._activity = KernelActivity()
        #: The content of the kernel's kernel_info_reply, once it is known.
        self.info: bytes | None = None

    def reset(
        self,
        key: str,
        info: bytes | None = None,
        running: Mapping[str, bytes] | None = None,
        session: str = "",
    ) -> None:
        """A new kernel runs under the same id.

        key: signs its messages. info, running, session: known already, if it was adopted.
        """
        self._signer = messages.MessageSigner(key, "kernel")
        self._signer.session = session or self._signer.session
        self.info = info
        self._activity = KernelActivity(running)

    @property
    def busy(self) -> bool:
        """Whether a request is running, as far as known."""
        return bool(self._activity.running)

    # ---- from the kernel

    def observe(self, parts: list[bytes]) -> None:
        """Tracks the running requests by the states that the kernel publishes."""
        status = self._activity.observe(parts)
        if status is not None and status.session:
            # JupyterLab drops pending messages when one of another session arrives.
            self._signer.session = status.session

    def set_info(self, info: bytes) -> None:
        """The kernel is ready, and *info* is the content of its kernel_info_reply."""
        self.info = info
        pending, self._pending = self._pending, []
        for channel, parts in pending:
            self._reply(channel, parts)

    # ---- to the clients

    def request_info(self, channel: int, parts: list[bytes]) -> None:
        """Answers a kernel_info request, now or when the kernel is ready."""
        if self.info is None:
            self._pending.append((channel, parts))
        else:
            self._reply(channel, parts)

    def _reply(self, channel: int, parts: list[bytes]) -> None:
        """Answers from memory.

        JupyterLab also waits for the busy and idle states around the answer, so they are sent, too.
        Then the state of the running request is repeated.
        """
        at = messages.find_delimiter(parts)
        if not self._signer.is_signed(parts):
            log.warning("Ignored a request to kernel %s with a wrong signature", self._kernel_id)
            return
        assert self.info is not None
        header = parts[at + messages.HEADER]
        self._publish("status", {"execution_state": "busy"}, header)
        reply = self._signer.message(
            "kernel_info_reply", self.info, parent=header, idents=parts[:at]
        )
        self._send(channel, reply)
        self._publish("status", {"execution_state": "idle"}, header)
        if channel == SHELL and self.busy:
            self._publish("status", {"execution_state": "busy"}, self._activity.latest)

    def send_welcome(self) -> None:
        """The first client has subscribed. ipykernel sends this message, too."""
        self._publish("iopub_welcome", {"subscription": ""}, b"{}")

    def send_line(self, text: str, header: bytes | None = None) -> None:
        """Adds a line of our own to the output of the running request, or of another."""
        parent = self._activity.latest if header is None else header
        self._publish("stream", {"name": "stderr", "text": text}, parent)

    def end_of_cell(self, parts: list[bytes], reply: Mapping[str, Any]) -> list[Channeled]:
        """What ends the cell of a request that the kernel does not get; nothing if the request has
        a wrong signature, which the kernel would have ignored, too.

        reply: the content of its execute_reply.
        """
        if not self._signer.is_signed(parts):
            return []
        at = messages.find_delimiter(parts)
        header = parts[at + messages.HEADER]

        def message(channel: int, kind: str, content: Mapping[str, Any]) -> Channeled:
            # Topics like the kernel's own: `relay_topic` is for what no journal has.
            idents = parts[:at] if channel == SHELL else [kind.encode()]
            return channel, self._signer.message(kind, dict(content), parent=header, idents=idents)

        error = {name: reply[name] for name in ("ename", "evalue", "traceback") if name in reply}
        return [
            message(IOPUB, "status", {"execution_state": "busy"}),
            *([message(IOPUB, "error", error)] if error else ()),
            message(SHELL, "execute_reply", reply),
            message(IOPUB, "status", {"execution_state": "idle"}),
        ]

    def gap_messages(self, gap: Gap) -> list[Message]:
        """Output lines in place of messages that the host dropped, under their numbers."""
        lines = describe_gap(gap, self._activity.latest)
        topic = b"stream.stderr"  # like the kernel's own output
        return [
            Message(
                gap.lane,
                number,
                IOPUB,
                0,
                self._signer.message(
                    "stream", {"name": "stderr", "text": text}, parent=parent, idents=[topic]
                ),
            )
            for number, (parent, text) in enumerate(lines, gap.last + 1 - len(lines))
        ]

    def _publish(self, kind: str, content: dict[str, Any], parent: bytes) -> None:
        topic = f"kernel.{self._kernel_id}.{kind}".encode()
        self._send(IOPUB, self._signer.message(kind, content, parent=parent, idents=[topic]))


def describe_gap(gap: Gap, running: bytes) -> list[tuple[bytes, str]]:
    """For each request whose output was dropped: its header, and a line of text.

    Returns at most as many lines as the gap has numbers. *running*: the header of the running
    request, for a gap without details.
    """
    if not gap.messages:
        return []  # its kernel ended in the middle of a message
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
