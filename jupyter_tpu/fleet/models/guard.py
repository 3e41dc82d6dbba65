"""A TPU that stops or deletes itself."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from ...options import option
from .core import Problem

#: What is done with the TPU.
GuardAction = Literal["stop", "delete"]
#: The limit that is reached; "" if that is not known.
GuardReason = Literal["", "idle", "time", "cost"]


class SetGuard(Struct, kw_only=True, forbid_unknown_fields=True):
    """When a TPU stops or deletes itself: at the first of these limits, of which one is needed."""

    #: A TPU of several hosts, and a spot TPU, can only be deleted.
    action: Annotated[
        GuardAction,
        option("Delete it with its disk instead of stopping it.", "--then-delete", value="delete"),
    ] = "stop"
    idle: Annotated[
        Annotated[float, Meta(ge=60, le=30 * 86_400)] | None,
        option(
            "Stop it after this time without a running cell, job, terminal or other program.",
            "--max-idle",
            typed="duration",
        ),
    ] = None
    max_cost: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        option("Stop it when its cost since creation reaches about this amount.", unit="USD"),
    ] = None
    #: With a time zone.
    until: Annotated[str, option("Stop it at this time.", typed="time")] = ""
    #: The notice of an idle limit is at most as long as that.
    notice: Annotated[
        float,
        Meta(ge=0, le=3600),
        option("Announce it this long before, at most one hour.", typed="duration"),
    ] = 300.0
    #: Its name, which is required where it is another person's. Not needed for a new TPU.
    confirm_name: str = ""


class KeepTPU(Struct, kw_only=True, forbid_unknown_fields=True):
    """How long a TPU is kept, even if its guard reaches a limit."""

    seconds: Annotated[
        float,
        Meta(ge=60, le=30 * 86_400),
        option("How long, from now.", "--for", typed="duration"),
    ] = 3600.0
    #: Its name, which is required where it is another person's.
    confirm_name: str = ""


class RemoveGuard(Struct, kw_only=True, forbid_unknown_fields=True):
    """How a guard is removed. The TPU's name is required where it is another person's."""

    confirm_name: str = ""


class Guard(Struct, kw_only=True):
    """The guard of a TPU, and what it has seen last."""

    action: GuardAction
    idle: float | None = None
    max_cost: float | None = None
    until: str = ""
    notice: float = 0.0
    #: "due": the limit is reached. "ending": Google has agreed to stop or delete the TPU.
    phase: Literal["watching", "due", "ending"] = "watching"
    #: The limit that comes first, and when: to within a minute. "" if none is counted down now.
    reason: GuardReason = ""
    ends: str = ""
    #: What keeps it from being idle, in words; None: the host could not say, or has not looked yet.
    busy: list[str] | None = None
    #: "host": the host acts. "server": it is not allowed to, so a running Jupyter server acts.
    actor: Literal["host", "server"] = "host"
    #: Why it does not start with the host, but only with the next connection; "": it does.
    no_restart: str = ""
    #: Why the host can't act, or why Google refused when it did.
    problem: Problem | None = None
    #: When Google itself deletes the TPU, even if the guard does not run; "" if it does not. Of
    #: Compute Engine only, where the guard has a limit of time or cost: some minutes after that.
    google_deletes: str = ""
    #: Why Google does not do that, or not when the guard's limits say.
    google_problem: Problem | None = None


class GuardStop(Struct, frozen=True, kw_only=True):
    """That a TPU was stopped by its guard."""

    #: "" if that is not known.
    time: str = ""
    reason: GuardReason = ""
    #: Whether that is known. Otherwise it was stopped unseen, and its guard may have done it.
    certain: bool = True
