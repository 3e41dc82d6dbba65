"""Grants: what may be used at no charge, such as Google's TPU Research Cloud (TRC)."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from ...cloud.models import Tier

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
    #: Types ("v5litepod-8") and generations ("v5e": all its types).
    types: list[str]
    zones: list[str]
    tiers: list[Tier]
    #: How many at the same time.
    chips: Annotated[int, Meta(ge=1)]
    #: The last day, in UTC; "" if it has no end.
    until: Day = ""


class GrantUse(Struct, kw_only=True):
    """A grant, and how much of it is in use."""

    grant: Grant
    #: Chips of it that TPUs have, or that are asked for; None while that is not known.
    used: int | None
    #: Its last day is over.
    expired: bool
