"""Saved variables of kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from .. import models


class SessionsAPI(Protocol):
    """The variables of kernels, kept where they outlive the kernel, its host or its TPU."""

    async def all(self) -> Sequence[models.Session]:
        """The sessions that are known here, also of TPUs that are gone. Asks no host."""

    async def list(self, ref: str, query: models.ListQuery | None = None) -> models.SessionList:
        """The sessions that kernels of a TPU can restore: on its disk, and in buckets.

        Its host is asked if it is READY and *query* says so, or if it was not asked yet. Does not
        fail if it does not answer: ``problems`` says so.
        """

    async def set(self, ref: str, request: models.SetSessions) -> models.SessionSetting:
        """Chooses where the variables of a TPU's kernels are saved, and when.

        For new kernels, and for those that run and answer. Raises NOT_YOURS for another person's
        TPU, unless its name is confirmed.
        """

    async def remove(self, ref: str) -> None:
        """Kernels of a TPU are not saved automatically, nor before it ends. Its sessions stay."""

    async def buckets(self, zone: str) -> models.BucketList:
        """The buckets of the project, those of the region of a *zone* first; "-": of no zone.

        Does not fail if they can't be listed: ``problem`` says so.
        """

    async def save(self, ref: str, request: models.SaveSessions | None = None) -> models.Operation:
        """Saves kernels of a READY TPU between two cells.

        The operation's result is a :class:`~models.SessionResult`, also where it fails because a
        kernel was busy or could not be saved. Raises NOT_FOUND for an unknown kernel.
        """

    async def restore(
        self, ref: str, session: str, request: models.RestoreSession
    ) -> models.Operation:
        """Puts a session into a kernel of a READY TPU between two cells.

        The operation's result is a :class:`~models.SessionResult`. Raises NOT_FOUND for an unknown
        session or kernel, CONFLICT for a session that is on the disk of another host.
        """

    async def forget(self, ref: str, session: str) -> None:
        """Deletes a session and all that is stored of it.

        What is in a bucket is deleted by host 0 of the TPU, which need not be the one that has
        saved it. A kernel that is saved automatically saves it again. Raises CONFLICT if the TPU
        is not READY, UNAVAILABLE if it is saved in that moment.
        """

    async def restart(
        self, ref: str, kernel: str, request: models.RestartKernel | None = None
    ) -> models.Operation:
        """Saves a kernel, restarts it by its Jupyter server, and restores its variables.

        The operation's result is a :class:`~models.SessionResult`. If it can't be saved, it is not
        restarted. Raises CONFLICT if this server does not have the kernel.
        """
