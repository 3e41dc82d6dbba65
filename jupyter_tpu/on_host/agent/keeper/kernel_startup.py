"""Asks a new kernel until it answers. Until then the messages of its clients wait."""

from __future__ import annotations

import asyncio
from typing import Callable, List, Optional, Tuple

from ..protocol import messages
from ..protocol.events import CONTROL, IOPUB, SHELL

#: Seconds until another request finds out whether a new kernel answers on iopub, too, …
READY_INTERVAL = 0.1
#: … and as many times that until one that is not answered at all is repeated: it waits for the
#: kernel, which answers all of them.
UNANSWERED_INTERVALS = 10


class KernelStartup:
    """The start of one kernel, which is ready when it has answered on both shell and iopub.

    Parameters
    ----------
    signer: signs the requests; its session tells the answers to them from all others.
    """

    def __init__(self, signer: messages.MessageSigner) -> None:
        self.ready = False
        self.info: Optional[bytes] = None  # the content of the kernel's kernel_info_reply
        self._signer = signer
        self._mark = signer.session.encode()
        self._idle = False  # reported on iopub
        self._held: List[Tuple[int, List[bytes]]] = []

    async def ask(
        self, send: Callable[[int, List[bytes]], None], running: Callable[[], bool]
    ) -> None:
        """Sends kernel_info_requests until the kernel is ready, or not *running* any more."""
        while not self.ready and running():
            send(SHELL, self._signer.message("kernel_info_request", {}))
            for _ in range(UNANSWERED_INTERVALS):
                await asyncio.sleep(READY_INTERVAL)
                if self.info is not None:
                    break

    def is_answer(self, parent: bytes) -> bool:
        """Whether a message of the kernel answers a request of the keeper itself."""
        return self._mark in parent

    def note_answer(self, channel: int, parts: List[bytes]) -> bool:
        """Returns whether the kernel has become ready by this answer."""
        if channel == SHELL:
            self.info = self.info or parts[messages.find_delimiter(parts) + messages.CONTENT]
        elif channel == IOPUB and b'"idle"' in parts[-1]:
            self._idle = True
        before, self.ready = self.ready, self._idle and self.info is not None
        return self.ready and not before

    def hold(self, channel: int, parts: List[bytes]) -> bool:
        """Keeps a client's message if the kernel is not ready for it."""
        if self.ready or channel == CONTROL:
            return False
        self._held.append((channel, parts))
        return True

    def take_held(self) -> List[Tuple[int, List[bytes]]]:
        """The messages that were kept, in order, with their channels."""
        held, self._held = self._held, []
        return held
