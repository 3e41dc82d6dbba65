"""Queued resources: requests that wait at Google until there is room for their TPUs."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from ...cloud.models import Tier
from ...options import option
from .problems import Problem
from .tpus import CreateTPU


class QueueTPU(Struct, kw_only=True, forbid_unknown_fields=True):
    """Request TPUs. They are created when there is capacity for all of them, perhaps after days."""

    #: What is created, and how. Its name is also that of the queued resource; several TPUs are
    #: called NAME-0, NAME-1, …
    tpu: CreateTPU
    node_count: Annotated[
        int,
        Meta(ge=1, le=256),
        option("Number of TPUs: NAME-0, NAME-1 …, as slices of one job.", metavar="N"),
    ] = 1
    reservation: Annotated[str, option("The name of the reservation.", default="the project's")] = (
        ""
    )
    #: RFC 3339, such as "2026-07-01T08:00:00Z".
    valid_until: Annotated[
        str,
        option("When to give up.", "--valid-until-duration", default="never", typed="time"),
    ] = ""


class DeleteQueued(Struct, kw_only=True, forbid_unknown_fields=True):
    """How it is deleted. `force` is required while it has TPUs: they are deleted, too."""

    force: bool = False
    #: Its name, which is required where it is another person's.
    confirm_name: str = ""


class ResetQueued(Struct, kw_only=True, forbid_unknown_fields=True):
    """How it is put back into the queue."""

    #: Its name, which is required where it is another person's.
    confirm_name: str = ""


class QueuedResource(Struct, kw_only=True):
    """A request for TPUs that waits until there is capacity for them."""

    name: str
    zone: str
    project: str
    emulated: bool = False
    #: CREATING, ACCEPTED, WAITING_FOR_RESOURCES, PROVISIONING, ACTIVE, SUSPENDING, SUSPENDED,
    #: FAILED, DELETING or UNKNOWN.
    state: str
    #: What its state means, and what can be done now.
    meaning: str
    #: The names of its TPUs, which exist when it is ACTIVE.
    tpus: list[str] = []
    type: str = ""
    version: str = ""
    tier: Tier = "on-demand"
    #: As `run_for` of a TPU.
    run_for: float | None = None
    reservation: str = ""
    created: str = ""
    valid_until: str = ""
    #: Whether it can be put back into the queue.
    can_reset: bool = False
    #: Whether it has TPUs, or may have some: deleting it then needs `force`.
    has_tpus: bool = False
    #: As `owner` of a TPU.
    owner: str = ""
    not_yours: bool = False
    #: Whether it is yours, uses quota for nothing, and nothing here is about to delete it.
    forgotten: bool = False
    problem: Problem | None = None


class QueuedResources(Struct, kw_only=True):
    queued: list[QueuedResource]
    #: Why the list may be incomplete.
    problem: Problem | None = None
