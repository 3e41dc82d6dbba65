"""The TPUs as Google last reported them, and the one poll of Google that serves all clients.

The poll is quick (2 s) while something changes and slow (30 s) when nothing does. It pauses until
the first question, and after ten minutes without one unless something is connected. However many
clients ask, the number of calls is the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Iterable

from ...catalog import API_NAMES
from ...cloud import (
    API,
    Cloud,
    Maintenance,
    Node,
    NodeList,
    NodeName,
    NodeState,
    is_attached,
    without_chips,
)
from ...concurrency import gather_failures
from ...errors import Reason, TPUError
from ...retired import tpu_node_error
from ...subscribers import Subscribers
from ..models import Problem

NEEDS_READY = "This needs a READY TPU."


class ObservedState:
    """All TPUs as Google last reported them; filled by the observer."""

    def __init__(self) -> None:
        self.nodes: dict[NodeName, Node] = {}
        #: Maintenance that the cloud announces or does, by `Node.id`.
        self.maintenance: dict[str, Maintenance] = {}
        #: Why the list may be incomplete.
        self.problem: Problem | None = None
        #: The project of the last poll, which says nothing about TPUs of other projects.
        self.project = ""
        #: When the last poll began; seconds since the epoch.
        self.asked = 0.0
        #: Zones that did not answer the last poll; None: the last poll failed, or there was none.
        self.unreachable: frozenset[str] | None = None
        #: Control planes of Google that did not answer the last poll.
        self.unanswered: frozenset[API] = frozenset()
        #: Names and ids of TPUs that the last poll has found to be gone: Google, asked by name, has
        #: none or another one. A list alone does not say so: it may be older for a moment.
        self.gone: frozenset[tuple[NodeName, str]] = frozenset()

    def complete(self, name: NodeName) -> bool:
        """Whether the last poll would have seen this TPU if it existed."""
        if self.unreachable is None or self.unanswered or name.project != self.project:
            return False
        return name.zone not in self.unreachable

    def node(self, name: NodeName) -> Node | None:
        return self.nodes.get(name)

    def is_ready(self, name: NodeName) -> bool:
        node = self.nodes.get(name)
        return node is not None and node.state is NodeState.READY

    def require(
        self, name: NodeName, states: tuple[NodeState, ...], allowed: str, *, if_stopped: str = ""
    ) -> Node:
        """The node, if it is in one of *states*.

        Raises CONFLICT with what is *allowed*, and the hint *if_stopped* for a stopped one.
        """
        node = self.nodes.get(name)
        if node is None or node.state not in states:
            state = f"The TPU {name.node} is not ready yet."
            if node is not None:
                state = f"The TPU {name.node} is {node.state}."
            raise TPUError(
                f"{state} {allowed}",
                Reason.CONFLICT,
                if_stopped if node is not None and node.state is NodeState.STOPPED else "",
            )
        return node

    def require_ready(self, name: NodeName) -> Node:
        """As :meth:`require`, for what can be done once a stopped TPU is started."""
        return self.require(name, (NodeState.READY,), NEEDS_READY, if_stopped="Start it first.")

    def require_hosts(self, name: NodeName) -> Node:
        """The node, if it is READY and has hosts to log in to; as :meth:`require_ready`."""
        node = self.nodes.get(name)
        if node is not None and node.retired:
            raise tpu_node_error(name.node)
        return self.require_ready(name)

    def changing(self, besides: Collection[NodeName] = ()) -> bool:
        """Whether a TPU is changing to another state, *besides* these."""
        return any(node.state.changing for name, node in self.nodes.items() if name not in besides)


QUICK_POLL_SECONDS = 2.0  # seconds
SLOW_POLL_SECONDS = 30.0
FAILED_POLL_SECONDS = 10.0  # after a poll that failed
POLL_LIMIT_SECONDS = 90.0  # for one poll; Cloud gives up earlier
FRESH_LIST_SECONDS = 5.0  # how old a list may be that a user asked for; seconds
NEWER_LIST_SECONDS = 2.0  # how long such a user waits for a newer one; seconds
#: After this long without a change, even a TPU under repair is polled slowly; seconds.
UNCHANGED_SECONDS = 900.0
#: After this long without a question polling pauses, unless something is connected; seconds.
INTEREST_SECONDS = 600.0


class Observer:
    """Keeps *observed* up to date. All methods are for the core thread's loop.

    busy: whether an operation is about to change something;
    hunted: TPUs whose changes are no reason to poll quickly: a hunt looks at its own for hours;
    first_look: seconds after which to poll once without a question; None: never.
    """

    def __init__(
        self,
        cloud: Cloud,
        observed: ObservedState,
        *,
        busy: Callable[[], bool],
        hunted: Callable[[], Collection[NodeName]] = tuple,
        first_look: float | None = None,
    ) -> None:
        self.observed = observed
        self._cloud = cloud
        self._busy = busy
        self._needed: list[Callable[[], object]] = []
        self._remembered: list[Callable[[], Iterable[tuple[NodeName, str]]]] = []
        #: Called with all nodes after each poll.
        self.polled = Subscribers[Collection[Node]]()
        #: Called with each node that Google described in another answer.
        self.described = Subscribers[Node]()
        self._hunted = hunted
        self._first_look = first_look
        self._wake = asyncio.Event()
        self._new = asyncio.Event()  # replaced after each poll
        self._asked = float("-inf")
        self._polled_at = float("-inf")
        self._changed_at = float("-inf")
        self._missed_at = float("-inf")  # when a TPU was last asked for that is not in the list
        self._polling = False
        #: What was seen of single TPUs since the last poll began; None: it is not there.
        self._newer: dict[NodeName, Node | None] = {}

    def register_need(self, needed: Callable[[], object]) -> None:
        """Polls without a question while *needed* returns something true."""
        self._needed.append(needed)

    def register_remembered(self, tpus: Callable[[], Iterable[tuple[NodeName, str]]]) -> None:
        """Names and ids ("" if not known) of TPUs of which something is kept until they are gone:
        `ObservedState.gone` then has them.
        """
        self._remembered.append(tpus)

    @property
    def emulated(self) -> bool:
        return self._cloud.emulated

    def without_chips(self, node: Node) -> bool:
        """Whether JAX has only the CPU on its hosts."""
        return without_chips(self._cloud, node)

    @property
    def age(self) -> float:
        """The age of the last poll; seconds."""
        return self._time() - self._polled_at

    def request_refresh(self) -> None:
        """Something was just changed: poll soon, and quickly for a while."""
        self._changed_at = self._time()
        self._wake.set()

    async def ensure_recent(self) -> bool:
        """Returns when there is a poll not much older than the slow interval; never fails.

        What went wrong is in ``observed.problem``. Waits for as long as one call to Google may
        take. Returns whether it waited: then the poll began after the question.
        """
        self._asked = self._time()
        if self.age <= SLOW_POLL_SECONDS + 5:
            return False
        await self.refresh()
        return True

    async def refresh_for_missing(self) -> None:
        """A TPU is asked for that is not listed: waits for a poll that begins after the question.

        Such polls are QUICK_POLL_SECONDS apart, and questions in between wait for the next one:
        asking again and again for a TPU that does not exist causes no more calls than a TPU that
        changes.
        """
        pause = self._missed_at + QUICK_POLL_SECONDS - self._time()
        if pause > 0:
            await asyncio.sleep(pause)
        self._missed_at = self._time()
        await self.refresh()

    async def ensure_fresh(self) -> None:
        """Like `ensure_recent`, with a poll at most FRESH_LIST_SECONDS old if that is there.

        For users who ask for the list: what gcloud did a moment ago is in it.
        """
        await self.ensure_recent()
        if self.age > FRESH_LIST_SECONDS:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(NEWER_LIST_SECONDS):
                    await self.refresh()

    async def refresh(self) -> None:
        """Waits until a poll that begins after this call has ended."""
        self._asked = self._time()
        with contextlib.suppress(TimeoutError):  # then the answer is what is known
            for _ in range(2 if self._polling else 1):
                self._wake.set()
                async with asyncio.timeout(POLL_LIMIT_SECONDS + FAILED_POLL_SECONDS):
                    await self._new.wait()

    def upsert(self, node: Node) -> None:
        """Adds a node that Google just described in another answer."""
        self.observed.nodes[node.name] = self._newer[node.name] = node
        for described in self.described:
            described(node)
        self.request_refresh()

    def remove(self, name: NodeName) -> None:
        """Removes a node that is not there, if it was listed."""
        self._newer[name] = None
        if self.observed.nodes.pop(name, None) is not None:
            self.request_refresh()

    async def run(self) -> None:
        """Polls until it is cancelled."""
        first_look = False
        while True:
            self._wake.clear()
            if first_look or self._wanted():
                self._polling = True
                try:
                    await self._poll()
                finally:
                    self._polling = False
                    self._polled_at = self._time()
                    new, self._new = self._new, asyncio.Event()
                    new.set()
                for polled in self.polled:
                    polled(self.observed.nodes.values())
            try:
                async with asyncio.timeout(self._pause()):
                    await self._wake.wait()
                # Requests that come together are answered by one poll.
                await asyncio.sleep(0.1)
            except TimeoutError:
                first_look = self._never_polled
            else:
                first_look = False

    @property
    def _never_polled(self) -> bool:
        return self._polled_at == float("-inf")

    def _wanted(self) -> bool:
        needed = self._busy() or any(needed() for needed in self._needed)
        return needed or self._time() - self._asked < INTEREST_SECONDS

    def _pause(self) -> float | None:
        if not self._wanted():
            return self._first_look if self._never_polled else None
        if self.observed.unreachable is None:
            # No credentials, for example: quicker tries would not help.
            problem = self.observed.problem
            return max(FAILED_POLL_SECONDS, (problem and problem.retry_after) or 0.0)
        recently = self._time() - self._changed_at
        changing = self.observed.changing(self._hunted()) and recently < UNCHANGED_SECONDS
        return (
            QUICK_POLL_SECONDS
            if self._busy() or recently < 3 * QUICK_POLL_SECONDS or changing
            else SLOW_POLL_SECONDS
        )

    async def _poll(self) -> None:
        observed = self.observed
        asked = time.time()
        self._newer.clear()
        try:
            async with asyncio.timeout(POLL_LIMIT_SECONDS):
                listed = await self._cloud.list_nodes()
                if listed.problem is not None:
                    observed.nodes = _with_attached(observed.nodes, listed.nodes)
                    raise listed.problem
                project = self._cloud.project
                missing = frozenset(listed.unreachable)
                nodes = {node.name: node for node in listed.nodes}
                for name, node in observed.nodes.items():
                    if name.zone in missing or node.api in listed.unanswered:
                        nodes.setdefault(name, node)
                gone, unknown = await self._ask_for_unlisted(project, listed, nodes)
        except (TPUError, TimeoutError) as error:
            # The earlier list stays: that Google can't be asked does not mean that a TPU is gone.
            if isinstance(error, TimeoutError):
                error = TPUError(
                    f"The list of TPUs did not come within {POLL_LIMIT_SECONDS:.0f} s.",
                    Reason.TIMEOUT,
                    "Will be retried.",
                )
            observed.problem = Problem.of(error)
            observed.unreachable, observed.gone = None, frozenset()
            return
        # The list may be from before these were seen. A poll that follows decides.
        for name, newer in self._newer.items():
            if newer is not None:
                nodes[name] = newer
            elif nodes.pop(name, None) is not None:
                self.request_refresh()
        if _states(nodes) != _states(observed.nodes):
            self._changed_at = self._time()
        observed.nodes, observed.unreachable, observed.problem = nodes, missing, None
        observed.project, observed.asked, observed.gone = project, asked, gone
        observed.unanswered = frozenset(listed.unanswered)
        for name, why in unknown.items():
            observed.problem = Problem(
                message=f"Google's list lacks {name.node}, and it is not known whether that TPU "
                f"still exists. {why.message}",
                reason=why.reason,
                hint=why.hint or "Will be retried.",
            )
        for api, why in listed.refused.items():
            observed.problem = Problem(
                message=f"{API_NAMES[api]} does not list its TPUs for you. If there are any, they "
                f"are billed and not shown. {why.message}",
                reason=why.reason,
                hint=why.hint,
            )
        for api, why in listed.unanswered.items():
            observed.problem = Problem(
                message=f"{API_NAMES[api]} did not answer. Its TPUs are shown as last seen, or are "
                f"missing. {why.message}",
                reason=why.reason,
                hint=why.hint or "Will be retried.",
            )
        if missing:
            observed.problem = Problem(
                message=f"{', '.join(sorted(missing))} did not answer. TPUs there are shown as "
                "last seen, or are missing.",
                reason=Reason.UNAVAILABLE,
                hint="Will be retried.",
            )

    async def _ask_for_unlisted(
        self, project: str, listed: NodeList, nodes: dict[NodeName, Node]
    ) -> tuple[frozenset[tuple[NodeName, str]], dict[NodeName, TPUError]]:
        """Asks by name for each TPU that the list lacks, and that was seen before or is remembered.

        Changes *nodes* to what Google answers, or to what was seen before where it does not say.
        Returns those that are gone, and why that is not known of others.
        """
        known = {(name, node.id) for name, node in self.observed.nodes.items()}
        known.update(tpu for remembered in self._remembered for tpu in remembered())
        known = {
            (name, id)
            for name, id in known
            if name.project == project and name.zone not in listed.unreachable
        }
        found, failed = await gather_failures(
            {
                name: self._cloud.get_node(name)
                for name, id in known
                if name not in nodes or id not in ("", nodes[name].id)
            }
        )
        ids = {(node.api, node.id) for node in nodes.values()}
        for name, node in found.items():
            # Not parts of one that was never finished, and no other name of one that is listed.
            if not node.unfinished and (name in nodes or (node.api, node.id) not in ids):
                nodes[name] = node
        for name, error in failed.items():
            before = self.observed.node(name)
            if error.reason is Reason.NOT_FOUND:
                nodes.pop(name, None)
            elif before is not None:
                nodes[name] = before
        unknown = {
            name: error for name, error in failed.items() if error.reason is not Reason.NOT_FOUND
        }
        gone = {
            (name, id)
            for name, id in known
            if name not in unknown and (name not in nodes or nodes[name].id != id)
        }
        return frozenset(gone), unknown

    @staticmethod
    def _time() -> float:
        return asyncio.get_running_loop().time()


def _with_attached(nodes: dict[NodeName, Node], attached: Iterable[Node]) -> dict[NodeName, Node]:
    """*nodes*, with *attached* in place of the attached machines in it."""
    kept = {name: node for name, node in nodes.items() if not is_attached(name)}
    return kept | {node.name: node for node in attached}


def _states(nodes: dict[NodeName, Node]) -> dict[NodeName, tuple[str, str, str]]:
    return {name: (node.id, node.state, node.health) for name, node in nodes.items()}
