"""Environments on the hosts of a TPU, and the packages in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from .. import models


class EnvironmentsAPI(Protocol):
    """The environments of TPUs. `FleetAPI.connect` creates them."""

    async def list(self, ref: str) -> Sequence[models.Environment]:
        """The environments of a TPU."""

    async def keep_warm(
        self, ref: str, environment: str, options: models.KeepWarm
    ) -> models.Environment:
        """Decides whether an environment has a warm kernel while its TPU is connected."""

    async def list_packages(self, ref: str, environment: str) -> Sequence[models.InstalledPackage]:
        """What is installed in an environment, as host 0 reports it."""

    async def get_lock(self, ref: str, environment: str) -> models.EnvironmentLock:
        """The exact versions of an environment, as host 0 reports them.

        They are kept: a new environment of that name on another TPU gets the same, unless the name
        is "default".
        """

    async def change_packages(
        self, ref: str, environment: str, request: models.ChangePackages
    ) -> models.Operation:
        """Adds packages to an environment and removes some, on all hosts.

        INVALID for a name that is not a package's, and to remove a package that kernels need.
        """

    async def sync_packages(self, ref: str, environment: str) -> models.Operation:
        """Gives all hosts exactly the packages that host 0 has.

        `doctor.check` says which hosts have others.
        """

    async def remove(
        self, ref: str, environment: str, options: models.RemoveEnvironment | None = None
    ) -> models.Operation:
        """Removes an environment from the hosts, and its kernel from Jupyter."""
