"""Home folders that are kept in a bucket."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from .. import models


class HomesAPI(Protocol):
    """Folders of the home of host 0, which come back on the next TPU of the name."""

    async def all(self) -> Sequence[models.Home]:
        """Those that were chosen, also of TPUs that are gone. Asks no host."""

    async def set(self, ref: str, request: models.SetHome) -> models.Home:
        """Chooses the folders, and where they are kept.

        What is there of a TPU of the name is restored, if the TPU is READY and has an environment;
        otherwise when it is connected. Raises NOT_YOURS for another person's TPU, unless its name
        is confirmed; INVALID for a folder that is not in the home folder.
        """

    async def remove(self, ref: str) -> None:
        """They are not saved any more. What is in the bucket stays. The TPU may be gone."""

    async def save(self, ref: str) -> models.Operation:
        """Saves them now. The operation's result is a :class:`~models.HomeOutcome`."""

    async def restore(self, ref: str) -> models.Operation:
        """Restores what is in the bucket; files that are newer on the TPU stay.

        The operation's result is a :class:`~models.HomeOutcome`.
        """

    async def forget(self, ref: str) -> None:
        """Deletes what is in the bucket, and does not save them any more.

        By the TPU, or by another connected one. Raises CONFLICT if there is none.
        """
