"""From FLOPs and bytes to the time of a step: the roofline model, with an honest range.

A device computes, reads and writes HBM, and sends over ICI at the same time; the slowest of the
three is the bound. The shortest time is that at peak figures: no program in bf16 is faster. The
expected time assumes the part of the peak that programs usually reach. The longest time is the sum
of all three at poor efficiency, as if nothing overlapped.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from ...catalog import ChipPeak

Bound = Literal["compute", "HBM", "ICI"]

#: Shares of the peak that are usual, and poor ones, of all FLOPs that are executed. Compute:
#: MaxText publishes 55 to 71.5 % for dense models on v4, v5e and v5p, without what is computed
#: again. With that, its programs reach 65 to 85 %; see benchmarks/planner.py. HBM: an assumption,
#: for want of published steps.
_USUAL_COMPUTE, _POOR_COMPUTE = 0.75, 0.55
_USUAL_HBM, _POOR_HBM = 0.8, 0.5


class StepWork(Struct, kw_only=True, frozen=True):
    """What one device does in a step."""

    flops: float
    hbm_bytes: float
    sent_bytes: float  # over ICI
    #: The part of that which can use all ports: collectives of all devices of a full torus.
    sent_on_all_ports: float = 0.0
    #: There is more that could not be counted: the longest time is not known.
    incomplete: bool = False


class StepTime(Struct, kw_only=True, frozen=True):
    """How long a step takes, in ms."""

    ms: float
    shortest_ms: float
    #: None: there is work that could not be counted.
    longest_ms: float | None
    bound: Bound
    #: At usual efficiency, each alone.
    compute_ms: float
    hbm_ms: float
    ici_ms: float


def step_time(work: StepWork, peak: ChipPeak, devices_per_chip: int) -> StepTime:
    """The time of a step on devices of which a chip with *peak* has *devices_per_chip*.

    ICI: a collective is a ring over one dimension of the torus, which sends on two ports; one of
    all devices of a full torus is a ring over each dimension, on all ports. At worst, on a line
    without wrap-around, it uses one. Latencies are left out.
    """
    compute = 1e3 * work.flops / (peak.bf16_flops / devices_per_chip)
    hbm = 1e3 * work.hbm_bytes / (peak.hbm_bytes / devices_per_chip)
    ici = 1e3 * work.sent_bytes / (peak.ici_bytes / 2 / devices_per_chip)  # over all ports
    wide = work.sent_on_all_ports / work.sent_bytes if work.sent_bytes else 0.0
    parts: dict[Bound, float] = {
        "compute": compute / _USUAL_COMPUTE,
        "HBM": hbm / _USUAL_HBM,
        "ICI": ici * (wide + (1 - wide) * peak.ici_ports / 2),
    }
    bound = max(parts, key=lambda part: parts[part])
    longest = compute / _POOR_COMPUTE + hbm / _POOR_HBM + ici * peak.ici_ports
    return StepTime(
        ms=parts[bound],
        shortest_ms=max(compute, hbm, ici),
        longest_ms=None if work.incomplete else longest,
        bound=bound,
        compute_ms=parts["compute"],
        hbm_ms=parts["HBM"],
        ici_ms=parts["ICI"],
    )
