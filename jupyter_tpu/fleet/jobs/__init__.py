"""Commands on hosts: runs, jobs that continue without a link, guards, and profiles.

Their output is kept on the hosts until somebody reads it.
"""

from __future__ import annotations

import time
from collections.abc import Collection

from ...cloud import Node, NodeName
from ..core.core import Core
from ..core.records import Snapshot
from ..core.view import TPUFacts
from ..forwarding import Forwarding
from ..kernels import Kernels
from ..models import Cost
from ..money import Money
from .guard import Guards
from .guard_setting import GuardService
from .guard_stops import GoogleEnds, GuardStops
from .jobs import JobService
from .profiles import ProfileService
from .runs import RunService


class Jobs:
    """What can stop and delete TPUs adds that to `guards` as its ``act``."""

    def __init__(self, core: Core, money: Money, forwarding: Forwarding, kernels: Kernels) -> None:
        self._core = core
        runs = self.runs = RunService(
            core.finder, core.desired, core.connections, core.changes.marker("run")
        )
        core.changes.register("run", runs.find)
        core.ending.push_async_callback(runs.shut_down)

        jobs = self.service = JobService(core, self._changed)
        core.connected.ends_with_tpu(jobs.forget)
        core.observer.register_need(jobs.unfinished)
        core.changes.register("job", jobs.find)
        core.loops.register("jobs", jobs.run)

        self.profiles = ProfileService(core, kernels.service, forwarding.tensorboard)

        changed = core.changes.mark_tpu_changed
        self.guard_stops = GuardStops(core.store, core.observed, changed)
        core.observer.polled.add(self._polled)
        self.guards = Guards(
            core.finder,
            core.connections,
            core.observed,
            money.owners,
            cost_of=self._cost,
            changed=changed,
            stops=self.guard_stops,
            ends=GoogleEnds(core.cloud, core.observer),
        )
        core.loops.register("guards", self.guards.run)
        self.guard_setting = GuardService(core.cloud, core.observed, core.runner, self.guards)

        core.shared.reloaded.add(self._reload)
        core.tpus.register(self._describe)

    def _changed(self, id: str) -> None:
        self._core.changes.mark_changed("job", id)
        self._core.polled.wake()

    def _cost(self, name: NodeName) -> Cost:
        return self._core.tpus.tpu(name).cost

    def _polled(self, nodes: Collection[Node]) -> None:
        self.guard_stops.observe(nodes, time.time())

    def _reload(self, snapshot: Snapshot) -> None:
        self.service.reload(snapshot.jobs)
        self.guard_stops.reload(snapshot.guards)

    def _describe(self, facts: TPUFacts) -> None:
        if facts.ready:
            facts.guard = self.guards.last_known(facts.node)
        if facts.seen:
            facts.guard_stop = self.guard_stops.of(facts.node)
            facts.unguarded = self.guard_setting.problem(facts.name)
