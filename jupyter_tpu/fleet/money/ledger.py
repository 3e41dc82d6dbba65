"""The ledger: what the TPUs of a budget or a plan may cost, and what they have cost.

A line is written in the transaction that saves the intent to create its TPU, and checked there
against the budget. Google's list says when the TPU is READY: it has our label, which is the line's
id. A line stays when its TPU is gone.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext

from msgspec import structs

from ...cloud import OPERATION_LABEL, Node, NodeName, NodeState
from ...errors import Reason, TPUError
from ..core.core import Core
from ..core.known_operations import Demand
from ..core.operation_records import OperationRecord
from ..core.records import CodingAgentTPURecord, Snapshot, SpendRecord
from ..models import AGENT, Budget, BudgetUse, SetGuard, Spending
from ..models.core import seconds_of, timestamp
from . import budget_rules
from .budget_rules import MARGIN_SECONDS, add_ready, add_up, left_of, most_for, text_of, usd_of
from .owners import own_name

log = logging.getLogger(__name__)

#: Seconds between the announcement that a TPU ends sooner, and its end, at least.
NOTICE_SECONDS = 300.0


class Ledger:
    """The budgets and the ledger, kept in the store."""

    def __init__(self, core: Core) -> None:
        self._store = core.store
        self._observed = core.observed
        self._known = core.runner.known
        self._changes = core.changes
        self.emulated = core.cloud.emulated
        self._agent_tpus: dict[NodeName, CodingAgentTPURecord] = {}
        self._budgets: dict[str, Budget] = {}
        self._lines: dict[str, SpendRecord] = {}
        self.take_over(core.store.snapshot)

    def take_over(self, snapshot: Snapshot) -> None:
        """Takes over what other processes wrote."""
        read = {budget.who: budget for budget in snapshot.budgets}
        ledger = {line.id: line for line in snapshot.spending}
        allowed = {record.name: record for record in snapshot.agent_tpus}
        if allowed != self._agent_tpus:
            old, self._agent_tpus = self._agent_tpus, allowed
            for name in old.keys() | allowed.keys():
                self._changes.mark_tpu_changed(name)
        if (read, ledger) != (self._budgets, self._lines):
            self._budgets, self._lines = read, ledger
            self._changes.mark_changed("budgets", "budgets")

    # ---- budgets ----

    def budget(self, who: str) -> Budget | None:
        return self._budgets.get(who)

    async def set_budget(self, budget: Budget) -> None:
        self._budgets[budget.who] = budget
        self._store.save_budget(budget)
        await self._store.flush()
        self._changes.mark_changed("budgets", "budgets")

    async def remove_budget(self, who: str) -> None:
        if self._budgets.pop(who, None) is None:
            raise TPUError(f"There is no budget for {who}.", Reason.NOT_FOUND)
        self._store.drop_budget(who)
        await self._store.flush()
        self._changes.mark_changed("budgets", "budgets")

    def uses(self) -> list[BudgetUse]:
        now = time.time()
        uses = []
        for budget in sorted(self._budgets.values(), key=lambda budget: budget.who):
            sums = add_up(budget.who, self._lines.values(), now)
            uses.append(
                BudgetUse(
                    budget=budget,
                    spent_today=round(sums.today, 4),
                    spent=round(sums.total, 4),
                    committed=round(sums.committed, 4),
                    left=round(left_of(budget, sums), 4),
                    expired=bool(budget.until) and budget.until < budget_rules.day_of(now),
                    text=text_of(budget, sums),
                )
            )
        return uses

    def spending(self) -> list[Spending]:
        """The lines, the newest first."""
        now = time.time()
        lines = sorted(self._lines.values(), key=lambda line: line.asked, reverse=True)
        return [self._view(line, now) for line in lines]

    @staticmethod
    def _view(line: SpendRecord, now: float) -> Spending:
        usd, today = usd_of(line, now)
        state = "ended" if line.ended else "ready" if line.since is not None else "asked"
        if state == "asked" and line.days:
            state = "stopped"
        return Spending(
            id=line.id,
            who=line.who,
            plan=line.plan,
            tpu=line.tpu,
            zone=line.zone,
            type=line.type,
            tier=line.tier,
            usd_per_hour=line.usd_per_hour,
            most=round(line.most, 4),
            ends="" if line.ends is None else timestamp("seconds", at=line.ends),
            usd=round(usd, 4),
            usd_today=round(today, 4),
            state=state,  # type: ignore[arg-type]
            created=timestamp("seconds", at=line.asked),
            shortened=line.shortened,
        )

    # ---- what is asked for ----

    def line_for(
        self, record: OperationRecord, demand: Demand, price: float | None
    ) -> SpendRecord | None:
        """The line of a TPU that *record* is about to ask for; None where no budget and no plan is
        for it. price: USD an hour.

        Raises BUDGET where a budget is for it, and what it can cost is not bounded.
        """
        creation = record.creation
        terms = creation.terms if creation is not None else None
        who = terms.who if terms is not None else own_name()
        if terms is None and who not in self._budgets:
            return None
        if creation is None or price is None or creation.request.guard is None:
            raise TPUError(
                f"The budget of {budget_rules.whose(who)} needs a known price, and a new TPU that "
                "its guard deletes.",
                Reason.BUDGET,
                "Create it from a plan (jupyter tpu create … --plan-only), or with a guard: "
                "--max-cost or --until, and --then-delete.",
            )
        now = time.time()
        ends = _end_of(creation.request.guard, price, now)
        most = most_for(price, ends - now)
        if terms is not None and terms.max_cost is not None:
            most = min(most, terms.max_cost)
        return SpendRecord(
            id=creation.claim.label,
            who=who,
            plan=terms.plan if terms is not None else "",
            project=demand.project,
            zone=demand.zone,
            tpu=record.name.node,
            type=demand.type,
            tier=demand.tier,
            usd_per_hour=price,
            most=most,
            asked=now,
            ends=ends,
            approved=terms is not None and 0 < terms.approved + 0.001 >= most,
        )

    def check(
        self, line: SpendRecord
    ) -> Callable[[Sequence[Budget], Sequence[SpendRecord], Sequence[OperationRecord]], None]:
        """Raises BUDGET unless *line* is inside its budget; for the store's transaction."""

        def require(
            budgets: Sequence[Budget],
            lines: Sequence[SpendRecord],
            operations: Sequence[OperationRecord],
        ) -> None:
            budget_rules.require_inside(line, budgets, lines, operations, time.time())

        return require

    def outside(self, spend: SpendRecord) -> str:
        """Why *spend* is outside of its budget now; "" if it is inside."""
        now = time.time()
        return budget_rules.outside(
            spend.who, spend, self._budgets.values(), self._lines.values(), now
        )

    def added(self, line: SpendRecord) -> None:
        """The line was saved."""
        self._lines[line.id] = line
        self._changes.mark_changed("budgets", "budgets")

    @asynccontextmanager
    async def moving_end(self, node: Node, ends: float | None) -> AsyncIterator[None]:
        """Around what has the guard of a TPU delete it at *ends*, as a person has chosen; None:
        never.

        A later end is in the ledger before the guard has it, and no more if that fails: what a TPU
        may cost is never less than the ledger says. An earlier one is there when the guard has it.
        Raises BUDGET, and changes nothing, where the TPU's budget does not cover that.
        """
        line = self.line_of(node)
        if line is None or line.ended:
            yield
            return
        if ends is None and (line.who == AGENT or line.who in self._budgets):
            raise _endless()
        later = line.ends is not None and (ends is None or ends > line.ends)
        if later:
            await self._move_end(line, ends)
        try:
            yield
        except BaseException:
            if later:
                before = {key: getattr(line, key) for key in ("ends", "most", "shortened")}
                self._save(structs.replace(self._lines[line.id], **before))
                await self._store.flush()
            raise
        if not later:
            await self._move_end(line, ends)

    def keeping(self, node: Node, until: float) -> AbstractAsyncContextManager[None]:
        """As `moving_end`, where a person keeps a TPU: it is deleted at *until* or later."""
        line = self.line_of(node)
        later = line is not None and line.ends is not None and until > line.ends
        return self.moving_end(node, until) if later else nullcontext()

    async def follow_guard(self, node: Node, ends: float | None) -> bool:
        """Its host's guard, asked now, deletes a TPU at *ends* (None: never). If that is later than
        the ledger has it, the ledger follows: a person has changed it, perhaps from another
        computer. Returns False where a person has agreed to the end, or the budget does not cover
        more.
        """
        line = self.line_of(node)
        if line is None or line.shortened or (line.who == AGENT and line.approved):
            return False
        if line.ends is None or (ends is not None and ends <= line.ends):
            return True
        try:
            async with self.moving_end(node, ends):
                return True
        except TPUError as error:
            if error.reason is not Reason.BUDGET:
                raise
            return False

    def give_notice(self, node: Node, now: float) -> None:
        """Has a TPU whose time has ended, but whose guard goes by another end, end
        after NOTICE_SECONDS."""
        line = self.line_of(node)
        if line is not None:
            most = max(
                line.most, usd_of(line, now)[0] + most_for(line.usd_per_hour, NOTICE_SECONDS)
            )
            self._save(structs.replace(line, ends=now + NOTICE_SECONDS, most=most, shortened=True))

    async def _move_end(self, line: SpendRecord, ends: float | None) -> None:
        now = time.time()
        spent, _ = usd_of(line, now)
        most = spent
        if ends is not None:
            most += most_for(line.usd_per_hour, max(0.0, ends - now))
        after = structs.replace(line, ends=ends, most=most, shortened=False)

        def check(
            budgets: Sequence[Budget],
            others: Sequence[SpendRecord],
            _: Sequence[OperationRecord],
        ) -> None:
            budget_rules.require_later_end(line, after, budgets, others, now)

        await self._store.change_spending(after, check)
        # What was observed meanwhile is kept.
        self._save(structs.replace(self._lines[line.id], ends=ends, most=most, shortened=False))
        await self._store.flush()

    # ---- what is observed ----

    def line_of(self, node: Node) -> SpendRecord | None:
        """The line of a TPU; None if none is for it."""
        line = self._lines.get(node.labels.get(OPERATION_LABEL, ""))
        if line is None or line.name != node.name or line.node_id not in ("", node.id):
            return None
        return line

    def require_of_agent(self, name: NodeName, act: str) -> None:
        """Raises PERMISSION for a TPU that no agent has created."""
        if not self.created_by_agent(name):
            raise TPUError(
                f"{name.node} was not created by a coding agent, so a coding agent can't {act} it.",
                Reason.PERMISSION,
                "Ask a person to do it.",
            )

    def require_use_by_agents(self, name: NodeName, act: str) -> None:
        """Raises PERMISSION for a TPU that a person has created, and not opened to agents."""
        if not self.agents_may_use(name):
            raise TPUError(
                f"{name.node} was not created by a coding agent, so a coding agent can't {act} it.",
                Reason.PERMISSION,
                f"A person can allow it for this TPU: jupyter tpu budget allow {name.node}",
            )

    def agents_may_use(self, name: NodeName) -> bool:
        """Whether an agent has created it, or a person lets agents run commands there."""
        node = self._observed.node(name)
        record = self._agent_tpus.get(name)
        allowed = node is not None and record is not None and record.node_id == node.id
        return allowed or self.created_by_agent(name)

    def created_by_agent(self, name: NodeName) -> bool:
        return self.planned_by(name) == AGENT

    def planned_by(self, name: NodeName) -> str:
        """By whose plan it was created; "" if by none."""
        node = self._observed.node(name)
        line = self.line_of(node) if node is not None else None
        if line is None and node is None:  # it is being created, so Google does not list it yet
            line = next((open_line for open_line in self._open() if open_line.name == name), None)
        return line.who if line is not None else ""

    async def allow_agents(self, node: Node, allowed: bool) -> None:
        """Lets coding agents run commands on a TPU that a person has created, or no longer."""
        name = node.name
        record = CodingAgentTPURecord(
            project=name.project, zone=name.zone, tpu=name.node, node_id=node.id
        )
        if allowed:
            self._agent_tpus[name] = record
            self._store.save_agent_tpu(record)
        else:
            self._agent_tpus.pop(name, None)
            self._store.drop_agent_tpu(record)
        await self._store.flush()
        self._changes.mark_tpu_changed(name)

    def is_of_agent(self, operation: str) -> bool:
        """Whether an agent has begun the operation with this id, by a plan."""
        return any(
            line.who == AGENT and line.id.partition("-")[0] == operation
            for line in self._lines.values()
        )

    def observe(self, nodes: Collection[Node], now: float) -> None:
        """Takes in what Google said of nodes."""
        for node in nodes:
            line = self.line_of(node)
            if line is not None and not line.ended:
                self._update(line, node, now)

    def polled(self, nodes: Collection[Node], now: float) -> None:
        """As `observe`, of all nodes; and closes the lines of those that are gone."""
        self.observe(nodes, now)
        there = {node.labels.get(OPERATION_LABEL, "") for node in nodes}
        for line in self._awaited(now):
            if line.id in there or (line.name, line.node_id) not in self._observed.gone:
                continue
            # If no process has seen its end, it counts until its guard has deleted it.
            end = now if line.ends is None else min(now, line.ends + MARGIN_SECONDS)
            days = line.days if line.since is None else add_ready(line.days, line.since, end)
            self._save(structs.replace(line, since=None, days=days, ended=True))

    def tpus(self) -> list[tuple[NodeName, str]]:
        """The names and ids of the TPUs that lines are open for, and that should be there now."""
        return [(line.name, line.node_id) for line in self._awaited(time.time())]

    def _awaited(self, now: float) -> list[SpendRecord]:
        """The open lines whose TPUs Google has listed, or had the time to."""
        return [
            line
            for line in self._open()
            if (line.node_id or now - line.asked >= MARGIN_SECONDS)
            and not any(
                record.claim is not None
                and record.claim.label == line.id
                and record.claim.want == "present"
                for record in self._known.on(line.name)
            )
        ]

    def shorten(self, now: float) -> list[SpendRecord]:
        """Has TPUs end sooner whose budget was lowered, or is used up; returns their new lines.

        The ledger says it first: whoever sets guards reads it from there.
        """
        shortened = []
        for budget in self._budgets.values():
            lines = list(self._lines.values())
            ends = budget_rules.shortened_ends(budget, lines, now, NOTICE_SECONDS)
            for id, end in ends.items():
                line = self._lines[id]
                spent, _ = usd_of(line, now)
                most = min(line.most, spent + most_for(line.usd_per_hour, end - now))
                shortened.append(structs.replace(line, ends=end, most=most, shortened=True))
                self._save(shortened[-1])
        return shortened

    def shortened(self) -> list[SpendRecord]:
        """The lines of TPUs that exist, and end sooner than was planned."""
        return [line for line in self._open() if line.shortened and line.node_id]

    def overdue(self, now: float) -> list[SpendRecord]:
        """The records of TPUs whose time has ended, and which their guards have not deleted."""
        return [
            line
            for line in self._open()
            if line.node_id
            and line.ends is not None
            and now > line.ends + MARGIN_SECONDS
            and line.since is not None
        ]

    def _open(self) -> list[SpendRecord]:
        return [line for line in self._lines.values() if not line.ended]

    def _update(self, line: SpendRecord, node: Node, now: float) -> None:
        ready = node.state is NodeState.READY
        after = line
        if not line.node_id:
            after = structs.replace(after, node_id=node.id)
        if ready and line.since is None:
            # One that was not seen before counts from its creation.
            created = seconds_of(node.created, "created") if node.created else now
            since = now if line.node_id else max(line.asked, min(created, now))
            after = structs.replace(after, since=since)
        elif not ready and line.since is not None:
            after = structs.replace(after, since=None, days=add_ready(line.days, line.since, now))
        if after != line:
            self._save(after)

    def _save(self, line: SpendRecord) -> None:
        self._lines[line.id] = line
        self._store.save_spending(line)
        self._changes.mark_changed("budgets", "budgets")


def _end_of(guard: SetGuard, price: float, now: float) -> float:
    """When the guard of a new TPU deletes it at the latest; seconds since the epoch.

    Raises BUDGET for one that does not.
    """
    ends = []
    if guard.until:
        ends.append(seconds_of(guard.until, "until"))
    if guard.max_cost is not None and price > 0:
        ends.append(now + guard.max_cost / price * 3600.0)
    if not ends or guard.action != "delete":
        raise _endless()
    return min(ends)


def _endless() -> TPUError:
    return TPUError(
        "Inside a budget, the guard of a TPU has to delete it at a time or a cost.",
        Reason.BUDGET,
        "Add --max-cost or --until, and --then-delete.",
    )
