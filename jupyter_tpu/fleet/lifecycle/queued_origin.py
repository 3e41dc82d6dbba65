"""The queued resource that a TPU came from. It is deleted with its last TPU: suspended, it would go
on to use quota, for nothing.
"""

from __future__ import annotations

import asyncio
import time

from msgspec import structs

from ...backoff import POLLING
from ...cloud import Cloud, Node, QueuedState
from ...errors import Reason, TPUError
from ..core.operation_progress import OperationProgress
from ..core.records import OperationRecord, QueuedOrigin
from ..money.owners import TPUOwners
from .provisioning import LABEL

#: For how long Google may refuse to delete it when its TPU is gone; seconds.
REFUSED = 600.0
#: Answers that do not say that Google refuses.
_UNCLEAR = (
    Reason.UNAVAILABLE,
    Reason.TIMEOUT,
    Reason.INTERNAL,
    Reason.RATE_LIMITED,
    Reason.NO_CREDENTIALS,
)


class QueuedOrigins:
    def __init__(self, cloud: Cloud, owners: TPUOwners) -> None:
        self._cloud = cloud
        self._owners = owners

    async def of(self, node: Node) -> QueuedOrigin | None:
        """That of *node*, before the node is deleted. It stays unless it is the user's, and has no
        other TPUs.
        """
        if not node.queued:
            return None
        try:
            queued = await self._cloud.get_queued(structs.replace(node.name, node=node.queued))
        except TPUError as error:
            gone = error.reason is Reason.NOT_FOUND
            return None if gone else QueuedOrigin(name=node.queued)
        owner = self._owners.of(queued)
        mine = owner.is_me or (LABEL in queued.labels and not owner.is_other)
        alone = set(queued.nodes) <= {node.name.node}
        return QueuedOrigin(name=node.queued, created=queued.created if mine and alone else "")

    async def delete(self, record: OperationRecord, progress: OperationProgress) -> None:
        """Returns when Google says that it is gone. It may have been asked for before, by a process
        that was killed for example: what is there decides.

        Raises why Google refuses. What is without an answer is asked again.
        """
        origin, refused = record.origin, 0.0
        assert origin is not None
        name = structs.replace(record.name, node=origin.name)
        for pause in POLLING:
            try:
                queued = await self._cloud.get_queued(name)
                if queued.created != origin.created:
                    return  # another one of that name
                if queued.state != QueuedState.DELETING:
                    await self._cloud.begin_delete_queued(name, force=True)
                refused = 0.0
                progress.block(None)
            except TPUError as error:
                if error.reason is Reason.NOT_FOUND:
                    return
                if error.reason not in _UNCLEAR:
                    refused = refused or time.time()
                    if error.reason is Reason.PERMISSION or time.time() - refused > REFUSED:
                        raise TPUError(
                            f"{record.name.node} is deleted, and its queued resource {name.node} "
                            f"is not: {error.message}",
                            error.reason,
                            leftover_hint(origin),
                        ) from error
                progress.block(error)
                pause = max(pause, error.retry_after or 0.0)
            await asyncio.sleep(pause)


def leftover_hint(origin: QueuedOrigin) -> str:
    """What to do about one that stays."""
    return f"It uses quota until you delete it: jupyter tpu queued delete {origin.name}"
