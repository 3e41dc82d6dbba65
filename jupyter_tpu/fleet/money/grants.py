"""The fleet's part ``grants``: kept in the store, and what they make of the price of each TPU."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime

from msgspec import structs

from ... import catalog
from ...catalog import UnknownType
from ...cloud import Node, NodeName, NodeState, Tier, is_attached
from ...cloud.models import check_zone
from ...errors import InvalidInput, Reason, TPUError
from ..core.core import Core
from ..core.known_operations import Demand, demands_of, not_listed, starting_of
from ..core.operation_records import OperationRecord
from ..core.records import SpendRecord
from ..models import Cost, Grant, GrantUse
from ..models.core import validated
from ..models.money import cost_of
from . import pricing
from .ledger import Ledger
from .prices import Prices
from .pricing import PriceDecision

#: States in which a node has no chips, or not for long.
_WITHOUT_CHIPS = frozenset({NodeState.STOPPED, NodeState.DELETING})


class Grants:
    """As a :class:`~jupyter_tpu.fleet.api.GrantsAPI`, and the prices of TPUs inside and outside."""

    def __init__(self, core: Core, prices: Prices, ledger: Ledger | None = None) -> None:
        self._cloud = core.cloud
        self._store = core.store
        self._observed = core.observed
        self._known = core.runner.known
        self._reload = core.shared.reload
        self._look = core.observer.ensure_recent
        self._changes = core.changes
        self._prices = prices
        self._ledger = ledger
        self._grants: dict[str, Grant] = {}
        self.take_over(core.store.snapshot.grants)

    # ---- the part ----

    async def list(self) -> Sequence[GrantUse]:
        await self._reload()
        await self._look()
        today, grants = _today(), self._sorted()
        used = self._used()
        in_use = None if used is None else pricing.used_chips(grants, used, today=today)
        return [
            GrantUse(
                grant=grant,
                used=None if in_use is None else in_use[grant.name],
                expired=pricing.has_ended(grant, today),
            )
            for grant in grants
        ]

    async def add(self, request: Grant) -> Sequence[GrantUse]:
        grant = _checked(request, self._cloud.project)
        await self._reload()
        if grant.name in self._grants:
            raise TPUError(
                f"A grant called {grant.name} already exists.",
                Reason.EXISTS,
                "Remove it first, or choose another name.",
            )
        self._grants[grant.name] = grant
        self._store.save_grant(grant)
        await self._saved(grant.name)
        return await self.list()

    async def remove(self, name: str) -> None:
        await self._reload()
        if self._grants.pop(name, None) is None:
            raise TPUError(f"The grant {name} does not exist.", Reason.NOT_FOUND)
        self._store.drop_grant(name)
        await self._saved(name)

    def find(self, name: str) -> Grant | None:
        """For events."""
        return self._grants.get(name)

    async def refresh(self) -> None:
        """Waits until `decide` knows the grants, and what of them is in use."""
        await self._reload()
        if self._matter:
            await self._look()

    async def _saved(self, name: str) -> None:
        self._changes.mark_changed("grant", name)
        self._changes.mark_tpus_changed(self._observed.nodes)
        await self._store.flush()

    def take_over(self, grants: Iterable[Grant]) -> None:
        """Takes over what other processes wrote."""
        read = {grant.name: grant for grant in grants}
        if read != self._grants:
            before, self._grants = self._grants, read
            for name in before.keys() | read.keys():
                if before.get(name) != read.get(name):
                    self._changes.mark_changed("grant", name)
            self._changes.mark_tpus_changed(self._observed.nodes)

    # ---- prices ----

    def decide(
        self, type: str, zone: str, tier: Tier, *, again: NodeName | None = None
    ) -> PriceDecision:
        """Whether something new is inside a grant, what it costs, and what is to confirm.

        again: the TPU that is there already, and may not have lost its chips yet. Call `refresh`
        first. Raises NO_PROJECT.
        """
        return pricing.decide(
            Demand(project=self._cloud.project, type=type, zone=zone, tier=tier),
            self._sorted(),
            self._used(without=again),
            today=_today(),
            emulated=self._cloud.emulated,
            prices=self._prices.table,
        )

    async def save(
        self,
        record: OperationRecord,
        demand: Demand,
        *,
        confirm_price: bool,
        max_price: float | None,
        again: NodeName | None = None,
    ) -> None:
        """Saves an operation that asks for *demand*, if its price is still agreed to beside what
        all processes have asked for until that moment. Raises PRICE, EXISTS if another one creates
        a TPU of that name now, and what keeps it from being saved, BUDGET among it. Otherwise as
        `decide`.
        """
        line = self._line_for(record, demand, max_price)
        nodes, asked = tuple(self._observed.nodes.values()), self._observed.asked
        known = self._used() is not None

        def check(records: Sequence[OperationRecord], grants: Sequence[Grant]) -> None:
            _require_name_free(record, records)
            others = not_listed(records, asked)
            demands, starting = demands_of(others), starting_of(others)
            decision = pricing.decide(
                demand,
                _sorted(grants),
                _used_chips(nodes, demands, starting, without=again) if known else None,
                today=_today(),
                emulated=self._cloud.emulated,
                prices=self._prices.table,
            )
            decision.require(confirm_price=confirm_price, max_price=max_price)
            price = self.counted_price(decision.cost, max_price)
            if line is not None and (price is None or price > line.usd_per_hour):
                raise TPUError(
                    "The price has changed since it was looked up.", Reason.PRICE, "Try again."
                )

        if self._ledger is None or line is None:
            await self._store.save_operation_if(record, check)
        else:
            await self._store.save_operation_if(record, check, (line, self._ledger.check(line)))
            self._ledger.added(line)

    def counted_price(self, cost: Cost, max_price: float | None) -> float | None:
        """USD an hour by which something counts for a budget: an emulated TPU has the price of a
        real one. *max_price* where the price is not known; None if that is not given.
        """
        price = cost.list_usd_per_hour if self._cloud.emulated else cost.usd_per_hour
        return max_price if price is None else price

    def _line_for(
        self, record: OperationRecord, demand: Demand, max_price: float | None
    ) -> SpendRecord | None:
        if self._ledger is None:
            return None
        cost = self.decide(demand.type, demand.zone, demand.tier).cost
        return self._ledger.line_for(record, demand, self.counted_price(cost, max_price))

    def covering(self, type: str, zone: str, tier: Tier) -> str:
        """The grant that covers something new as soon as it has enough chips left; "" if none does.

        Raises NO_PROJECT.
        """
        if not self._matter:
            return ""
        demand = Demand(project=self._cloud.project, type=type, zone=zone, tier=tier)
        return pricing.covering(demand, self._sorted(), today=_today())

    def cost(self, node: Node, nodes: Iterable[Node] | None = None) -> Cost:
        """What a node costs while it is READY. nodes: all that use the grants; None: the observed
        ones.
        """
        if is_attached(node.name):
            return Cost(usd_per_hour=0.0)  # nothing that is paid for here
        return cost_of(
            node.type,
            node.name.zone,
            node.tier,
            emulated=self._cloud.emulated,
            grant=self._grant_of(node, nodes) if self._matter else "",
            prices=self._prices.table,
        )

    @property
    def _matter(self) -> bool:
        """Whether there are grants, so that what others use makes a difference."""
        return bool(self._grants) and not self._cloud.emulated

    def _grant_of(self, node: Node, nodes: Iterable[Node] | None) -> str:
        holding = self._holding(nodes)
        if node.name not in holding:  # what it would be in if it were started now
            holding[node.name] = _demand(node)
        names = pricing.assign(holding.values(), self._sorted(), today=_today())
        return dict(zip(holding, names, strict=True))[node.name]

    def _used(self, without: NodeName | None = None) -> Sequence[Demand] | None:
        """What has or asks for chips, the oldest first; None while that is not known."""
        observed = self._observed
        zones = {zone for grant in self._grants.values() for zone in grant.zones}
        if observed.unreachable is None or observed.unanswered or observed.unreachable & zones:
            return None
        nodes = observed.nodes.values()
        return _used_chips(nodes, self._known.demands(), self._known.starting(), without=without)

    def _holding(self, nodes: Iterable[Node] | None = None) -> dict[NodeName, Demand]:
        nodes = self._observed.nodes.values() if nodes is None else nodes
        return _holding(nodes, self._known.starting())

    def _sorted(self) -> Sequence[Grant]:
        return _sorted(self._grants.values())


def _used_chips(
    nodes: Iterable[Node],
    asked: Mapping[NodeName, Demand],
    starting: Collection[NodeName],
    *,
    without: NodeName | None,
) -> list[Demand]:
    """What has or asks for chips, the oldest first."""
    holding = _holding(nodes, starting)
    if without is not None:
        holding.pop(without, None)
    return [*holding.values(), *(demand for name, demand in asked.items() if name not in holding)]


def _holding(nodes: Iterable[Node], starting: Collection[NodeName]) -> dict[NodeName, Demand]:
    return {
        node.name: _demand(node)
        for node in sorted(nodes, key=lambda node: (node.created, node.name))
        if holds_chips(node) or node.name in starting
    }


def _sorted(grants: Iterable[Grant]) -> Sequence[Grant]:
    """Those that end first are used first; those without an end last."""
    return sorted(grants, key=lambda grant: (grant.until or "~", grant.name))


def holds_chips(node: Node) -> bool:
    """Whether it has chips, which others can't have then."""
    return not (node.state in _WITHOUT_CHIPS or node.state.gone or is_attached(node.name))


def _demand(node: Node) -> Demand:
    return Demand(project=node.name.project, type=node.type, zone=node.name.zone, tier=node.tier)


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


def _checked(request: Grant, project: str) -> Grant:
    """With the API's names; raises INVALID for what can't be granted."""
    grant = validated(request)
    for field in ("types", "zones", "tiers"):
        if not getattr(grant, field):
            raise InvalidInput(f"The grant needs at least one of its {field}.")
    for zone in grant.zones:
        check_zone(zone)
    generations = {type_.generation for type_ in catalog.types()}
    types = []
    for name in grant.types:
        if name not in generations:
            name = catalog.official_name(name)
            try:
                catalog.accelerator_type(name)
            except UnknownType as error:
                raise InvalidInput(
                    str(error), f"Types or generations: {', '.join(sorted(generations))}."
                ) from None
        types.append(name)
    if grant.until:
        try:
            date.fromisoformat(grant.until)
        except ValueError:
            raise InvalidInput(f"{grant.until} is not a day.", "Write it as 2026-12-31.") from None
    return structs.replace(grant, types=types, project=grant.project or project)


def _require_name_free(record: OperationRecord, others: Iterable[OperationRecord]) -> None:
    """Where two processes create a TPU of one name at once, on whichever control plane, the one
    that is saved first gets it.
    """
    if record.creation is not None and any(
        other.creation is not None
        and other.operation.state == "running"
        and other.name == record.name
        for other in others
    ):
        raise TPUError(
            f"Another process of yours is creating {record.name.node} in {record.name.zone}.",
            Reason.EXISTS,
            "Choose another name, or wait until that has ended.",
            field="name",
        )
