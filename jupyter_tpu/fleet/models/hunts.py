"""Hunts: the search for a TPU over zones, types and tiers."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from ...catalog import API
from ...cloud.models import Tier
from ...options import option
from .consequences import Consequences
from .core import Problem
from .money import Cost
from .sessions import BeforeEnd
from .tpus import CreateTPU

HuntState = Literal["running", "paused", "stopping", "found", "failed", "stopped"]
AttemptState = Literal["trying", "failed", "found", "cancelled"]


class StartHunt(Struct, kw_only=True, forbid_unknown_fields=True):
    """A TPU to search for: in each of the zones, as each of the types, in each of the tiers, and by
    each of Google's control planes that offers it.
    """

    #: What is created, and how. It names zone, type and tier where the lists below are empty.
    tpu: CreateTPU
    #: "-": all zones that offer one of the types.
    zones: list[str] = []
    #: The most wanted first, also of the tiers.
    types: list[str] = []
    tiers: list[Tier] = []
    #: RFC 3339, such as "2026-07-01T08:00:00Z".
    deadline: Annotated[str, option("Begin no attempt after this time.", typed="time")] = ""
    #: Each attempt is then a queued resource.
    queued: Annotated[
        bool | None,
        option(
            "Let each attempt wait in Google's queue, even while this computer is off.",
            "--queued/--no-queued",
            default="if the deadline is more than 4 hours away",
        ),
    ] = None
    direct: Annotated[
        bool,
        option("In a hunt that waits in the queue, also try each zone, type and tier without it."),
    ] = False
    #: Then it deletes what is left of that TPU. It ends when it is stopped, or when another person
    #: or program deletes the TPU.
    again: Annotated[
        bool, option("Begin again each time Google preempts the TPU, until you stop the hunt.")
    ] = False
    #: By default the next one is connected as that TPU.
    when_preempted: Annotated[
        bool,
        option("For an existing TPU of this name: begin when Google preempts it, again and again."),
    ] = False

    @property
    def repeats(self) -> bool:
        """Whether it waits for a preemption when it has found a TPU."""
        return self.again or self.when_preempted


class ReplaceTPU(Struct, kw_only=True, forbid_unknown_fields=True):
    """How a TPU is replaced: it is deleted with its disk, and created again as it was."""

    #: Each is required while such run there.
    end_kernels: bool = False
    end_jobs: bool = False
    #: If sessions are on for it.
    sessions: BeforeEnd = "save"
    #: As for a new TPU.
    confirm_price: bool = False
    max_price: Annotated[float, Meta(ge=0)] | None = None


class Replacement(Consequences, kw_only=True):
    """What replacing a TPU would do; nothing is changed yet."""

    #: As the TPU is created again. Metadata and scripts are left out.
    request: CreateTPU
    cost: Cost
    #: The price that has to be confirmed, in a sentence; "" if it is free.
    question: str = ""
    #: What the new TPU gets of what the old one had, each in a sentence.
    restored: list[str] = field(default_factory=list)


class HuntCandidate(Struct, kw_only=True):
    """A zone, type, tier and control plane that a hunt tries."""

    zone: str
    type: str
    tier: Tier
    api: API = "tpu"
    #: Whether it waits in Google's queue.
    queued: bool = False
    version: str = ""
    cost: Cost = field(default_factory=Cost)
    attempts: int = 0
    #: When it may be tried again; "" for at once.
    retry_at: str = ""
    #: Why the last attempt failed, or why it is not tried.
    problem: Problem | None = None
    #: Whether waiting does not help: it is not tried again.
    ruled_out: bool = False


class HuntAttempt(Struct, kw_only=True):
    """One try to create a TPU."""

    number: int  # from 1
    zone: str
    type: str
    tier: Tier
    api: API = "tpu"
    state: AttemptState = "trying"
    started: str = ""
    ended: str = ""
    #: Why it failed, with Google's message.
    problem: Problem | None = None
    #: Whether Google continues it while this computer is off.
    unattended: bool = False


class Hunt(Struct, kw_only=True):
    """A search for a TPU. Its operation has the same id."""

    id: str
    #: The TPU's name.
    name: str
    #: "paused": no process of this computer runs it now; the next Jupyter server continues it.
    state: HuntState = "running"
    #: What it does now, or how it ended.
    message: str = ""
    #: Whether it waits until Google preempts its TPU.
    waiting: bool = False
    #: Where the TPU was found.
    zone: str = ""
    request: StartHunt
    #: Whether its attempts, but for those of `direct`, are queued resources.
    queued: bool = False
    candidates: list[HuntCandidate] = []
    #: The last ones, the oldest first.
    attempts: list[HuntAttempt] = []
    #: How many attempts there were.
    attempted: int = 0
    #: When the next attempt begins; "" during an attempt.
    next_attempt: str = ""
    #: Why it failed; while it runs, what stands in its way.
    problem: Problem | None = None
    created: str = ""
    ended: str = ""
