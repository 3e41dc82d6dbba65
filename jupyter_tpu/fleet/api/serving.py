"""Servers of models, which run as jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from .. import models


class ServingAPI(Protocol):
    """Servers of models. Each runs as a job, with its log: see `JobsAPI`."""

    async def list(self, ref: str) -> Sequence[models.ModelServer]:
        """Those of a TPU, the oldest first, also those that have ended."""

    async def all(self) -> Sequence[models.ModelServer]:
        """Those of all TPUs."""

    async def get(self, ref: str, id: str) -> models.ModelServer:
        """One server. Raises NOT_FOUND for a job that is not one."""

    async def start(self, ref: str, request: models.StartModelServer) -> models.Operation:
        """Starts a server on a READY TPU, and forwards a local port to it.

        The operation is done when the server is healthy; its result is the server. It fails if the
        server exits, with what that has printed last; cancelling ends the server. Raises CONFLICT
        for a port that is in use, INVALID for a request that does not say one server, PRICE if
        requests may start the TPU and what it costs is not agreed to, and what `jobs.start` does.
        """

    async def stop(
        self, ref: str, id: str, options: models.StopJob | None = None
    ) -> models.ModelServer:
        """Begins to stop a server, and closes its port here."""
