"""What the conductor tells its clients: a cell has begun, its output, and its end."""

from __future__ import annotations

from typing import Any, Dict, Optional, Sequence, Tuple

from ..protocol import messages
from ..protocol.events import IOPUB, SHELL, STDIN
from .cell_output import CellRequest
from .sockets import KernelSockets


class Clients:
    """Those of one pod kernel. *signer*: signs their messages."""

    def __init__(self, sockets: KernelSockets, signer: messages.MessageSigner) -> None:
        self.count = 0  # of the latest cell
        self._sockets = sockets
        self._signer = signer

    def publish(self, kind: str, content: Dict[str, Any], parent: bytes) -> None:
        """To all of them."""
        idents = [b"kernel." + kind.encode()]
        message = self._signer.message(kind, content, parent=parent, idents=idents)
        self._sockets.send(IOPUB, message)

    def say(self, parent: bytes, text: str) -> None:
        """Adds lines to the output of a request."""
        self.publish("stream", {"name": "stderr", "text": text + "\n"}, parent)

    def reply(
        self,
        idents: Sequence[bytes],
        header: bytes,
        kind: str,
        content: Dict[str, Any],
        channel: int = SHELL,
    ) -> None:
        """Answers a request."""
        message = self._signer.message(kind, content, parent=header, idents=idents)
        self._sockets.send(channel, message)

    def refuse(
        self, idents: Sequence[bytes], header: bytes, kind: str, channel: int, why: Tuple[str, str]
    ) -> None:
        """Answers a request of type *kind* with an error: *why* is its name and its text. Nobody
        waits for an answer to what is no request.
        """
        if not kind.endswith("_request"):
            return
        ename, evalue = why
        content = {"status": "error", "ename": ename, "evalue": evalue, "traceback": []}
        self.publish("status", {"execution_state": "busy"}, header)
        self.reply(idents, header, kind.replace("_request", "_reply"), content, channel)
        self.publish("status", {"execution_state": "idle"}, header)

    def ask(self, request: CellRequest, content: Dict[str, Any]) -> None:
        """Asks the client of a cell for input."""
        self.reply(request.idents, request.header, "input_request", content, STDIN)

    def begin(self, request: CellRequest) -> None:
        """A cell begins."""
        self.publish("status", {"execution_state": "busy"}, request.header)

    def end(self, request: CellRequest, content: Dict[str, Any]) -> None:
        """A cell has ended, with *content* as its reply.

        Without a number, or with 0, JupyterLab would show it as running: one that the hosts did not
        run has that of the latest cell, or 1.
        """
        if content.get("execution_count") is None:
            content = {**content, "execution_count": self.count or 1}
        self.reply(request.idents, request.header, "execute_reply", content)
        self.publish("status", {"execution_state": "idle"}, request.header)

    def fail(
        self, request: CellRequest, ename: str, evalue: str, offer: Optional[Dict[str, Any]] = None
    ) -> None:
        """A cell that has begun ends with an error of the kernel's own, and perhaps a mime bundle
        that says what can be done.
        """
        lines = ["\x1b[0;31m%s\x1b[0m: %s" % (ename, evalue)]
        error = {"ename": ename, "evalue": evalue, "traceback": lines}
        if not request.silent:
            self.publish("error", error, request.header)
            if offer:
                display = {"data": offer, "metadata": {}, "transient": {}}
                self.publish("display_data", display, request.header)
        self.end(request, {"status": "error", "execution_count": None, **error})
