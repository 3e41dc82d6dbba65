"""Every TPU and queued resource of some projects, whose it is, and what seems to be forgotten.

Forgotten are TPUs that are billed, and nothing here uses them; queued resources that use quota for
nothing; parts of TPUs that are left over.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct, field

from ...catalog import API_NAMES
from ...cloud import Cloud, Node, NodeList, NodeState, QueuedList, QueuedState, is_attached
from ...cloud.models import QueuedTPUs
from ...errors import InvalidInput, Reason, TPUError
from ...links.single_flight import SingleFlight
from ..core.core import Core
from ..core.view import TPUFacts, advice
from ..jobs.jobs import JobService
from ..lifecycle.queued import QueuedService, meaning
from ..models import AdoptTPU, Cost, OwnerUsage, Problem, Usage, UsedTPU
from ..models.core import known_type
from ..models.money import running_cost
from ..money.grants import Grants, holds_chips
from ..money.owners import OWNER, ReadyTimes, TPUOwners

log = logging.getLogger(__name__)

#: A TPU counts as forgotten if it is READY for longer, and nothing here uses it; seconds.
FORGOTTEN_SECONDS = 4 * 3600.0
#: Seconds between two looks for queued resources and leftovers: usually, and after one that failed.
PAUSES = (86_400.0, 3600.0)


class ForgottenTPUs:
    def __init__(
        self, core: Core, jobs: JobService, ready_times: ReadyTimes, owners: TPUOwners
    ) -> None:
        self._desired = core.desired
        self._jobs = jobs
        self._ready_times = ready_times
        self._owners = owners
        self._reported: set[str] = set()  # ids
        core.observer.polled.add(self._report)
        core.tpus.register(self._describe)

    def _describe(self, facts: TPUFacts) -> None:
        facts.forgotten = facts.seen and self.is_forgotten(facts.node)

    def is_forgotten(self, node: Node) -> bool:
        """Whether it is the user's, READY for hours, not connected here, and without a job."""
        now = time.time()
        since, _ = self._ready_times.estimate(node, now)
        return (
            since is not None
            and now - since > FORGOTTEN_SECONDS
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


#: How long an answer serves further questions; seconds.
FRESH_ANSWER_SECONDS = 3.0
#: States of a queued resource in which no one can use the chips of its quota.
_BLOCKING = (QueuedState.FAILED, QueuedState.SUSPENDING, QueuedState.SUSPENDED)
_PROJECT = re.compile(r"[a-z0-9][-a-z0-9.:]{0,99}")


class _Listing(Struct):
    """What Google lists of one project, and why that may be incomplete."""

    nodes: list[Node] = field(default_factory=list)
    queued: list[QueuedTPUs] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    @contextlib.contextmanager
    def noting(self, project: str) -> Iterator[None]:
        """Continues after an error, which is a problem of the list."""
        try:
            yield
        except TPUError as error:
            self.note(f"{project}: {error.message}", error.reason, error.hint)

    def missing(self, listed: NodeList | QueuedList) -> None:
        """What did not answer: zones, or a control plane."""
        if zones := listed.unreachable:
            self.note(f"{', '.join(zones)} did not answer.", Reason.UNAVAILABLE, "Try again.")
        for api, why in listed.not_listed.items():
            self.note(f"{API_NAMES[api]}: {why.message}", why.reason, why.hint)

    def note(self, message: str, reason: Reason, hint: str) -> None:
        problem = Problem(message=message, reason=reason, hint=hint)
        if problem not in self.problems:  # the same for TPUs and for queued resources
            self.problems.append(problem)


class UsageService:
    """As a :class:`~jupyter_tpu.fleet.api.UsageAPI`."""

    def __init__(
        self,
        core: Core,
        grants: Grants,
        ready_times: ReadyTimes,
        owners: TPUOwners,
        forgotten: ForgottenTPUs,
    ) -> None:
        self._cloud = core.cloud
        self._finder = core.finder
        self._observer = core.observer
        self._desired = core.desired
        self._changed = core.changes.mark_tpu_changed
        self._ready_times = ready_times
        self._grants = grants
        self._owners = owners
        self._forgotten = forgotten
        # Many that ask at the same time cause one call.
        self._listings: SingleFlight[str, _Listing] = SingleFlight(self._list, FRESH_ANSWER_SECONDS)
        core.ending.push_async_callback(self._listings.close)

    async def show(self, projects: str | None = None) -> Usage:
        names = _project_names(projects) or [self._cloud.project]
        await self._finder.reload()
        listings = await asyncio.gather(*map(self._listings.get, names))
        nodes = [node for listing in listings for node in listing.nodes]
        used_tpus = [self._tpu(node, nodes) for node in nodes]
        used_tpus += [self._queued(queued) for listing in listings for queued in listing.queued]
        return Usage(
            me=self._owners.me.name,
            projects=names,
            emulated=self._cloud.emulated,
            chips=sum(tpu.chips for tpu in used_tpus if tpu.holds == "chips"),
            tpus=sorted(used_tpus, key=_most_expensive),
            owners=_by_owner(used_tpus),
            problems=[problem for listing in listings for problem in listing.problems],
        )

    async def adopt(self, ref: str, request: AdoptTPU | None = None) -> UsedTPU:
        name = await self._finder.find(ref)
        node = await self._cloud.get_node(name)
        self._owners.require_consent(node, request.confirm_name if request else "")
        await self._cloud.set_label(node, OWNER, self._owners.me.name)
        node = await self._cloud.get_node(name)
        self._observer.upsert(node)
        self._listings.forget(name.project)
        self._changed(name)
        return self._tpu(node, self._observer.observed.nodes.values())

    async def _list(self, project: str) -> _Listing:
        """Never fails."""
        listing = _Listing()
        if project == self._own_project():
            await self._observer.ensure_fresh()
            observed = self._observer.observed
            listing.nodes += (n for n in observed.nodes.values() if not is_attached(n.name))
            listing.problems += filter(None, [observed.problem])
            await _list_queued(self._cloud, project, listing)
            return listing
        other = self._cloud.in_project(project)
        try:
            with listing.noting(project):
                nodes = await other.list_nodes()
                listing.nodes += nodes.nodes
                listing.missing(nodes)
            await _list_queued(other, project, listing)
        finally:
            await other.close()
        return listing

    def _own_project(self) -> str:
        try:
            return self._cloud.project
        except TPUError:
            return ""  # none is set; others can be asked for all the same

    def _tpu(self, node: Node, nodes: Iterable[Node]) -> UsedTPU:
        connected = self._desired.connected.get(node.name) == node.id
        cost = self._grants.cost(node, nodes)
        since, seconds = self._ready_times.estimate(node, time.time())
        return self._used(
            node,
            kind="tpu",
            advice=advice(node, free=cost.usd_per_hour == 0, connected=connected),
            holds="chips" if holds_chips(node) else "quota" if node.state.gone else "",
            cost=running_cost(cost, since=since, seconds=seconds),
            connected=connected and node.state is NodeState.READY,
            forgotten=self._forgotten.is_forgotten(node),
        )

    def _queued(self, queued: QueuedTPUs) -> UsedTPU:
        """Its TPUs, which have their own entries, hold the chips and cost what there is to pay."""
        return self._used(
            queued,
            count=len(queued.nodes),
            kind="queued",
            advice=meaning(queued.state, emulated=self._cloud.emulated),
            holds="quota" if queued.state in _BLOCKING else "",
            cost=Cost(usd_per_hour=0.0, usd=0.0),
        )

    def _used(self, thing: Node | QueuedTPUs, *, count: int = 1, **fields: Any) -> UsedTPU:
        """An entry: these *fields*, and those that both kinds have. *count*: of its TPUs."""
        accelerator = known_type(thing.type)
        owner = self._owners.of(thing)
        return UsedTPU(
            name=thing.name.node,
            zone=thing.name.zone,
            project=thing.name.project,
            type=thing.type,
            meaning=accelerator.meaning if accelerator else "",
            tier=thing.tier,
            state=thing.state,
            chips=count * accelerator.chips if accelerator else 0,
            owner=owner.name,
            owner_source=owner.source,
            mine=owner.is_me,
            created=thing.created,
            **fields,
        )


async def _list_queued(cloud: Cloud, project: str, listing: _Listing) -> None:
    with listing.noting(project):
        queued = await cloud.list_queued()
        listing.queued += queued.queued
        listing.missing(queued)


def _most_expensive(used: UsedTPU) -> tuple[float, float, str, str]:
    """The order of a list."""
    return -(used.cost.usd or 0.0), -(used.cost.list_usd_per_hour or 0.0), used.name, used.zone


def _by_owner(used_tpus: Iterable[UsedTPU]) -> list[OwnerUsage]:
    owners: dict[tuple[str, bool], OwnerUsage] = {}
    for used in used_tpus:
        # A label may name me, and an SSH key another user of my name: these are two.
        key = used.owner, used.mine
        owner = owners.setdefault(key, OwnerUsage(owner=used.owner, mine=used.mine))
        owner.tpus += used.kind == "tpu"
        if used.holds == "quota":
            owner.blocked_chips += used.chips
        elif used.holds == "chips":
            owner.chips += used.chips
            if used.cost.usd_per_hour is None:
                owner.unpriced += 1
            elif used.state == NodeState.READY:
                owner.usd_per_hour = round(owner.usd_per_hour + used.cost.usd_per_hour, 2)
        owner.usd = round(owner.usd + (used.cost.usd or 0.0), 2)
    return sorted(
        owners.values(),
        key=lambda usage: (-usage.chips, -usage.usd, usage.owner),
    )


def _project_names(text: str | None) -> list[str]:
    """ "a,b" as its names, each once; raises INVALID for what is not a project's name."""
    names = list(dict.fromkeys(filter(None, map(str.strip, (text or "").split(",")))))
    for name in names:
        if not _PROJECT.fullmatch(name):
            raise InvalidInput(
                f"{name[:50]!r} is not the ID of a project.",
                "Separate several with commas: my-project,team-project.",
            )
    return names
