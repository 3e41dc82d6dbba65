"""TPUs that their user seems to have forgotten: they are billed, and nothing here uses them."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

from ...cloud import Node
from ..hosts.jobs import Jobs
from ..knowledge.desired import DesiredState
from ..knowledge.owners import Owners
from ..knowledge.run_times import RunTimes

log = logging.getLogger(__name__)

#: A TPU counts as forgotten if it is READY for longer, and nothing here uses it; seconds.
FORGOTTEN = 4 * 3600.0


class ForgottenTPUs:
    def __init__(
        self, desired: DesiredState, jobs: Jobs, run_times: RunTimes, owners: Owners
    ) -> None:
        self._desired = desired
        self._jobs = jobs
        self._run_times = run_times
        self._owners = owners
        self._reported: set[str] = set()  # ids

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

    def report(self, nodes: Iterable[Node]) -> None:
        """Names in the log those of *nodes* that are forgotten, each once."""
        for node in nodes:
            if node.id not in self._reported and self.is_forgotten(node):
                self._reported.add(node.id)
                log.warning(
                    "Nothing here has used the TPU %s for hours. `jupyter tpu usage` shows what it "
                    "costs.",
                    node.name.node,
                )
