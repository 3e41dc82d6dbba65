"""Requests the save or restore of a kernel's session, and keeps what the kernel says of it."""

from __future__ import annotations

import contextlib
import json
from typing import Any, Dict, List, Optional

from ..protocol import messages
from .kernel_session import KIND

_MARK = b'"%s"' % KIND.encode()


class SessionRequest:
    """key: signs the kernel's messages."""

    def __init__(self, key: str) -> None:
        self._signer = messages.MessageSigner(key, "keeper")
        #: What became of the last request: its ``id``, a ``state`` ("waiting", "running", "saved",
        #: "restored", "set", "empty", "cancelled" or "failed") and more; None before the first one.
        self.outcome: Optional[Dict[str, Any]] = None
        #: The session that the kernel has saved last, whoever asked for it.
        self.saved: Optional[Dict[str, Any]] = None

    def message(self, request: Dict[str, Any]) -> List[bytes]:
        """The request, for the control channel."""
        return self._signer.message(KIND, request)

    def is_answer(self, header: bytes) -> bool:
        """Whether a message of the kernel is about its session; it is for the keeper only."""
        return _MARK in header

    def note(self, parts: List[bytes]) -> None:
        with contextlib.suppress(ValueError, KeyError, TypeError, IndexError):
            content = json.loads(parts[messages.find_delimiter(parts) + messages.CONTENT])
            self.outcome = content.get("outcome", self.outcome)
            self.saved = content.get("saved", self.saved)
