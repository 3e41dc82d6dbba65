"""Files of this computer on the hosts: the project, copies, shared folders and tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from .. import models


class SyncAPI(Protocol):
    """Folders that are the same here and on the hosts of a TPU."""

    async def start(self, ref: str, request: models.SyncProject) -> models.Operation:
        """Copies what has changed to all hosts, or from one; nothing is overwritten unseen.

        The operation's result is a :class:`~models.SyncResult`, also where it fails because some
        hosts could not be reached. Raises INVALID for a wrong path, NOT_FOUND for a wrong host.
        The operation fails with NO_FOLDER where the source does not exist, and INVALID where it
        is too large.
        """


class CopiesAPI(Protocol):
    """Copies of files and folders to hosts and from them."""

    async def start(self, ref: str, request: models.CopyFiles) -> models.Operation:
        """Copies to hosts, which send the files on to each other, or from one host.

        The operation's result is a :class:`~models.CopyResult`, also where it fails. Raises INVALID
        for a wrong path or host. The operation fails with EXISTS where files would be overwritten
        unseen, NOT_FOUND, NO_FOLDER, DISK_FULL, and where something was not copied.
        """


class SharesAPI(Protocol):
    """Folders that hosts of a TPU, or of several of a zone, share over NFS."""

    async def list(self, ref: str) -> models.SharedFolders:
        """The shared folders of a TPU, and whether each host has them. Asks all hosts."""

    async def start(self, ref: str, request: models.ShareFolder) -> models.Operation:
        """Shares a folder of host 0 with the other hosts, or ends that.

        The operation's result is a :class:`~models.ShareResult`, also where it fails. Raises
        INVALID for a folder that can't be shared and for TPUs of several zones. The operation fails
        with CONFLICT, and changes nothing, where a host can't share it; with NOT_FOUND to remove
        what is not shared.
        """


class TokensAPI(Protocol):
    """Tokens of this computer that TPUs get, such as HF_TOKEN. Their values are never answered."""

    async def list(self) -> Sequence[models.Token]:
        """In the order of choice, and where each is found now."""

    async def pass_on(self, request: models.PassTokens) -> Sequence[models.Token]:
        """What is started on TPUs from now on gets these, too; the answer has all.

        Raises INVALID for what is not a variable's name, or one that hosts have themselves.
        """

    async def remove(self, name: str) -> None:
        """What is started from now on does not get it; what runs keeps it."""
