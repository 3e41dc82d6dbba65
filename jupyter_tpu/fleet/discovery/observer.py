"""The one poll of Google that feeds everyone.

Quick (2 s) while something changes, slow (30 s) when nothing does, and none before somebody
asked or when nobody did for ten minutes and nothing is connected. However many clients ask, the
number of calls is the same.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from ...cloud import Cloud, Node, NodeName
from ...errors import Reason, TPUError
from ..knowledge.observed import CHANGING
from ..models import Problem

QUICK = 2.0  # seconds
SLOW = 30.0
FAILED = 10.0  # after a look that failed
LIMIT = 90.0  # for one look; Cloud gives up earlier
FRESH = 5.0  # what a person who asks takes for current; seconds
AT_ONCE = 2.0  # how long such a person waits for it; seconds
#: After this long without a change, even a TPU under repair is polled at slowly; seconds.
PATIENCE = 900.0
#: After this long without a question polling pauses, unless something is connected; seconds.
INTEREST = 600.0


class Observer:
    """Nodes as last seen. All methods are for the core thread's loop.

    needed: whether something must be watched though nobody asks (connected TPUs, operations);
    busy: whether an operation is about to change something; polled: called after each look.
    """

    def __init__(
        self,
        cloud: Cloud,
        *,
        needed: Callable[[], bool],
        busy: Callable[[], bool],
        polled: Callable[[], None],
    ) -> None:
        self._cloud = cloud
        self._needed = needed
        self._busy = busy
        self._polled = polled
        self.nodes: dict[NodeName, Node] = {}
        #: Why the list may be incomplete.
        self.problem: Problem | None = None
        #: Zones that did not answer the last look; None: no look succeeded yet.
        self.unreachable: frozenset[str] | None = None
        self._wake = asyncio.Event()
        self._new = asyncio.Event()  # replaced after each look
        self._asked = float("-inf")
        self._polled_at = float("-inf")
        self._changed_at = float("-inf")
        self._missed_at = float("-inf")  # when something was last asked for that was not seen
        self._polling = False

    def complete(self, zone: str) -> bool:
        """Whether the last look saw all TPUs of *zone*, so that what is missing is gone."""
        return self.unreachable is not None and zone not in self.unreachable

    @property
    def age(self) -> float:
        """Of the last look; seconds."""
        return self._time() - self._polled_at

    def request_refresh(self) -> None:
        """Something was just changed: look soon, and quickly for a while."""
        self._changed_at = self._time()
        self._wake.set()

    async def ensure_recent(self) -> bool:
        """Returns when there is a look not much older than the slow interval; never fails.

        What went wrong is in ``problem``. Waits for as long as one call to Google may take. Returns
        whether it did: then the look began after the question.
        """
        self._asked = self._time()
        if self._time() - self._polled_at <= SLOW + 5:
            return False
        await self.refresh()
        return True

    async def refresh_for_missing(self) -> None:
        """A TPU is asked for that was not seen: waits for a look that begins after the question.

        Such looks are QUICK apart, whoever asks in the meantime waits for the next: to ask for
        what is not there, again and again, costs Google no more than a TPU that changes does.
        """
        pause = self._missed_at + QUICK - self._time()
        if pause > 0:
            await asyncio.sleep(pause)
        self._missed_at = self._time()
        await self.refresh()

    async def ensure_fresh(self) -> None:
        """Like `ensure_recent`, with a look at most FRESH old if that can be had at once.

        For people who ask for the list: what gcloud did a moment ago is in it.
        """
        await self.ensure_recent()
        if self.age > FRESH:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self.refresh(), AT_ONCE)

    async def refresh(self) -> None:
        """Waits until a look that begins after this call has ended."""
        self._asked = self._time()
        for _ in range(2 if self._polling else 1):
            self._wake.set()
            await asyncio.wait_for(self._new.wait(), LIMIT)

    async def run(self) -> None:
        """Polls until it is cancelled."""
        while True:
            self._wake.clear()
            if self._wanted():
                self._polling = True
                try:
                    await self._poll()
                finally:
                    self._polling = False
                    self._polled_at = self._time()
                    new, self._new = self._new, asyncio.Event()
                    new.set()
                self._polled()
            try:
                await asyncio.wait_for(self._wake.wait(), self._pause())
                # What comes at once is answered by one look.
                await asyncio.sleep(0.1)
            except TimeoutError:
                pass

    def _wanted(self) -> bool:
        return self._needed() or self._busy() or self._time() - self._asked < INTEREST

    def _pause(self) -> float | None:
        if not self._wanted():
            return None
        if self.unreachable is None:
            return FAILED  # no credentials, say: quicker tries would not help
        changing = any(node.state in CHANGING for node in self.nodes.values())
        recently = self._time() - self._changed_at
        if self._busy() or recently < 3 * QUICK or (changing and recently < PATIENCE):
            return QUICK
        return SLOW

    async def _poll(self) -> None:
        try:
            listed = await self._cloud.list_nodes()
        except TPUError as error:
            # What was seen before stays: not being able to ask does not make a TPU vanish.
            self.problem = Problem.of(error)
            self.unreachable = None
            return
        missing = frozenset(listed.unreachable)
        nodes = {node.name: node for node in listed.nodes}
        for name, node in self.nodes.items():
            if name.zone in missing:
                nodes.setdefault(name, node)
        if _states(nodes) != _states(self.nodes):
            self._changed_at = self._time()
        self.nodes, self.unreachable, self.problem = nodes, missing, None
        if missing:
            self.problem = Problem(
                message=f"{', '.join(sorted(missing))} did not answer: TPUs there are shown as "
                "they were last seen, or not at all.",
                reason=Reason.UNAVAILABLE,
                hint="They are asked again by themselves.",
            )

    def upsert(self, node: Node) -> None:
        """Takes a node that Google just described in another answer."""
        self.nodes[node.name] = node
        self.request_refresh()

    def remove(self, name: NodeName) -> None:
        """Takes the word of a delete that succeeded."""
        self.nodes.pop(name, None)
        self.request_refresh()

    @staticmethod
    def _time() -> float:
        return asyncio.get_running_loop().time()


def _states(nodes: dict[NodeName, Node]) -> dict[NodeName, tuple[str, str, str]]:
    return {name: (node.id, node.state, node.health) for name, node in nodes.items()}
