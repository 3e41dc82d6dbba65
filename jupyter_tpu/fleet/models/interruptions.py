"""What hosts say of an interruption that Google announces to them."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class Interruption(Struct, frozen=True, kw_only=True):
    """Google is about to stop hosts of a TPU, within seconds or minutes: they were told so."""

    #: "preemption": it takes the TPU back. "maintenance": the hosts start again afterwards.
    kind: Literal["maintenance", "preemption"]
    #: The hosts that say it.
    hosts: list[int]
    #: When the first of them heard of it.
    noticed: str
