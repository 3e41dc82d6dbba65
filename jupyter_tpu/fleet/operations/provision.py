"""Asks Google what :class:`Provisioning` wants to know, until a node is there or gone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from ...cloud import Cloud, Node, NodeName, NodeSpec
from ...cloud.errors import never_sent
from ...errors import Reason, TPUError
from .provisioning import LABEL, Ask, End, Provisioning, SeenNode


class NodeProvisioner:
    """Carries out *provisioning* for the node *name*, as often as processes end in between.

    Parameters
    ----------
    spec: what to create; None for a deletion.
    save: writes the claim down; called before Google is asked to create something, and after each
        answer. What it raises ends :meth:`run` if nothing was sent yet.
    observed: hears of each node that Google described, and None when there is none.
    blocked: hears what stands in the way, and None when nothing does any more.
    """

    def __init__(
        self,
        cloud: Cloud,
        name: NodeName,
        provisioning: Provisioning,
        spec: NodeSpec | None,
        *,
        save: Callable[[], None],
        observed: Callable[[Node | None], None],
        blocked: Callable[[TPUError | None], None],
    ) -> None:
        self._cloud = cloud
        self._name = name
        self._provisioning = provisioning
        self._spec = spec
        self._save = save
        self._observed = observed
        self._blocked = blocked
        self._cancelled = asyncio.Event()

    def cancel(self) -> None:
        """The node is to be absent; :meth:`run` goes on until it is. Raises what *save* raises."""
        self._provisioning.cancel()
        self._save()
        self._cancelled.set()

    async def run(self) -> End:
        """Ends when it is known how it ended, however long Google does not say."""
        provisioning = self._provisioning
        while True:
            step = provisioning.next(time.time())
            if isinstance(step, End):
                return step
            if await self._pause(provisioning.pause):
                continue  # it was cancelled meanwhile: there may be something else to ask
            await self._ask(step)
            self._save()
            self._blocked(provisioning.problem)

    async def _pause(self, seconds: float) -> bool:
        """Waits; True when it was cut short by a cancel."""
        if self._cancelled.is_set():
            self._cancelled.clear()
            return True
        try:
            async with asyncio.timeout(seconds):
                await self._cancelled.wait()
        except TimeoutError:
            return False
        self._cancelled.clear()
        return True

    async def _ask(self, step: Ask) -> None:
        match step:
            case Ask.CREATE:
                await self._create()
            case Ask.DELETE:
                await self._delete()
            case Ask.NODE:
                await self._look()
            case Ask.CREATING:
                await self._follow(self._provisioning.claim.creating)
            case Ask.DELETING:
                await self._follow(self._provisioning.claim.deleting)

    async def _create(self) -> None:
        assert self._spec is not None
        provisioning = self._provisioning
        provisioning.sending(time.time())
        self._save()
        try:
            provisioning.create_accepted(await self._cloud.begin_create(self._name, self._spec))
        except TPUError as error:
            provisioning.create_failed(error, sent=not never_sent(error))

    async def _delete(self) -> None:
        try:
            self._provisioning.delete_accepted(await self._cloud.begin_delete(self._name))
        except TPUError as error:
            self._provisioning.delete_failed(error)

    async def _look(self) -> None:
        try:
            node = await self._cloud.get_node(self._name)
        except TPUError as error:
            if error.reason is not Reason.NOT_FOUND:
                self._provisioning.unanswered(error)
                return
            self._provisioning.node_missing()
            self._observed(None)
        else:
            label = node.labels.get(LABEL, "")
            self._provisioning.node_seen(SeenNode(id=node.id, state=node.state, label=label))
            self._observed(node)

    async def _follow(self, operation: str) -> None:
        provisioning = self._provisioning
        try:
            status = await self._cloud.operation(operation)
        except TPUError as error:
            if error.reason is Reason.NOT_FOUND:
                provisioning.operation_forgotten()
            else:
                provisioning.unanswered(error)
            return
        if not status.done:
            provisioning.operation_runs()
        elif operation == provisioning.claim.creating:
            provisioning.create_ended(status.error)
        else:
            provisioning.delete_ended(status.error)
