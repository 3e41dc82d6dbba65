"""The websocket of a stored kernel: its messages come from the journal instead of the ports.

The kernel's ports are still used for messages of clients and for the relay's own messages. What a
client gets of the journal, and when: ``client_feed.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .client_feed import ClientFeed, relay_topic
from .persisted_kernel import PersistedKernel


def journal_websocket(
    base: type, persisted_kernel_of: Callable[[Any], PersistedKernel | None]
) -> type:
    """A subclass of the server's websocket class; other kernels get *base* itself."""

    class JournalWebsocketConnection(base):
        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            if persisted_kernel_of(kwargs.get("parent")) is None:
                return base(*args, **kwargs)
            return super().__new__(cls, *args, **kwargs)

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            kernel = persisted_kernel_of(kwargs.get("parent"))
            assert kernel is not None
            # The window limits it. The server's own limits would drop messages.
            self.limit_rate = False
            self._feed = ClientFeed(self, kernel, super().handle_outgoing_message)

        def connect(self) -> Any:
            connected = super().connect()
            if connected is not None:
                connected.add_done_callback(lambda _: self._feed.start())
            return connected

        def disconnect(self) -> None:
            self._feed.stop()
            super().disconnect()
            kernels = self.multi_kernel_manager
            if self.kernel_id in kernels and self.kernel_id in kernels._kernel_buffers:
                # The journal has all messages. The server's buffer would grow without limit.
                kernels.stop_buffering(self.kernel_id)

        def handle_incoming_message(self, incoming_msg: Any) -> None:
            if not self._feed.handles(incoming_msg):
                super().handle_incoming_message(incoming_msg)

        def handle_outgoing_message(self, stream: Any, outgoing_msg: list[Any]) -> None:
            """Passes on only the relay's own messages. The journal has the kernel's."""
            if getattr(stream, "channel", stream) == "iopub":
                # Messages from before the subscription was narrowed may be the kernel's.
                own = bytes(outgoing_msg[0]).startswith(relay_topic(self.kernel_id))
            else:
                own = any(b'"kernel_info_reply"' in bytes(part) for part in outgoing_msg)
            if own:
                super().handle_outgoing_message(stream, outgoing_msg)

    return JournalWebsocketConnection
