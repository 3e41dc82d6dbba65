"""Operations: anything that takes longer than a second."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from .operation_kinds import KindName
from .problems import Problem


class StopTrying(Struct, kw_only=True, forbid_unknown_fields=True):
    """Ends the attempts to delete a TPU; `keep_tpu` is required: it stays, and is billed."""

    keep_tpu: bool = False


class Step(Struct, kw_only=True):
    """One step of an operation, in words that a user understands."""

    title: str
    state: Literal["waiting", "running", "done", "failed", "skipped"] = "waiting"
    #: How many of its hosts have finished it.
    hosts_done: int = 0
    hosts: int = 0


class Operation(Struct, kw_only=True):
    """Anything that takes longer than a second, with progress, a log and an end."""

    id: str
    kind: KindName
    #: The TPU that it is about; "" if there is none.
    tpu: str = ""
    zone: str = ""
    state: Literal["running", "done", "failed", "cancelled"] = "running"
    #: What it is doing now.
    message: str = ""
    #: 0 to 1; None while it is not known.
    progress: float | None = None
    steps: list[Step] = []
    #: The last lines of its log (at most 1000).
    log: list[str] = []
    #: The id of the app that it opened.
    app: str = ""
    #: Why it failed; while it runs, what stands in its way.
    problem: Problem | None = None
    #: Whether it can be cancelled. What Google has begun to start, stop or delete continues.
    cancellable: bool = True
    #: "retrying": Google refuses the deletion, and it is retried until `stop-trying`. "kept": it is
    #: no longer retried, and the TPU is still there.
    undeleted: Literal["", "retrying", "kept"] = ""
    #: Its result, if it has one; the route that starts it describes it.
    result: dict[str, Any] | None = None
    created: str = ""
    ended: str = ""
