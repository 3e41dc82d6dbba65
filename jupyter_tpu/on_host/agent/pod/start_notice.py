"""What cells show that wait for the start of the hosts. It goes away when they run. No I/O."""

from __future__ import annotations

import itertools
from typing import Any, Callable, Dict, List, Tuple

#: publish(message type, content, the header of the cell)
Publish = Callable[[str, Dict[str, Any], bytes], None]


class StartNotice:
    """*id*: of its displays. *publish*: publishes a message about a cell."""

    def __init__(self, id: str, publish: Publish) -> None:
        self._id, self._publish = id, publish
        self._numbers = itertools.count(1)
        self._cells: List[Tuple[str, bytes]] = []  # their displays, and headers
        self._text = ""

    def add(self, header: bytes) -> None:
        """One more cell waits."""
        display = "%s-start-%d" % (self._id, next(self._numbers))
        self._cells.append((display, header))
        self._show("display_data", display, header)

    def update(self, text: str) -> None:
        """What they wait for, as a sentence; "": nothing any more."""
        if text == self._text:
            return
        self._text = text
        for display, header in self._cells:
            if text:
                self._show("update_display_data", display, header)
            else:  # the cell has no other output: it has not begun
                self._publish("clear_output", {"wait": False}, header)
        if not text:
            self._cells.clear()

    def _show(self, kind: str, display: str, header: bytes) -> None:
        content = {
            "data": {"text/plain": self._text},
            "metadata": {},
            "transient": {"display_id": display},
        }
        self._publish(kind, content, header)
