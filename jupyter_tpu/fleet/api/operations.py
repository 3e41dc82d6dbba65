"""What takes longer than an answer may: operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from .. import models


class OperationsAPI(Protocol):
    """Operations of all processes."""

    async def list(self) -> Sequence[models.Operation]:
        """Running and recent operations, newest first."""

    async def get(self, id: str) -> models.Operation:
        """One operation, with its log."""

    async def cancel(self, id: str) -> models.Operation:
        """Cancels an operation; cancelling a create deletes the TPU.

        Waits a moment for its end. Cleaning up may take longer; it is "running" until then. One
        that another process runs is cancelled by that process within a second or two. An operation
        that has ended is returned as it is.
        """

    async def stop_trying(
        self, id: str, options: models.StopTrying | None = None
    ) -> models.Operation:
        """Ends the attempts to delete a TPU that Google refuses to delete: the TPU stays.

        Raises CONFLICT where Google does not refuse it, STILL_BILLED unless the request has
        ``keep_tpu``. What Google has begun to delete meanwhile is deleted all the same.
        """
