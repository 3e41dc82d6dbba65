"""Plans: what a TPU would cost at most. Carried out inside a budget, or after a person's yes."""

from __future__ import annotations

import logging
import time
import uuid
from datetime import UTC

from msgspec import structs

from ... import catalog
from ...errors import InvalidInput, Reason, TPUError, duration
from ..core.core import Core
from ..core.operation_records import PlanTerms
from ..core.records import Snapshot, SpendRecord
from ..hunts.service import HuntService
from ..lifecycle.create import CreateService
from ..models import (
    AGENT,
    AnswerPlan,
    CarryOutPlan,
    Cost,
    Plan,
    PlanTPU,
    StartHunt,
)
from ..models.core import seconds_of, timestamp, validated
from ..money.budget_rules import MARGIN_SECONDS, most_for, refusal, time_within
from ..money.grants import Grants
from ..money.ledger import Ledger
from ..money.owners import own_name

log = logging.getLogger(__name__)

#: For how long a plan can be carried out, and is known; seconds.
VALID_SECONDS = 3600.0
KEPT_SECONDS = 86_400.0
#: How long a TPU exists if its plan does not say it; seconds.
TPU_SECONDS = 3600.0
#: A hunt of a plan begins no attempt later than this; seconds.
HUNT_SECONDS = 86_400.0
#: A TPU that lives shorter is of no use; seconds.
_SHORTEST_SECONDS = 60.0


class PlanService:
    """As a :class:`~jupyter_tpu.fleet.api.PlansAPI`."""

    def __init__(
        self,
        core: Core,
        create: CreateService,
        hunts: HuntService,
        grants: Grants,
        ledger: Ledger,
    ) -> None:
        self._cloud = core.cloud
        self._store = core.store
        self._reload = core.shared.reload
        self._changes = core.changes
        self._create = create
        self._hunts = hunts
        self._grants = grants
        self._ledger = ledger
        self._plans: dict[str, Plan] = {}
        self.take_over(core.store.snapshot)
        core.shared.reloaded.add(self.take_over)

    def take_over(self, snapshot: Snapshot) -> None:
        """Takes over what other processes wrote."""
        read = {plan.id: plan for plan in snapshot.plans}
        if read != self._plans:
            self._plans = read
            self._changes.mark_changed("budgets", "budgets")

    # ---- the part ----

    async def make(self, request: PlanTPU) -> Plan:
        request = validated(request)
        request.time = request.time or TPU_SECONDS
        await self._reload()
        self._forget_old()
        plan = await self._priced(request)
        self._plans[plan.id] = plan
        self._store.save_plan(plan)
        await self._store.flush()
        return self._view(plan)

    async def get(self, id: str) -> Plan:
        await self._reload()
        return self._view(self._require(id))

    async def carry_out(self, id: str, options: CarryOutPlan | None = None) -> Plan:
        options = options or CarryOutPlan()
        agent = options.who == AGENT
        await self._reload()
        plan = self._require(id)
        if agent and plan.who != AGENT:
            raise TPUError("This plan is a person's.", Reason.PERMISSION, "Make one of your own.")
        if time.time() > seconds_of(plan.expires, "expires"):
            raise TPUError(f"The plan {id} has expired.", Reason.CONFLICT, "Plan it again.")
        approved = plan.state == "approved" or (options.approve and not agent)
        if plan.state == "refused":
            raise _refused(id)
        why = self._outside(plan)
        if why and not approved:
            if not agent:
                raise TPUError(
                    f"{why} {_price(plan)}",
                    Reason.PRICE,
                    'Confirm it: --yes on the command line, "approve" over REST.',
                )
            await self._ask(plan, why)
        await self._claim(plan)
        terms = PlanTerms(
            plan=plan.id,
            who=plan.who,
            time=plan.request.time or TPU_SECONDS,
            max_cost=plan.request.max_cost,
            approved=plan.most if approved and why else 0.0,
        )
        try:
            operation = await self._begin(plan, terms)
        except BaseException as error:
            await self._set(plan, state="approved" if approved else "planned")
            if agent and isinstance(error, TPUError) and error.reason is Reason.BUDGET:
                await self._ask(plan, error.message)  # another one was quicker
            raise
        await self._set(plan, operation=operation)
        return self._view(plan)

    async def answer(self, id: str, answer: AnswerPlan) -> Plan:
        await self._reload()
        plan = self._require(id)

        def decide(stored: Plan) -> None:
            # A refusal ends it for good, also where it was agreed to, but was not carried out.
            if stored.state not in ("planned", "asked", *(() if answer.approve else ("approved",))):
                raise TPUError(f"The plan {id} is {stored.state} already.", Reason.CONFLICT)
            stored.state = "approved" if answer.approve else "refused"

        if not await self._store.change_plan(id, decide):
            raise _unknown(id)
        plan.state = "approved" if answer.approve else "refused"
        self._changes.mark_changed("budgets", "budgets")
        return self._view(plan)

    def questions(self) -> list[Plan]:
        """The plans that wait for a person's yes, the oldest first."""
        now = time.time()
        asked = [
            plan
            for plan in self._plans.values()
            if plan.state == "asked" and seconds_of(plan.expires, "expires") > now
        ]
        return [self._view(plan) for plan in sorted(asked, key=lambda plan: plan.created)]

    def began(self, operation: str) -> str:
        """Who has begun an operation by a plan; "" if it was not begun by one."""
        plans = self._plans.values()
        return next((plan.who for plan in plans if plan.operation == operation), "")

    # ---- inside ----

    async def _priced(self, request: PlanTPU) -> Plan:
        tpu = structs.replace(request.tpu, confirm_price=True)
        tiers = request.tiers or [tpu.tier]
        if "flex-start" in tiers:
            raise InvalidInput(
                "A plan can't be for flex-start, which waits in Google's queue.",
                "Choose on-demand or spot.",
            )
        hunted = bool(request.zones or request.types or request.tiers)
        terms = PlanTerms(
            plan="", who="", time=request.time or TPU_SECONDS, max_cost=request.max_cost
        )
        choices: list[tuple[str, str, str, Cost]]
        if hunted:
            quotes = await self._hunts.quote(self._hunt(structs.replace(request, tpu=tpu)))
            usable = [candidate for candidate in quotes if not candidate.ruled_out]
            choices = [
                (usable_quote.type, usable_quote.zone, usable_quote.tier, usable_quote.cost)
                for usable_quote in usable
            ]
            meaning = ""
        else:
            quote = await self._create.quote(structs.replace(tpu, guard=None))
            choices = [(quote.type, quote.zone, quote.tier, quote.cost)]
            meaning = quote.meaning
            tpu = structs.replace(tpu, zone=quote.zone, version=quote.version, api=quote.api)
        prices, costs, unknown = [], [], False
        for type, zone, tier, cost in choices:
            unknown = unknown or self._grants.counted_price(cost, None) is None
            price = self._grants.counted_price(cost, tpu.max_price)
            if price is None:
                raise TPUError(
                    f"The price of {type} in {zone} ({tier}) is not known.",
                    Reason.PRICE,
                    "Say how much an hour may cost at most: --max-price USD.",
                )
            if tpu.max_price is not None and price > tpu.max_price + 0.005:
                raise TPUError(
                    f"{type} in {zone} ({tier}) costs about {catalog.usd(price)} an hour. You "
                    f"allowed at most {catalog.usd(tpu.max_price)}.",
                    Reason.PRICE,
                    "Choose another type, zone or tier, or allow more.",
                )
            seconds = time_within(terms, price)
            if seconds < _SHORTEST_SECONDS:
                shortest = _SHORTEST_SECONDS + MARGIN_SECONDS
                raise InvalidInput(
                    f"{type} costs {catalog.usd(price)} an hour, so "
                    f"{catalog.usd(request.max_cost or 0)} is enough for less than a minute, "
                    "beside the time for its deletion.",
                    f"Allow at least {catalog.usd(price * shortest / 3600 + 0.005)}.",
                    field="max_cost",
                )
            prices.append(price)
            most = most_for(price, seconds)
            costs.append(most if request.max_cost is None else min(most, request.max_cost))
        type, zone, tier, _ = choices[0]
        now = time.time()
        limit = (
            f", or before it has cost {catalog.usd(request.max_cost)}" if request.max_cost else ""
        )
        return Plan(
            id=uuid.uuid4().hex[:8],
            who=AGENT if request.who == AGENT else own_name(),
            request=structs.replace(request, tpu=tpu, who=""),
            created=timestamp(at=now),
            expires=timestamp("seconds", at=now + VALID_SECONDS),
            name=tpu.name,
            type=type,
            zone=zone,
            tier=tier,  # type: ignore[arg-type]
            meaning=meaning,
            hunt=hunted,
            emulated=self._cloud.emulated,
            usd_per_hour=max(prices),
            price_unknown=unknown,
            most=round(max(costs), 4),
            guard=f"Deleted {duration(terms.time)} after its creation begins{limit}.",
        )

    @staticmethod
    def _hunt(request: PlanTPU) -> StartHunt:
        deadline = timestamp("seconds", at=time.time() + HUNT_SECONDS)
        return StartHunt(
            tpu=structs.replace(request.tpu, guard=None),
            zones=request.zones,
            types=request.types,
            tiers=request.tiers,
            deadline=deadline,
            queued=False,
        )

    async def _begin(self, plan: Plan, terms: PlanTerms) -> str:
        request = plan.request
        limit = request.tpu.max_price if self._cloud.emulated else plan.usd_per_hour
        request = structs.replace(request, tpu=structs.replace(request.tpu, max_price=limit))
        if plan.hunt:
            return (await self._hunts.start(self._hunt(request), terms)).id
        return (await self._create.start(request.tpu, terms)).id

    def _outside(self, plan: Plan) -> str:
        """Why it is outside of its budget now; "" if it is inside."""
        if plan.who != AGENT and self._ledger.budget(plan.who) is None:
            return "" if plan.usd_per_hour == 0 or plan.emulated else "It costs money."
        if plan.who == AGENT and plan.price_unknown:  # else an agent would say what it costs
            return f"The price of {plan.type} in {plan.zone} ({plan.tier}) is not known."
        request, now = plan.request, time.time()
        choices = [(plan.type, plan.zone)]
        if plan.hunt:
            types = request.types or [plan.type]
            zones = [plan.zone] if "-" in request.zones or not request.zones else request.zones
            choices = [(type, zone) for type in types for zone in zones]
        reasons = []
        for type, zone in choices:
            line = SpendRecord(
                id="",
                who=plan.who,
                project=self._cloud.project,
                zone=zone,
                tpu=plan.name,
                type=type,
                usd_per_hour=plan.usd_per_hour,
                most=plan.most,
                asked=now,
                ends=now,
            )
            reasons.append(self._ledger.outside(line))
        # A hunt skips what its budget is not for.
        return "" if "" in reasons else reasons[0]

    async def _ask(self, plan: Plan, why: str) -> None:
        """Asks a person, and raises BUDGET."""
        if plan.state == "planned":
            await self._set(plan, state="asked")
            log.warning(
                "A coding agent asks for a TPU outside of its budget. %s %s To agree: "
                "jupyter tpu budget approve %s   To refuse: jupyter tpu budget refuse %s",
                why,
                _price(plan),
                plan.id,
                plan.id,
            )
        error = refusal(why)
        raise TPUError(
            f"{error.message} A person was asked whether plan {plan.id} may be carried out all the "
            "same.",
            Reason.BUDGET,
            "Carry it out again when they have agreed, or plan something smaller.",
        )

    async def _claim(self, plan: Plan) -> None:
        """Marks it as carried out; of several processes that do it at once, one succeeds."""

        def claim(stored: Plan) -> None:
            if stored.state == "refused":
                raise _refused(plan.id)
            if stored.state == "done":
                raise TPUError(
                    f"The plan {plan.id} was carried out already.",
                    Reason.CONFLICT,
                    "Plan another one.",
                )
            stored.state = "done"

        if not await self._store.change_plan(plan.id, claim):
            raise _unknown(plan.id)
        plan.state = "done"
        self._changes.mark_changed("budgets", "budgets")

    async def _set(self, plan: Plan, **fields: str) -> None:
        for name, value in fields.items():
            setattr(plan, name, value)
        self._plans[plan.id] = plan
        self._store.save_plan(plan)
        await self._store.flush()
        self._changes.mark_changed("budgets", "budgets")

    def _view(self, plan: Plan) -> Plan:
        why = "" if plan.state == "done" else self._outside(plan)
        return structs.replace(plan, outside=why)

    def _require(self, id: str) -> Plan:
        plan = self._plans.get(id)
        if plan is None:
            raise _unknown(id)
        return plan

    def _forget_old(self) -> None:
        before = time.time() - KEPT_SECONDS
        for plan in list(self._plans.values()):
            if seconds_of(plan.created, "created", UTC) < before:
                del self._plans[plan.id]
                self._store.drop_plan(plan.id)


def _price(plan: Plan) -> str:
    where = "one of several zones or types" if plan.hunt else plan.zone
    return (
        f"{plan.name} ({plan.type}, in {where}) costs about {catalog.usd(plan.usd_per_hour)} an "
        f"hour and at most {catalog.usd(plan.most)}. {plan.guard}"
    )


def _refused(id: str) -> TPUError:
    return TPUError(
        f"A person has refused the plan {id}.",
        Reason.BUDGET,
        "Don't ask for it again. Ask what they would agree to.",
    )


def _unknown(id: str) -> TPUError:
    return TPUError(f"The plan {id} does not exist.", Reason.NOT_FOUND, "Plan it again.")
