"""What a person lets others spend: budgets, plans that wait for a yes, and what was spent."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from ...cloud.models import Tier
from ...options import option
from .money import Day
from .tpus import CreateTPU

#: Whose budget that of all coding agents is.
AGENT = "agent"

BudgetName = Annotated[
    str,
    Meta(
        pattern=r"^[-_a-z0-9]{1,63}$(?!\n)",
        description="1–63 lower-case letters, digits, hyphens and underscores",
    ),
]
USD = Annotated[float, Meta(gt=0, le=1e7)]
#: Seconds that a TPU of a plan may exist.
PlanTime = Annotated[float, Meta(ge=60, le=7 * 86_400)]


class Budget(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """How much someone may spend on TPUs. A limit a day or in total is required."""

    #: "agent": all coding agents. Otherwise a person, as the owner label of TPUs names them.
    who: BudgetName
    day: Annotated[USD | None, option("At most this much a day, in UTC.", unit="USD")] = None
    total: Annotated[USD | None, option("At most this much in total.", unit="USD")] = None
    #: In UTC; "" if it has no end.
    until: Annotated[
        Day, option("The last day of the budget, such as 2026-12-31.", metavar="DAY")
    ] = ""
    types: Annotated[
        list[str],
        option(
            "Only this type, such as v5litepod-8, or generation, such as v5e.",
            "--type",
            metavar="TYPE",
            default="all",
            typing_hint="Repeatable.",
        ),
    ] = []
    zones: Annotated[
        list[str],
        option(
            "Only this zone.", "--zone", metavar="ZONE", default="all", typing_hint="Repeatable."
        ),
    ] = []
    #: For coding agents; "": as before, and that in which Jupyter runs if none was chosen.
    folder: Annotated[
        str,
        option(
            "The folder of the Jupyter server's computer whose files coding agents may copy.",
            metavar="DIR",
            default="that in which Jupyter runs, if it is not your home folder",
        ),
    ] = ""


class Spending(Struct, kw_only=True):
    """One TPU in the ledger: what it may cost, and has cost."""

    #: Also the value of the label by which Google's list has the TPU.
    id: str
    who: str
    #: The plan that it was created by; "" if there was none.
    plan: str = ""
    tpu: str
    zone: str
    type: str
    tier: Tier = "on-demand"
    usd_per_hour: float
    #: USD that it can cost at most, until its guard deletes it.
    most: float
    #: When its guard deletes it; "": a person has removed the guard.
    ends: str
    #: What it has cost until now, and of that today, in UTC.
    usd: float = 0.0
    usd_today: float = 0.0
    #: "asked": Google may be creating it. "stopped": not READY, so it costs nothing now.
    state: Literal["asked", "ready", "stopped", "ended"] = "asked"
    created: str = ""
    #: Its budget was lowered, or is used up, so its guard deletes it sooner than was planned.
    shortened: bool = False


class AllowAgents(Struct, kw_only=True, forbid_unknown_fields=True):
    """Whether coding agents may run commands on a TPU that a person has created."""

    allowed: bool = True
    #: Its name, which is required where it is another person's.
    confirm_name: str = ""


class BudgetUse(Struct, kw_only=True):
    """A budget, and how much of it is used. All amounts in USD, by list prices."""

    budget: Budget
    spent_today: float
    spent: float
    #: What the TPUs that exist may still cost.
    committed: float
    #: What may still be asked for now; None: the budget has ended.
    left: float
    #: Its last day is over.
    expired: bool = False
    #: "spent $3.20 of $20.00 today".
    text: str = ""


class PlanTPU(Struct, kw_only=True, forbid_unknown_fields=True):
    """A TPU to plan: what it would cost at most is computed, and nothing is created."""

    #: Its guard is replaced: a planned TPU is deleted at the limits of the plan. `max_price`: the
    #: most that an hour may cost, required where the price is not known.
    tpu: CreateTPU
    #: Several, or "-" for all that offer the type: they are tried in turn, until there is capacity.
    zones: list[str] = []
    #: The most wanted first.
    types: list[str] = []
    tiers: list[Tier] = []
    #: How long the TPU exists at most; seconds.
    time: Annotated[
        PlanTime | None,
        option(
            "Delete the TPU after this time.",
            "--time",
            "--timeout",
            typed="duration",
            default="1h",
        ),
    ] = None
    #: USD.
    max_cost: Annotated[
        USD | None, option("Delete the TPU before it has cost more than this.", unit="USD")
    ] = None
    #: Set by the server: "agent" if it was asked with the coding agents' token.
    who: str = ""


class CarryOutPlan(Struct, kw_only=True, forbid_unknown_fields=True):
    """How a plan is carried out."""

    #: Set by the server, as `PlanTPU.who`.
    who: str = ""
    #: A person's yes to what it costs, in place of a budget. An agent's is ignored.
    approve: bool = False


class AnswerPlan(Struct, kw_only=True, forbid_unknown_fields=True):
    """A person's answer to the question whether a plan may be carried out."""

    approve: bool


class Plan(Struct, kw_only=True):
    """What a TPU would cost at most, for an hour: carry it out by its id."""

    id: str
    #: "agent" (a coding agent), or a person.
    who: str
    request: PlanTPU
    created: str
    #: When it can no longer be carried out.
    expires: str
    name: str
    #: The first choice. Several are tried if `hunt`.
    type: str
    zone: str
    tier: Tier = "on-demand"
    meaning: str = ""
    hunt: bool = False
    emulated: bool = False
    #: The price of the most expensive choice. An emulated TPU has the price of a real one here.
    usd_per_hour: float
    #: The price is not known: `usd_per_hour` is what the plan allows at most.
    price_unknown: bool = False
    #: USD that it can cost at most.
    most: float
    #: What ends it: "deleted after 1 h, or when it has cost $1.20".
    guard: str
    #: "asked": a person was asked. "done": it was carried out.
    state: Literal["planned", "asked", "approved", "refused", "done"] = "planned"
    #: Why no budget covers it now; "" if one does.
    outside: str = ""
    #: The id of the operation or hunt that carries it out.
    operation: str = ""


class BudgetOverview(Struct, kw_only=True):
    """All budgets, what they are spent on, and the plans that wait for a person's yes."""

    #: You, as a budget would name you.
    me: str
    #: Whether what is spent is play money, since the TPUs are emulated.
    emulated: bool
    budgets: list[BudgetUse]
    #: The newest first.
    spending: list[Spending]
    questions: list[Plan]
