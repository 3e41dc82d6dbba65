"""Operations: anything that takes longer than a second."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from .problems import Problem


class Step(Struct, kw_only=True):
    """One part of an operation, in words a user understands."""

    title: str
    state: Literal["waiting", "running", "done", "failed", "skipped"] = "waiting"
    #: Hosts that are through with it, of all.
    hosts_done: int = 0
    hosts: int = 0


class Operation(Struct, kw_only=True):
    """Anything that takes longer than a second: progress, log lines, an end, can be cancelled."""

    id: str
    kind: Literal[
        "create",
        "start",
        "stop",
        "delete",
        "connect",
        "disconnect",
        "environment",
        "tensorboard",
        "profile",
        "compile",
    ]
    #: The TPU it is about; "" if it needs none.
    tpu: str = ""
    zone: str = ""
    state: Literal["running", "done", "failed", "cancelled"] = "running"
    #: What it is doing now, in a short sentence.
    message: str = ""
    #: 0 to 1; None while it can't be told.
    progress: float | None = None
    steps: list[Step] = []
    #: The last lines of its log (at most 1000).
    log: list[str] = []
    #: The id of the app that it has opened.
    app: str = ""
    problem: Problem | None = None
    #: What it found, if it was started to find something: as the route that starts it says.
    result: dict[str, Any] | None = None
    created: str = ""
    ended: str = ""
