"""The planner's arithmetic: a step's time from its work, its price, and the order of types.

Those that ask libtpu's compiler are in integration/test_jaxkit_plan_compiled.py.
"""

from __future__ import annotations

import itertools
import json
import xml.etree.ElementTree
from typing import Any, NamedTuple

import pytest
from msgspec import structs

from jupyter_tpu import catalog
from jupyter_tpu.errors import InvalidInput
from jupyter_tpu.jaxkit.arrays import ArrayRequest
from jupyter_tpu.jaxkit.compile.costs import matmul_flops, program_costs
from jupyter_tpu.jaxkit.compile.hlo import Program
from jupyter_tpu.jaxkit.compile.layouts import (
    batch_spec,
    checked_axes,
    layouts,
    split_arguments,
    weight_spec,
)
from jupyter_tpu.jaxkit.compile.plan_plot import draw_plan
from jupyter_tpu.jaxkit.compile.plan_row import PlanRow
from jupyter_tpu.jaxkit.compile.plan_table import TypePlan
from jupyter_tpu.jaxkit.compile.planner import row_of
from jupyter_tpu.jaxkit.compile.report import Collective, CompileReport
from jupyter_tpu.jaxkit.compile.roofline import StepTime, StepWork, step_time


class Run(NamedTuple):
    """A training run of MaxText's README and configs/README, for a step and device.

    What it does is what libtpu's compiler says of it as benchmarks/planner.py rebuilds it. Where
    that has not been done, only FLOPs are known, from how layers are computed again.
    """

    name: str
    generation: str
    tflops: float  # published, a chip; and MFU in %
    mfu: float
    model: float  # TFLOP, without what is computed again
    executed: float  # TFLOP
    hbm: float = 0.0  # TB
    sent: float = 0.0

    @property
    def time(self) -> StepTime:
        work = StepWork(
            flops=self.executed * 1e12,
            hbm_bytes=self.hbm * 1e12,
            sent_bytes=self.sent * 1e12,
            # On v5e and v4, `fsdp` is all devices of a torus.
            sent_on_all_ports=0.0 if self.generation == "v5p" else self.sent * 1e12,
        )
        return step_time(work, peak_of(self.generation), 1)

    @property
    def predicted(self) -> float:
        """TFLOP/s a chip."""
        return 1e3 * self.model / self.time.ms


RUNS = (
    Run("32B, v5p-128", "v5p", 328, 71.5, 2394, 2447, 7.416, 0.345),
    Run("64B, v5p-128", "v5p", 323, 70.3, 2385, 2457, 7.511, 0.389),
    Run("128B, v5p-256", "v5p", 315, 68.7, 1587, 1615, 5.680, 0.363),
    Run("128B, v5p-512", "v5p", 316, 68.8, 1587, 1615, 6.674, 0.364),
    Run("256B, v5p-1024", "v5p", 308, 67.1, 3120, 3151, 6.531, 0.729),
    Run("512B, v5p-1024", "v5p", 294, 64.0, 1.0, 1.02),
    Run("1024B, v5p-4096", "v5p", 297, 64.8, 1.0, 1.02),
    Run("16B, v5e-256", "v5e", 120, 61.1, 1237, 1573, 3.777, 0.134),
    Run("32B, v5e-256", "v5e", 132, 66.9, 1596, 2018, 3.000, 0.268),
    Run("64B, v5e-256", "v5e", 118, 59.9, 1590, 2007, 2.749, 0.534),
    Run("22B, v4-128", "v4", 156, 56.7, 3698, 4587, 6.702, 0.188),
    Run("52B, v4-384", "v4", 154, 56.0, 1.0, 1.27),
)


def report(type: str, **changes: Any) -> CompileReport:
    """The report of a program of 1 TFLOP a device, in which nothing else takes time."""
    fields: dict[str, Any] = {
        "type": type,
        "topology": "",
        "devices": 8,
        "devices_used": 8,
        "hosts": 1,
        "fits": True,
        "hbm_bytes": 16 << 30,
        "needed_bytes": 1 << 30,
        "flops": 1e12,
        "hbm_traffic_bytes": 0.0,
    }
    return CompileReport(**(fields | changes))


def peak_of(generation: str) -> catalog.ChipPeak:
    peak = catalog.chip_peak(generation)
    assert peak is not None
    return peak


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_published_training_runs_are_predicted_within_a_quarter(run: Run) -> None:
    # MaxText divided by the same peak.
    assert 1e14 * run.tflops / peak_of(run.generation).bf16_flops == pytest.approx(run.mfu, abs=0.4)
    assert run.predicted == pytest.approx(run.tflops, rel=0.25)
    assert run.time.bound == "compute"
    assert run.time.longest_ms is not None
    # Within the range, but for what only FLOPs are known of.
    published = 1e3 * run.model / run.tflops
    assert run.time.shortest_ms < published
    assert published < run.time.longest_ms * 1.01


def test_the_order_of_types_by_time_and_by_price_is_that_of_published_training_runs() -> None:
    prices = {"v4": 3.22, "v5e": 1.20, "v5p": 4.20}  # a chip and hour
    for one, other in itertools.combinations(RUNS, 2):
        if one.generation == other.generation:
            continue
        assert (one.predicted > other.predicted) == (one.tflops > other.tflops)
        costs = [prices[run.generation] / run.predicted for run in (one, other)]
        published = [prices[run.generation] / run.tflops for run in (one, other)]
        assert (costs[0] < costs[1]) == (published[0] < published[1])


def test_the_slowest_of_computing_memory_and_network_is_the_bound() -> None:
    peak = peak_of("v5e")
    # Each a second at the peak; ICI sends on 2 of 4 ports, which takes two.
    work = {"flops": 197e12, "hbm_bytes": 819e9, "sent_bytes": 200e9}
    idle = dict.fromkeys(work, 0.0)
    bounds = {"flops": "compute", "hbm_bytes": "HBM", "sent_bytes": "ICI"}
    for name, bound in bounds.items():
        alone = step_time(StepWork(**(idle | {name: work[name]})), peak, 1)
        assert alone.bound == bound
        assert alone.shortest_ms == pytest.approx(1000)
    together = step_time(StepWork(**work), peak, 1)
    assert together.bound == "ICI"
    assert together.ms == pytest.approx(2000)
    assert together.shortest_ms == pytest.approx(1000)
    assert together.longest_ms == pytest.approx(1000 / 0.55 + 2000 + 4000)
    # A collective of all devices of a full torus is a ring in each dimension, on all ports.
    wide = step_time(StepWork(**work, sent_on_all_ports=work["sent_bytes"]), peak, 1)
    assert wide.ici_ms == pytest.approx(1000)
    assert wide.longest_ms == together.longest_ms
    sends = [Collective(kind="all-gather", count=1, bytes=8, sent_bytes=10**9, sent_by_all=10**9)]
    full, part = (
        row_of(report(type, collectives=sends), None, None).time
        for type in ("v5litepod-256", "v5litepod-64")
    )
    assert full is not None
    assert part is not None
    assert part.ici_ms == pytest.approx(2 * full.ici_ms)
    # A device of TPU7x is half a chip.
    core = step_time(StepWork(flops=2307e12, hbm_bytes=0, sent_bytes=0), peak_of("tpu7x"), 2)
    assert core.shortest_ms == pytest.approx(2000)


def test_a_step_is_priced_by_the_hour_of_the_whole_tpu() -> None:
    row = row_of(report("v5litepod-8", flops=197e12 * 0.75), 9.6, 4.08)
    assert row.time is not None
    assert row.time.ms == pytest.approx(1000)
    assert row.usd_per_1000_steps == pytest.approx(1000 * 9.6 / 3600)
    assert row.usd_for_1000_steps("spot") == pytest.approx(1000 * 4.08 / 3600)
    unknown = row_of(report("tpu7x-2x2x1"), None, None)
    assert unknown.time is not None
    assert unknown.usd_per_1000_steps is None


def test_what_is_not_known_is_said_and_not_guessed() -> None:
    kernels = row_of(report("v5litepod-8", custom_kernels=2), 9.6, None)
    assert kernels.time is not None
    assert kernels.time.longest_ms is None
    part = row_of(report("v5litepod-8", devices_used=1), 9.6, None)
    assert part.notes == ("uses 1 of 8 devices",)
    v3 = row_of(report("v3-8"), 8.8, None)
    assert v3.time is None
    assert v3.reason == "No published peak figures of v3."
    large = row_of(report("v5litepod-8", fits=False, message="Used 20G of 15.75G"), 9.6, None)
    assert large.time is None
    assert large.reason == "Does not fit. Used 20G of 15.75G"


def test_the_table_says_all_that_a_row_lacks() -> None:
    rows = (
        row_of(report("v5litepod-8"), 9.6, 4.08),
        row_of(report("tpu7x-2x2x1"), None, None),
        PlanRow(type="v5p-8", hbm_bytes=95 << 30, reason="Not compiled: <the time> was over."),
    )
    plan = TypePlan(
        rows=rows, tier="on-demand", zone="", partial=True, prices="Prices, 2024", peaks="Peaks"
    )
    text = str(plan)
    assert "not known" in text
    assert "Not compiled: <the time> was over." in text
    assert "This table is partial" in text
    assert "Prices, 2024" in text
    assert plan.best == rows[0]
    html = plan._repr_html_()
    assert "<table>" in html
    assert "&lt;the time&gt;" in html
    first, second, _ = json.loads(plan.to_json())["rows"]
    assert first["usd_per_1000_steps"] == rows[0].usd_per_1000_steps
    assert first["time"]["bound"] == "compute"
    assert second["usd_per_1000_steps"] is None


def test_meshes_have_all_axes_and_use_all_devices() -> None:
    axes = checked_axes(["tensor", "data", "fsdp"])
    assert axes == ("data", "fsdp", "tensor")
    meshes = layouts(axes, 8)
    assert {tuple(mesh.values()) for mesh in meshes} == {
        *((8, 1, 1), (1, 8, 1), (1, 1, 8)),
        *((4, 1, 2), (2, 1, 4), (1, 4, 2), (1, 2, 4)),
    }
    assert layouts(axes, 1) == [{"data": 1, "fsdp": 1, "tensor": 1}]
    assert layouts(("fsdp",), 16) == [{"fsdp": 16}]
    for wrong in (["model"], []):
        with pytest.raises(InvalidInput):
            checked_axes(wrong)


def test_rules_divide_what_divides_and_leave_the_rest_whole() -> None:
    mesh = {"data": 2, "fsdp": 4, "tensor": 2}
    assert weight_spec((32, 4096, 512), mesh) == [None, "fsdp", "tensor"]
    assert weight_spec((512, 4096), mesh) == ["fsdp", "tensor"]
    assert weight_spec((6, 7), mesh) == [None, None]  # 6 is not a multiple of 4, 7 not of 2
    assert weight_spec((4096,), mesh) == []
    assert batch_spec((64, 128), mesh) == [["data", "fsdp"]]
    assert batch_spec((64, 128), {"fsdp": 1, "tensor": 8}) == []
    weights = ArrayRequest(tree={"w": ArrayRequest(shape=[8, 16])})
    split = split_arguments([weights, ArrayRequest(shape=[64])], mesh)
    assert split[0].tree == {"w": ArrayRequest(shape=[8, 16], spec=["fsdp", "tensor"])}
    assert split[1].spec == [["data", "fsdp"]]
    with pytest.raises(InvalidInput, match="not both"):
        split_arguments([ArrayRequest(shape=[64], spec=["data"])], mesh)


def test_the_plot_has_a_bar_for_each_row_with_a_time_and_says_what_a_person_compares() -> None:
    rows = (
        structs.replace(row_of(report("v5litepod-8"), 9.6, 4.08), mesh={"data": 8, "tensor": 1}),
        row_of(report("tpu7x-2x2x1"), None, None),
        PlanRow(type="v5p-8", reason="Does not fit."),
    )
    svg = draw_plan(rows, "on-demand")
    xml.etree.ElementTree.fromstring(svg)
    assert svg.count("<rect") == 2
    assert "v5litepod-8 data=8" in svg
    assert "6.77 ms · compute · $0.018 per 1000 steps" in svg
    assert "price not known" in svg
    assert draw_plan(rows[2:], "spot") == ""
    table = TypePlan(rows=rows, tier="spot", zone="", partial=False, prices="", peaks="")
    assert table._repr_html_().startswith("<svg")
    assert "data=8" in str(table)


UNROLLED = """HloModule loop

%body (p: (u32[], bf16[8,16])) -> (u32[], bf16[8,16]) {
  %p = (u32[], bf16[8,16]{1,0}) parameter(0)
  %i = u32[] get-tuple-element(%p), index=0
  %x = bf16[8,16]{1,0:T(8,128)(2,1)S(1)} get-tuple-element(%p), index=1
  %two = u32[] constant(2)
  %next = u32[] add(%i, %two)
  %w = bf16[16,16]{1,0} constant({...})
  %y = bf16[8,16]{1,0:T(8,128)(2,1)S(1)} convolution(%x, %w), dim_labels=bf_io->bf
  ROOT %t = (u32[], /*index=1*/bf16[8,16]{1,0}) tuple(%next, %y)
}

%cond (q: (u32[], bf16[8,16])) -> pred[] {
  %q = (u32[], bf16[8,16]{1,0}) parameter(0)
  %j = u32[] get-tuple-element(%q), index=0
  %four = u32[] constant(4)
  ROOT %less = pred[] compare(%j, %four), direction=LT
}

ENTRY %main (a: (u32[], bf16[8,16])) -> (u32[], bf16[8,16]) {
  %a = (u32[], bf16[8,16]{1,0}) parameter(0)
  ROOT %loop = (u32[], bf16[8,16]{1,0}) while(%a), condition=%cond, body=%body
}
"""


def test_a_loop_that_the_compiler_unrolled_runs_half_as_often() -> None:
    costs = program_costs(Program(UNROLLED))
    assert not costs.unknown_loops
    assert costs.loop_flops == 2 * 8 * 16 * 16  # the second of two runs
    # The weights come from HBM in both runs; x and y stay on the chip, the rest is a counter.
    assert costs.hbm_traffic_bytes == pytest.approx(2 * 16 * 16 * 2, abs=64)


def test_a_batch_of_products_written_as_a_convolution_counts_without_its_padding() -> None:
    text = """ENTRY %main (a: bf16[16,32,64], b: bf16[16,64,8]) -> bf16[16,32,8] {
  %a = bf16[16,32,64]{2,1,0} parameter(0)
  %b = bf16[16,64,8]{2,1,0} parameter(1)
  ROOT %c = bf16[16,32,8]{2,1,0} convolution(%a, %b), window={size=16 stride=15 pad=0_0 \
lhs_dilate=16}, dim_labels=0bf_0io->0bf
}
"""
    program = Program(text)
    product = program.instruction("c")
    assert product is not None
    assert matmul_flops(program, product) == 2 * 16 * 32 * 64 * 8
