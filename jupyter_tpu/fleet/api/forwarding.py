"""What is reached through the SSH links: tunnels, apps and TensorBoard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from .. import models


class TunnelsAPI(Protocol):
    """Local ports that lead to ports of hosts."""

    async def list(self, ref: str) -> Sequence[models.Tunnel]:
        """The tunnels to a TPU, the oldest first."""

    async def all(self) -> Sequence[models.Tunnel]:
        """The tunnels to all TPUs."""

    async def open(self, ref: str, request: models.OpenTunnel) -> models.Tunnel:
        """Opens a tunnel. It survives interruptions of the link and restarts of the server.

        Asking twice for a tunnel to the same port, without a local port, gives the first one.
        Raises INVALID for a wrong port, host or address, CONFLICT for a local port that is in use,
        PERMISSION for one that only the system may use.
        """

    async def close(self, ref: str, id: str) -> None:
        """Closes a tunnel for good."""


class AppsAPI(Protocol):
    """The web apps of hosts that are open here."""

    async def list(self) -> Sequence[models.App]:
        """The oldest first."""

    async def open(self, ref: str, request: models.OpenApp) -> models.App:
        """Opens the web app on a host's port on an origin of its own, until this process ends.

        The same port and path of a host give the same app. Raises INVALID for a wrong port, host
        or path. If nothing listens there, the browser shows that and tries again.
        """

    async def visit(self, id: str, request: models.VisitApp | None = None) -> models.AppVisit:
        """A URL with which one browser opens an app once."""

    async def close(self, id: str) -> None:
        """Closes an app for all browsers, and the TensorBoard that was started for it.

        A host that can't be reached keeps that: it is found again, or ends at a disconnect.
        """


class TensorBoardAPI(Protocol):
    """TensorBoards of hosts."""

    async def open(self, ref: str, request: models.OpenTensorBoard) -> models.Operation:
        """Opens TensorBoard for a folder of a host, installing and starting it where needed.

        The operation's ``app`` is the app that it opened; the same folder gives the same one.
        Raises INVALID for what can't be a folder or a host. The operation fails with NO_FOLDER for
        a folder that does not exist, unless ``allow_missing``.
        """
