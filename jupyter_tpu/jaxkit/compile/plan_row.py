"""A row of the planner's answer: one type, with the time and the price of a step."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Struct

from ..arrays import MeshAxes
from .roofline import StepTime

Tier = Literal["on-demand", "spot"]


class PlanRow(Struct, kw_only=True, frozen=True):
    """One type: the time and price of a step, or why it has none."""

    type: str
    #: Its chips: "2x4".
    topology: str = ""
    #: The axes of the mesh that was tried; {}: the caller's own, or one device.
    mesh: MeshAxes = {}
    #: None: it was not compiled for this type; `reason` says why.
    fits: bool | None = None
    devices: int = 0
    devices_used: int = 0
    #: Per device; None where the compiler stopped before it knew.
    needed_bytes: int | None = None
    hbm_bytes: int = 0
    #: Per device and step; None where the compiler gives none.
    flops: float | None = None
    hbm_traffic_bytes: float | None = None
    sent_bytes: float | None = None
    time: StepTime | None = None
    #: For the whole TPU, list prices; None: not known.
    usd_per_hour: float | None = None
    spot_usd_per_hour: float | None = None
    #: Why it does not fit, was not compiled, or has no time.
    reason: str = ""
    notes: tuple[str, ...] = ()

    #: USD at the expected time; None if the price or the time is not known.
    usd_per_1000_steps: float | None = None
    spot_usd_per_1000_steps: float | None = None

    def __post_init__(self) -> None:
        # 1000 steps of ms / 1000 seconds, at a price an hour.
        for price in ("usd_per_hour", "spot_usd_per_hour"):
            hourly = getattr(self, price)
            usd = None if hourly is None or self.time is None else self.time.ms * hourly / 3600
            msgspec.structs.force_setattr(self, price.replace("hour", "1000_steps"), usd)

    @property
    def mesh_text(self) -> str:
        """ "fsdp=4 tensor=2"; "" where the caller has chosen the mesh."""
        used = [f"{axis}={size}" for axis, size in self.mesh.items() if size > 1]
        return " ".join(used) or ("one device" if self.mesh else "")

    @property
    def title(self) -> str:
        """ "v5litepod-8 fsdp=4 tensor=2"."""
        return f"{self.type} {self.mesh_text}".strip()

    def usd_for_1000_steps(self, tier: Tier) -> float | None:
        """In that *tier*."""
        return self.usd_per_1000_steps if tier == "on-demand" else self.spot_usd_per_1000_steps
