"""What the relay says itself, in the kernel's name: who it is, what it does, what became of it.

A busy kernel would answer kernel_info when its cell ends, and one that is far away when its link is
back; JupyterLab shows nothing until then. So the relay answers from memory.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from ..agent.protocol import messages
from ..agent.protocol.events import IOPUB, SHELL, Gap, Message
from .gaps import describe_gap

log = logging.getLogger(__name__)


class KernelInfoResponder:
    """Speaks to the clients of one kernel.

    Parameters
    ----------
    kernel_id: its id.
    send: gives a channel's message to the clients, if there are any.
    """

    def __init__(self, kernel_id: str, send: Callable[[int, list[bytes]], None]) -> None:
        self._kernel_id = kernel_id
        self._send = send
        self._signer = messages.MessageSigner("", "")
        self._pending: list[tuple[int, list[bytes]]] = []  # kernel_info requests before it is known
        self._running: dict[str, bytes] = {}  # headers of the requests that keep the kernel busy
        #: The content of the kernel's kernel_info_reply, once it is known.
        self.info: bytes | None = None

    def reset(
        self, key: str, info: bytes | None = None, running: Mapping[str, bytes] | None = None
    ) -> None:
        """Another kernel; what is known of it already, if it was taken up.

        key: signs its messages.
        """
        self._signer = messages.MessageSigner(key, "kernel")
        self.info = info
        self._running = dict(running or {})

    @property
    def busy(self) -> bool:
        """Whether a request is known to run."""
        return bool(self._running)

    # ---- what it learns

    def observe(self, parts: list[bytes]) -> None:
        """Remembers what the kernel works on, which it says on iopub."""
        at = messages.find_delimiter(parts)
        if b'"status"' not in parts[at + messages.HEADER]:
            return
        parent = parts[at + messages.PARENT]
        # JupyterLab drops what it still has to handle when another session's message comes.
        self._signer.session = str(messages.decode_part(parts, messages.HEADER).get("session"))
        state = messages.decode_part(parts, messages.CONTENT).get("execution_state")
        request = messages.decode_part(parts, messages.PARENT).get("msg_id")
        if request and state == "busy":
            self._running[request] = parent
        elif request and state == "idle":
            self._running.pop(request, None)

    def set_info(self, info: bytes) -> None:
        """The kernel is ready, and this is what it says about itself."""
        self.info = info
        pending, self._pending = self._pending, []
        for channel, parts in pending:
            self._reply(channel, parts)

    # ---- what it says

    def request_info(self, channel: int, parts: list[bytes]) -> None:
        """Answers a kernel_info request, now or when the kernel is ready."""
        if self.info is None:
            self._pending.append((channel, parts))
        else:
            self._reply(channel, parts)

    def _reply(self, channel: int, parts: list[bytes]) -> None:
        """Answers from memory.

        As JupyterLab also waits for the statuses around the answer, these are given too, and then
        the truth about the running request again.
        """
        at = messages.find_delimiter(parts)
        if not self._signer.is_signed(parts):
            log.warning("A request with a wrong signature came for kernel %s", self._kernel_id)
            return
        assert self.info is not None
        header = parts[at + messages.HEADER]
        self._publish("status", {"execution_state": "busy"}, header)
        reply = self._signer.message(
            "kernel_info_reply", self.info, parent=header, idents=parts[:at]
        )
        self._send(channel, reply)
        self._publish("status", {"execution_state": "idle"}, header)
        if channel == SHELL and self._running:
            self._publish("status", {"execution_state": "busy"}, self._latest_parent())

    def send_welcome(self) -> None:
        """The first client listens: it is welcomed as ipykernel does."""
        self._publish("iopub_welcome", {"subscription": ""}, b"{}")

    def send_line(self, text: str) -> None:
        """A line of our own among the output of what runs now."""
        self._publish("stream", {"name": "stderr", "text": text}, self._latest_parent())

    def gap_messages(self, gap: Gap) -> list[Message]:
        """Lines in the place of what the host dropped: output like all other, for its numbers."""
        lines = describe_gap(gap, self._latest_parent())
        topic = b"stream.stderr"  # as a kernel's, not as the relay's own words
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

    def _latest_parent(self) -> bytes:
        """The header of the request that began to run last."""
        return next(reversed(self._running.values()), b"{}")

    def _publish(self, kind: str, content: dict[str, Any], parent: bytes) -> None:
        topic = f"kernel.{self._kernel_id}.{kind}".encode()
        self._send(IOPUB, self._signer.message(kind, content, parent=parent, idents=[topic]))
