"""Requests the checkpoint function of a kernel, which its user has chosen, and reads the result."""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any, Dict, List, Optional

from ..protocol import messages
from .kernel_checkpoint import KIND


class CheckpointRequest:
    """key: signs the kernel's messages."""

    def __init__(self, key: str) -> None:
        self._signer = messages.MessageSigner(key, "keeper")
        self._mark = self._signer.session.encode()
        #: ``what`` runs, its ``state`` ("running", "done" or "failed"), ``seconds`` and ``error``;
        #: None: no function was chosen, or it was not asked for.
        self.outcome: Optional[Dict[str, Any]] = None

    def message(self, announced: bool) -> List[bytes]:
        """The request, for the control channel; False: the host is not stopped after all."""
        if announced:
            self.outcome = None
        # The hosts of a pod kernel, which all get it, name by its step what they do together.
        return self._signer.message(KIND, {"announced": announced, "step": os.urandom(8).hex()})

    def is_answer(self, parent: bytes) -> bool:
        """Whether a message of the kernel answers it."""
        return self._mark in parent

    def note(self, parts: List[bytes]) -> str:
        """Takes an answer; returns what the running cell shows of it, "" for nothing."""
        with contextlib.suppress(ValueError, KeyError, TypeError):
            if messages.decode_part(parts, messages.HEADER)["msg_type"] == KIND:
                outcome = json.loads(parts[messages.find_delimiter(parts) + messages.CONTENT])
                text = _TEXTS[outcome["state"]] % outcome
                self.outcome = outcome
                return text
        return ""


_TEXTS = {
    "running": "%(what)s is running, to save what it can.",
    "done": "%(what)s finished after %(seconds)s s.",
    "failed": "%(what)s failed after %(seconds)s s: %(error)s",
}
