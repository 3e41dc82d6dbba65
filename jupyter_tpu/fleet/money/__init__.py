"""What TPUs cost: prices, grants, owners, and how long each TPU has been ready.

Nothing outside of a grant is created unless its price was confirmed.
"""

from __future__ import annotations

import time
from collections.abc import Collection

from ...cloud import Node
from ..core.core import Core
from ..core.records import Snapshot
from ..core.view import TPUFacts
from .grants import Grants
from .ledger import Ledger
from .owners import TPUOwners
from .prices import Prices, ReservationService
from .run_times import RunTimes


class Money:
    def __init__(self, core: Core) -> None:
        self._core = core
        self.owners = TPUOwners()
        self.run_times = RunTimes(core.store)
        self.prices = Prices(
            core.cloud, core.store, reload=core.shared.reload, changed=self._prices_changed
        )
        known = core.runner.known
        self.ledger = Ledger(
            core.store,
            core.observed,
            known,
            emulated=core.cloud.emulated,
            changed=lambda: core.changes.mark_changed("budgets", "budgets"),
            tpu_changed=core.changes.mark_tpu_changed,
        )
        self.grants = Grants(
            core.cloud,
            core.store,
            core.observed,
            self.prices,
            asked=known.demands,
            reload=core.shared.reload,
            look=core.observer.ensure_recent,
            starting=known.starting,
            ledger=self.ledger,
            changed=core.changes.mark_tpus_changed,
            grant_changed=core.changes.marker("grant"),
        )
        self.reservations = ReservationService(core.cloud, self.prices)
        core.shared.reloaded.add(self._reload)
        core.observer.described.add(self._described)
        core.observer.polled.add(self._polled)
        core.tpus.register(self._describe)
        core.changes.register("grant", self.grants.find)
        core.changes.register("prices", self.prices.find)

    def _prices_changed(self) -> None:
        self._core.changes.mark_changed("prices", "prices")
        self._core.changes.mark_tpus_changed(self._core.observed.nodes)

    def _described(self, node: Node) -> None:
        self.run_times.observe([node], time.time())
        self.ledger.observe([node], time.time())

    def _reload(self, snapshot: Snapshot) -> None:
        self.ledger.take_over(snapshot)
        self.run_times.reload(snapshot.runs)
        self.grants.take_over(snapshot.grants)
        self.prices.take_over(snapshot.prices)

    def _polled(self, nodes: Collection[Node]) -> None:
        observed = self._core.observed
        self.run_times.observe(nodes, time.time())
        self.ledger.polled(nodes, time.time())
        gone = self.run_times.names() - observed.nodes.keys()
        self.run_times.forget(name for name in gone if observed.complete(name))

    def _describe(self, facts: TPUFacts) -> None:
        facts.cost = self.grants.cost(facts.node)
        facts.agents_may_use = self.ledger.agents_may_use(facts.name)
        if facts.seen:
            facts.since = self.run_times.since(facts.node)
            facts.seconds = self.run_times.seconds(facts.node, time.time())
            facts.ended = self.run_times.ended(facts.node)
            owner = self.owners.of(facts.node)
            facts.owner, facts.not_yours = owner.name, owner.is_other
