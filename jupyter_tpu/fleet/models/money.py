"""What TPUs cost, what a grant pays for, and who uses which TPUs."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, structs

from ... import catalog
from ...catalog import PriceTable
from ...cloud.models import Node, NodeState, Tier
from ...options import option
from .core import Problem, known_type, seconds_of, timestamp


class Cost(Struct, kw_only=True):
    """What a TPU costs, about: by a dated list price, in USD.

    Discounts, taxes, network traffic and additional disks are not in it. A TPU is charged while it
    is READY, used or not. What a grant covers costs nothing but its network traffic.
    """

    #: While it is READY: 0 of an emulated TPU and inside a grant, None if the price is not known.
    usd_per_hour: float | None = None
    #: Google's price, also where the TPU is emulated or inside a grant.
    list_usd_per_hour: float | None = None
    #: Where and when that was the price: "us-west4", and "2024-12-23" or the year.
    region: str = ""
    date: str = ""
    #: The grant that covers it; "" if none does.
    grant: str = ""
    #: Since when it is READY; "" if it is not, or where that is not known.
    since: str = ""
    #: What it has cost until now, in steps of six minutes; None if that is not known.
    usd: float | None = None


def cost_of(
    type: str,
    zone: str,
    tier: Tier,
    *,
    emulated: bool,
    grant: str = "",
    prices: PriceTable = catalog.SHIPPED,
) -> Cost:
    """What a TPU would cost that does not run yet. A reservation's price is not known.

    grant: the one that covers it, "" if none does.
    """
    accelerator = known_type(type)
    price = catalog.price_in(prices.of(accelerator), zone) if accelerator is not None else None
    listed = None
    if price is not None:
        listed = {
            "on-demand": price.on_demand,
            "spot": price.spot,
            "flex-start": price.flex_start,
        }.get(tier)
    return Cost(
        usd_per_hour=0.0 if emulated or grant else listed,
        list_usd_per_hour=listed,
        region=price.region if price is not None and listed is not None else "",
        date=price.date if price is not None and listed is not None else "",
        grant=grant,
    )


def running_cost(cost: Cost, *, since: float | None, seconds: float | None) -> Cost:
    """*cost* with what it comes to: READY *since* (seconds since the epoch), *seconds* in all."""
    usd = None
    if cost.usd_per_hour == 0:
        usd = 0.0
    elif cost.usd_per_hour is not None and seconds is not None:
        # In steps: a sum that grows with each look would be a change of the TPU each time.
        usd = round(cost.usd_per_hour * (seconds // 360) / 10, 2)
    return structs.replace(
        cost, since="" if since is None else timestamp("seconds", at=since), usd=usd
    )


def counted_cost(cost: Cost, now: float) -> Cost:
    """*cost* as limits count it, and budgets: an emulated TPU has the price of a real one, from the
    time since when it is READY. *now*: seconds since the epoch.
    """
    price = cost.list_usd_per_hour
    if cost.usd_per_hour != 0 or cost.grant or not price:
        return cost
    ready = max(0.0, now - seconds_of(cost.since, "since")) if cost.since else 0.0
    return structs.replace(cost, usd_per_hour=price, usd=price * ready / 3600.0)


def billing_words(node: Node, cost: Cost) -> str:
    """ "Google bills it about $9.60 an hour"; "" for one that costs nothing now."""
    price = cost.usd_per_hour
    if price == 0 or node.state is NodeState.STOPPED:
        return ""
    return "Google bills it" + (f" about {catalog.usd(price)} an hour" if price is not None else "")


GrantName = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_.]{0,38}[A-Za-z0-9])?$(?!\n)",
        description="1–40 letters, digits, hyphens, dots and underscores",
    ),
]
Day = Annotated[
    str,
    Meta(pattern=r"^(\d{4}-\d{2}-\d{2})?$(?!\n)", description='a day such as 2026-12-31, or ""'),
]


class Grant(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Chips that a project may use at no charge. Network traffic is charged all the same."""

    name: GrantName
    #: "": the project of this server.
    project: str = ""
    types: Annotated[
        list[str],
        option(
            "A type, such as v5litepod-8, or a generation, such as v5e.",
            "--type",
            metavar="TYPE",
            typing_hint="Repeatable.",
        ),
    ]
    zones: Annotated[
        list[str],
        option("A zone of the grant.", "--zone", metavar="ZONE", typing_hint="Repeatable."),
    ]
    tiers: Annotated[
        list[Tier],
        option(
            "on-demand, spot, reserved or flex-start.",
            "--tier",
            metavar="TIER",
            typing_hint="Repeatable.",
        ),
    ]
    chips: Annotated[
        int,
        Meta(ge=1),
        option("How many chips at the same time. A v2-8 or v3-8 has 4.", metavar="N"),
    ]
    #: In UTC; "" if it has no end.
    until: Annotated[
        Day, option("The last day of the grant, such as 2026-12-31.", metavar="DAY")
    ] = ""


class GrantUse(Struct, kw_only=True):
    """A grant, and how much of it is in use."""

    grant: Grant
    #: Chips of it that TPUs have, or that are asked for; None while that is not known.
    used: int | None
    #: Its last day is over.
    expired: bool


class UsedTPU(Struct, kw_only=True):
    """A TPU, or a queued resource with the TPUs that it asks for."""

    kind: Literal["tpu", "queued"]
    name: str
    zone: str
    project: str
    type: str = ""
    #: The type in words: "8 chips · 1 host · 128 GB HBM".
    meaning: str = ""
    tier: Tier = "on-demand"
    #: As `TPU.state`, or `QueuedResource.state`.
    state: str
    #: What its state means, and what can be done now.
    advice: str
    #: The chips of all its TPUs.
    chips: int = 0
    #: Which quota of the project it uses. "chips": for the chips that it has. "quota": for chips
    #: that can't be used until it is deleted. "": none.
    holds: Literal["chips", "quota", ""] = ""
    #: Who created it; "" if that is not known.
    owner: str = ""
    #: What says so: a label, or that only one user's SSH key may log in.
    owner_source: Literal["", "label", "ssh-keys"] = ""
    #: Whether the owner is who uses this server.
    mine: bool = False
    created: str = ""
    cost: Cost
    #: Whether this server connects it.
    connected: bool = False
    #: Whether it is yours, billed for hours, not connected here, and no job runs on it.
    forgotten: bool = False


class OwnerUsage(Struct, kw_only=True):
    """What one owner has."""

    owner: str  # "": not known
    mine: bool = False
    tpus: int = 0
    #: In use, and those of preempted TPUs, and of failed and suspended queued resources, which use
    #: quota.
    chips: int = 0
    blocked_chips: int = 0
    #: What the TPUs that are READY cost now, and all of them until now, as far as prices are known.
    usd_per_hour: float = 0.0
    usd: float = 0.0
    #: TPUs whose price is not known.
    unpriced: int = 0


class Usage(Struct, kw_only=True):
    """All TPUs and queued resources of some projects."""

    #: You, as the label of a new TPU names you.
    me: str
    projects: list[str]
    emulated: bool
    #: Chips in use, of all owners.
    chips: int
    #: Those that have cost most first.
    tpus: list[UsedTPU]
    #: Those with most chips first.
    owners: list[OwnerUsage]
    #: Why the list may be incomplete.
    problems: list[Problem] = []


class ReservationView(Struct, kw_only=True):
    """Capacity that the project has reserved, or will have for some days (calendar mode)."""

    name: str
    zone: str
    #: A generation, such as v6e, or a machine type.
    type: str = ""
    chips: int | None = None
    used: int | None = None
    #: Google's word, such as READY, or PENDING_APPROVAL of one that is still to come.
    state: str = ""
    #: The dates of calendar mode, RFC 3339; "" for none.
    start: str = ""
    end: str = ""
    #: Whether it is still to come: TPUs can't use it yet.
    future: bool = False
    #: The name with which a new TPU uses it (`reservation`); "" while it can't.
    use: str = ""


class CreateReservation(Struct, kw_only=True, forbid_unknown_fields=True):
    """Chips to reserve for some days (calendar mode of Compute Engine). They are billed from the
    first to the last day, used or not.
    """

    name: Annotated[str, Meta(pattern=r"^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$(?!\n)")]
    #: A generation or a type of it: v6e, tpu7x, v5p-8.
    type: str
    zone: str
    chips: Annotated[Annotated[int, Meta(ge=1)], option("How many chips.")]
    #: RFC 3339, in the future.
    start: Annotated[str, option("When it begins.", typed="time")]
    days: Annotated[Annotated[int, Meta(ge=1, le=90)], option("For how many days.")]
    workload: Annotated[
        Literal["batch", "serving"], option("What the chips are used for: batch or serving.")
    ] = "batch"
    #: Both are required: the user has agreed to the cost, and then typed the name.
    confirm_cost: bool = False
    confirm_name: str = ""


class ReservationQuote(Struct, kw_only=True):
    """What a reservation would be and cost. Nothing is reserved yet."""

    chips: int
    start: str
    end: str
    days: int
    #: For all days at the on-demand price of the list; null: not known. Google's price for calendar
    #: mode may be another one.
    list_usd: float | None = None
    emulated: bool = False
    #: What has to be confirmed, in a sentence.
    question: str
