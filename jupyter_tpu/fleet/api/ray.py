"""Ray on the hosts of a TPU."""

from __future__ import annotations

from typing import Protocol

from .. import models


class RayAPI(Protocol):
    """One Ray cluster for each TPU, on all its hosts. It runs as a job: see `JobsAPI`."""

    async def get(self, ref: str) -> models.Ray:
        """The cluster of a TPU, as its host 0 says it now."""

    async def start(self, ref: str, request: models.StartRay) -> models.Operation:
        """Starts Ray on all hosts of a READY TPU and opens its dashboard, the operation's ``app``.

        A cluster that runs is kept. Raises NOT_FOUND for an environment that is not there. The
        operation fails with ENVIRONMENT if Ray is not installed there, and ``install`` is false.
        """

    async def open_dashboard(self, ref: str) -> models.App:
        """Opens the dashboard; its pages need no token. CONFLICT if Ray does not run."""

    async def stop(self, ref: str) -> models.Ray:
        """Begins to stop Ray, and what runs on it."""
