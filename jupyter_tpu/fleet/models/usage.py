"""Who has which TPUs, and what they cost."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from ...cloud.models import Tier
from .costs import Cost
from .problems import Problem


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
    #: Of all its TPUs.
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
    #: In use, and those of failed and suspended queued resources, which use quota.
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
