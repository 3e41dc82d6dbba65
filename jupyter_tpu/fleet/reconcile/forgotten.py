"""What its user seems to have forgotten: TPUs that are billed, and nothing here uses them; queued
resources that use quota for nothing; parts of TPUs that are left over.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable

from ...cloud import Cloud, Node
from ...errors import TPUError
from ..core.core import Core
from ..core.view import TPUFacts
from ..jobs.jobs import JobService
from ..lifecycle.queued import QueuedService
from ..money.owners import TPUOwners
from ..money.run_times import RunTimes

log = logging.getLogger(__name__)

#: A TPU counts as forgotten if it is READY for longer, and nothing here uses it; seconds.
FORGOTTEN = 4 * 3600.0
#: Seconds between two looks for queued resources and leftovers: usually, and after one that failed.
PAUSES = (86_400.0, 3600.0)


class ForgottenTPUs:
    def __init__(
        self, core: Core, jobs: JobService, run_times: RunTimes, owners: TPUOwners
    ) -> None:
        self._desired = core.desired
        self._jobs = jobs
        self._run_times = run_times
        self._owners = owners
        self._reported: set[str] = set()  # ids
        core.observer.polled.add(self._report)
        core.tpus.register(self._describe)

    def _describe(self, facts: TPUFacts) -> None:
        facts.forgotten = facts.seen and self.is_forgotten(facts.node)

    def is_forgotten(self, node: Node) -> bool:
        """Whether it is the user's, READY for hours, not connected here, and without a job."""
        now = time.time()
        since, _ = self._run_times.estimate(node, now)
        return (
            since is not None
            and now - since > FORGOTTEN
            and self._desired.connected.get(node.name) != node.id
            and node.name not in self._jobs.unfinished_on()
            and self._owners.of(node).is_me
        )

    def _report(self, nodes: Iterable[Node]) -> None:
        """Names in the log those of *nodes* that are forgotten, each once."""
        for node in nodes:
            if node.id not in self._reported and self.is_forgotten(node):
                self._reported.add(node.id)
                log.warning(
                    "The TPU %s has been READY for hours, and is not connected here. "
                    "`jupyter tpu usage` shows what it costs.",
                    node.name.node,
                )


class ForgottenQueued:
    """Looks for queued resources of the user that use quota for nothing. first_look: in seconds."""

    def __init__(self, queued: QueuedService, first_look: float) -> None:
        self._queued = queued
        self._pause = first_look
        self._reported: set[tuple[str, str, str]] = set()  # zone, name, creation

    async def run(self) -> None:
        """Names each in the log, once, until it is cancelled. A new list publishes them, too."""
        usual, after_failure = PAUSES
        while True:
            await asyncio.sleep(self._pause)
            try:
                queued_resources = (await self._queued.list()).queued
            except TPUError as error:
                log.debug("Queued resources can't be listed: %s", error)
                self._pause = after_failure
                continue
            self._pause = usual
            for queued_resource in queued_resources:
                key = queued_resource.zone, queued_resource.name, queued_resource.created
                if queued_resource.forgotten and key not in self._reported:
                    self._reported.add(key)
                    log.warning(
                        "The queued resource %s is %s, and uses quota until it is deleted: "
                        "`jupyter tpu queued delete %s`.",
                        queued_resource.name,
                        queued_resource.state,
                        queued_resource.name,
                    )


class Leftovers:
    """Deletes what is left of TPUs that were never finished, or deleted by others: it is free, and
    there is a quota for it.
    """

    def __init__(self, cloud: Cloud, first_look: float) -> None:
        self._cloud = cloud
        self._pause = first_look

    async def run(self) -> None:
        usual, after_failure = PAUSES
        while True:
            await asyncio.sleep(self._pause)
            try:
                swept = await self._cloud.sweep()
            except TPUError as error:
                log.debug("Leftovers can't be deleted: %s", error)
                self._pause = after_failure
                continue
            self._pause = usual
            if swept:
                log.info("Deleted what TPUs have left: %s", ", ".join(swept))
