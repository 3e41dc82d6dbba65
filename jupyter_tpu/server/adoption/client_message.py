"""Reads what a client sends through its websocket, as the server's websocket class passes it on."""

from __future__ import annotations

import json
from typing import Any

from jupyter_server.services.kernels.connection.base import (
    deserialize_binary_message,
    deserialize_msg_from_ws_v1,
)

from ...agent.protocol import messages

#: The websocket protocol of JupyterLab.
V1 = "v1.kernel.websocket.jupyter.org"


def parse(connection: Any, frame: Any) -> tuple[str | None, list[bytes]]:
    """The channel and parts (header, parent, metadata, content, buffers) of a client's message.

    They must have the same bytes that the base class passes on, because a repeated message is
    recognised by its header.
    """
    if connection.subprotocol == V1:
        channel, parts = deserialize_msg_from_ws_v1(frame)
        return channel, [bytes(part) for part in parts]
    fields = deserialize_binary_message(frame) if isinstance(frame, bytes) else json.loads(frame)
    parts = [
        connection.session.pack(fields.get(name) or {})
        for name in ("header", "parent_header", "metadata", "content")
    ]
    return fields.get("channel"), [*parts, *map(bytes, fields.get("buffers") or ())]


def signed(connection: Any, body: list[bytes]) -> list[bytes]:
    """A message as the base class sends it to the kernel's port, with the client's identity."""
    session = connection.session
    return [session.bsession, messages.DELIMITER, session.sign(body[:4]), *body]
