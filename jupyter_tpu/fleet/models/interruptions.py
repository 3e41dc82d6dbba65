"""What hosts say of an interruption that Google announces to them."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class Checkpoint(Struct, frozen=True, kw_only=True):
    """What the user lets run when a host is about to be stopped, to save what must not be lost."""

    host: int
    what: str  # "save()"
    notebook: str = ""  # whose kernel runs it
    state: Literal["running", "done", "failed"]
    seconds: float | None = None  # that it took; null while it runs
    error: str = ""


class Interruption(Struct, frozen=True, kw_only=True):
    """Google is about to stop hosts of a TPU, within seconds or minutes, and has notified them."""

    #: "preemption": Google reclaims the TPU. "maintenance": the hosts start again afterwards.
    kind: Literal["maintenance", "preemption"]
    #: The hosts that say it.
    hosts: list[int]
    #: When the first of them heard of it.
    noticed: str
    checkpoints: list[Checkpoint] = []
