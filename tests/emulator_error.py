"""What a call of the emulator over REST raises."""

from __future__ import annotations

from typing import Any


class EmulatorError(Exception):
    """An error answer of the emulator's REST side."""

    def __init__(self, status: int, error: dict[str, Any]) -> None:
        super().__init__(f"{status} {error.get('message')}")
        self.status = status
        self.error = error
